package oracle

import (
	"cmp"
	"slices"
)

// A possession is one thing that may be so on the server, and what must have been for it.
type possession struct {
	owner int32 // has the lock, for the life
	life  life
	used  []*request // without an answer, that have run; by id
	unmet []*request // refused, when there was no reason so far; by id
}

// A state is all that may be so on the server at a moment. It never changes.
type state struct {
	*moment
	may []possession // in order, without those that another one covers
	one [1]possession
}

// free returns the state in which the lock is free, as far as is known.
func (m *moment) free() *state {
	s := &state{moment: m}
	s.may = append(s.one[:0], possession{})
	s.unseen()
	return s
}

// step returns what may be so after an event, and whether the event can have been.
func (s *state) step(e *event) (*state, bool) {
	now := s.moment
	if e.kind != does {
		now = e.moment
		if now.before != s.moment {
			return nil, false // instants come in their order
		}
	}
	if !slices.ContainsFunc(s.may, e.can) {
		return nil, false
	}
	next := &state{moment: now}
	next.may = next.one[:0]
	for _, p := range s.may {
		if e.can(p) {
			next.add(p.step(e), nil)
		}
	}
	next.unseen()
	return next, true
}

// can says whether an event can have been.
func (e *event) can(p possession) bool {
	switch {
	case e.kind == does:
		return p.allows(e.request)
	case e.kind == stops && e.request.op.Outcome == No:
		return !slices.Contains(p.unmet, e.request)
	}
	return true
}

// step returns what is so after an event.
func (p possession) step(e *event) possession {
	r := e.request
	switch {
	case e.kind == does:
		return p.after(r)
	case e.kind == begins && r.op.Outcome == No && p.allows(r):
		p.unmet = with(p.unmet, r)
	case e.kind == stops && slices.Contains(p.used, r):
		p.used = without(p.used, r) // whether it has run makes no difference any more
	}
	return p
}

// unseen adds all that may have happened without an event of its own: leases that have
// ended, and requests without an answer that have run.
func (s *state) unseen() {
	if !slices.ContainsFunc(s.may, s.mayChange) {
		return
	}
	for todo := slices.Clone(s.may); len(todo) > 0; {
		p := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if s.mayEnd(p) {
			todo = s.add(p.free(), todo)
		}
		if p.owner == 0 && s.crowd != Never {
			todo = s.add(possession{crowd, life{s.crowd, Never}, p.used, p.unmet}, todo)
		}
		for _, r := range s.open {
			if s.mayRun(r, p) {
				after := p.after(r)
				if r.once {
					after.used = with(p.used, r)
				}
				todo = s.add(after, todo)
			}
		}
	}
}

func (s *state) mayChange(p possession) bool {
	return s.mayEnd(p) || p.owner == 0 && s.crowd != Never ||
		slices.ContainsFunc(s.open, func(r *request) bool { return s.mayRun(r, p) })
}

func (s *state) mayEnd(p possession) bool { return p.owner != 0 && p.life.opens <= s.now }

func (s *state) mayRun(r *request, p possession) bool {
	return p.allows(r) && !slices.Contains(p.used, r)
}

// add adds what may be so, unless something that is there covers it, and also to a list
// of what is new.
func (s *state) add(p possession, added []possession) []possession {
	if p.owner != 0 && p.life.closes <= s.passed {
		p = p.free()
	}
	p.meet()
	for i := range s.may {
		if s.may[i].covers(&p) {
			return added
		}
	}
	s.may = slices.DeleteFunc(s.may, func(q possession) bool { return p.covers(&q) })
	at, _ := slices.BinarySearchFunc(s.may, p, compare)
	s.may = slices.Insert(s.may, at, p)
	return append(added, p)
}

// allows says whether the server does what is asked.
func (p *possession) allows(r *request) bool {
	return p.owner == r.owner || p.owner == 0 && r.op.Kind == Acquire
}

// free returns what is so when nobody has the lock any more.
func (p *possession) free() possession { return possession{used: p.used, unmet: p.unmet} }

// after returns what is so once the server has done what was asked. It shortens no life.
func (p *possession) after(r *request) possession {
	if r.op.Kind == Release {
		return p.free()
	}
	after := possession{r.owner, r.life, p.used, p.unmet}
	if p.owner != 0 {
		after.life = life{max(r.life.opens, p.life.opens), max(r.life.closes, p.life.closes)}
	}
	return after
}

// meet strikes out the refusals for which there is a reason now.
func (p *possession) meet() {
	if slices.ContainsFunc(p.unmet, func(r *request) bool { return !p.allows(r) }) {
		p.unmet = slices.DeleteFunc(slices.Clone(p.unmet), func(r *request) bool { return !p.allows(r) })
	}
}

// covers says that whatever may follow another possession may follow this one too.
func (p *possession) covers(q *possession) bool {
	return p.owner == q.owner && p.life.opens <= q.life.opens && p.life.closes >= q.life.closes &&
		within(p.used, q.used) && within(p.unmet, q.unmet)
}

func within(some, all []*request) bool {
	for _, r := range some {
		if !slices.Contains(all, r) {
			return false
		}
	}
	return true
}

func compare(a, b possession) int {
	if c := cmp.Compare(a.owner, b.owner); c != 0 {
		return c
	}
	if c := cmp.Compare(a.life.opens, b.life.opens); c != 0 {
		return c
	}
	if c := cmp.Compare(a.life.closes, b.life.closes); c != 0 {
		return c
	}
	if c := slices.CompareFunc(a.used, b.used, byID); c != 0 {
		return c
	}
	return slices.CompareFunc(a.unmet, b.unmet, byID)
}

// equal says that two states after the same events, in whatever order, are the same: what
// is open and what time it is needs no comparison.
func (s *state) equal(other *state) bool {
	return s == other || slices.EqualFunc(s.may, other.may, func(a, b possession) bool { return compare(a, b) == 0 })
}

func byID(a, b *request) int { return cmp.Compare(a.id, b.id) }

// with and without return a copy of a list by id, with one more and with one less.
func with(list []*request, r *request) []*request {
	at, _ := slices.BinarySearchFunc(list, r, byID)
	return slices.Insert(slices.Clip(list), at, r)
}

func without(list []*request, r *request) []*request {
	return slices.DeleteFunc(slices.Clone(list), func(other *request) bool { return other == r })
}
