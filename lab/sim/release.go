package sim

import (
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/core"
)

// end ends a turn, as Lease.Release does.
func (t *turn) end() {
	h := t.hold
	p, w := h.p, h.p.w
	now := p.now()
	if t.valid() {
		t.over = true
		w.history.ended(t, false)
	}
	l := &h.core.Lease
	if end := l.End(); end != core.NotEnded && end != core.Withdrawn {
		// Belief ends before the key does: free it for the others if it is there.
		p.undoes(h.way, h.core.Loose, h.terms.TTL, h.core.Used(), true)
		h.gone()
		t.call.caller.next()
		return
	}
	w.history.freed(h.way.key)
	if h.line == nil {
		p.keeper.Drop(l)
		h.giveBack(t.call, nil)
		return
	}
	waiting := h.line.core.Len()
	next, again := h.line.core.Done(now)
	if next != nil {
		h.passed(next, now)
		h.give(next.Call.(*call))
		t.call.caller.next()
		return
	}
	if again != (waiting > 0) {
		w.wrong(w.name(h.way.key), "%s: again is %t with %d calls", p.name, again, waiting)
	}
	p.keeper.Drop(l)
	if !again {
		h.giveBack(t.call, nil)
		return
	}
	a := h.line.question(false, l.Until())
	a.again = true
	h.giveBack(t.call, &a)
}

// passed checks that a turn may be passed on.
func (h *hold) passed(next *core.Waiter, now core.Instant) {
	p, w, k := h.p, h.p.w, h.core.Kind
	lock := w.name(h.way.key)
	h.passes++
	w.history.passed++
	since := time.Duration(now - p.local(h.began))
	switch left := h.core.Lease.Until().Sub(now); {
	case h.shared && (h.passes > 8 || since >= 10*ms) || since >= time.Second:
		w.wrong(lock, "%s: pass %d after %s, shared: %t", p.name, h.passes, since, h.shared)
	case next.Kind != k:
		w.wrong(lock, "%s: passed on to another kind", p.name)
	case !h.limited && left < (k.Terms.TTL-k.Terms.Margin)/4:
		w.wrong(lock, "%s: passed on with %s left", p.name, left)
	case h.core.Turns() != h.passes:
		w.wrong(lock, "%s: %d turns after %d passes", p.name, h.core.Turns(), h.passes)
	}
}

// gone forgets a hold whose turn is over.
func (h *hold) gone() {
	h.turn = nil
	h.p.holds = remove(h.p.holds, h)
}

// A giving is a release on its way, as giveBack of the root package.
type giving struct {
	hold    *hold
	call    *call
	machine core.Release
	again   *ask // for the first request
	first   bool
	sure    bool // all requests were answered
}

// giveBack releases a hold; the first request waits again if again is not nil.
func (h *hold) giveBack(x *call, again *ask) {
	p := h.p
	h.turn = nil
	if p.w.trace {
		p.w.note(p.name, "%s releases %s%s", h.way.owner, p.w.name(h.way.key), map[bool]string{true: ", and asks again"}[again != nil])
	}
	g := &giving{hold: h, call: x, again: again, first: true, sure: true, machine: core.NewRelease(h.core.Lease.Until())}
	g.step(g.machine.Start(p.now()))
}

// step does what the machine says.
func (g *giving) step(b core.GiveBack) {
	p := g.hold.p
	switch b.Do {
	case core.Send:
		g.send(b.Until)
	case core.Sleep:
		p.w.at(p.world(b.Until), p, func() { g.step(g.machine.Resume(p.now())) })
	case core.NotOur:
		var allowed []string
		if p.w.now >= p.world(g.hold.core.Lease.Until()) {
			allowed = []string{"lost"}
		}
		p.w.history.says(g.call, "lost", allowed)
		g.finish(false)
	default:
		g.finish(b.Do == core.Freed)
	}
}

func (g *giving) send(bound core.Instant) {
	h := g.hold
	p, first, again := h.p, g.first, g.again
	g.first, g.again = false, nil
	if again != nil {
		bound = min(bound, again.Bound)
		again.sent = p.w.now
	}
	p.giveUp(h.way, h.core.Used(), again, bound, func(r released, f fate) {
		reply := f.reply()
		if f.answered() {
			reply = r.reply
		}
		if first && h.line != nil {
			h.way.giving = !f.answered()
			h.gave(again, reply)
		}
		switch {
		case f.answered():
			g.step(g.machine.Done(r.deleted))
		case f.isRefused():
			g.finish(false)
		default:
			g.sure = g.sure && f.noEffect()
			g.step(g.machine.Failed(p.now(), f.noEffect()))
		}
	})
}

// finish ends the release, and lets its caller go on.
func (g *giving) finish(freed bool) {
	h := g.hold
	h.gone()
	h.way.giving = false
	switch {
	case h.core.Loose.Count > 0:
		h.p.undoes(h.way, h.core.Loose, h.terms.TTL, h.core.Used(), true)
	case freed && g.sure:
		h.p.freed(h.way)
	}
	g.call.caller.next()
}

// gave tells the line what came of the first request.
func (h *hold) gave(again *ask, r core.Reply) {
	ln, p := h.line, h.p
	if again == nil {
		ln.carry(ln.core.Gave(p.now(), h.core.Owner, core.Question{}, r))
		return
	}
	p.sample(p.local(again.sent), r.Server)
	m := ln.core.Gave(p.now(), h.core.Owner, again.Question, r)
	ln.hears(again.Owner, r)
	ln.carryGrant(m, r.Grant, p.proofOf(*again))
}

// closeHolds ends what a process believes in, since it is dead or the world is over.
func (p *process) closeHolds() {
	for _, h := range slices.Clone(p.holds) {
		if t := h.turn; t != nil && !t.over {
			t.over = true
			p.w.history.ended(t, false)
		}
	}
}
