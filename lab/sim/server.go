package sim

import (
	"cmp"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/core"
)

// A server does what the Lua scripts do, with its own clock.
type server struct {
	w       *world
	keys    []key
	stepped time.Duration // how far its wall clock was set forward, in all
	back    time.Duration // how far it was set back at the most
	free    Time          // it runs nothing before
	down    Time          // nobody can connect before
	epoch   int           // how often it has lost its connections
}

// A key is a lock, with its counter and its line.
type key struct {
	holder  *way // nil: it is free
	fence   uint64
	expires int64 // by the server's clock, in ms
	counter uint64
	line    []place // in their order
	seen    Time    // when somebody had it last
}

// A place is one process's place in a line.
type place struct {
	way      *way
	since    int64
	deadline int64
	grant    time.Duration
	hears    bool
}

// An ask is a request of acquire, or the part of release that waits again.
type ask struct {
	core.Question
	way      *way
	sent     Time
	notAfter int64
	hears    bool
	waits    bool
	again    bool // the line is never full for it
}

// epochMicros is what the server's clock shows when a world begins.
const epochMicros = 1_700_000_000_000_000

// micros is the server's clock.
func (v *server) micros() int64 {
	return epochMicros + (time.Duration(v.w.now) + v.stepped).Microseconds()
}

// look returns a key as it is now.
func (v *server) look(i int) *key {
	k := &v.keys[i]
	if k.holder != nil && v.micros()/1000 > k.expires {
		k.holder = nil
	}
	if k.holder != nil {
		k.seen = v.w.now
	}
	return k
}

// live is until when what is set now lives.
func (v *server) live(ttl time.Duration) int64 { return v.micros()/1000 + ttl.Milliseconds() }

// acquire is lua/acquire.lua.
func (v *server) acquire(a ask) core.Reply {
	us := v.micros()
	if a.notAfter != 0 && us > a.notAfter {
		return core.Reply{Answer: core.Late, Server: us}
	}
	k, ttl := v.look(a.way.key), a.Kind.Terms.TTL
	free := k.holder == nil
	if free && len(k.line) == 0 {
		fence := max(uint64(us), k.counter+1)
		k.counter = fence
		v.set(k, a.way, fence, ttl)
		return granted(core.Grant{Fence: fence, Hears: a.hears}, us)
	}
	if free {
		to, g := v.handOff(k, k.counter, a.way, ttl)
		if to == nil {
			g = v.give(k, a.way, ttl, k.counter+1)
			v.leave(k, a.way)
			g.Others = len(k.line) > 0
			to = a.way
		}
		if to == a.way {
			g.Hears = a.hears
			return granted(g, us)
		}
	}
	if k.holder == a.way {
		k.expires = max(k.expires, v.live(ttl))
		v.leave(k, a.way)
		v.w.history.again(a)
		last := max(k.counter, k.fence)
		return granted(core.Grant{Fence: k.fence, Last: last, Others: len(k.line) > 0, Hears: a.hears}, us)
	}
	r := v.held(k, a)
	if !a.waits {
		return r
	}
	before, ok := v.join(k, a)
	if !ok {
		return core.Reply{Answer: core.Rejected, NoEffect: true}
	}
	r.Before = before
	return r
}

func granted(g core.Grant, us int64) core.Reply {
	return core.Reply{Answer: core.Granted, Grant: g, Server: us}
}

// held describes who has the lock.
func (v *server) held(k *key, a ask) core.Reply {
	us := v.micros()
	left := time.Duration(k.expires-us/1000) * ms
	return core.Reply{Answer: core.Held, Left: left, Server: us, Fence: k.fence, Deaf: !a.hears}
}

// join is lua/join.lua: it puts a way in the line, or lets it keep its place there. It
// returns how many are before it, and false if the line takes no more.
func (v *server) join(k *key, a ask) (before int, ok bool) {
	us := v.micros()
	i := k.place(a.way)
	if i < 0 {
		if limit := v.w.Limit; limit > 0 && len(k.line) >= limit && !a.again {
			return 0, false
		}
		since := a.Since
		if since == 0 || since > us {
			since = us
		}
		k.line = append(k.line, place{way: a.way, since: since})
		slices.SortFunc(k.line, func(a, b place) int {
			return cmp.Or(cmp.Compare(a.since, b.since), cmp.Compare(a.way.owner, b.way.owner))
		})
		i = k.place(a.way)
		if v.w.Limit > 0 && len(k.line) == 1 && !a.again && k.holder != nil {
			v.w.publish(message{kind: wanted, way: k.holder})
		}
	}
	slow := min(1+i/64, 10)
	v.w.history.joined(a, k.line[i].since, i)
	p := &k.line[i]
	p.deadline = us + (a.Kind.Terms.PlaceLease() * time.Duration(slow)).Microseconds()
	p.grant = a.Kind.Terms.HandOff().TTL
	p.hears = a.hears
	return i, true
}

