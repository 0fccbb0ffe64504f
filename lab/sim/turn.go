package sim

import (
	"strconv"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/core"
	"github.com/lockkeeper/lockkeeper/lab/oracle"
)

// A hold is a lock in the hands of a process, for one turn or for several: what is in
// holder.go and lease.go of the root package.
type hold struct {
	p     *process
	core  *core.Hold
	line  *line // nil if it is none's
	way   *way
	terms core.Terms // of the call that it began with
	turn  *turn      // nil when it is given back

	// For the oracles and checks.
	proofs  []oracle.Proof
	shared  bool // somebody waits, or may
	limited bool // the present turn has a limit
	began   Time
	passes  int
}

// A turn is a lease of one call.
type turn struct {
	hold  *hold
	call  *call
	fence uint64 // for the database; it can be raised
	first uint64 // what the fence was at first
	from  Time
	until Time          // when the work is done
	pause time.Duration // between two steps
	over  bool          // released or lost
	claim claim
}

func (h *hold) start(shared bool, proof oracle.Proof) {
	p := h.p
	h.core.Lease.Holder = h
	h.shared, h.began = shared, p.w.now
	h.proofs = append(h.proofs, proof)
	p.holds = append(p.holds, h)
	p.w.history.got(h.way, oracle.Yes, p.w.now)
}

// give begins a turn.
func (h *hold) give(x *call) {
	p, w := h.p, h.p.w
	now := p.now()
	h.check(x)
	t := &turn{hold: h, call: x, fence: h.core.Fence(), first: h.core.Fence(), from: w.now}
	h.turn = t
	x.served()
	w.history.taken(h.way.key)
	w.history.turns++
	longest := time.Duration(0)
	if !w.calm && p.r.IntN(40) == 0 {
		longest = p.upTo(w.Terms.TTL)
	}
	h.limited = longest > 0
	if h.passes == 0 {
		h.core.Lease.Limit(now, longest)
		p.keeper.Hold(&h.core.Lease)
	} else {
		p.keeper.Limit(&h.core.Lease, now, longest)
	}
	if w.trace {
		w.note(p.name, "begins a turn of %s on %s: fence %s, believed until %s", h.way.owner, w.name(h.way.key), w.fence(t.fence), at(p.world(h.core.Lease.Until())))
	}
	w.after(p.upTo(50*time.Microsecond), p, t.begin)
}

// check checks that a turn is due to a call.
func (h *hold) check(x *call) {
	p, w, lock := h.p, h.p.w, h.p.w.name(h.way.key)
	if h.line != nil {
		for _, o := range p.holds {
			if o != h && o.line == h.line && o.turn != nil && !o.turn.over {
				w.wrong(lock, "%s: two turns at once", p.name)
			}
		}
	}
	if x.done {
		w.wrong(lock, "%s: a call is served that has ended", p.name)
	}
	if x.line != nil && x.line.waiting[0] != x {
		w.wrong(lock, "%s: a call is served before others that came first", p.name)
	}
}

// begin is what a call does when it has got the lock.
func (t *turn) begin() {
	p := t.hold.p
	w := p.w
	if t.call.gone {
		t.end() // it was cancelled in the same moment: the lock is handed on
		return
	}
	length := p.upTo(w.Work)
	if p.r.IntN(w.Long) == 0 {
		length = p.upTo(4 * w.Terms.TTL)
	}
	t.until = w.now + Time(length)
	t.pause = length/4 + time.Microsecond
	if p.r.IntN(100) < w.Fenced {
		t.fenced()
		return
	}
	t.work()
}

// work is work that the database knows nothing of.
func (t *turn) work() {
	p := t.hold.p
	if !t.step() || p.w.now >= t.until {
		t.end()
		return
	}
	p.w.after(t.pause, p, t.work)
}

// step begins something that only who has the lock may do, if the lease is valid.
func (t *turn) step() bool {
	if !t.valid() {
		return false
	}
	h := t.hold
	h.p.w.history.steps = append(h.p.w.history.steps, oracle.Step{
		Lock: h.p.w.name(h.way.key), Who: h.p.name, Owner: h.way.owner, Fence: t.first, At: h.p.w.now,
	})
	return true
}

