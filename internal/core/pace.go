package core

import "time"

// How a waiter paces itself. A message or the end of the holder's TTL normally comes
// first.
const (
	handOffMost   = 3 * time.Second // and a margin
	handOffMargin = time.Second     // of that at the most
	pollMost      = time.Second
	pollLeast     = 50 * time.Millisecond
	pollDeaf      = 200 * time.Millisecond // who does not listen finds a hand-off by asking
	pastExpiry    = time.Millisecond       // the server rounds the time left down
	perPlace      = 5 * time.Millisecond   // the first of the line asks first

	retryFirst = 25 * time.Millisecond // after the first trouble with the server
	retryMost  = time.Second

	// requestMost bounds one request. A grant that comes later than its own
	// belief would be useless, so the TTL bounds it too.
	requestMost = 3 * time.Second
	// requestFirst bounds the first request of a wait, which a caller that
	// gives up has to sit out, see wait.go in the root package.
	requestFirst = 500 * time.Millisecond
)

// Who is far back in the line asks less often: half as often behind 64 others, and so
// on, so that ten thousand waiters cost the server little. join.lua has the same
// numbers, for how long a place lives.
const (
	slowEvery = 64
	slowMost  = 10
)

// A pace says when to ask again.
type pace struct {
	jitter   float64
	troubles int
	lates    int
}

// untilFree is how long to sleep beside a holder: to the end of its TTL, or a
// poll, whichever is first. Not all waiters poll at once.
func (p *pace) untilFree(r Reply, t Terms) time.Duration {
	poll := t.Poll()
	if r.Deaf {
		poll = min(poll, pollDeaf)
	}
	poll = p.spread(poll * time.Duration(min(1+r.Before/slowEvery, slowMost)))
	if r.Left < 0 {
		return poll
	}
	return min(r.Left+pastExpiry+time.Duration(r.Before)*perPlace, poll)
}

func (p *pace) trouble() time.Duration {
	d := backoff(p.troubles, retryFirst, retryMost)
	p.troubles++
	return p.spread(d)
}

// spread returns 75 to 125 percent of d, evenly over the calls.
func (p *pace) spread(d time.Duration) time.Duration {
	p.jitter = golden(p.jitter)
	return time.Duration(float64(d) * (0.75 + p.jitter/2))
}

// golden returns the number in [0, 1) that follows x such that all are spread evenly
// (additive recurrence with the golden ratio).
func golden(x float64) float64 {
	x += 0.6180339887498949
	if x >= 1 {
		x--
	}
	return x
}
