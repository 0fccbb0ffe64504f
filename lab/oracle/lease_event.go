package oracle

import (
	"cmp"
	"slices"
	"time"
)

// An eventKind is what an event is to the lock.
type eventKind uint8

const (
	does    eventKind = iota // what was answered with yes is done
	begins                   // anything else is asked: it may be refused, or run unseen, from now on
	joins                    // it may run from now on, and nobody can tell its owner from others
	reaches                  // a lease may end from now on
	stops                    // what was asked is over
	passes                   // a lease has ended by now
)

// An event is a part of the history of one lock: what is done, somewhere in an interval,
// or an instant that matters.
type event struct {
	kind     eventKind
	from, to Time
	request  *request
	moment   *moment // of an instant: after it
}

// A request is an operation, as the server sees it.
type request struct {
	op       *Op
	id       int32
	owner    int32 // 0 is nobody
	from, to Time  // it runs in between
	life     life  // that it gives to the hold; none for a release
	moot     bool  // that life is known to be replaced before it can end
	once     bool  // without an answer: it is kept in mind whether it has run
	mine     *owner
}

// An owner is what is told of one.
type owner struct {
	number  int32
	pending []*request // those whose life may still be replaced
	last    Time       // after it, nothing is known
	leaves  bool       // a release of it has no answer
}

// A life is when a hold may end first, and by when it has ended.
type life struct{ opens, closes Time }

// newEvents returns the events of the history of one lock, in the order of when they may
// happen first; see narrow for what is guessed.
func newEvents(ops []*Op, slack time.Duration, guess bool) []*event {
	requests := newRequests(ops, slack, guess)
	room := make([]event, 0, 4*len(requests)) // no request has more; there are pointers into it: it must not grow
	at := func(kind eventKind, t Time, r *request) {
		if t != Never {
			room = append(room, event{kind: kind, from: t, to: t, request: r})
		}
	}
	for i := range requests {
		r := &requests[i]
		switch {
		case r.op.Outcome == Yes:
			room = append(room, event{kind: does, from: r.from, to: r.to, request: r})
		case r.op.Outcome == Unknown && r.op.Kind == Acquire && r.to == Never:
			if r.from <= r.mine.last {
				at(begins, r.from, r)
			}
			at(joins, max(r.from, r.mine.last+1), r)
		default:
			at(begins, r.from, r)
			at(stops, r.to, r)
		}
		if r.op.Kind != Release && r.op.Outcome != No && !r.moot {
			at(reaches, r.life.opens, r)
			at(passes, r.life.closes, r)
		}
	}
	events := make([]*event, len(room))
	for i := range room {
		events[i] = &room[i]
	}
	slices.SortFunc(events, byStart)
	moments(events)
	return events
}

// byStart puts what makes more possible before what makes less possible at one instant.
func byStart(a, b *event) int {
	if c := cmp.Compare(a.from, b.from); c != 0 {
		return c
	}
	return cmp.Compare(a.kind, b.kind)
}

// newRequests numbers the operations and their owners, and works out the lives.
func newRequests(ops []*Op, slack time.Duration, guess bool) []request {
	requests := make([]request, len(ops))
	byName := make(map[string]*owner, len(ops))
	for i, op := range ops {
		o := byName[op.Owner]
		if o == nil {
			o = &owner{number: int32(len(byName) + 1), last: nothing}
			byName[op.Owner] = o
		}
		r := &requests[i]
		*r = request{op: op, id: int32(i), owner: o.number, mine: o, from: op.Call, to: op.Return}
		if op.Kind != Release {
			r.life = life{op.Call.add(op.TTL - slack), op.Return.add(op.TTL + slack)}
		}
		if op.Outcome == Yes {
			o.pending = slices.DeleteFunc(o.pending, r.replaces)
		}
		if op.Kind != Release && op.Outcome != No {
			o.pending = append(o.pending, r)
		}
		if op.Outcome != Unknown {
			o.last = max(o.last, op.Return)
		}
		o.leaves = o.leaves || op.Outcome == Unknown && op.Kind == Release
	}
	narrow(requests, len(byName)+1, guess)
	return requests
}

// replaces marks a life as moot if the request has surely ended or outlived it before it
// could end: then nothing depends on when that would have been. It says whether this is
// decided, one way or the other.
func (r *request) replaces(old *request) bool {
	if old.life.opens <= r.op.Return {
		return old.life.opens < r.op.Call // too late for this one, and for all that come later
	}
	longer := r.life.opens >= old.life.opens && r.life.closes >= old.life.closes
	old.moot = old.op.Return < r.op.Call && (r.op.Kind == Release || longer)
	return old.moot
}
