package core

import (
	"math"
	"time"
)

// An Instant is a moment on the clock of one process, in nanoseconds from an
// origin that means nothing. The clock never goes back, and it also runs while
// the machine is suspended where the system has such a clock.
type Instant int64

// Never is later than every other instant.
const Never Instant = math.MaxInt64

// Add returns the instant d after i. Never stays Never, and what would be later
// than it is Never.
func (i Instant) Add(d time.Duration) Instant {
	if i == Never || d > 0 && i > Never-Instant(d) {
		return Never
	}
	return i + Instant(d)
}

// Sub returns the time from j to i.
func (i Instant) Sub(j Instant) time.Duration { return time.Duration(i - j) }

// Terms are what a hold was asked for with.
type Terms struct {
	TTL    time.Duration // how long the key lives on the server without a renewal
	Margin time.Duration // taken off for clock-rate error and for stopping work
}

// believed is for how long a hold is believed.
func (t Terms) believed() time.Duration { return t.TTL - t.Margin }

// Until returns when belief ends that rests on a request sent at that instant.
// The server starts the TTL when it runs the request, which is never before the
// request was sent: counting from the reply instead would believe too long.
func (t Terms) Until(sent Instant) Instant { return sent.Add(t.TTL - t.Margin) }

// HandOff returns what a hand-off gives: a short TTL, because it may go to a process
// that is dead and does not look so, and long enough that a live one, who has asked
// within the last Poll, may believe in it without asking again. The margin is for that
// TTL; the first renewal brings the whole of both.
func (t Terms) HandOff() Terms {
	margin := min(t.Margin, handOffMargin)
	return Terms{TTL: min(t.TTL, margin+handOffMost), Margin: margin}
}

// Poll returns how often a waiter near the head of the line asks, give or take a
// quarter. A message normally comes first; this is the net for one that was lost.
func (t Terms) Poll() time.Duration {
	return min(pollMost, max(t.HandOff().believed()/3, pollLeast))
}

// PlaceLease returns for how long a place near the head lives without being asked for.
func (t Terms) PlaceLease() time.Duration { return 3*t.Poll() + time.Second }

// backoff doubles from first with each failure, up to most.
func backoff(failures int, first, most time.Duration) time.Duration {
	d := first << min(failures, 16)
	return min(d, most)
}
