package core_test

import (
	"slices"
	"strconv"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/core"
)

// A simProc is one process, with what the root package does around the machines.
type simProc struct {
	s          *sim
	name       string
	offset     core.Instant // of its clock
	stopped    core.Instant // it does not run until then
	keeper     core.Keeper
	woken      core.Instant // when the keeper is to run; Never if not
	live       bool         // it listens, as it thinks
	subscribed bool         // as the server thinks
	owners     int
	line       *simLine
	waiting    []*simCall // in the order in which they came
	holds      []*simHold
}

type simLine struct {
	p      *simProc
	core   core.Line
	owner  string // of the place as far as the moves tell
	wanted bool   // that somebody waits for the owner was told
}

type simCall struct {
	core.Waiter
	came  core.Instant
	stays bool
	done  bool
}

type simHold struct {
	p      *simProc
	core   *core.Hold
	line   *simLine // nil if it is none's
	turn   *simCall // nil when it is given back
	shared bool     // somebody waits, or may
	limit  bool     // the present turn has one
	began  core.Instant
	passes int
}

func newSimProc(s *sim, i int) *simProc {
	return &simProc{
		s: s, name: "p" + strconv.Itoa(i), offset: core.Instant(s.upTo(time.Hour)),
		live: s.r.IntN(6) > 0 || s.calm, subscribed: true, woken: core.Never,
	}
}

func (p *simProc) now() core.Instant { return p.s.now + p.offset }

func (p *simProc) fresh() string {
	p.owners++
	return p.name + "." + strconv.Itoa(p.owners)
}

// serverTime is the server's clock at i, or a little later; 0 when it is not known.
func (p *simProc) serverTime(i core.Instant) int64 {
	if p.s.chance(30) {
		return 0
	}
	off := p.s.upTo(3 * ms)
	if p.s.chance(5) {
		off = p.s.upTo(300 * ms)
	}
	return 1_000_000_000_000 + time.Duration(i-p.offset).Microseconds() + off.Microseconds()
}

// wake makes the keeper run when it wants to.
func (p *simProc) wake() {
	at := p.keeper.Wake(p.now())
	if at == core.Never || p.woken <= at {
		return
	}
	p.woken = at
	p.s.at(at-p.offset, p, func() {
		if p.woken == at {
			p.woken = core.Never
			p.tick()
		}
	})
}

func (p *simProc) tick() {
	now := p.now()
	renew, ended := p.keeper.Tick(now)
	for due := p.keeper.DueLine(now); due != nil; due = p.keeper.DueLine(now) {
		due.Of.(*simLine).carry(due.Resume())
	}
	for _, l := range ended {
		l.Holder.(*simHold).lose()
	}
	for _, l := range renew {
		h, asked := l.Holder.(*simHold), l.Terms()
		p.s.send(p, l.Bound(now), func() any { return p.s.server.renew(h.core.Owner, asked.TTL) }, func(r any) {
			outcome := core.Unsure
			if r != nil {
				outcome = r.(core.Outcome)
			}
			if end := p.keeper.Renewal(l, asked, now, p.now(), outcome); end != core.NotEnded && end != core.Withdrawn {
				h.lose()
			}
		})
	}
}

// stop makes the process stand still for a while.
func (p *simProc) stop() {
	d := p.s.upTo(300 * ms)
	if p.s.r.IntN(4) == 0 {
		d = p.s.upTo(3 * time.Second)
	}
	p.stopped = max(p.stopped, p.s.now.Add(d))
	p.s.note("%s stands still for %s", p.name, d)
}

// flap breaks the subscription and makes it again.
func (p *simProc) flap() {
	s := p.s
	p.subscribed = s.r.IntN(2) == 0 // or the server has not noticed
	s.after(s.upTo(200*ms), p, func() {
		p.subscribed = false
		p.setLive(false)
		s.after(s.upTo(300*ms), p, func() { p.setLive(true) })
	})
}

func (p *simProc) setLive(live bool) {
	p.subscribed = live
	if p.live == live {
		return
	}
	p.s.note("%s listens: %t", p.name, live)
	p.live = live
	if p.line != nil {
		if h := p.line.core.Hold(); h != nil {
			h.Deaf()
			h.Lease.Holder.(*simHold).shared = true
		}
		p.line.carry(p.line.core.Resume())
	}
	p.wake()
}

