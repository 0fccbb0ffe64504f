package sim

import (
	"github.com/lockkeeper/lockkeeper/internal/core"
	"github.com/lockkeeper/lockkeeper/lab/oracle"
)

// A line is who waits for one lock in a process, as in line.go of the root package.
type line struct {
	p       *process
	key     int
	terms   core.Terms // of its first call
	core    core.Line
	made    *way    // the last one that the machine asked for
	way     *way    // of the place, as far as the machine's moves tell
	wanted  bool    // that somebody waits for the way was told
	waiting []*call // in the order in which they came

	// What the server said last.
	held bool
	err  bool
	sent Time

	opened Time // for the oracles, as what follows
	failed bool // a request had no usable answer
}

// open makes an empty line.
func (p *process) open(key int, terms core.Terms) *line {
	ln := &line{p: p, key: key, terms: terms, opened: p.w.now}
	ln.core = core.NewLine(func() string {
		ln.made = p.fresh(key)
		return ln.made.owner
	}, p.r.Float64())
	ln.core.Of = ln
	p.lines[key] = ln
	return ln
}

// question is what the machine wants to send now, given up at until at the latest.
func (ln *line) question(direct bool, until core.Instant) ask {
	p := ln.p
	now := p.now()
	q := ln.core.Question(now, direct)
	q.Bound = min(q.Bound, until)
	if ln.way == nil || ln.way.owner != q.Owner {
		if ln.way != nil {
			p.w.wrong(p.w.name(ln.key), "%s is forgotten for %s", ln.way.owner, q.Owner)
		}
		ln.way, ln.wanted = ln.made, false
		ln.way.call = p.w.now
	}
	a := ask{Question: q, way: ln.way, sent: p.w.now, notAfter: p.serverTime(q.Bound), hears: p.live, waits: true}
	ln.core.Asked(now, q.Bound, a.notAfter)
	ln.sent = p.w.now
	return a
}

// ask sends the machine's question, for a call that sits it out, or for none.
func (ln *line) ask(direct *call) {
	p := ln.p
	a := ln.question(direct != nil, core.Never)
	if p.w.trace {
		p.w.note(p.name, "%s asks for %s", a.way.owner, p.w.name(ln.key))
	}
	send(p, a.Bound, func() core.Reply { return p.w.server.acquire(a) }, func(r core.Reply, f fate) {
		ln.failed = ln.failed || !f.answered()
		ln.replied(a, p.read(a, r, f))
		if direct != nil {
			direct.sat()
		}
	})
}

// read is what a process takes from an answer, with its proof for the oracles.
func (p *process) read(a ask, r core.Reply, f fate) core.Reply {
	if !f.answered() {
		return f.reply()
	}
	p.sample(p.local(a.sent), r.Server)
	if r.Answer == core.Held {
		p.w.history.refused(a)
	}
	return r
}

// replied takes in the answer to a question.
func (ln *line) replied(a ask, r core.Reply) {
	p := ln.p
	m, current := ln.core.Replied(p.now(), a.Question, r)
	if !current {
		p.answered(ln, a.way, r)
		return
	}
	ln.hears(a.Owner, r)
	ln.carryGrant(m, r.Grant, p.proofOf(a))
}

// hears keeps what was last said to a question, for those whose wait ends. That of an
// owner who has the lock by now says nothing about them.
func (ln *line) hears(owner string, r core.Reply) {
	if h := ln.core.Hold(); h != nil && h.Owner == owner {
		return
	}
	ln.held = r.Answer == core.Held
	ln.err = !ln.held && r.Answer != core.Granted
	ln.failed = ln.failed || ln.err
}

// proofOf is how far a grant carries that came for a request.
func (p *process) proofOf(a ask) oracle.Proof {
	return p.proof(a.sent, a.Kind.Terms)
}

func (p *process) proof(sent Time, t core.Terms) oracle.Proof {
	return oracle.Proof{Learned: p.w.now, Until: p.world(p.local(sent).Add(t.TTL - t.Margin))}
}

