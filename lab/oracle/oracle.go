package oracle

import (
	"math"
	"time"
)

// A Time is nanoseconds on one clock, that of whoever looks on from outside: the
// simulation's, a bubble's, or CLOCK_MONOTONIC of the machine that all processes share.
type Time int64

// Never is later than everything.
const Never Time = math.MaxInt64

// A Violation is a promise that was broken.
type Violation struct {
	Oracle string // O1 to O8
	Lock   string // "" is none
	At     Time
	Text   string // who, what, against whom, by how much
}

// A Hold is one turn of one call, as its process believed in it.
type Hold struct {
	Lock  string
	Who   string // the process
	Owner string // the token on the server; turns that are passed on in a process share it
	Fence uint64
	From  Time // the process learned of it
	To    Time // belief ended: the deadline, the release, or the news of the loss, whichever was first
	// Proofs are what belief in the hold rests on: its grant, then its renewals, in the
	// order in which the process learned of them.
	Proofs []Proof
	// Early is when the process was told that the lock is not its own any more, if that
	// was before To; 0 if it was not.
	Early Time
}

// A Proof is an answer of the server that carries belief, worked out by the harness and
// not by the product.
type Proof struct {
	Learned Time // the answer was there
	Until   Time // sent + TTL - margin, on the clock of the process, as an outsider's time
}

// A Step is work that was begun because its lease was said to be valid.
type Step struct {
	Lock, Who, Owner string
	Fence            uint64
	At               Time
}

// A Write is one committed change of a resource in the database, in the order of the
// commits: the value that it was computed from and the one that it set.
type Write struct {
	Resource    string
	Who         string
	Fence       uint64
	Epoch       int64 // of the claim, 0 where there is none
	Base, Value int64
}

// An OpKind is what an Op asked of the server.
type OpKind uint8

const (
	Acquire OpKind = iota
	Renew
	Release
)

// An Outcome is what whoever asked was told.
type Outcome uint8

const (
	Yes     Outcome = iota // granted, renewed, given up
	No                     // another has it, or it is not ours
	Unknown                // no answer; it may have happened, or may still
)

// An Op is one thing that a process wanted of a lock on the server: to have it, from the
// first request of an owner until the grant or the end of the wait; to keep it; to give
// it up. A hand-off by the server is seen as the Acquire of who got it.
type Op struct {
	Lock, Who, Owner string
	Kind             OpKind
	Outcome          Outcome
	Call             Time
	Return           Time          // Never if it may still happen
	TTL              time.Duration // of Acquire and Renew: how long the key lives from when it ran
}

// A Wait is one call that waited for a lock.
type Wait struct {
	Lock, Who string
	Call      int64
	From      Time
	To        Time // it was served, or left; Never if it still waits at the end
	Served    bool
}

// A Place is one process's place in the line on the server.
type Place struct {
	Lock, Who, Owner string
	Since            Time // by what it is ordered
	Joined           Time // it was made on the server
	Gone             Time // it left, was granted, or died: nobody may count it from then on; Never
	Granted          Time // Never if it was not
	Deaf             bool // its process could not hear or could not ask for some of the time
}

// An Answer is what a call told its caller, and what it might have told, given the faults.
type Answer struct {
	Lock, Who string
	At        Time
	Said      string   // "granted", "held", "unavailable", "lost", "closed", "full", or the error's text
	Allowed   []string // what is true of the moment
}