func (p *simProc) kind() core.Kind {
	k := core.Kind{Terms: core.Terms{TTL: 900 * ms, Margin: 90 * ms}}
	if p.s.r.IntN(30) == 0 {
		k.Label = "other"
		if p.s.r.IntN(2) == 0 {
			k.Terms = core.Terms{TTL: 100 * ms, Margin: 10 * ms}
		}
	}
	return k
}

// call is a new call of this process: it waits, or not.
func (p *simProc) call() {
	s := p.s
	s.calls++
	w := &simCall{came: s.now, stays: s.r.IntN(4) > 0}
	w.Waiter = core.Waiter{Kind: p.kind()}
	w.Call = w
	if s.r.IntN(5) == 0 {
		p.try(w)
		return
	}
	if p.line == nil {
		p.open()
	}
	ln := p.line
	if ln.core.Len() > 30 {
		return
	}
	p.waiting = append(p.waiting, w)
	direct := ln.core.IsEmpty()
	switch m := ln.core.Come(p.now(), &w.Waiter); {
	case m.Ask != direct || m.Drop || m.Win != nil:
		s.fail("%s: a call makes %+v", p.name, m)
	case m.Ask:
		ln.ask(true)
	}
	if !w.stays {
		s.after(s.upTo(400*ms), p, func() { p.leave(ln, w) })
	}
}

func (p *simProc) open() {
	ln := &simLine{p: p}
	ln.core = core.NewLine(p.fresh, p.s.r.Float64())
	ln.core.Of = ln
	p.line = ln
}

func (p *simProc) leave(ln *simLine, w *simCall) {
	first := ln.core.First() == &w.Waiter
	m, left := ln.core.Leave(&w.Waiter)
	if left == w.done {
		p.s.fail("%s: a call leaves, and is done: %t, %t", p.name, left, w.done)
	}
	if !left {
		if m != (core.Move{}) {
			p.s.fail("%s: a leave that comes too late makes %+v", p.name, m)
		}
		return
	}
	w.done = true
	p.forget(w)
	// Only for a new first call that wants something else is there reason to ask.
	asks := m.Ask && !(first && ln.core.Len() > 0 && ln.core.First().Kind != w.Kind)
	if asks || m.Win != nil || m.Drop && (ln.core.Len() > 0 || !ln.core.IsEmpty()) {
		p.s.fail("%s: a leave makes %+v", p.name, m)
	}
	ln.carry(m)
}

func (p *simProc) forget(w *simCall) {
	p.waiting = slices.DeleteFunc(p.waiting, func(x *simCall) bool { return x == w })
}

// try takes the lock past the line.
func (p *simProc) try(w *simCall) {
	machine := core.NewTry(w.Kind.Terms)
	var send func()
	send = func() {
		now := p.now()
		q := core.Question{Owner: p.fresh(), Kind: w.Kind, Sent: now, Bound: machine.Bound(now)}
		a := simAsk{q: q, proc: p, notAfter: p.serverTime(q.Bound), hears: p.live}
		p.s.send(p, q.Bound, func() any { return p.s.server.acquire(a) }, func(r any) {
			reply := replyOf(r)
			switch do, undo := machine.Replied(p.now(), now, reply); {
			case undo:
				loose := core.Loose{}
				if reply.Answer == core.NoAnswer {
					loose = core.Loose{Count: 1, Only: true, Bound: q.Bound, NotAfter: a.notAfter}
				}
				p.undo(q.Owner, loose, w.Kind.Terms.TTL, true)
			case do == core.Ask:
				send()
			case do == core.Win:
				h := &simHold{p: p, core: core.NewHold(q.Owner, q.Kind, q.Sent, reply.Grant)}
				if p.line == nil {
					p.open()
					h.line = p.line
					p.line.core.Take(p.now(), h.core)
				}
				h.start(reply.Grant.Others || !reply.Grant.Hears)
				h.give(w)
			}
		})
	}
	send()
}

func replyOf(r any) core.Reply {
	if r == nil {
		return core.Reply{Answer: core.NoAnswer}
	}
	return r.(core.Reply)
}

