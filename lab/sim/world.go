package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/lab/oracle"
)

// A Time is on the clock of the world, which is nobody's own.
type Time = oracle.Time

const ms = time.Millisecond

// A world is processes, a server and a database, and what happens to them.
type world struct {
	Params
	variant
	now     Time
	queue   queue
	seq     uint64
	events  int
	server  server
	base    database
	procs   []*process // the present one of each slot
	chaos   chaos
	history history
	tracer  tracer
	over    bool // something was wrong, and nothing more has to be seen
}

// A variant is a world of a seed, or one with less in it. The zero values change nothing.
type variant struct {
	seed   uint64
	calm   bool // without faults, on a fast network
	flaw   flaw
	absent int             // processes that do nothing, as bits
	lock   string          // the one that is taken; "": all of them
	steady bool            // all clocks are right
	begins time.Duration   // when the first calls come
	lasts  time.Duration   // when the work ends
	only   map[strike]bool // the faults that happen; nil: all of them
	calls  map[callID]bool // the calls that are made; nil: all of them
	trace  bool
	data   []byte // what the processes do as long as it lasts; nil: as the seed says
}

// mostEvents is far more than a world has. One that goes on for ever is stopped.
const mostEvents = 2_000_000

// atEnd is when a world is looked at for the last time, after its work.
const atEnd = 150 * time.Second

// newWorld makes a world before anything has happened in it.
func newWorld(v variant) *world {
	w := &world{variant: v, Params: paramsOf(v.seed, v.calm)}
	w.Params.reduce(v)
	w.queue = make(queue, 0, 128)
	w.history.begin(w)
	w.server = server{w: w, keys: make([]key, w.Keys)}
	w.base = database{w: w, rows: make([]row, w.Keys)}
	w.chaos.begin(w)
	for slot := range w.Processes {
		w.procs = append(w.procs, newProcess(w, slot, 0))
	}
	return w
}

// simulate runs a world to its end.
func simulate(v variant) *world {
	w := newWorld(v)
	for _, p := range w.procs {
		p.start()
	}
	w.plan()
	w.run(Time(w.Lasts))
	w.now = max(w.now, Time(w.Lasts))
	w.heal()
	w.run(Time(w.Lasts + atEnd))
	if !w.over {
		w.now = max(w.now, Time(w.Lasts+atEnd)) // what has no owner any more has expired
	}
	if !w.over {
		w.finish()
	}
	return w
}

// run runs what comes until then.
func (w *world) run(until Time) {
	for len(w.queue) > 0 && w.queue[0].at <= until && !w.over {
		e := w.queue.pop()
		w.now = max(w.now, e.at)
		if w.events++; w.events > mostEvents {
			w.wrong("", "the world does not end")
			return
		}
		p := e.p
		if p == nil {
			e.do()
			continue
		}
		if p.dead {
			continue
		}
		if w.now < p.stopped {
			w.at(p.stopped, p, e.do)
			continue
		}
		e.do()
		p.wake()
	}
}

// after does something after a while; if p is not nil, that process has to run for it.
func (w *world) after(d time.Duration, p *process, do func()) {
	w.at(w.now+Time(max(d, 0)), p, do)
}

func (w *world) at(t Time, p *process, do func()) {
	w.seq++
	w.queue.push(event{at: t, seq: w.seq, p: p, do: do})
}

// finish checks that everybody was served and that nothing is left.
func (w *world) finish() {
	for _, p := range w.procs {
		p.finish()
	}
	for i := range w.server.keys {
		if k := w.server.look(i); k.holder != nil {
			w.wrong(w.name(i), "%s has the lock for ever", k.holder.owner)
		}
	}
}

// wrong takes in that the core, or what is around it here, did what it must not do. The
// world ends with it.
func (w *world) wrong(lock, format string, args ...any) {
	if w.over {
		return
	}
	w.over = true
	w.history.wrong = append(w.history.wrong, oracle.Violation{Oracle: "core", Lock: lock, At: w.now, Text: fmt.Sprintf(format, args...)})
}

// name returns the name of a lock.
func (w *world) name(i int) string { return names[i] }

var names = [...]string{"blue", "green", "red"}

// An event is something that happens at a time.
type event struct {
	at  Time
	seq uint64 // events of one time come in the order in which they were made
	p   *process
	do  func()
}

func (e *event) before(f *event) bool { return e.at < f.at || e.at == f.at && e.seq < f.seq }

// A queue is a heap. It is not container/heap, which would allocate for each event.
type queue []event

func (q *queue) push(e event) {
	h := append(*q, e)
	i := len(h) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !e.before(&h[up]) {
			break
		}
		h[i] = h[up]
		i = up
	}
	h[i] = e
	*q = h
}

func (q *queue) pop() event {
	h := *q
	first, n := h[0], len(h)-1
	e := h[n]
	h[n] = event{}
	h = h[:n]
	*q = h
	if n == 0 {
		return first
	}
	i := 0
	for {
		down := 2*i + 1
		if down >= n {
			break
		}
		if right := down + 1; right < n && h[right].before(&h[down]) {
			down = right
		}
		if !h[down].before(&e) {
			break
		}
		h[i] = h[down]
		i = down
	}
	h[i] = e
	return first
}

// remove returns s without x.
func remove[T comparable](s []T, x T) []T {
	if i := slices.Index(s, x); i >= 0 {
		return slices.Delete(s, i, i+1)
	}
	return s
}
