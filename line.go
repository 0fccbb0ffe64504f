package lockkeeper

import (
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/core"
)

// A line is who waits for one key in this process, in the order of their calls, with
// one place in the line on the server for all of them. The machine is in the core;
// this gives it requests, goroutines and the callers. Everything here needs the
// client's mutex, but for what is said to do without.
type line struct {
	lock  *Lock // of its first call, for the keys
	core  core.Line
	spare *hold // for the first hold

	// What the server said last.
	held *HeldError
	err  error
	sent core.Instant // when it was asked last
}

// question describes the request that the machine wants, given up at until at the
// latest; direct says that its caller sits it out.
func (ln *line) question(now core.Instant, direct bool, until core.Instant) question {
	c := ln.lock.c
	first := ln.core.First().Call.(*call)
	q := question{Question: ln.core.Question(now, direct), lock: first.lock, hears: c.listener.live}
	q.Bound = min(q.Bound, until)
	q.notAfter = c.serverTime(q.Bound)
	ln.core.Asked(now, q.Bound, q.notAfter)
	ln.sent = now
	return q
}

// longOut is how long a request has to be out before that says something about
// Redis, and not only that a caller's wait has ended meanwhile.
const longOut = 500 * time.Millisecond

// trouble returns why there is no usable answer, or nil.
func (ln *line) trouble(now core.Instant) error {
	if out := now.Sub(ln.sent); ln.core.IsAsking() && out >= longOut {
		return fmt.Errorf("no answer for %s", out)
	}
	return ln.err
}

// replied takes in the answer to a question.
func (ln *line) replied(now core.Instant, q *question, r core.Reply, held *HeldError, err error) {
	move, current := ln.core.Replied(now, q.Question, r)
	if !current {
		ln.lock.c.answered(ln.lock, q.Owner, r)
		return
	}
	ln.hears(q.Owner, held, err)
	ln.carry(now, move)
}

// hears keeps what was last said to a question, for those whose wait ends. That of an
// owner who has the lock by now says nothing about them.
func (ln *line) hears(owner string, held *HeldError, err error) {
	if h := ln.core.Hold(); h != nil && h.Owner == owner {
		return
	}
	if held != nil || err != nil {
		ln.held, ln.err = held, err
	}
}

// carry does what the machine says.
func (ln *line) carry(now core.Instant, m core.Move) {
	c := ln.lock.c
	switch {
	case m.Win != nil:
		ln.win(now, m.Win)
	case m.Fail:
		ln.fail(func(l *Lock) error { return l.failure(nil, ln.held, ln.err) })
	case m.Ask && !c.closed:
		q := ln.question(now, false, core.Never)
		c.start(func() { ln.fly(&q) })
	}
	if m.Drop {
		c.undoes(ln.lock, m.Place.Owner, m.Place.Loose, 0)
	}
	c.keeper.Watch(&ln.core)
	if ln.core.IsEmpty() && c.lines[ln.lock.keys[0]] == ln {
		delete(c.lines, ln.lock.keys[0])
	}
	c.hurry(now)
}

// fly sends a request beside the waiters, who may leave while it is on its way. It
// does without the mutex.
func (ln *line) fly(q *question) {
	c := ln.lock.c
	a := call{lock: q.lock}
	a.ask(c.ctx, ln, q)
}

// win gives the hold that the machine has got to a call.
func (ln *line) win(now core.Instant, w *core.Waiter) {
	c := ln.lock.c
	ln.held, ln.err = nil, nil
	a := w.Call.(*call)
	h, _ := ln.core.Hold().Lease.Holder.(*hold)
	if h == nil {
		if h = ln.spare; h == nil {
			h = new(hold)
		}
		ln.spare = nil
		h.core = ln.core.Hold()
		h.start(ln, a.lock)
	}
	c.give(h, a, now)
}

// fail ends all calls of the line with an error.
func (ln *line) fail(why func(*Lock) error) {
	for w := ln.core.First(); w != nil; w = ln.core.First() {
		ln.core.Leave(w)
		a := w.Call.(*call)
		a.err = why(a.lock)
		a.tell()
	}
}

// tell wakes the call's goroutine, if it waits.
func (a *call) tell() {
	if a.ready != nil {
		a.ready <- struct{}{} // never blocks: there is one for each call
	}
}

// holder returns who has the lock as far as this process knows, or nil.
func (ln *line) holder(now core.Instant) *HeldError {
	h := ln.core.Hold()
	if h == nil {
		return ln.held
	}
	turn := h.Lease.Holder.(*hold).turn
	return &HeldError{
		Name: ln.lock.name,
		Holder: Holder{
			Owner: turn.Owner(), Fence: turn.Fence(), Label: h.Kind.Label,
			Since: ln.lock.c.clock.at(turn.began),
		},
		Left: max(0, h.Lease.Until().Sub(now)+h.Kind.Terms.Margin),
	}
}