// question is what the line wants to send now.
func (ln *simLine) question(direct bool, until core.Instant) simAsk {
	p := ln.p
	now := p.now()
	q := ln.core.Question(now, direct)
	q.Bound = min(q.Bound, until)
	if ln.owner != q.Owner {
		if ln.owner != "" {
			p.s.fail("%s: %s is forgotten for %s", p.name, ln.owner, q.Owner)
		}
		ln.owner, ln.wanted = q.Owner, false
	}
	a := simAsk{q: q, proc: p, notAfter: p.serverTime(q.Bound), since: q.Since, hears: p.live, waits: true}
	ln.core.Asked(now, q.Bound, a.notAfter)
	return a
}

func (ln *simLine) ask(direct bool) {
	p := ln.p
	a := ln.question(direct, core.Never)
	p.s.send(p, a.q.Bound, func() any {
		switch {
		case p.s.chance(40):
			return core.Reply{Answer: core.Trouble, NoEffect: true}
		case p.s.chance(300):
			return core.Reply{Answer: core.Rejected, NoEffect: true}
		}
		return p.s.server.acquire(a)
	}, func(r any) { ln.replied(a.q, replyOf(r)) })
}

func (ln *simLine) replied(q core.Question, r core.Reply) {
	p := ln.p
	m, current := ln.core.Replied(p.now(), q, r)
	if !current {
		if r.Answer == core.Granted {
			p.undo(q.Owner, core.Loose{}, q.Kind.Terms.TTL, false)
		}
		return
	}
	ln.carryGrant(m, r.Grant)
}

func (ln *simLine) carry(m core.Move) { ln.carryGrant(m, core.Grant{}) }

// carryGrant does what the machine says.
func (ln *simLine) carryGrant(m core.Move, g core.Grant) {
	p := ln.p
	if n := map[bool]int{true: 1}; n[m.Ask]+n[m.Win != nil]+n[m.Fail] > 1 {
		p.s.fail("%s: too many commands: %+v", p.name, m)
	}
	switch {
	case m.Win != nil:
		ln.win(m.Win, g)
	case m.Fail:
		for w := ln.core.First(); w != nil; w = ln.core.First() {
			ln.core.Leave(w)
			w.Call.(*simCall).done = true
			p.forget(w.Call.(*simCall))
		}
	case m.Ask:
		if !ln.core.IsAsking() {
			p.s.fail("%s: asks, and is not asking", p.name)
		}
		ln.ask(false)
	}
	switch {
	case m.Drop:
		if m.Place.Owner != ln.owner {
			p.s.fail("%s: drops %q, and has %q", p.name, m.Place.Owner, ln.owner)
		}
		p.undo(ln.owner, m.Place.Loose, 900*ms, true)
		ln.owner = ""
	case m.Fail:
		p.freed(ln.owner)
		ln.owner = ""
	}
	p.keeper.Watch(&ln.core)
	if !ln.core.IsEmpty() {
		return
	}
	if ln.owner != "" {
		p.s.fail("%s: %s is forgotten", p.name, ln.owner)
	}
	if ln.core.Len() != 0 || ln.core.Hold() != nil {
		p.s.fail("%s: an empty line has something", p.name)
	}
	if p.line == ln {
		p.line = nil
	}
}

func (ln *simLine) win(w *core.Waiter, g core.Grant) {
	p := ln.p
	h := &simHold{p: p, core: ln.core.Hold(), line: ln}
	if h.core.Owner != ln.owner {
		p.s.fail("%s: wins for %s, and has %q", p.name, h.core.Owner, ln.owner)
	}
	if h.core.Fence() != g.Fence {
		p.s.fail("%s: the fence is %d, and %d was granted", p.name, h.core.Fence(), g.Fence)
	}
	ln.owner = ""
	h.start(g.Others || !g.Hears || ln.wanted)
	h.give(w.Call.(*simCall))
}

func (h *simHold) start(shared bool) {
	h.core.Lease.Holder = h
	h.shared, h.began = shared, h.p.s.now
	h.p.holds = append(h.p.holds, h)
}

