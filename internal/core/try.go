package core

import "time"

// An Answer is what came back for one request.
type Answer uint8

const (
	Granted  Answer = iota
	Held            // somebody else has it, for Reply.Left
	Late            // the server ran the request after its time and refused it
	Trouble         // an error reply of class Transient
	Rejected        // an error reply of class Refused, or the line is full
	NoAnswer        // no reply: it may have run or not, or still will
)

// A Reply is the answer to one request, with what goes with it.
type Reply struct {
	Answer   Answer
	Grant    Grant         // Granted
	Left     time.Duration // Held: until the holder's key expires; negative: it does not
	Before   int           // Held: how many are before us in the line
	Server   int64         // Held: the server's time in us
	Fence    uint64        // Held: that of the holder; 0 if it is none of ours
	Deaf     bool          // Held: there is no live subscription
	NoEffect bool          // Trouble, Rejected: proof that nothing was written
}

// A Do is what the shell has to do next for a try.
type Do uint8

const (
	Ask  Do = iota // send the request again
	Win            // the lease is ours
	Fail           // return an error
)

// A Try is one attempt to take a lock without waiting. Its owner is never used again.
type Try struct {
	terms Terms
	lates int
}

// NewTry describes an attempt.
func NewTry(terms Terms) Try { return Try{terms: terms} }

// Bound returns when a request that is sent now is given up.
func (t *Try) Bound(now Instant) Instant {
	return now.Add(min(requestMost, t.terms.TTL-t.terms.Margin))
}

// Replied takes in the answer to a request that was sent at sent. undo says that it may
// have taken the lock, which has to be taken back by its owner, in the background.
func (t *Try) Replied(now, sent Instant, r Reply) (do Do, undo bool) {
	switch r.Answer {
	case Granted:
		if now < t.terms.Until(sent) {
			return Win, false
		}
		// It was ours, and by now it may be over: belief never starts late.
		return Fail, true
	case Late:
		// Our idea of the server's clock was wrong; it has just been corrected.
		if t.lates++; t.lates <= 3 {
			return Ask, false
		}
		return Fail, false
	case Held:
		return Fail, false
	default:
		return Fail, !r.NoEffect
	}
}
