package main

import (
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"time"
)

// A summary is the figures of one or more rounds.
type summary struct {
	rounds     int
	calls      int
	acquired   int // holds
	handOffs   int // holds that somebody waited for while another had the lock
	cancelled  int // waits that ended with their context
	tries      int // that found the lock held
	stale      int // grants that came too late
	lost       int // leases that ended before they were given back
	unreleased int // releases without an answer
	commits    int
	fenced     int
	faults     map[string]int

	operations int // calls of Try, Acquire, Do and Release
	histories  int // of one lock each, searched for an order that explains the answers
	requests   int // in them
	undecided  int
	steps      int // that were begun because a lease was said to be valid
	lossy      int // rounds in which Redis loses its memory
	broken     int // of those, in which two had a lock; that is no violation there
	violations int

	gaps []int64 // without faults, from one holder to the next who waited

	longestWait  int64 // until the lock was had
	longestPeace int64 // without faults, until whatever
	longestIdle  int64 // without faults
	idleWhere    string
	longestLate  int64 // return of a wait that was cancelled, without faults
	longestClose int64
	longestKeys  int64 // until the server had nothing left, or only what has a TTL
	overtaken    int   // without faults, the most
	stalled      int64
}

func newSummary() *summary { return &summary{faults: make(map[string]int)} }

// add adds the figures of a round.
func (s *summary) add(h *history, violations int) {
	s.rounds++
	s.violations += violations
	s.calls += len(h.calls)
	s.operations += len(h.calls)
	s.steps += len(h.seen().steps)
	for _, call := range h.calls {
		s.addCall(h, call)
	}
	for _, e := range h.events {
		s.addEvent(e)
	}
	for name, spans := range h.holds {
		s.addHolds(h, spans)
		for _, i := range h.idles(name) {
			if i.length() > s.longestIdle {
				s.longestIdle = i.length()
				s.idleWhere = fmt.Sprintf("%s call %d for %s, from %s of %s on", i.call.who, i.call.id, i.name, h.clock(i.from), filepath.Base(h.dir))
			}
		}
	}
	for _, w := range h.queueings() {
		s.longestPeace = max(s.longestPeace, w.to-w.from)
		s.overtaken = max(s.overtaken, w.overtaken)
	}
	if !h.Lossy {
		v := h.seen().leases()
		s.histories, s.requests, s.undecided = s.histories+v.Checked, s.requests+v.Ops, s.undecided+v.Undecided
		return
	}
	s.lossy++
	if len(overlaps(h)) > 0 {
		s.broken++
	}
}

func (s *summary) addHolds(h *history, spans []*span) {
	s.acquired += len(spans)
	end := int64(0) // of those before
	for _, span := range spans {
		if span.attempt.from < end {
			s.handOffs++
			if h.isQuiet(end, span.from) {
				s.gaps = append(s.gaps, span.from-end)
			}
		}
		end = max(end, span.to)
		if span.end == ended {
			s.lost++
		}
	}
}

func (s *summary) addCall(h *history, call *attempt) {
	switch {
	case call.outcome == held && call.how != byTry:
		s.longestWait = max(s.longestWait, call.to-call.from)
	case call.outcome == stale:
		s.stale++
	case call.outcome == failed && call.how == byTry && call.reason == kindHeld:
		s.tries++
	case call.outcome == failed && call.late > 0:
		s.cancelled++
		if call.how != byTry && h.isQuiet(call.to-call.late, call.to) {
			s.longestLate = max(s.longestLate, call.late)
		}
	}
}

func (s *summary) addEvent(e event) {
	switch e.What {
	case fault:
		s.faults[e.Kind]++
	case wrote:
		s.commits++
	case fenced:
		s.fenced++
	case released:
		if e.Kind != byDo {
			s.operations++
		}
		if kind(e.Text) == kindUnavailable {
			s.unreleased++
		}
	case closed:
		s.longestClose = max(s.longestClose, e.N)
	case keys:
		s.longestKeys = max(s.longestKeys, e.N)
	case stall:
		s.stalled += e.N
	}
}

// total returns how many faults there were.
func (s *summary) total() (n int) {
	for _, of := range s.faults {
		n += of
	}
	return n
}

// print writes the figures. The last line is for other programs.
func (s *summary) print(w io.Writer, seed uint64) {
	line := func(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
	short := func(ns int64) time.Duration { return time.Duration(ns).Round(time.Millisecond) }
	line("%d calls in %d rounds: %d acquisitions, %d of them hand-offs; %d waits cancelled, %d tries found it held",
		s.calls, s.rounds, s.acquired, s.handOffs, s.cancelled, s.tries)
	line("%d leases lost, %d grants too late, %d releases without an answer; %d commits, %d stale writes refused",
		s.lost, s.stale, s.unreleased, s.commits, s.fenced)
	line("%d faults of %d kinds:", s.total(), len(s.faults))
	for _, kind := range slices.Sorted(maps.Keys(s.faults)) {
		line("  %4d %s", s.faults[kind], kind)
	}
	line("longest wait for a lock: %s, without faults %s, overtaken by %d later calls at most",
		short(s.longestWait), short(s.longestPeace), s.overtaken)
	slices.Sort(s.gaps)
	if n := len(s.gaps); n > 0 {
		line("from one holder to the next, without faults: half within %s, 99 of 100 within %s",
			time.Duration(s.gaps[n/2]).Round(time.Microsecond), time.Duration(s.gaps[n*99/100]).Round(time.Microsecond))
	}
	line("longest time without faults in which a lock was free and somebody waited: %s (%s)", short(s.longestIdle), s.idleWhere)
	line("longest return of a cancelled wait, without faults: %s; longest Close: %s; nothing on the server %s after the end",
		short(s.longestLate), short(s.longestClose), short(s.longestKeys))
	line("%s of waiting for a processor (stops included) or for a plain answer of the server, all workers together", short(s.stalled))
	line("%d histories of a lock with %d requests in an order that explains all answers, %d undecided; %d steps of work, each under a lease that was proven",
		s.histories, s.requests, s.undecided, s.steps)
	line("where Redis loses its memory, two had a lock in %d of %d rounds: that is allowed there, and shows that the faults bite", s.broken, s.lossy)
	line("%d violations", s.violations)
	line("soak: operations=%d faults=%d kinds=%d rounds=%d lossy=%d lossy_o1_broken=%d porcupine_histories=%d porcupine_ops=%d undecided=%d steps=%d commits=%d stale_writes_refused=%d violations=%d seed=%d",
		s.operations, s.total(), len(s.faults), s.rounds, s.lossy, s.broken, s.histories, s.requests, s.undecided, s.steps, s.commits, s.fenced, s.violations, seed)
}
