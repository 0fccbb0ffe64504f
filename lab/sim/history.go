package sim

import (
	"time"

	"github.com/lockkeeper/lockkeeper/lab/oracle"
)

// A history is what happened in a world, as the oracles want it.
type history struct {
	w       *world
	holds   []oracle.Hold
	steps   []oracle.Step
	writes  []oracle.Write
	written []Time // when they were
	ops     []oracle.Op
	waits   []oracle.Wait
	places  []oracle.Place
	answers []oracle.Answer
	wrong   []oracle.Violation // seen at once
	open    []*asked

	ways     []*way // that the server gave a lock to, or a place
	turns    int
	passed   int
	handOffs int
	renewals int
	idle     [len(names)]Time // since when a lock is free beside somebody who waits for long; Never
	slowest  time.Duration    // until such a lock was taken
}

// A way is one owner's way to a lock, from its first request to the end of its hold, as
// somebody sees it who knows all of the world.
type way struct {
	owner  string
	p      *process
	key    int
	call   Time // when its first request was sent
	told   bool // its process knows that it has the lock
	done   bool // its process knows that nothing of it is left, nor will be
	undo   *undoing
	giving bool // its release is being tried again

	gave  Time // when the server gave it the lock first
	ttl   time.Duration
	asked Time          // when its place was asked for last
	lives time.Duration // for how long the place lives from then on
	hears bool
	place int // in history.places; -1: it has none
	had   bool
}

func (h *history) begin(w *world) {
	h.w = w
	for i := range h.idle {
		h.idle[i] = oracle.Never
	}
}

// joined takes in that a way has asked for its place, and has it.
func (h *history) joined(a ask, since int64, before int) {
	y := a.way
	h.alive(y)
	y.asked, y.hears = h.w.now, a.hears
	y.lives = a.Kind.Terms.PlaceLease() * time.Duration(min(1+before/64, 10))
	if y.place < 0 {
		h.add(y, since)
	}
	if !a.hears {
		h.places[y.place].Deaf = true
	}
}

func (h *history) add(y *way, since int64) {
	y.place = len(h.places)
	h.places = append(h.places, oracle.Place{
		Lock: h.w.name(y.key), Who: y.p.name, Owner: y.owner,
		Since: Time(since), Joined: h.w.now, Gone: oracle.Never, Granted: oracle.Never,
	})
	h.see(y)
}

// see keeps a way that the server has given something.
func (h *history) see(y *way) {
	if !y.had {
		y.had = true
		h.ways = append(h.ways, y)
	}
}

// left takes in that a place is not there any more.
func (h *history) left(y *way) {
	if y.place >= 0 {
		h.places[y.place].Gone = h.w.now
		y.place = -1
	}
}

// gave takes in that the server made a way the holder. Who comes past the line has a
// place for a moment, so that it is seen whom it has passed.
func (h *history) gave(y *way, ttl time.Duration) {
	h.alive(y)
	h.see(y)
	if y.gave > 0 { // a late request has brought it back into the line
		h.op(y, oracle.Acquire, oracle.Unknown, y.asked, h.w.now, ttl)
	} else {
		y.gave, y.ttl = h.w.now, ttl
	}
	if y.place < 0 {
		h.add(y, h.w.server.micros())
	}
	h.places[y.place].Granted = h.w.now
	h.left(y)
}

// handedOff takes in that the server gave the lock to who waits and did not ask just now.
func (h *history) handedOff(y *way) {
	h.handOffs++
	switch since := time.Duration(h.w.now - y.asked); {
	case h.w.server.back > 0 || !h.w.InModel:
	case since > y.lives+ms:
		h.violate("O6", y.key, "%s gets %s, and has not asked for its place for %s, which lives for %s", y.owner, h.w.name(y.key), since, y.lives)
	case y.hears && !y.p.subscribed:
		h.violate("O6", y.key, "%s gets %s, and nobody listens for it any more", y.owner, h.w.name(y.key))
	}
}

// alive notes what a way gets that nobody looks after any more. Where the server's clock
// goes back, a request that has ended may run after all.
func (h *history) alive(y *way) {
	if y.done && h.w.InModel && h.w.server.back == 0 {
		h.w.wrong(h.w.name(y.key), "%s gets something after it was given up for good", y.owner)
	}
}

func (h *history) violate(oracleName string, key int, format string, args ...any) {
	h.w.wrong(h.w.name(key), format, args...)
	h.wrong[len(h.wrong)-1].Oracle = oracleName
}

// deafen takes in that a process can't hear, or ask, for some of the time.
func (h *history) deafen(p *process) {
	for _, y := range h.ways {
		if y.place >= 0 && y.p == p {
			h.places[y.place].Deaf = true
		}
	}
}

// An asked is a request whose effect the oracle of leases has to know. Without an answer
// it is seen by the process as unknown, and here only if it had an effect.
type asked struct {
	h      *history
	op     oracle.Op
	ran    Time
	effect bool
	silent bool
	over   bool
}

func (h *history) asks(kind oracle.OpKind, y *way, ttl time.Duration) *asked {
	a := &asked{h: h, op: oracle.Op{Lock: h.w.name(y.key), Who: y.p.name, Owner: y.owner, Kind: kind, Call: h.w.now, TTL: ttl}}
	h.open = append(h.open, a)
	return a
}

// runs takes in that it runs on the server, and whether it has an effect there.
func (a *asked) runs(effect bool) {
	a.ran, a.effect = a.h.w.now, effect
	if a.silent {
		a.unknown()
	}
}

// answered takes in what the process was told.
func (a *asked) answered(yes bool) {
	a.over = true
	a.op.Return, a.op.Outcome = a.h.w.now, oracle.No
	if yes {
		a.op.Outcome = oracle.Yes
	}
	a.h.ops = append(a.h.ops, a.op)
}

// unanswered takes in that the process will never know.
func (a *asked) unanswered() {
	a.silent = true
	if a.ran > 0 {
		a.unknown()
	}
}

func (a *asked) unknown() {
	if a.effect && !a.over {
		a.over = true
		a.op.Return, a.op.Outcome = a.ran, oracle.Unknown
		a.h.ops = append(a.h.ops, a.op)
	}
}

// again takes in that a request of who has the lock already ran, which makes it live
// longer.
func (h *history) again(a ask) {
	h.op(a.way, oracle.Renew, oracle.Unknown, a.sent, h.w.now, a.Kind.Terms.TTL)
}

// refused takes in that a request for a lock was answered with its holder.
func (h *history) refused(a ask) {
	h.op(a.way, oracle.Acquire, oracle.No, a.sent, h.w.now, a.Kind.Terms.TTL)
}

// got takes in that a process knows that it has a lock, or that nobody will know.
func (h *history) got(y *way, outcome oracle.Outcome, at Time) {
	y.told = true
	h.op(y, oracle.Acquire, outcome, y.call, at, y.ttl)
}

func (h *history) op(y *way, kind oracle.OpKind, outcome oracle.Outcome, call, end Time, ttl time.Duration) {
	h.ops = append(h.ops, oracle.Op{
		Lock: h.w.name(y.key), Who: y.p.name, Owner: y.owner, Kind: kind, Outcome: outcome, Call: call, Return: end, TTL: ttl,
	})
}

// end completes the history of what is left when the world is over.
func (h *history) end() {
	for _, y := range h.ways {
		if y.gave > 0 && !y.told {
			h.got(y, oracle.Unknown, y.gave)
		}
	}
	for _, a := range h.open { // those of dead processes
		a.unanswered()
	}
	for _, p := range h.w.procs {
		p.closeHolds()
	}
}
