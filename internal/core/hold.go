package core

import "time"

// How long the calls of one process pass a hold on among themselves.
const (
	// While other processes wait, or may wait without our hearing of it: a round trip
	// is worth a few turns, and no more than that is taken from who came first.
	sharedPasses = 8
	sharedTime   = 10 * time.Millisecond
	// While nobody is known to wait. A message that says otherwise can be lost.
	aloneTime = time.Second
)

// A Grant is what comes with the lock.
type Grant struct {
	Fence  uint64
	Last   uint64 // the last fence in reserve for later turns; 0: none is
	Server int64  // of a message: the server's time of the hand-off in us
	Others bool   // somebody waits in the line
	Hears  bool   // messages have been listened to since before the request
}

// A Hold is the lock in the hands of one process, for one turn or for several.
type Hold struct {
	Lease Lease
	Owner string
	Kind  Kind
	Loose Loose // requests of the owner that may still run

	fence, last uint64
	spent       uint64 // fences up to this one must not be given out again
	hears       bool
	others      bool
	began       Instant
	passes      int
}

// Fence returns the fence of the present turn.
func (h *Hold) Fence() uint64 { return h.fence }

// Turns returns how many turns came before the present one.
func (h *Hold) Turns() int { return h.passes }

// Used returns the last fence that was used if the server can't know it, or 0.
func (h *Hold) Used() uint64 {
	if h.passes == 0 && h.fence == h.last {
		return 0
	}
	return max(h.fence, h.spent)
}

// Raise takes in a fence that the server has made for the present turn, or for one that
// is over by now and does not get it. What was in reserve is gone with it.
func (h *Hold) Raise(fence uint64, present bool) {
	switch {
	case !present:
		h.last, h.spent = h.fence, max(h.spent, fence)
	case fence > h.fence:
		h.fence, h.last = fence, fence
	}
}

// Deaf takes in that messages may be missed from now on.
func (h *Hold) Deaf() { h.hears = false }

// answered takes in the answer to a question that was on its way when the hold was got
// by another way. Once the release is on its way too, it may have run after that, and
// have made a place or taken the lock: then it is still to be undone, but not waited for.
func (h *Hold) answered(now Instant, r Reply, giving bool) {
	switch {
	case r.Answer == NoAnswer:
	case giving && !r.NoEffect && h.Loose.Count == 1:
		h.Loose = Loose{Count: 1, Bound: now, NotAfter: LongAgo}
	case giving && !r.NoEffect:
	default:
		h.Loose.answered()
	}
}

// mayPass reports whether the next turn can be w's without the server.
func (h *Hold) mayPass(now Instant, w *Waiter) bool {
	t := h.Kind.Terms
	if w.Kind != h.Kind || h.fence >= h.last || h.Lease.proven.Sub(now) < (t.TTL-t.Margin)/4 {
		return false
	}
	if h.others || !h.hears {
		return h.passes < sharedPasses && now.Sub(h.began) < sharedTime
	}
	return now.Sub(h.began) < aloneTime
}

// Take takes in a hold that a call has got past the line, which must be empty.
func (l *Line) Take(now Instant, h *Hold) {
	h.began = now
	l.hold = h
	l.state = held
}

// NewHold describes what a request has obtained that was sent for this kind.
func NewHold(owner string, k Kind, sent Instant, g Grant) *Hold {
	return &Hold{
		Lease: NewLease(k.Terms, k.Terms, sent), Owner: owner, Kind: k,
		fence: g.Fence, last: max(g.Fence, g.Last), others: g.Others, hears: g.Hears,
	}
}

// Done takes in that the present turn is over and its lease still stands. Either the
// next turn is that of the call it returns, or the hold has to be released: with a new
// place in the line in the same request if again says so, see Question.
func (l *Line) Done(now Instant) (next *Waiter, again bool) {
	if l.first == nil {
		l.state = giving
		return nil, false
	}
	if h := l.hold; h.mayPass(now, l.first) {
		h.passes++
		h.fence++
		return l.pop(), false
	}
	l.newPlace(now)
	l.state = giving
	return nil, true
}

// Gave takes in what came of the first request that released a hold. q is the question
// that it carried, if it had to wait again.
func (l *Line) Gave(now Instant, owner string, q Question, r Reply) Move {
	if l.hold == nil || l.hold.Owner != owner {
		// The next hold was faster than this answer.
		m, _ := l.Replied(now, q, r)
		return m
	}
	l.hold = nil
	again := q.Owner != ""
	switch {
	case l.first == nil:
		l.state = empty
		if !again {
			return Move{}
		}
		if r.Answer != NoAnswer {
			l.place.Loose.answered()
		}
		return l.drop()
	case !again:
		return l.begin(now)
	}
	l.state = asking
	m, _ := l.Replied(now, q, r)
	return m
}

// Lost takes in that the hold is over before its time. Who waits has to ask the server.
func (l *Line) Lost(now Instant, h *Hold) Move {
	if l.hold != h || l.state != held {
		return Move{}
	}
	l.hold, l.state = nil, empty
	if l.first == nil {
		return Move{}
	}
	return l.begin(now)
}