// valid asks whether the lease may be relied on, as Lease.Err does.
func (t *turn) valid() bool {
	h := t.hold
	if !t.over && h.p.keeper.Expire(&h.core.Lease, h.p.now()) {
		h.lose(h.core.Lease.End())
	}
	return !t.over
}

// extend gives the lease another TTL, as Lease.Extend does.
func (t *turn) extend() {
	if !t.valid() {
		return
	}
	h := t.hold
	d := time.Duration(1 + h.p.r.IntN(4))
	terms := core.Terms{TTL: h.p.w.Terms.TTL * d / 2, Margin: h.p.w.Terms.Margin * d / 2}
	h.core.Kind.Terms = terms
	h.p.keeper.Change(&h.core.Lease, terms)
	h.p.renew([]*core.Lease{&h.core.Lease})
}

// owner is the turn's own token, as Lease.Owner has it.
func (t *turn) owner() string {
	return t.hold.way.owner + "." + strconv.Itoa(t.hold.core.Turns())
}

// lose ends a hold before its time. The call works on until it finds out.
func (h *hold) lose(end core.End) {
	p := h.p
	p.keeper.Drop(&h.core.Lease)
	if p.w.trace {
		p.w.note(p.name, "%s has lost %s: %s", h.way.owner, p.w.name(h.way.key), [...]string{"", "belief has ended", "the server says so", "its longest turn is over", "withdrawn"}[end])
	}
	if t := h.turn; t != nil && !t.over {
		t.over = true
		p.w.history.ended(t, end == core.Taken)
	}
	if h.line != nil {
		h.line.carry(h.line.core.Lost(p.now(), h.core))
	}
}

// renewAll sends renewals, many in a request.
func (p *process) renewAll(leases []*core.Lease) {
	for len(leases) > 0 {
		n := 1
		for n < len(leases) && leases[n].Terms().TTL == leases[0].Terms().TTL {
			n++
		}
		p.renew(leases[:n])
		if t := leases[0].Holder.(*hold).turn; p.w.TTLs && t != nil && p.r.IntN(4) == 0 {
			p.w.after(p.trip(), p, t.extend) // while the renewal is on its way
		}
		leases = leases[n:]
	}
}

// renew renews a batch in one request.
func (p *process) renew(batch []*core.Lease) {
	w, sent, sentAt := p.w, p.now(), p.w.now
	bound := sent
	entries := make([]entry, len(batch))
	asks := make([]core.Terms, len(batch))
	seen := make([]*asked, len(batch))
	for i, l := range batch {
		h := l.Holder.(*hold)
		asks[i] = l.Terms()
		entries[i] = entry{way: h.way, ttl: asks[i].TTL}
		seen[i] = w.history.asks(oracle.Renew, h.way, entries[i].ttl)
		bound = max(bound, l.Bound(sent))
	}
	w.history.renewals += len(batch)
	send(p, bound, func() []core.Outcome {
		out := w.server.renew(entries)
		for i, s := range seen {
			s.runs(out[i] == core.Renewed)
		}
		return out
	}, func(out []core.Outcome, f fate) {
		now := p.now()
		for i, l := range batch {
			outcome := core.Unsure
			if f.answered() {
				outcome = out[i]
				seen[i].answered(outcome == core.Renewed)
			} else {
				seen[i].unanswered()
			}
			h := l.Holder.(*hold)
			if outcome == core.Renewed {
				h.proofs = append(h.proofs, p.proof(sentAt, asks[i]))
			}
			end := p.keeper.Renewal(l, asks[i], sent, now, outcome)
			if w.trace {
				w.note(p.name, "renewal of %s for %s: %s, believed until %s", w.name(h.way.key), asks[i].TTL,
					[...]string{"done", "not ours", "not known"}[outcome], at(p.world(l.Until())))
			}
			if end != core.NotEnded && end != core.Withdrawn {
				h.lose(end)
			}
		}
	})
}
