package oracle

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"
)

// A record is a history for all oracles.
type record struct {
	ops    []Op
	holds  []Hold
	steps  []Step
	writes []Write
	final  map[string]int64
	places []Place
	waits  []Wait
	end    Time
}

// What the worlds of these tests have in common.
const (
	ttl      = 100 * time.Millisecond
	margin   = 10 * time.Millisecond
	slack    = 2 * time.Millisecond
	bound    = 40 * time.Millisecond // no request runs later than so long after it was sent
	patient  = 4 * ttl               // the longest wait
	anAnswer = 2 * bound             // one that has not come by then never comes
)

// A world is a correct server with one lock and a line, and clients whose network is slow
// and loses requests and answers. It is simple on purpose: a queue of what happens next,
// and no production code.
type world struct {
	rng   *rand.Rand
	lock  string
	now   Time
	queue []happening
	lossy float64 // the share of messages that are lost
	turns int     // that are still to be begun

	holder *turn // on the server
	until  Time  // the end of its life
	fence  uint64
	line   []*turn
	epoch  int64 // in the database
	value  int64

	record
	allPlaces []*Place
}

type happening struct {
	at Time
	do func()
}

// newWorld makes a world for some clients, who take turns with the lock.
func newWorld(seed uint64, lock string, clients, turns int, lossy float64) *world {
	w := &world{rng: rand.New(rand.NewPCG(seed, 7)), lock: lock, turns: turns, lossy: lossy}
	for i := range clients {
		w.begins(string(rune('a' + i)))
	}
	return w
}

func (w *world) after(d time.Duration, do func()) {
	at := w.now.add(d)
	i, _ := slices.BinarySearchFunc(w.queue, at+1, func(h happening, at Time) int { return cmp.Compare(h.at, at) })
	w.queue = slices.Insert(w.queue, i, happening{at, do})
}

func (w *world) upTo(d time.Duration) time.Duration { return time.Duration(w.rng.Int64N(int64(d))) }

func (w *world) oneIn(n int) bool { return w.rng.IntN(n) == 0 }

// send delivers a message, if it is not lost.
func (w *world) send(arrives func()) {
	if w.rng.Float64() < w.lossy {
		return
	}
	longest := bound
	if !w.oneIn(5) {
		longest = bound / 20
	}
	w.after(w.upTo(longest), arrives)
}

func (w *world) run() record {
	for len(w.queue) > 0 {
		next := w.queue[0]
		w.queue = w.queue[1:]
		w.now = next.at
		if w.holder != nil && w.until <= w.now {
			w.holder = nil
		}
		next.do()
	}
	for _, p := range w.allPlaces {
		w.places = append(w.places, *p)
	}
	w.end, w.final = w.now, map[string]int64{w.lock: w.value}
	return w.record
}

// begins lets a client think, and begin a turn.
func (w *world) begins(who string) {
	w.after(w.upTo(ttl/2), func() {
		if w.turns == 0 {
			return
		}
		w.turns--
		t := &turn{w: w, who: who, owner: who + "." + strconv.Itoa(w.turns), call: w.now, sent: w.now, waits: !w.oneIn(4)}
		t.ask()
	})
}

// gives gives the free lock to a turn.
func (w *world) gives(t *turn) {
	w.fence++
	w.holder, w.until = t, 0
	t.fence, t.given = w.fence, t.given+1
	w.lives(t)
	w.leaves(t, w.now)
}

// lives lengthens the life of a turn's hold, and never shortens it.
func (w *world) lives(t *turn) {
	jitter := time.Duration(w.rng.Int64N(int64(2*slack))) - slack
	w.until = max(w.until, w.now.add(ttl+jitter))
}

// leaves takes a turn out of the line.
func (w *world) leaves(t *turn, granted Time) {
	i := slices.Index(w.line, t)
	if i < 0 {
		return
	}
	w.line = slices.Delete(w.line, i, i+1)
	t.place.Gone, t.place.Granted = w.now, granted
}

// handsOff gives the free lock to the first of the line, and tells it.
func (w *world) handsOff() {
	if len(w.line) == 0 {
		return
	}
	t := w.line[0]
	w.gives(t)
	fence, at := t.fence, w.now
	w.send(func() {
		if at > t.refused {
			t.learns(fence, t.sent)
		}
	})
}

// acquires is the server's answer to a turn.
func (w *world) acquires(t *turn) bool {
	if w.holder == t {
		w.lives(t)
		return true
	}
	if w.holder == nil && len(w.line) > 0 && w.line[0] != t {
		w.handsOff()
	}
	if w.holder == nil {
		w.gives(t)
		return true
	}
	if t.waits && !t.left && !slices.Contains(w.line, t) {
		w.line = append(w.line, t)
		t.place = &Place{Lock: w.lock, Who: t.who, Owner: t.owner, Since: w.now, Joined: w.now, Gone: Never, Granted: Never}
		w.allPlaces = append(w.allPlaces, t.place)
	}
	return false
}

func (w *world) releases(t *turn) bool {
	if w.holder != t {
		return false
	}
	w.holder = nil
	w.handsOff()
	return true
}
