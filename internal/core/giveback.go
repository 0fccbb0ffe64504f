package core

import "time"

// A Back is what the shell has to do next to give a lock back.
type Back uint8

const (
	Send   Back = iota // send the compare-and-delete, given up at Until
	Sleep              // wait until Until, then send again
	Freed              // it is not ours any more; done
	NotOur             // Release only: the server says it was not ours
	Leave              // no answer in the time there was; the TTL frees it
)

// A GiveBack is a command to the shell.
type GiveBack struct {
	Do    Back
	Until Instant
}

// How requests that give something back are paced.
const (
	backMost   = time.Second
	backFirst  = 25 * time.Millisecond
	backPause  = 500 * time.Millisecond
	undoAround = 10 * time.Millisecond // past the bound of the lost request
)

// A Release gives a lease back through failures: it is retried without an answer,
// and a retried one is idempotent, because "not ours" after a request without an
// answer means that the lost one did it.
type Release struct {
	until    Instant // the end of belief; after it there is nothing to give back
	unsure   bool
	failures int
}

// NewRelease describes the release of a lease whose belief ends at until.
func NewRelease(until Instant) Release { return Release{until: until} }

// Start returns the first step.
func (r *Release) Start(now Instant) GiveBack { return r.send(now) }

// Resume returns the step after a Sleep.
func (r *Release) Resume(now Instant) GiveBack { return r.send(now) }

func (r *Release) send(now Instant) GiveBack {
	return GiveBack{Do: Send, Until: min(r.until, now.Add(backMost))}
}

// Done takes in a reply: whether the key was ours and is deleted.
func (r *Release) Done(deleted bool) GiveBack {
	if deleted || r.unsure {
		return GiveBack{Do: Freed}
	}
	return GiveBack{Do: NotOur}
}

// Failed takes in that there was no usable reply. noEffect says that the server
// proved that it did nothing.
func (r *Release) Failed(now Instant, noEffect bool) GiveBack {
	r.unsure = r.unsure || !noEffect
	pause := backoff(r.failures, backFirst, backPause)
	r.failures++
	if at := now.Add(pause); at < r.until {
		return GiveBack{Do: Sleep, Until: at}
	}
	return GiveBack{Do: Leave}
}

// LongAgo is a time of every server that is over, in microseconds of its clock; 0 is none.
const LongAgo = 1

// An Undo takes back what an owner may have got, or may still get: the lock, or a place
// in the line. One request that gives up by owner takes both. It is not done with that
// while requests of the owner may still be on their way: it is done when it ran on the
// server after the time until which they may run, or when whatever could have been
// taken has expired.
type Undo struct {
	loose    Loose
	expired  Instant // by then a key that it took is gone
	failures int
	misses   int
	hurry    bool
	sending  bool // a request is on its way
	stale    bool // and proves nothing: it may have run before one that is answered now
}

// NewUndo describes the undo of an owner with these loose requests that got the lock
// for ttl if they did.
func NewUndo(now Instant, loose Loose, ttl time.Duration) Undo {
	if loose.Count > 0 && loose.NotAfter == 0 {
		// Nothing bounds the request on the server. What can be done is to keep
		// looking for a second TTL.
		ttl *= 2
	}
	return Undo{loose: loose, expired: max(now, loose.Bound).Add(ttl)}
}

// Start returns the first step.
func (u *Undo) Start(now Instant) GiveBack { return u.Resume(now) }

// Resume returns the step after a Sleep.
func (u *Undo) Resume(now Instant) GiveBack {
	if now >= u.expired {
		return GiveBack{Do: Leave}
	}
	u.sending = true
	return GiveBack{Do: Send, Until: now.Add(backMost)}
}

// Done takes in a reply: whether the lock was the owner's and is given up, or else the
// server's time in microseconds.
func (u *Undo) Done(now Instant, deleted bool, server int64) GiveBack {
	stale := u.stale
	u.sending, u.stale = false, false
	if stale {
		return u.sleep(now, 0)
	}
	if u.loose.Count == 0 || deleted && u.loose.Only {
		return GiveBack{Do: Freed} // the one that was loose has run
	}
	if u.loose.NotAfter == 0 || deleted {
		if u.hurry {
			return GiveBack{Do: Leave}
		}
		u.misses++
		return u.sleep(now, backoff(u.misses, backFirst, backPause))
	}
	if left := time.Duration(u.loose.NotAfter-server) * time.Microsecond; left >= 0 {
		// Not all of it at once: this request may have overtaken the lost one.
		return u.sleep(now, min(left+undoAround, backPause))
	}
	return GiveBack{Do: Freed}
}

// Answered says that a request that was loose has been answered. When that was the last
// of them, the undo is done with the answer to a request that it sends after this, and
// may send that at once.
func (u *Undo) Answered() {
	u.loose.answered()
	u.stale = u.sending
}

// Hurry says that the client is closing: from now on the undo waits only for what
// an answer of the server has promised to end.
func (u *Undo) Hurry() { u.hurry = true }

// Failed takes in that there was no usable reply.
func (u *Undo) Failed(now Instant) GiveBack {
	u.sending, u.stale = false, false
	if u.hurry {
		return GiveBack{Do: Leave}
	}
	pause := backoff(u.failures, backFirst, backPause)
	u.failures++
	return u.sleep(now, pause)
}

func (u *Undo) sleep(now Instant, d time.Duration) GiveBack {
	at := now.Add(d)
	if at >= u.expired {
		return GiveBack{Do: Leave}
	}
	return GiveBack{Do: Sleep, Until: at}
}