// give begins a turn.
func (h *simHold) give(w *simCall) {
	p, s := h.p, h.p.s
	now := p.now()
	if h.line != nil {
		for _, x := range p.holds {
			if x != h && x.line == h.line && x.turn != nil && x.core.Lease.End() == core.NotEnded {
				s.fail("%s: two turns at once", p.name)
			}
		}
	}
	if i := slices.Index(p.waiting, w); i > 0 {
		s.fail("%s: a call is served before %d others", p.name, i)
	}
	p.forget(w)
	if w.done {
		s.fail("%s: a call is served that has ended", p.name)
	}
	w.done = true
	if h.core.Fence() <= s.fence {
		s.fail("%s: fence %d after %d", p.name, h.core.Fence(), s.fence)
	}
	s.fence = h.core.Fence()
	s.turns++
	if s.ended != core.Never {
		s.slowest = max(s.slowest, s.now.Sub(s.ended))
		if idle := s.now.Sub(s.ended); s.calm && idle > 5*ms {
			s.fail("%s: the lock was idle for %s though somebody waited", p.name, idle)
		}
	}
	s.ended = core.Never
	s.note("%s: turn of %s with fence %d until %s", p.name, h.core.Owner, h.core.Fence(), time.Duration(h.core.Lease.Until()-p.offset))
	first := h.passes == 0
	h.turn = w
	longest := time.Duration(0)
	if s.r.IntN(50) == 0 {
		longest = s.upTo(20 * ms)
	}
	h.limit = longest > 0
	if first {
		h.core.Lease.Limit(now, longest)
		p.keeper.Hold(&h.core.Lease)
	} else {
		p.keeper.Limit(&h.core.Lease, now, longest)
	}
	took := s.upTo(3 * ms)
	if s.r.IntN(500) == 0 && !s.calm {
		took = s.upTo(2500 * ms)
	}
	s.after(took, p, func() { h.end(w) })
}

// end ends a turn, as Lease.Release does.
func (h *simHold) end(w *simCall) {
	p, s := h.p, h.p.s
	now := p.now()
	l := &h.core.Lease
	if l.End() == core.NotEnded && p.keeper.Expire(l, now) {
		h.lose()
	}
	if h.turn == w {
		h.turn = nil
	}
	if l.End() != core.NotEnded {
		p.undo(h.core.Owner, h.core.Loose, h.core.Kind.Terms.TTL, true)
		h.gone()
		return
	}
	s.ended = core.Never
	for _, x := range s.procs {
		if len(x.waiting) > 0 && s.now.Sub(x.waiting[0].came) > 10*ms {
			s.ended = s.now
		}
	}
	if h.line == nil {
		p.keeper.Drop(l)
		h.giveBack(nil)
		return
	}
	next, again := h.line.core.Done(now)
	if next != nil {
		h.passed(next, now)
		h.give(next.Call.(*simCall))
		return
	}
	if again != (h.line.core.Len() > 0) {
		s.fail("%s: again is %t with %d calls", p.name, again, h.line.core.Len())
	}
	p.keeper.Drop(l)
	if !again {
		h.giveBack(nil)
		return
	}
	a := h.line.question(false, l.Until())
	a.again = true
	h.giveBack(&a)
}

// passed checks that a turn may be passed on.
func (h *simHold) passed(next *core.Waiter, now core.Instant) {
	p, s, k := h.p, h.p.s, h.core.Kind
	h.passes++
	s.passed++
	since := s.now.Sub(h.began)
	if h.shared && (h.passes > 8 || since >= 10*ms) || since >= time.Second {
		s.fail("%s: pass %d after %s, shared: %t", p.name, h.passes, since, h.shared)
	}
	if next.Kind != k {
		s.fail("%s: passed on to another kind", p.name)
	}
	if left := h.core.Lease.Until().Sub(now); !h.limit && left < (k.Terms.TTL-k.Terms.Margin)/4 {
		s.fail("%s: passed on with %s left", p.name, left)
	}
	if s.server.owner == h.core.Owner && h.core.Fence() > s.server.counter {
		s.fail("%s: fence %d is beyond the block, %d", p.name, h.core.Fence(), s.server.counter)
	}
	if h.core.Turns() != h.passes {
		s.fail("%s: %d turns after %d passes", p.name, h.core.Turns(), h.passes)
	}
}

// lose ends a hold before its time. The call works on until it finds out.
func (h *simHold) lose() {
	h.p.keeper.Drop(&h.core.Lease)
	h.p.s.note("%s: %s is lost", h.p.name, h.core.Owner)
	if h.line != nil {
		h.line.carry(h.line.core.Lost(h.p.now(), h.core))
	}
}

// gone forgets a hold whose turn is over.
func (h *simHold) gone() {
	h.p.holds = slices.DeleteFunc(h.p.holds, func(x *simHold) bool { return x == h })
}

type simReleased struct {
	deleted bool
	reply   core.Reply
}

