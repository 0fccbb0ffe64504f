package pipe

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/lab/oracle"
)

// A world is one history while it happens.
type world struct {
	params
	seed   uint64
	zero   time.Time
	server *server
	table  *table
	ctx    context.Context // that calls without an end of their own have
	slots  []*slot
	plan   []fault

	mu      sync.Mutex
	owners  map[string]*owner
	order   []*owner // in the order in which they were first seen
	ran     map[running][]oracle.Time
	truths  map[string]*truth
	happens map[kind]int
	harms   []harm
	calls   int64
	given   int // releases, by workers and at the end of bodies
	ops     int // scripts
	log     []note
	history history
	all     []*process
}

// A history is what happened, as the oracles want it.
type history struct {
	holds   []*hold
	steps   []oracle.Step
	ops     []operation
	waits   []oracle.Wait
	answers []oracle.Answer
	odd     []oracle.Violation
}

// A Result is what came of one history.
type Result struct {
	Seed       uint64
	Lossy      bool         // something happened that no lock survives
	Broken     bool         // and two believed in one at the same time
	Operations int          // calls for a lock, and releases
	Requests   int          // scripts that were sent
	Holds      int          // turns
	Writes     int          // commits in the database
	Checked    int          // operations that the check of the leases took in
	Faults     map[kind]int // that happened
	Violations []oracle.Violation
	world      *world
}

// An operation is what a script was to do for an owner.
type operation struct {
	oracle.Op
	script string
}

const prefix = "lockkeeper:"

// healWithin is by when after the end of all faults everybody has been served: a
// subscription that is silent is noticed after 6 s and made again within 2 s, and the
// lock that a dead process has been given lasts 4 s.
const healWithin = 15 * time.Second

// settle is for how long nothing happens before half of the histories are closed: longer
// than any TTL, so that what is there then is kept alive by somebody.
const settle = 5 * time.Second

// A Played is a history that is over.
type Played struct {
	w           *world
	healed, end oracle.Time
}

// Play plays the history of a seed. It has to be called in a bubble.
func Play(seed uint64) Played {
	w := newWorld(seed)
	ctx, cancel := context.WithCancel(context.Background())
	w.ctx = ctx
	for i := range w.clients {
		s := &slot{w: w, index: i}
		s.replace()
		w.slots = append(w.slots, s)
	}
	var work, around sync.WaitGroup
	quiet, stop := context.WithCancel(context.Background())
	around.Go(func() { w.server.drift(quiet, w.drift) })
	for _, s := range w.slots {
		for j := range w.workers {
			k := newWorker(s, j)
			work.Go(k.run)
		}
	}
	w.nemesis()
	healed := w.now()
	finished := make(chan struct{})
	go func() {
		work.Wait()
		close(finished)
	}()
	select {
	case <-finished:
	case <-time.After(healWithin + time.Second): // the oracle counts who waits for longer
	}
	end := w.now()
	cancel()
	<-finished
	settled := seed%2 == 0
	if settled {
		time.Sleep(settle)
	}
	w.closeAll()
	w.leftovers(settled)
	stop()
	around.Wait()
	w.server.close()
	return Played{w, healed, end}
}

func newWorld(seed uint64) *world {
	w := &world{
		seed: seed, params: newParams(source(seed, 1)), zero: time.Now().Add(-time.Second), table: newTable(),
		owners: make(map[string]*owner), ran: make(map[running][]oracle.Time), truths: make(map[string]*truth), happens: make(map[kind]int),
	}
	w.plan = plan(w.params, source(seed, 2))
	w.server = newServer(w)
	return w
}

// now is the time of the history. It begins at one second, so that 0 is no time.
func (w *world) now() oracle.Time { return oracle.Time(time.Since(w.zero)) }

// nemesis makes the faults of the plan happen, and heals what is left of them.
func (w *world) nemesis() {
	rng := source(w.seed, 3)
	start := time.Now()
	for _, f := range w.plan {
		time.Sleep(f.At - time.Since(start))
		w.strike(f, rng)
	}
	time.Sleep(w.until - time.Since(start))
	w.server.heal()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.note("", "everything is healed", "", "")
}

func (w *world) strike(f fault, rng *rand.Rand) {
	oneRequest := false
	for _, k := range ofRequests {
		oneRequest = oneRequest || k == f.Kind
	}
	if !oneRequest { // those are counted when they strike
		w.happened(f)
	}
	switch s := w.slots[f.Who]; {
	case f.Kind.isGlobal():
		w.server.apply(f, rng)
	case f.Kind == closes:
		s.close()
	case f.Kind == crashed:
		s.crash(f)
	default:
		s.current().link.apply(f)
	}
}

// A harm is a time in which a process may not have been able to ask, to hear, or to be
// heard.
type harm struct {
	who      string // "" is all
	from, to oracle.Time
}

// happened counts a fault.
func (w *world) happened(f fault) {
	who := ""
	if !f.Kind.isGlobal() {
		who = w.slots[f.Who].current().name
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.happens[f.Kind]++
	w.note(who, "FAULT", "", f.String())
	now := w.now()
	w.harms = append(w.harms, harm{who, now, now + oracle.Time(f.Lasts+f.Kind.felt())})
}

// felt is for how long after its end a fault may still be felt: until a request is given
// up, or a subscription that is silent is made again.
func (k kind) felt() time.Duration {
	switch k {
	case errorReply, lateReply, lateRequest, slow, trouble, messagesLost, noScripts:
		return 2 * time.Second
	case lostRequest, lostReply, cutRequest, cutReply, repliesLost:
		return requestFailed
	case closes:
		return 0
	case crashed, stepped, emptied, evicted:
		return time.Hour
	}
	return 9 * time.Second
}

// requestFailed is for how long it is felt that a request was not answered: until it is
// given up, at the latest, and made again.
const requestFailed = 4 * time.Second

// harmed reports whether a process was harmed at some moment of a time.
func (w *world) harmed(who string, from, to oracle.Time) bool {
	for _, h := range w.harms {
		if (h.who == "" || h.who == who) && h.from <= to && from <= h.to {
			return true
		}
	}
	return false
}

// closeAll closes every client that there was, and their connections.
func (w *world) closeAll() {
	var all sync.WaitGroup
	for _, p := range w.all {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			if err := p.client.Close(ctx); err != nil {
				w.odd(p.name, "", fmt.Sprintf("Close has not ended after a minute: %v", err))
			}
			p.hangUp()
		})
	}
	all.Wait()
}

// odd is something that must not be, and that no oracle knows.
func (w *world) odd(who, lock, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.history.odd = append(w.history.odd, oracle.Violation{Oracle: "odd", Lock: lock, At: w.now(), Text: who + " " + text})
}