func (k *key) place(y *way) int {
	return slices.IndexFunc(k.line, func(p place) bool { return p.way == y })
}

// leave takes a place away.
func (v *server) leave(k *key, y *way) {
	if i := k.place(y); i >= 0 {
		k.line = slices.Delete(k.line, i, i+1)
		v.w.history.left(y)
	}
}

// set makes a way the holder.
func (v *server) set(k *key, y *way, fence uint64, ttl time.Duration) {
	k.holder, k.fence, k.seen = y, fence, v.w.now
	k.expires = v.live(ttl)
	v.w.history.gave(y, ttl)
	if v.w.trace {
		v.w.note("server", "%s has %s for %s, with fence %s", y.owner, v.w.name(y.key), ttl, v.w.fence(fence))
	}
}

// give makes a way the holder, with a block of fences.
func (v *server) give(k *key, y *way, ttl time.Duration, fence uint64) core.Grant {
	fence = max(uint64(v.micros()), fence)
	k.counter = fence + v.w.Block - 1
	v.set(k, y, fence, ttl)
	return core.Grant{Fence: fence, Last: k.counter}
}

// handOff is lua/handoff.lua: it gives the lock to the first of the line who lives, and
// tells them. me, who asks, learns it from the reply. It returns nil if there is nobody.
func (v *server) handOff(k *key, last uint64, me *way, ttl time.Duration) (*way, core.Grant) {
	us := v.micros()
	for len(k.line) > 0 {
		p := k.line[0]
		if p.way == me {
			g := v.give(k, me, ttl, last+1)
			v.leave(k, me)
			g.Others = len(k.line) > 0
			return me, g
		}
		if p.deadline < us {
			v.leave(k, p.way)
			continue
		}
		if p.hears && !v.hears(p.way) {
			v.leave(k, p.way)
			continue
		}
		v.w.history.handedOff(p.way)
		g := v.give(k, p.way, p.grant, last+1)
		v.leave(k, p.way)
		g.Others, g.Hears, g.Server = len(k.line) > 0, true, us
		if p.hears {
			v.w.publish(message{kind: grant, way: p.way, grant: g, ran: v.w.now, ttl: p.grant})
		}
		return p.way, g
	}
	return nil, core.Grant{}
}

// hears reports whether a way's process has a subscription, as far as the server knows.
func (v *server) hears(y *way) bool { return y.p.subscribed }

// A released is the answer of a release.
type released struct {
	deleted bool
	server  int64
	reply   core.Reply // to the question that came with it
}

// release is lua/release.lua: it gives up what a way has, and waits again in the same
// step if again is not nil.
func (v *server) release(y *way, used uint64, again *ask) released {
	k, us := v.look(y.key), v.micros()
	if k.holder != y {
		v.leave(k, y)
		return released{server: us, reply: core.Reply{Answer: core.Late}}
	}
	if used < k.fence { // that was in a life before this one
		used = 0
	}
	if again != nil && again.notAfter != 0 && us > again.notAfter {
		again = nil
	}
	me, ttl, before := (*way)(nil), time.Duration(0), 0
	if again != nil {
		me, ttl = again.way, again.Kind.Terms.TTL
		before, _ = v.join(k, *again)
	}
	to, g := v.handOff(k, max(used, k.fence), me, ttl)
	if to == nil {
		if used != 0 {
			k.counter = used
		}
		k.holder = nil
		return released{deleted: true, reply: core.Reply{Answer: core.Late}}
	}
	if again == nil {
		return released{deleted: true, reply: core.Reply{Answer: core.Late}}
	}
	if to == me {
		g.Hears = again.hears
		return released{deleted: true, reply: granted(g, us)}
	}
	r := v.held(k, *again)
	r.Before = before
	return released{deleted: true, reply: r}
}

// An entry is one lease of a renewal.
type entry struct {
	way *way
	ttl time.Duration
}

// renew is lua/renew.lua.
func (v *server) renew(entries []entry) []core.Outcome {
	out := make([]core.Outcome, len(entries))
	for i, e := range entries {
		k := v.look(e.way.key)
		if k.holder != e.way {
			out[i] = core.NotOurs
			continue
		}
		k.expires = max(k.expires, v.live(e.ttl))
		out[i] = core.Renewed
	}
	return out
}

// raise is lua/raise.lua. It returns 0 if the lock is not the way's.
func (v *server) raise(y *way, seen uint64) uint64 {
	k := v.look(y.key)
	if k.holder != y {
		return 0
	}
	fence := max(k.counter+1, seen+1, uint64(v.micros()))
	k.counter = fence
	k.fence = fence
	return fence
}
