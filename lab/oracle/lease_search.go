package oracle

import (
	"cmp"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// patience is how long one search may take. One of a thousand operations takes
// milliseconds.
const patience = 5 * time.Second

// check says whether there is an order in which everything can have been.
func check(ops []*Op, slack time.Duration) porcupine.CheckResult {
	if order(newEvents(ops, slack, true)) == porcupine.Ok {
		return porcupine.Ok // a guess that is right saves nearly all of the search
	}
	return order(newEvents(ops, slack, false))
}

// order says whether there is an order in which the events can have been.
//
// What overlaps with nothing needs no search: while it is known what may be so, it is
// known after that, too. The rest is searched in pieces, which end where a release that
// overlaps with nothing has left the lock free, and nothing else needs to be kept in mind.
func order(events []*event) porcupine.CheckResult {
	now := beginning
	known, piece := now.free(), 0 // the state in which the piece begins
	for i := 0; i < len(events); {
		next := cluster(events, i)
		for _, e := range events[i:next] {
			if e.kind != does {
				now = e.moment
			}
		}
		single := next == i+1
		switch {
		case single && piece == i:
			after, can := known.step(events[i])
			if !can {
				return porcupine.Illegal
			}
			known, piece = after, next
		case single && events[i].frees(now):
			if result := search(known, events[piece:next]); result != porcupine.Ok {
				return result
			}
			known, piece = now.free(), next
		}
		i = next
	}
	return search(known, events[piece:])
}

// cluster returns the end of those events from i on that overlap, directly or by way of
// others. Events that touch overlap.
func cluster(events []*event, i int) int {
	to := events[i].to
	for i++; i < len(events) && events[i].from <= to; i++ {
		to = max(to, events[i].to)
	}
	return i
}

// frees says that the lock is free after the event, whatever was before: it is a release,
// so that there was a reason for all refusals of others up to now.
func (e *event) frees(now *moment) bool {
	return e.kind == does && e.request.op.Kind == Release &&
		!slices.ContainsFunc(now.open, func(r *request) bool { return r.once }) &&
		!slices.ContainsFunc(now.refused, func(r *request) bool { return r.owner == e.request.owner })
}

// search lets porcupine look for an order.
func search(known *state, events []*event) porcupine.CheckResult {
	if len(events) == 0 {
		return porcupine.Ok
	}
	operations := make([]porcupine.Operation, len(events))
	for i, e := range events {
		operations[i] = porcupine.Operation{Input: e, Call: int64(e.from), Return: int64(e.to)}
	}
	return porcupine.CheckOperationsTimeout(porcupine.Model{
		Init: func() any { return known },
		Step: func(s, input, _ any) (bool, any) {
			next, can := s.(*state).step(input.(*event))
			return can, next
		},
		Equal: func(a, b any) bool { return a.(*state).equal(b.(*state)) },
	}, operations, patience)
}

// firstWrong returns the answer that makes a history impossible: up to it, none is. What
// was wrong once stays wrong, however the history goes on.
func firstWrong(ops []*Op, slack time.Duration) *Op {
	var answers []*Op
	for _, op := range ops {
		if op.Outcome != Unknown {
			answers = append(answers, op)
		}
	}
	slices.SortStableFunc(answers, func(a, b *Op) int { return cmp.Compare(a.Return, b.Return) })
	low, high := 0, len(answers)-1
	for low < high {
		middle := (low + high) / 2
		if check(asOf(ops, answers[middle].Return), slack) == porcupine.Illegal {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return answers[low]
}

// asOf returns what was known of a history at a time: what had no answer then may have
// run, or may not.
func asOf(ops []*Op, at Time) []*Op {
	var seen []*Op
	for _, op := range ops {
		switch {
		case op.Call > at:
			return seen
		case op.Return <= at || op.Outcome == Unknown:
			seen = append(seen, op)
		case op.Outcome == Yes:
			open := *op
			open.Outcome, open.Return = Unknown, at
			seen = append(seen, &open)
		}
	}
	return seen
}
