package oracle

import (
	"math/rand/v2"
	"slices"
)

// Each mistake is one change of a history that was right. Where less than all are seen,
// the others could really have been so: there are answers missing, or slow.
var mistakes = []mistake{
	{"another owner renews", "O4", func(rng *rand.Rand, r *record) bool {
		op, ok := one(rng, r.ops, is(Renew, Yes))
		return ok && set(&op.Owner, "z.1")
	}, 100},
	{"another owner gives back", "O4", func(rng *rand.Rand, r *record) bool {
		op, ok := one(rng, r.ops, is(Release, Yes))
		return ok && set(&op.Owner, "z.1")
	}, 100},
	{"another owner takes what one gives back", "O4", func(rng *rand.Rand, r *record) bool {
		op, ok := one(rng, r.ops, is(Acquire, Yes), r.isKnown)
		later := func(o Op) bool { return o.Owner == op.Owner && o.Outcome == Yes && o.Kind != Acquire }
		return ok && slices.ContainsFunc(r.ops, later) && set(&op.Owner, "z.1")
	}, 100},
	{"given back twice", "O4", func(rng *rand.Rand, r *record) bool {
		op, ok := one(rng, r.ops, is(Release, Yes), r.isKnown)
		r.ops = append(r.ops, *op)
		return ok
	}, 100},
	{"a grant while another has it", "O4", func(rng *rand.Rand, r *record) bool {
		held, ok := one(rng, r.ops, is(Renew, Yes), r.isKnown)
		given, also := one(rng, r.ops, is(Release, Yes), func(o Op) bool {
			return o.Owner == held.Owner && o.Call > held.Return+Time(slack) && o.Call < held.Call.add(ttl-slack)
		})
		op, too := one(rng, r.ops, is(Acquire, Yes), func(o Op) bool { return o.Owner != held.Owner })
		return ok && also && too && set(&op.Call, held.Return+1) && set(&op.Return, given.Call-1)
	}, 100},
	{"a refusal that was none", "O4", func(rng *rand.Rand, r *record) bool {
		op, ok := one(rng, r.ops, is(Acquire, No))
		return ok && set(&op.Outcome, Yes)
	}, 40},
	{"a renewal that was refused while it lived", "O4", func(rng *rand.Rand, r *record) bool {
		op, ok := one(rng, r.ops, is(Renew, Yes), r.isKnown, func(o Op) bool {
			return slices.ContainsFunc(r.ops, func(p Op) bool { return p.Owner == o.Owner && p.Kind == Release && p.Call > o.Return })
		})
		return ok && set(&op.Outcome, No)
	}, 90},
	{"a renewal after the end", "O4", func(rng *rand.Rand, r *record) bool {
		op, ok := one(rng, r.ops, is(Acquire, Yes), r.isKnown, func(o Op) bool {
			return !slices.ContainsFunc(r.ops, func(p Op) bool { return p.Owner == o.Owner && p.Kind == Renew })
		})
		late := *op
		late.Kind, late.Call = Renew, op.Return.add(ttl+slack)+1
		late.Return = late.Call + ms(1)
		r.ops = append(r.ops, late)
		return ok
	}, 100},
	{"a release that never was", "O4", func(rng *rand.Rand, r *record) bool {
		i := slices.IndexFunc(r.ops, is(Release, Yes))
		if i < 0 {
			return false
		}
		r.ops = slices.Delete(r.ops, i, i+1)
		return true
	}, 50},
	{"a grant that never was", "O4", func(rng *rand.Rand, r *record) bool {
		op, ok := one(rng, r.ops, is(Acquire, Yes), r.isKnown)
		return ok && set(&op.Kind, Renew)
	}, 100},

	{"belief too early", "O1", func(rng *rand.Rand, r *record) bool {
		h, ok := one(rng, r.holds, func(h Hold) bool { return h.To > h.From })
		earlier, also := one(rng, r.holds, func(o Hold) bool { return o.To < h.From && o.To > o.From })
		return ok && also && set(&h.From, earlier.To-1)
	}, 100},
	{"belief for ever", "O1", func(rng *rand.Rand, r *record) bool {
		h, ok := one(rng, r.holds, func(h Hold) bool { return h.To > h.From })
		later := slices.ContainsFunc(r.holds, func(o Hold) bool { return o.From > h.To })
		return ok && later && set(&h.To, Never)
	}, 100},
	{"an update is left out", "O2", func(rng *rand.Rand, r *record) bool {
		if len(r.writes) == 0 {
			return false
		}
		i := rng.IntN(len(r.writes))
		r.writes = slices.Delete(r.writes, i, i+1)
		return true
	}, 100},
	{"a write from an old value", "O2", func(rng *rand.Rand, r *record) bool {
		w, ok := one(rng, r.writes, func(w Write) bool { return w.Base > 0 })
		return ok && set(&w.Base, w.Base-1)
	}, 100},
	{"two writes in another order", "O2", func(rng *rand.Rand, r *record) bool {
		if len(r.writes) < 2 {
			return false
		}
		i := rng.IntN(len(r.writes) - 1)
		r.writes[i], r.writes[i+1] = r.writes[i+1], r.writes[i]
		return true
	}, 100},
	{"a fence twice", "O3", func(rng *rand.Rand, r *record) bool {
		h, ok := one(rng, r.holds, func(Hold) bool { return true })
		other, also := one(rng, r.holds, func(o Hold) bool { return o.Fence != h.Fence })
		return ok && also && set(&h.Fence, other.Fence)
	}, 100},
	{"two fences the other way round", "O3", func(rng *rand.Rand, r *record) bool {
		h, ok := one(rng, r.holds, func(Hold) bool { return true })
		other, also := one(rng, r.holds, func(o Hold) bool { return o.Fence != h.Fence })
		if !ok || !also {
			return false
		}
		h.Fence, other.Fence = other.Fence, h.Fence
		return true
	}, 100},
	{"a waiter that is stranded", "O5", func(rng *rand.Rand, r *record) bool {
		w, ok := one(rng, r.waits, func(w Wait) bool { return w.From.add(patient+bound) < r.end })
		return ok && set(&w.To, Never)
	}, 100},
	{"a place that is passed over", "O6", func(rng *rand.Rand, r *record) bool {
		p, ok := one(rng, r.places, func(p Place) bool { return p.Granted != Never })
		later := func(o Place) bool { return o.Since > p.Since && o.Granted != Never }
		return ok && slices.ContainsFunc(r.places, later) && set(&p.Granted, Never) && set(&p.Gone, Never)
	}, 100},
	{"a loss before its time", "O7", func(rng *rand.Rand, r *record) bool {
		h, ok := one(rng, r.holds, func(h Hold) bool { return h.To < h.carried() })
		return ok && set(&h.Early, h.To)
	}, 100},
	{"a step after the release", "O8", func(rng *rand.Rand, r *record) bool {
		s, ok := one(rng, r.steps, func(Step) bool { return true })
		h, also := one(rng, r.holds, func(h Hold) bool { return ok && h.Fence == s.Fence })
		return ok && also && set(&s.At, h.To+1)
	}, 100},
	{"belief without its last proof", "O8", func(rng *rand.Rand, r *record) bool {
		less := func(h Hold) Hold { h.Proofs = h.Proofs[:len(h.Proofs)-1]; return h }
		h, ok := one(rng, r.holds, func(h Hold) bool { h = less(h); return h.To > h.carried() })
		return ok && set(h, less(*h))
	}, 100},
	{"a margin that is ignored", "O8", func(rng *rand.Rand, r *record) bool {
		h, ok := one(rng, r.holds, func(h Hold) bool { return h.To == h.carried() })
		return ok && set(&h.To, h.To.add(margin))
	}, 100},
}

// one picks one of those that are as wanted; a zero value if there is none.
func one[T any](rng *rand.Rand, list []T, wanted ...func(T) bool) (*T, bool) {
	for _, i := range rng.Perm(len(list)) {
		if !slices.ContainsFunc(wanted, func(is func(T) bool) bool { return !is(list[i]) }) {
			return &list[i], true
		}
	}
	return new(T), false
}

// isKnown says that nothing is unknown of the operation's owner.
func (r *record) isKnown(op Op) bool {
	return !slices.ContainsFunc(r.ops, func(o Op) bool { return o.Owner == op.Owner && o.Outcome == Unknown })
}

func set[T any](field *T, value T) bool {
	*field = value
	return true
}

func is(kind OpKind, outcome Outcome) func(Op) bool {
	return func(o Op) bool { return o.Kind == kind && o.Outcome == outcome }
}
