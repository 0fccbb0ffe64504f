package core

import "time"

// How a waiter paces itself. A wake-up or the end of the holder's TTL normally
// comes first; the poll is the net for a wake-up that was lost.
const (
	pollListening = time.Second            // with a live subscription
	pollDeaf      = 200 * time.Millisecond // without one
	retryFirst    = 25 * time.Millisecond  // after the first trouble with the server
	retryMost     = time.Second
	pastExpiry    = time.Millisecond // the server rounds the time left down

	// requestMost bounds one request. A grant that comes later than its own
	// belief would be useless, so the TTL bounds it too.
	requestMost = 3 * time.Second
	// requestFirst bounds the first request of a wait, which a caller that
	// gives up has to sit out, see wait.go in the root package.
	requestFirst = 500 * time.Millisecond
)

// A Do is what the shell has to do next for an acquisition.
type Do uint8

const (
	Ask  Do = iota // send a request, given up at Until
	Park           // sleep until a wake-up or Until, then call Resume
	Win            // the lease is ours
	Fail           // return an error
)

// A Step is a command to the shell.
type Step struct {
	Do    Do
	Until Instant
	// Undo: the request that was just answered, or was not, may have taken the
	// lock; take it back by its owner, in the background.
	Undo bool
}

// An Answer is what came back for one request.
type Answer uint8

const (
	Granted   Answer = iota
	Held             // somebody else has it, for Reply.Left
	Late             // the server ran the request after its time and refused it
	Trouble          // an error reply of class Transient
	Rejected         // an error reply of class Refused
	NoAnswer         // no reply: it may have run or not, or still will
	Cancelled        // the caller stopped waiting while the request was out
)

// A Reply is the answer to one request, with what goes with it.
type Reply struct {
	Answer   Answer
	Sent     Instant
	Left     time.Duration // Held: until the holder's key expires; negative: it does not
	NoEffect bool          // Trouble, Rejected: proof that nothing was written
	Deaf     bool          // there is no live subscription for wake-ups
}

// An Acquire is one acquisition, from its first request to a lease or an error.
// Each request of it must carry an owner of its own: an owner that was asked for
// without an answer may come to life late, and only its undo may meet it.
type Acquire struct {
	terms    Terms
	wait     bool
	jitter   float64
	asked    int
	troubles int
	lates    int
}

// NewAcquire describes an acquisition. jitter in [0, 1) spreads the waiters of
// many processes; wait says whether it waits or tries once.
func NewAcquire(terms Terms, wait bool, jitter float64) Acquire {
	return Acquire{terms: terms, wait: wait, jitter: jitter}
}

// Start returns the first step: a request. There is no request before that.
func (a *Acquire) Start(now Instant) Step { return a.ask(now) }

// Resume returns the step after a wake-up or after the time of a Park.
func (a *Acquire) Resume(now Instant) Step { return a.ask(now) }

func (a *Acquire) ask(now Instant) Step {
	bound := min(requestMost, a.terms.TTL-a.terms.Margin)
	if a.wait && a.asked == 0 {
		bound = min(bound, requestFirst)
	}
	a.asked++
	return Step{Do: Ask, Until: now.Add(bound)}
}

// Replied takes in the answer to the last request.
func (a *Acquire) Replied(now Instant, r Reply) Step {
	switch r.Answer {
	case Granted:
		if now < a.terms.Until(r.Sent) {
			return Step{Do: Win}
		}
		// It was ours, and by now it may be over: belief never starts late.
		return a.again(now, true, a.trouble())
	case Held:
		a.troubles = 0
		return a.again(now, false, a.untilFree(r))
	case Late:
		// Our idea of the server's clock was wrong; it has just been corrected.
		if a.lates++; a.lates <= 3 {
			return a.ask(now)
		}
		return a.again(now, false, a.trouble())
	case Trouble:
		return a.again(now, !r.NoEffect, a.trouble())
	case NoAnswer:
		return a.again(now, true, a.trouble())
	default: // Rejected, Cancelled
		return Step{Do: Fail, Undo: !r.NoEffect}
	}
}

func (a *Acquire) again(now Instant, undo bool, pause time.Duration) Step {
	if !a.wait {
		return Step{Do: Fail, Undo: undo}
	}
	return Step{Do: Park, Until: now.Add(pause), Undo: undo}
}

// untilFree is how long to sleep beside a holder: to the end of its TTL, or a
// poll, whichever is first. Not all waiters poll at once.
func (a *Acquire) untilFree(r Reply) time.Duration {
	poll := pollListening
	if r.Deaf {
		poll = pollDeaf
	}
	poll = a.spread(poll)
	if r.Left < 0 {
		return poll
	}
	return min(r.Left+pastExpiry, poll)
}

func (a *Acquire) trouble() time.Duration {
	d := backoff(a.troubles, retryFirst, retryMost)
	a.troubles++
	return a.spread(d)
}

// spread returns 75 to 125 percent of d, evenly over the calls (additive
// recurrence with the golden ratio).
func (a *Acquire) spread(d time.Duration) time.Duration {
	a.jitter += 0.6180339887498949
	if a.jitter >= 1 {
		a.jitter--
	}
	return time.Duration(float64(d) * (0.75 + a.jitter/2))
}
