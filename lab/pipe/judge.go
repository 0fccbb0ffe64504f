package pipe

import (
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/lab/oracle"
)

// Judge asks all oracles. It must not be called in a bubble, whose time stands still for
// who computes: then no search would ever be given up.
func (p Played) Judge() Result {
	w := p.w
	r := Result{
		Seed: w.seed, Operations: int(w.calls) + w.given, Requests: w.ops, Holds: len(w.history.holds),
		Writes: len(w.table.writes), Faults: w.happens, world: w,
	}
	for _, k := range outOfModel {
		r.Lossy = r.Lossy || w.happens[k] > 0
	}
	holds := w.holds()
	overlaps := oracle.Overlaps(holds)
	r.Broken = len(overlaps) > 0
	all := oracle.Updates(w.table.writes, w.table.final())
	all = append(all, oracle.Liveness(w.history.waits, p.healed, healWithin, p.end)...)
	all = append(all, oracle.Discipline(holds, w.history.steps)...)
	all = append(all, w.history.odd...)
	if !r.Lossy {
		all = append(all, overlaps...)
		all = append(all, oracle.Fences(holds)...)
		all = append(all, oracle.Losses(holds)...)
		all = append(all, oracle.Answers(w.history.answers)...)
		all = append(all, oracle.Order(w.places(), 0)...)
		verdict := oracle.Leases(w.operations(), w.slack())
		all = append(all, verdict.Violations...)
		r.Checked = verdict.Ops
	}
	r.Violations = all
	return r
}

// holds gives each hold its proofs.
func (w *world) holds() (holds []oracle.Hold) {
	for _, h := range w.history.holds {
		for _, p := range h.owner.proofs {
			// What came and was over before the process took the lock up proves nothing.
			if p.Learned > h.owner.believed || p.Until > h.owner.believed {
				h.Proofs = append(h.Proofs, p)
			}
		}
		holds = append(holds, h.Hold)
	}
	return holds
}

// places returns the places in the line, as the server had them.
func (w *world) places() (places []oracle.Place) {
	const before = oracle.Time(9 * time.Second) // what was wrong may be felt for so long
	for _, o := range w.order {
		if o.place == nil {
			continue
		}
		p := *o.place
		p.Deaf = p.Deaf || w.harmed(p.Who, p.Joined-before, p.Gone)
		places = append(places, p)
	}
	return places
}

// slack is by how much a key may live longer or shorter than its TTL: Redis counts
// milliseconds, and its clock may be faster than ours.
func (w *world) slack() time.Duration {
	if w.drift == 0 {
		return 2 * time.Millisecond
	}
	longest := 2 * slices.Max(w.ttls) // of Extend
	return longest*time.Duration(w.drift)/1000 + 5*time.Millisecond
}

// operations returns what was asked of the server: what was written down at once, and
// the acquisitions.
func (w *world) operations() (ops []oracle.Op) {
	for _, op := range w.history.ops {
		if op.Return != oracle.Never || w.settle(&op) {
			ops = append(ops, op.Op)
		}
	}
	for _, o := range w.order {
		ops = append(ops, o.acquisitions()...)
	}
	return ops
}

// settle finds out until when something that nobody has answered may have run, or
// returns false if it never has. Its process can't know that; but with everything open
// for ever, nothing could be checked in the end.
func (w *world) settle(op *operation) bool {
	times := w.ran[running{op.script, op.Owner}]
	if len(times) == 0 || times[len(times)-1] < op.Call {
		return false
	}
	op.Return = times[len(times)-1]
	return true
}

// acquisitions returns how the owner came to the lock: once as its process knows, and,
// as nobody there knows, in hand-offs and grants that it has missed.
func (o *owner) acquisitions() (ops []oracle.Op) {
	ttl := o.ttl
	if o.waits {
		ttl = min(ttl, o.grant)
	}
	op := oracle.Op{Lock: o.lock, Who: o.p.name, Owner: o.token, Kind: oracle.Acquire, TTL: ttl}
	known := -1
	for i, at := range o.since {
		if o.learned >= at {
			known = i
		}
	}
	for i, at := range o.since {
		op.Outcome, op.Call, op.Return = oracle.Unknown, o.first, at
		if i == known {
			op.Outcome, op.Call, op.Return = oracle.Yes, o.base, o.learned
		}
		ops = append(ops, op)
	}
	return ops
}
