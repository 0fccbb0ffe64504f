package sim

import (
	"slices"
	"time"
)

// plan makes the faults happen that come by themselves.
func (w *world) plan() {
	for _, f := range timed {
		w.await(f)
	}
}

// await waits for the next fault of a kind. A failover needs to know what was lost a
// little before that.
func (w *world) await(f Fault) {
	due := w.chaos.due[f]
	if due >= Time(w.Lasts) {
		return
	}
	var old []key
	if f == WritesLost {
		w.at(due-Time(w.lag()), nil, func() { old = w.server.snapshot() })
	}
	w.at(due, nil, func() {
		if d, yes := w.chaos.strike(f); yes {
			w.strike(f, d, old)
		}
		w.await(f)
	})
}

// lag is how far a replica is behind.
func (w *world) lag() time.Duration { return min(w.Terms.TTL/2, 150*ms) }

// rest is a while that ends with the work.
func (w *world) rest(d time.Duration) Time { return min(w.now+Time(d), Time(w.Lasts)) }

// strike does what a fault does.
func (w *world) strike(f Fault, d dice, old []key) {
	p, v, ttl := w.procs[d.n(len(w.procs))], &w.server, w.Terms.TTL
	if w.trace {
		who := "server"
		if f >= ProcessPaused && f <= SubscriptionDead {
			who = p.name
		}
		w.note(who, "FAULT: %s", f)
	}
	switch f {
	case ProcessPaused:
		most := ttl / 2
		if d.one(3) {
			most = 3 * ttl
		}
		w.history.deafen(p)
		p.stopped = max(p.stopped, w.rest(d.upTo(most)))
	case ProcessCrashed:
		p.crash(d)
	case SubscriptionCut:
		p.cut(true, d.upTo(200*ms))
	case SubscriptionDead:
		p.cut(false, d.upTo(ttl))
	case ServerStopped:
		v.free = max(v.free, w.rest(d.upTo(ttl+ttl/2)))
	case ServerSlow:
		v.free = max(v.free, w.rest(d.spread(ms, 50*ms)))
	case ServerRestarted:
		v.restart(w.rest(d.upTo(ttl)))
	case ClockBack:
		step := d.spread(ms, 2*ttl)
		v.stepped -= step
		v.back += step
	case MemoryLost:
		v.forget()
		v.restart(w.rest(d.upTo(ttl / 4)))
	case WritesLost:
		if old != nil {
			v.keys = old
		}
		v.stepped += d.upTo(40*ms) - 20*ms
		v.restart(w.rest(d.upTo(ttl / 4)))
	case Evicted:
		v.evict(d.n(len(v.keys)), d.n(3))
	case Flushed:
		v.forget()
	case KeyDeleted:
		v.evict(d.n(len(v.keys)), 0)
	case ClockForward:
		v.stepped += d.spread(ttl/4, 3*ttl)
	}
}

// heal ends all faults, and what is left of them.
func (w *world) heal() {
	w.chaos.end()
	if w.trace {
		w.note("world", "no faults and no new calls from here on")
	}
	for _, p := range w.procs {
		if p.dead {
			p.subscribed = false
		}
	}
}

// crash ends a process. Another takes its place after a while.
func (p *process) crash(d dice) {
	if p.dead {
		return
	}
	w := p.w
	p.dead = true
	p.closeHolds()
	w.history.died(p)
	if d.one(2) {
		p.subscribed = false
	} else {
		w.at(w.rest(d.upTo(2*time.Second)), nil, func() { p.subscribed = false })
	}
	next := newProcess(w, p.slot, p.lives+1)
	w.at(w.rest(d.upTo(500*ms)), nil, func() {
		w.procs[p.slot] = next
		next.start()
	})
}

// restart breaks all connections, and lets nobody connect before a time.
func (v *server) restart(until Time) {
	v.epoch++
	v.down = max(v.down, until)
	for _, p := range v.w.procs {
		p.subscribed = false
		p.cut(true, p.trip())
	}
}

// snapshot copies what the server has.
func (v *server) snapshot() []key {
	keys := slices.Clone(v.keys)
	for i := range keys {
		keys[i].line = slices.Clone(keys[i].line)
	}
	return keys
}

// forget loses all keys.
func (v *server) forget() {
	for i := range v.keys {
		v.evict(i, 0)
		v.evict(i, 1)
		v.evict(i, 2)
	}
}

// evict loses a lock, its line or its counter.
func (v *server) evict(i, what int) {
	k := &v.keys[i]
	switch what {
	case 0:
		k.holder = nil
	case 1:
		k.line = nil
	default:
		k.counter = 0
	}
}