// told takes in a message.
func (p *process) told(m message) {
	if !p.live {
		return
	}
	y := m.way
	ln := p.lines[y.key]
	if m.kind == wanted {
		if ln == nil {
			return
		}
		ln.core.Wanted(y.owner)
		if h := ln.core.Hold(); h != nil && h.Owner == y.owner {
			h.Lease.Holder.(*hold).shared = true
		}
		ln.wanted = ln.wanted || ln.way == y
		return
	}
	if p.w.trace {
		p.w.note(p.name, "hears that %s has %s", y.owner, p.w.name(y.key))
	}
	if ln != nil {
		terms := p.w.Terms.HandOff()
		if first := ln.core.First(); first != nil {
			terms = first.Kind.Terms.HandOff()
		}
		terms.TTL = m.ttl
		if move, ours := ln.core.Granted(p.now(), y.owner, m.grant); ours {
			ln.held, ln.err = false, false
			ln.carryGrant(move, m.grant, p.proof(m.ran, terms))
			return
		}
	}
	if y.giving {
		return // late: it is given up by a release, which must not find it gone
	}
	// Nobody here waits for it any more.
	p.undoes(y, core.Loose{}, p.w.Terms.TTL, 0, false)
}

func (ln *line) carry(m core.Move) { ln.carryGrant(m, core.Grant{}, oracle.Proof{}) }

// carryGrant does what the machine says.
func (ln *line) carryGrant(m core.Move, g core.Grant, proof oracle.Proof) {
	p := ln.p
	ln.check(m)
	switch {
	case m.Win != nil:
		ln.win(m.Win, g, proof)
	case m.Fail:
		for w := ln.core.First(); w != nil; w = ln.core.First() {
			ln.core.Leave(w)
			w.Call.(*call).over("unavailable")
		}
	case m.Ask:
		ln.ask(nil)
	}
	switch {
	case m.Drop:
		p.undoes(ln.way, m.Place.Loose, ln.terms.TTL, 0, true)
		ln.way = nil
	case m.Fail:
		p.freed(ln.way)
		ln.way = nil
	}
	p.keeper.Watch(&ln.core)
	if ln.core.IsEmpty() {
		ln.close()
	}
}

// check checks that a move makes sense.
func (ln *line) check(m core.Move) {
	w, lock := ln.p.w, ln.p.w.name(ln.key)
	n := 0
	for _, one := range []bool{m.Ask, m.Win != nil, m.Fail} {
		if one {
			n++
		}
	}
	switch {
	case n > 1:
		w.wrong(lock, "%s: too many commands: %+v", ln.p.name, m)
	case m.Ask && !ln.core.IsAsking():
		w.wrong(lock, "%s: asks, and is not asking", ln.p.name)
	case m.Drop && (ln.way == nil || m.Place.Owner != ln.way.owner):
		w.wrong(lock, "%s: drops %q, which is not its place", ln.p.name, m.Place.Owner)
	}
}

// close forgets an empty line.
func (ln *line) close() {
	p, lock := ln.p, ln.p.w.name(ln.key)
	if ln.way != nil {
		p.w.wrong(lock, "%s is forgotten", ln.way.owner)
	}
	if ln.core.Len() != 0 || ln.core.Hold() != nil {
		p.w.wrong(lock, "%s: an empty line has something", p.name)
	}
	if p.lines[ln.key] == ln {
		p.lines[ln.key] = nil
	}
}

// win gives the hold that the machine has got to a call.
func (ln *line) win(w *core.Waiter, g core.Grant, proof oracle.Proof) {
	p := ln.p
	c := w.Call.(*call)
	h := &hold{p: p, core: ln.core.Hold(), line: ln, way: ln.way, terms: c.Kind.Terms}
	switch {
	case ln.way == nil || h.core.Owner != ln.way.owner:
		p.w.wrong(p.w.name(ln.key), "%s: wins for %s, which is not its place", p.name, h.core.Owner)
		return
	case h.core.Fence() != g.Fence:
		p.w.wrong(p.w.name(ln.key), "%s: the fence is %d, and %d was granted", p.name, h.core.Fence(), g.Fence)
	}
	ln.way, ln.held, ln.err = nil, false, false
	h.start(g.Others || !g.Hears || ln.wanted, proof)
	h.give(c)
}
