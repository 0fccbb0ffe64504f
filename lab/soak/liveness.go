package main

import (
	"fmt"
	"slices"
	"sort"
	"time"
)

// What a waiter can lose by, at most: the key of somebody who died or was never told
// that it has the lock lives for a TTL; a waiter that the lock was then handed to may
// have died as well, and what it was granted lives for another; a wake-up that is lost
// costs a poll. The rest is for connections that are made anew, and a busy machine.
const (
	poll  = 1250 * time.Millisecond
	slack = time.Second
)

// strandedAfter returns for how long a lock may be idle, with somebody waiting, while
// nothing is broken.
func strandedAfter(ttl time.Duration) time.Duration { return 2*ttl + 2*poll + slack }

// An idle is a time without faults in which nobody had a lock, and a call waited for it.
type idle struct {
	name     string
	from, to int64
	call     *attempt
}

func (i idle) length() int64 { return i.to - i.from }

// shortIdle is how long a time has to be to be looked at.
const shortIdle = int64(5 * time.Millisecond)

// idles returns, for each time in which nobody had a name, the call that waited
// through the longest part of it.
func (h *history) idles(name string) (found []idle) {
	var waits []*attempt
	for _, call := range h.calls {
		if call.name == name && call.how != byTry {
			waits = append(waits, call)
		}
	}
	for _, q := range h.quiets {
		last := q.At // the end of the last hold
		for _, s := range append(slices.Clone(h.holds[name]), &span{from: q.Until, to: q.Until}) {
			if from, to := last, min(s.from, q.Until); to-from > shortIdle {
				if worst := longestWait(waits, idle{name: name, from: from, to: to}); worst.call != nil {
					found = append(found, worst)
				}
			}
			last = max(last, s.to)
		}
	}
	return found
}

// longestWait returns the part of a time that a single call waited through.
func longestWait(waits []*attempt, in idle) (worst idle) {
	for _, call := range waits {
		part := idle{in.name, max(call.from, in.from), min(call.to, in.to), call}
		if part.length() > worst.length() {
			worst = part
		}
	}
	return worst
}

// stranded finds locks that were free for too long while somebody waited for them.
// While others get the lock, a waiter is behind them, and not stranded.
func stranded(h *history) (found []violation) {
	for _, lock := range h.Locks {
		for _, i := range h.idles(lock.Name) {
			allowed := int64(strandedAfter(lock.TTL)) + h.stalled(i.from, i.to)
			if i.length() <= allowed {
				continue
			}
			found = append(found, violation{name: i.name, at: i.to, text: fmt.Sprintf(
				"%s call %d waits for %s, which nobody has from %s on for %s: at most %s are allowed",
				i.call.who, i.call.id, i.name, h.clock(i.from), time.Duration(i.length()), time.Duration(allowed))})
		}
	}
	return found
}

// stalled returns for how long processes got no processor within a time. Of all
// together, because a waiter depends on others; never more than the time itself.
func (h *history) stalled(from, to int64) int64 {
	total := int64(0)
	for _, s := range h.stalls {
		total += max(0, min(s.At+s.N, to)-max(s.At, from))
	}
	return min(total, to-from)
}

// isStalled reports whether a process, or the server, got nothing done for a while.
func (h *history) isStalled(who string, from, to int64) bool {
	return slices.ContainsFunc(h.stalls, func(s event) bool {
		return (s.Who == who || s.Who == parentName) && s.At < to && s.At+s.N > from
	})
}

// A queueing is a waiter in a time without faults: how long it waited in it, and how
// often the lock went to calls that came later.
type queueing struct {
	call      *attempt
	from, to  int64
	overtaken int
}

// queueings returns the waiters of all times without faults, from when all had the time to
// connect and to ask again: who is faster at that comes first.
func (h *history) queueings() (found []queueing) {
	for _, call := range h.calls {
		if call.how == byTry {
			continue
		}
		for _, q := range h.quiets {
			w := queueing{call: call, from: max(call.from, q.At+int64(2*poll)), to: min(call.to, q.Until)}
			if w.from >= w.to {
				continue
			}
			spans := h.holds[call.name]
			first := sort.Search(len(spans), func(i int) bool { return spans[i].from >= w.from })
			for _, s := range spans[first:] {
				if s.from >= w.to {
					break
				}
				if s.attempt.from > call.from && s.attempt != call {
					w.overtaken++
				}
			}
			found = append(found, w)
		}
	}
	return found
}

// overtaken finds waiters that too many later calls were preferred to. A process that
// gets no processor can't keep its place.
func overtaken(h *history) (found []violation) {
	if h.Overtakes == 0 {
		return nil
	}
	for _, w := range h.queueings() {
		if w.overtaken > h.Overtakes && !h.isStalled(w.call.who, w.from, w.to) {
			found = append(found, violation{name: w.call.name, at: w.to, text: fmt.Sprintf(
				"%s call %d waits for %s from %s to %s, and is overtaken by %d later calls: at most %d are allowed",
				w.call.who, w.call.id, w.call.name, h.clock(w.from), h.clock(w.to), w.overtaken, h.Overtakes)})
		}
	}
	return found
}

// lateReturn is how long after the end of its context an Acquire may return: its first
// request is sat out, for half a second at most.
const lateReturn = 500*time.Millisecond + slack

// lateReturns finds calls that did not return soon after their context had ended.
func lateReturns(h *history) (found []violation) {
	for _, call := range h.calls {
		ended := call.to - call.late
		if call.outcome != failed || call.how == byTry || call.late == 0 || !h.isQuiet(ended, call.to) {
			continue
		}
		if allowed := int64(lateReturn) + h.stalled(ended, call.to); call.late > allowed {
			found = append(found, violation{name: call.name, at: call.to, text: fmt.Sprintf(
				"%s call %d returns %s after its context has ended: at most %s are allowed",
				call.who, call.id, time.Duration(call.late), time.Duration(allowed))})
		}
	}
	return found
}

// isQuiet reports whether there was no fault in a time.
func (h *history) isQuiet(from, to int64) bool {
	for _, q := range h.quiets {
		if q.At <= from && to <= q.Until {
			return true
		}
	}
	return false
}
