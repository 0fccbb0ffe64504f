package oracle

import (
	"cmp"
	"slices"
)

// A stay is what is certain of an owner that has come to the lock once: it had the lock
// from when it was told so (from) until it last did what only the holder can do (to). It
// may have done that before it was told: then from is after to.
type stay struct {
	grant    *request
	from, to Time
}

// surely returns an instant before the end of the stay: who had the lock sooner has had it
// before this one.
func (s *stay) surely() Time { return min(s.from, s.to) }

// narrow takes from the interval of a grant what was before the end of another's stay that
// came first. It saves most of the search: who has waited long might have got the lock at
// any time of the wait. It changes no verdict, except where it guesses: that an owner which
// may have come to the lock in more than one way came by the grant that it knows of, and
// that nobody loses a lock just as it is told. A guess may make a right history a wrong one.
func narrow(requests []request, owners int, guess bool) {
	stays := staysOf(requests, owners, guess)
	slices.SortFunc(stays, func(a, b stay) int { return cmp.Compare(a.surely(), b.surely()) })
	over := nothing // the last end of those that came before
	before := 0
	for i := range stays {
		for ; stays[before].surely() < stays[i].surely(); before++ {
			if s := &stays[before]; s.from <= s.to {
				over = max(over, s.to)
			}
		}
		if r := stays[i].grant; over <= r.to { // else it can't be at all
			r.from = max(r.from, over)
		}
	}
}

// staysOf returns the stays of the owners, by number, that can have got the lock once only,
// and are known to have got it and to have done something then.
func staysOf(requests []request, owners int, guess bool) []stay {
	stays := make([]stay, owners)
	several := make([]bool, owners)
	for i := range stays {
		stays[i].to = nothing
	}
	for i := range requests {
		r := &requests[i]
		s := &stays[r.owner]
		switch {
		case r.op.Kind != Acquire && r.op.Outcome == Yes:
			s.to = max(s.to, r.op.Call)
		case r.op.Kind != Acquire || r.op.Outcome == No || guess && r.op.Outcome == Unknown:
		case s.grant != nil:
			several[r.owner] = true
		default:
			s.grant, s.from = r, r.to
		}
	}
	known := stays[:0]
	for i, s := range stays {
		if s.grant == nil || several[i] || s.grant.op.Outcome != Yes {
			continue
		}
		if s.to == nothing && guess {
			s.to = s.from
		}
		if s.to != nothing {
			known = append(known, s)
		}
	}
	return known
}
