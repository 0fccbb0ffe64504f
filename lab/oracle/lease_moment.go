package oracle

// mostOnce is how many requests without an answer are kept in mind at a time. To know which
// of many have run takes too long: others, and those that may run for ever, may do so again
// and again. So less is found to be wrong where much is unknown; nothing that is right is.
const mostOnce = 4

// crowd is the owner of a life that somebody may have of whom nothing else is known. It
// does not matter who.
const crowd = -1

// A moment is what the instants of a history have come to. It depends on nothing else.
type moment struct {
	before  *moment
	open    []*request // without an answer, that may run
	refused []*request // to be refused, that are not over
	crowd   Time       // when a life of the crowd may end first; Never if there can be none
	now     Time       // leases that may end at this time or sooner may have ended
	passed  Time       // those that have ended by this time have
}

var beginning = &moment{crowd: Never, now: nothing, passed: nothing}

// moments gives each instant its moment, and picks the requests that are kept in mind.
func moments(events []*event) {
	room := make([]moment, 0, len(events)) // it must not grow
	last, once := beginning, 0
	for _, e := range events {
		if e.kind == does {
			continue
		}
		if r := e.request; r.op.Outcome == Unknown && r.to != Never {
			switch {
			case e.kind == begins && once < mostOnce:
				r.once = true
				once++
			case e.kind == stops && r.once:
				once--
			}
		}
		room = append(room, last.after(e))
		last = &room[len(room)-1]
		e.moment = last
	}
}

// after returns what a moment comes to with one more instant.
func (m *moment) after(e *event) moment {
	next := *m
	next.before = m
	list := &next.open
	if e.request.op.Outcome == No {
		list = &next.refused
	}
	switch e.kind {
	case begins:
		*list = with(*list, e.request)
	case stops:
		*list = without(*list, e.request)
	case joins:
		next.open = without(m.open, e.request)
		next.crowd = min(m.crowd, e.request.life.opens)
		if e.request.mine.leaves {
			next.crowd = nothing // its own release may end its life at any time
		}
	case reaches:
		next.now = e.from
	case passes:
		next.passed = e.from
	}
	return next
}
