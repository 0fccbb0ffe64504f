package lockkeeper

import "time"

// A Trace is told what a client does, for metrics and tests. Any field may be nil, and
// a nil *Trace costs nothing. The functions are called in the goroutine in which the
// thing happens, after it has happened and without a lock, several at a time; they
// must be quick, since work waits for them, and must not panic.
type Trace struct {
	// Acquire ends each call of Try, Acquire, Do and Election.Run's turns.
	Acquire func(AcquireTrace)
	// Wait says that a call begins to wait, since somebody else has the lock or Redis
	// gave no answer. Acquire ends it.
	Wait func(WaitTrace)
	// Grant says that this process has got a lock, or that one of its calls got it from
	// another.
	Grant func(GrantTrace)
	// Renew is one request that renewed leases.
	Renew func(RenewTrace)
	// Lose says that a lease has ended before its release.
	Lose func(LoseTrace)
	// Release ends each call of Release.
	Release func(ReleaseTrace)
	// Late says that the keeper was woken late: the process gets too little CPU, was
	// stopped, or the machine was suspended.
	Late func(by time.Duration)
}

// An AcquireTrace is an acquisition that has ended.
type AcquireTrace struct {
	Name  string
	Wait  bool // Acquire or Do, not Try
	Took  time.Duration
	Lease *Lease // nil if there is none
	Err   error
}

// A WaitTrace is a call that has begun to wait.
type WaitTrace struct{ Name string }

// A GrantTrace is a lock that was got.
type GrantTrace struct {
	Lease  *Lease
	Passed bool // from another call of this process, without the server
}

// A RenewTrace is one request that renewed leases.
type RenewTrace struct {
	Leases int
	Took   time.Duration
	Err    error // of the whole request; then all leases stand as before
}

// A LoseTrace is a lease that was lost.
type LoseTrace struct {
	Lease *Lease
	Err   error // a *LostError
}

// A ReleaseTrace is a lease that was given back.
type ReleaseTrace struct {
	Lease  *Lease
	Passed bool // to another call of this process, without the server
	Took   time.Duration
	Err    error
}

// traceLoss tells of a loss.
func (l *Lease) traceLoss(err error) {
	if trace := l.lock.c.cfg.Trace; trace != nil && trace.Lose != nil {
		trace.Lose(LoseTrace{Lease: l, Err: err})
	}
}

// traceGrant tells of a lock that was got.
func (l *Lease) traceGrant() {
	if trace := l.lock.c.cfg.Trace; trace != nil && trace.Grant != nil {
		trace.Grant(GrantTrace{Lease: l, Passed: l.turn > 0})
	}
}
