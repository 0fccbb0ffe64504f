package core_test

import (
	"cmp"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/core"
)

// A simServer does what the Lua scripts do, for one key.
type simServer struct {
	s       *sim
	owner   string // who has the lock; "" if it is free
	proc    *simProc
	expires core.Instant
	fence   uint64
	counter uint64
	block   uint64 // fences in a grant that is no fast one
	limit   int    // places; 0: any number
	line    []*simPlace
	freed   map[string]bool // owners that must not get anything any more
}

type simPlace struct {
	owner    string
	proc     *simProc
	since    int64
	deadline core.Instant
	grant    time.Duration
	hears    bool
}

// A simAsk is a request of acquire, or the part of release that waits again.
type simAsk struct {
	q        core.Question
	proc     *simProc
	notAfter int64
	since    int64
	hears    bool
	waits    bool
	again    bool // never full
}

// micros is the server's clock.
func (v *simServer) micros() int64 { return 1_000_000_000_000 + time.Duration(v.s.now).Microseconds() }

func (v *simServer) expire() {
	if v.owner != "" && v.s.now >= v.expires {
		v.owner, v.proc = "", nil
	}
}

func (v *simServer) give(owner string, p *simProc, ttl time.Duration, n, fence uint64) core.Grant {
	fence = max(uint64(v.micros()), fence)
	v.check(owner)
	v.owner, v.proc, v.fence, v.counter = owner, p, fence, fence+n-1
	v.expires = v.s.now.Add(ttl)
	v.s.note("server: %s has the lock, fence %d, for %s", owner, fence, ttl)
	return core.Grant{Fence: fence, Last: v.counter}
}

// check notes what an owner gets that nobody looks after any more.
func (v *simServer) check(owner string) {
	if v.freed[owner] {
		v.s.fail("%s gets something after it was given up for good", owner)
	}
}

func (v *simServer) acquire(a simAsk) core.Reply {
	if a.notAfter != 0 && v.micros() > a.notAfter {
		return core.Reply{Answer: core.Late}
	}
	v.expire()
	ttl := a.q.Kind.Terms.TTL
	if v.owner == "" {
		if len(v.line) == 0 {
			g := v.give(a.q.Owner, a.proc, ttl, 1, v.counter+1)
			g.Last, g.Hears = 0, a.hears
			return granted(g)
		}
		to, g := v.handOff(v.counter, a.q.Owner, a.proc, ttl)
		if to == "" {
			to, g = a.q.Owner, v.give(a.q.Owner, a.proc, ttl, v.block, v.counter+1)
		}
		if g.Hears = a.hears; to == a.q.Owner {
			return granted(g)
		}
	}
	if v.owner == a.q.Owner {
		v.expires = max(v.expires, v.s.now.Add(ttl))
		v.remove(a.q.Owner)
		return granted(core.Grant{Fence: v.fence, Last: max(v.counter, v.fence), Others: len(v.line) > 0, Hears: a.hears})
	}
	return v.join(a)
}

// join makes a place or keeps one, and describes who has the lock.
func (v *simServer) join(a simAsk) core.Reply {
	r := core.Reply{Answer: core.Held, Left: v.expires.Sub(v.s.now).Truncate(ms), Server: v.micros(), Deaf: !a.hears}
	if !a.waits {
		return r
	}
	before, ok := v.place(a)
	if !ok {
		return core.Reply{Answer: core.Rejected, NoEffect: true}
	}
	r.Before = before
	return r
}

func (v *simServer) place(a simAsk) (before int, ok bool) {
	v.check(a.q.Owner)
	i := slices.IndexFunc(v.line, func(p *simPlace) bool { return p.owner == a.q.Owner })
	if i < 0 {
		if v.limit > 0 && len(v.line) >= v.limit && !a.again {
			return 0, false
		}
		since := a.since
		if since == 0 || since > v.micros() {
			since = v.micros()
		}
		v.line = append(v.line, &simPlace{owner: a.q.Owner, proc: a.proc, since: since})
		if len(v.line) == 1 && v.owner != "" && v.proc != nil {
			v.s.tell(v.proc, "w", v.owner, core.Grant{}, v.micros())
		}
	}
	slices.SortFunc(v.line, func(a, b *simPlace) int {
		return cmp.Or(cmp.Compare(a.since, b.since), cmp.Compare(a.owner, b.owner))
	})
	i = slices.IndexFunc(v.line, func(p *simPlace) bool { return p.owner == a.q.Owner })
	p := v.line[i]
	p.deadline = v.s.now.Add(a.q.Kind.Terms.PlaceLease() * time.Duration(min(1+i/64, 10)))
	p.grant, p.hears = a.q.Kind.Terms.HandOff().TTL, a.hears
	return i, true
}

func (v *simServer) remove(owner string) {
	v.line = slices.DeleteFunc(v.line, func(p *simPlace) bool { return p.owner == owner })
}

// handOff gives the lock to the first of the line who lives; me learns it from the reply.
func (v *simServer) handOff(last uint64, me string, proc *simProc, ttl time.Duration) (string, core.Grant) {
	for len(v.line) > 0 {
		p := v.line[0]
		v.line = v.line[1:]
		if p.owner == me {
			g := v.give(me, proc, ttl, v.block, last+1)
			g.Others = len(v.line) > 0
			return me, g
		}
		if p.deadline < v.s.now {
			continue
		}
		g := v.give(p.owner, p.proc, p.grant, v.block, last+1)
		g.Others, g.Hears = len(v.line) > 0, true
		if !p.hears || v.s.tell(p.proc, "g", p.owner, g, v.micros()) {
			v.s.handOffs++
			return p.owner, g
		}
		last = v.counter
	}
	v.owner, v.proc = "", nil
	return "", core.Grant{}
}

// release gives up what an owner has, and waits again in the same step if again is set.
func (v *simServer) release(owner string, used uint64, again *simAsk) (deleted bool, r core.Reply) {
	v.expire()
	v.s.note("server: release of %s, has: %t, again: %t", owner, v.owner == owner, again != nil)
	if v.owner != owner {
		v.remove(owner)
		return false, core.Reply{Answer: core.Late, Server: v.micros()}
	}
	if used == 0 {
		used = v.fence
	}
	v.counter = used
	if again != nil && again.notAfter != 0 && v.micros() > again.notAfter {
		again = nil
	}
	me, proc, ttl := "", (*simProc)(nil), time.Duration(0)
	if again != nil {
		me, proc, ttl = again.q.Owner, again.proc, again.q.Kind.Terms.TTL
		v.place(*again)
	}
	to, g := v.handOff(used, me, proc, ttl)
	switch {
	case to == "" || again == nil:
		return true, core.Reply{Answer: core.Late}
	case to == me:
		g.Hears = again.hears
		return true, granted(g)
	}
	return true, v.join(*again)
}

func (v *simServer) renew(owner string, ttl time.Duration) core.Outcome {
	v.expire()
	if v.owner != owner {
		return core.NotOurs
	}
	v.expires = max(v.expires, v.s.now.Add(ttl))
	return core.Renewed
}