// giveBack releases a hold; the first request waits again if a says so.
func (h *simHold) giveBack(a *simAsk) {
	p, s := h.p, h.p.s
	machine := core.NewRelease(h.core.Lease.Until())
	first, sure, ran := true, true, core.Instant(0)
	s.note("%s: release of %s, again: %t", p.name, h.core.Owner, a != nil)
	var step func(core.GiveBack)
	finish := func(freed bool) {
		h.gone()
		switch {
		case h.core.Loose.Count > 0:
			p.undo(h.core.Owner, h.core.Loose, h.core.Kind.Terms.TTL, true)
		case freed && sure:
			p.freed(h.core.Owner)
		}
	}
	step = func(b core.GiveBack) {
		switch b.Do {
		case core.Sleep:
			s.at(b.Until-p.offset, p, func() { step(machine.Resume(p.now())) })
		case core.Send:
			q, wasFirst := a, first
			a, first = nil, false
			bound := b.Until
			if q != nil {
				bound = min(bound, q.q.Bound)
			}
			used := h.core.Used()
			s.send(p, bound, func() any {
				ran = s.now
				deleted, r := s.server.release(h.core.Owner, used, q)
				return simReleased{deleted, r}
			}, func(r any) {
				out := simReleased{reply: core.Reply{Answer: core.NoAnswer}}
				if r != nil {
					out = r.(simReleased)
				}
				if wasFirst && h.line != nil {
					h.gave(q, out.reply)
				}
				if r == nil {
					sure = false
					step(machine.Failed(p.now(), false))
					return
				}
				step(machine.Done(out.deleted))
			})
		case core.NotOur:
			if ran < h.core.Lease.Until()-p.offset {
				s.fail("%s: %s was believed in, and was not ours", p.name, h.core.Owner)
			}
			finish(false)
		default:
			finish(b.Do == core.Freed)
		}
	}
	step(machine.Start(p.now()))
}

func (h *simHold) gave(a *simAsk, r core.Reply) {
	ln := h.line
	q := core.Question{}
	if a != nil {
		q = a.q
	}
	ln.carryGrant(ln.core.Gave(h.p.now(), h.core.Owner, q, r), r.Grant)
}

// told takes in a message.
func (p *simProc) told(what, owner string, g core.Grant, server int64) {
	if !p.live {
		return
	}
	ln := p.line
	if what == "w" {
		if ln != nil {
			ln.core.Wanted(owner)
			if h := ln.core.Hold(); h != nil && h.Owner == owner {
				h.Lease.Holder.(*simHold).shared = true
			}
			ln.wanted = ln.wanted || ln.owner == owner
		}
		return
	}
	g.Server = server
	if ln != nil {
		if m, ours := ln.core.Granted(p.now(), owner, g); ours {
			ln.carryGrant(m, g)
			return
		}
	}
	p.undo(owner, core.Loose{}, 900*ms, false)
}

// undo takes back what an owner may have. whole says that it is all that there is of
// that owner: when it is done, nothing may come any more.
func (p *simProc) undo(owner string, loose core.Loose, ttl time.Duration, whole bool) {
	machine := core.NewUndo(p.now(), loose, ttl)
	p.s.note("%s: undo of %s with %d loose", p.name, owner, loose.Count)
	var step func(core.GiveBack)
	step = func(b core.GiveBack) {
		switch b.Do {
		case core.Sleep:
			p.s.at(b.Until-p.offset, p, func() { step(machine.Resume(p.now())) })
		case core.Send:
			p.s.send(p, b.Until, func() any {
				deleted, r := p.s.server.release(owner, 0, nil)
				return simReleased{deleted, r}
			}, func(r any) {
				if r == nil {
					step(machine.Failed(p.now()))
					return
				}
				out := r.(simReleased)
				step(machine.Done(p.now(), out.deleted, out.reply.Server))
			})
		case core.Freed:
			if whole {
				p.freed(owner)
			}
		}
	}
	step(machine.Start(p.now()))
}

// freed says that an owner has nothing on the server, and won't have.
func (p *simProc) freed(owner string) {
	v := &p.s.server
	v.freed[owner] = true
	if v.owner == owner || slices.ContainsFunc(v.line, func(x *simPlace) bool { return x.owner == owner }) {
		p.s.fail("%s: %s is done with, and has something", p.name, owner)
	}
}
