package sim

import (
	"time"

	"github.com/lockkeeper/lockkeeper/internal/core"
	"github.com/lockkeeper/lockkeeper/lab/oracle"
)

// A caller is a goroutine that takes locks, one after the other.
type caller struct{ p *process }

// A call is one Try or Acquire, as in acquire.go of the root package.
type call struct {
	core.Waiter
	caller *caller
	key    int
	line   *line
	came   Time
	wait   int  // in history.waits
	done   bool // it has the lock, or an error
	sits   bool // it sits its first request out, and can't leave
	gone   bool // it is cancelled
}

func (p *process) upTo(most time.Duration) time.Duration {
	return time.Duration(p.r.Int64N(int64(most) + 1))
}

// next makes the caller call again after a while, as long as there is work.
func (c *caller) next() {
	if p := c.p; p.w.now < Time(p.w.Lasts) {
		p.w.after(max(p.upTo(p.w.Think), p.w.begins-time.Duration(p.w.now)), p, c.call)
	}
}

func (c *caller) call() {
	p := c.p
	w := p.w
	if w.now >= Time(w.Lasts) {
		return
	}
	x := &call{caller: c, key: p.r.IntN(w.Keys), came: w.now}
	if !p.may(x) {
		c.next()
		return
	}
	x.Waiter = core.Waiter{Call: x, Kind: p.kind()}
	if p.r.IntN(100) < w.Tries {
		p.try(x, core.NewTry(x.Kind.Terms))
		return
	}
	p.await(x)
}

// A callID is a call of a world: the n-th of a process.
type callID struct{ slot, life, n int }

// may reports whether a call is made, or left out of this variant of the world.
func (p *process) may(x *call) bool {
	w, id := p.w, callID{p.slot, p.lives, p.called}
	p.called++
	if w.lock != "" && w.lock != w.name(x.key) || w.calls != nil && !w.calls[id] {
		return false
	}
	if w.trace {
		w.tracer.calls = append(w.tracer.calls, id)
	}
	return true
}

func (p *process) kind() core.Kind {
	k := core.Kind{Terms: p.w.Terms}
	if p.w.Labels && p.r.IntN(10) == 0 {
		k.Label = "other"
	}
	if p.w.TTLs && p.r.IntN(10) == 0 {
		k.Terms = core.Terms{TTL: k.Terms.TTL / 2, Margin: k.Terms.Margin / 2}
	}
	return k
}

// await waits in the line of the call's lock.
func (p *process) await(x *call) {
	w := p.w
	ln := p.lines[x.key]
	if ln == nil {
		ln = p.open(x.key, x.Kind.Terms)
	}
	x.line, x.wait = ln, len(w.history.waits)
	w.history.waits = append(w.history.waits, oracle.Wait{Lock: w.name(x.key), Who: p.name, Call: int64(x.wait), From: w.now, To: oracle.Never})
	ln.waiting = append(ln.waiting, x)
	if d, yes := p.strikes(CallerGone); yes {
		if d.one(3) {
			x.gone = true // just as it is served
		} else {
			w.after(d.upTo(w.Terms.TTL), p, x.leave)
		}
	}
	x.sits = ln.core.IsEmpty()
	switch m := ln.core.Come(p.now(), &x.Waiter); {
	case m.Ask != x.sits || m.Drop || m.Win != nil:
		w.wrong(w.name(x.key), "%s: a call makes %+v", p.name, m)
	case m.Ask:
		ln.ask(x)
	default:
		p.listen()
	}
}

// sat takes in that the first request of a line is over, which its call has sat out.
func (x *call) sat() {
	x.sits = false
	if x.done {
		return
	}
	x.caller.p.listen()
	if x.gone {
		x.leave()
	}
}

// leave is what a call does whose context has ended.
func (x *call) leave() {
	p, ln := x.caller.p, x.line
	if x.sits || x.done {
		x.gone = true // it has the lock in this moment, or will have to look again
		return
	}
	if p.w.trace {
		p.w.note(p.name, "a call gives up waiting for %s", p.w.name(x.key))
	}
	said := ln.said()
	m, left := ln.core.Leave(&x.Waiter)
	if !left {
		p.w.wrong(p.w.name(x.key), "%s: a call that waits can't leave", p.name)
		return
	}
	x.over(said)
	ln.carry(m)
}

// said is what a call is told that gives up now.
func (ln *line) said() string {
	out := ln.p.w.now - ln.sent
	switch {
	case ln.err || ln.core.IsAsking() && out >= Time(longOut):
		return "unavailable"
	case ln.held || ln.core.Hold() != nil:
		return "held"
	}
	return "unavailable"
}

// longOut is from when on a request that is out says something about the server.
const longOut = 500 * ms

// over ends a call that waited, with what it is told.
func (x *call) over(said string) {
	p, ln := x.caller.p, x.line
	w := p.w
	x.done = true
	ln.waiting = remove(ln.waiting, x)
	w.history.waits[x.wait].To = w.now
	var allowed []string
	if k := w.server.look(x.key); k.seen >= ln.opened || ln.core.Hold() != nil {
		allowed = append(allowed, "held")
	}
	if ln.failed || !ln.held && ln.core.Hold() == nil || w.now-ln.sent >= Time(longOut) {
		allowed = append(allowed, "unavailable")
	}
	w.history.says(x, said, allowed)
	x.caller.next()
}

// served takes in that the call has the lock.
func (x *call) served() {
	w := x.caller.p.w
	x.done = true
	if x.line != nil {
		x.line.waiting = remove(x.line.waiting, x)
		w.history.waits[x.wait].To, w.history.waits[x.wait].Served = w.now, true
	}
}

// try takes the lock past the line, or not.
func (p *process) try(x *call, machine core.Try) {
	w, now, y := p.w, p.now(), p.fresh(x.key)
	q := core.Question{Owner: y.owner, Kind: x.Kind, Sent: now, Bound: machine.Bound(now)}
	a := ask{Question: q, way: y, sent: w.now, notAfter: p.serverTime(q.Bound)}
	var ran core.Reply
	if w.trace {
		w.note(p.name, "%s tries for %s", y.owner, w.name(x.key))
	}
	send(p, q.Bound, func() core.Reply {
		ran = w.server.acquire(a)
		return ran
	}, func(r core.Reply, f fate) {
		r = p.read(a, r, f)
		do, undo := machine.Replied(p.now(), now, r)
		if undo {
			loose := core.Loose{}
			if r.Answer == core.NoAnswer {
				loose = core.Loose{Count: 1, Only: true, Bound: q.Bound, NotAfter: a.notAfter}
			}
			p.undoes(y, loose, x.Kind.Terms.TTL, 0, true)
		} else if do != core.Win {
			p.freed(y)
		}
		switch do {
		case core.Ask:
			p.try(x, machine)
		case core.Win:
			w.history.says(x, "granted", []string{map[bool]string{true: "granted"}[y.gave > 0]})
			p.take(x, y, a, r.Grant)
		default:
			x.failed(r, ran.Answer, f)
		}
	})
}

// take gives a hold that was got past the line to its call.
func (p *process) take(x *call, y *way, a ask, g core.Grant) {
	h := &hold{p: p, way: y, terms: x.Kind.Terms, core: core.NewHold(y.owner, a.Kind, a.Sent, g)}
	if p.lines[x.key] == nil {
		h.line = p.open(x.key, x.Kind.Terms)
		h.line.core.Take(p.now(), h.core)
	}
	h.start(g.Others || !g.Hears, p.proofOf(a))
	h.give(x)
}

// failed ends a Try without the lock.
func (x *call) failed(r core.Reply, ran core.Answer, f fate) {
	said, allowed := "unavailable", "unavailable"
	if r.Answer == core.Held {
		said = "held"
	}
	if f.answered() && ran == core.Held {
		allowed = "held"
	}
	x.caller.p.w.history.says(x, said, []string{allowed})
	x.caller.next()
}
