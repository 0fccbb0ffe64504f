package core

import (
	"slices"
	"time"
)

// An End is why a lease is over.
type End uint8

const (
	NotEnded  End = iota
	Expired       // belief ended: no renewal was answered in time
	Taken         // the server said that the key is not ours
	HeldMost      // the longest hold that was asked for is reached
	Withdrawn     // released, or closed with its client
)

// An Outcome is what became of one renewal.
type Outcome uint8

const (
	Renewed Outcome = iota
	NotOurs         // the server answered that the key is gone or somebody else's
	Unsure          // no answer, or an error: it may have been renewed or not
)

// A Lease is what one process may believe about one hold without asking the
// server. It belongs to one Keeper.
type Lease struct {
	Holder any // the shell's own object for this hold

	terms    Terms
	granted  time.Duration // what the hold began with
	proven   Instant       // belief, as far as the server's answers carry it
	most     Instant       // belief never goes beyond: the longest turn
	until    Instant       // belief ends: the earlier of the two
	due      Instant       // next renewal; Never while one is on its way
	failures int           // renewals in a row without an answer
	end      End
	at       int // place in the heap; -1 outside
}

// NewLease describes a hold that was granted after sent. Renewals ask for the terms.
func NewLease(terms, granted Terms, sent Instant) Lease {
	l := Lease{terms: terms, granted: granted.TTL, most: Never, at: -1}
	l.proven = granted.Until(sent)
	l.until = l.proven
	l.due = sent.Add(granted.TTL / 3)
	return l
}

// Limit bounds the present turn: belief ends with it. 0 is no limit.
func (l *Lease) Limit(now Instant, longest time.Duration) {
	if l.most == Never && longest == 0 {
		return
	}
	l.most = Never
	if longest > 0 {
		l.most = now.Add(longest)
	}
	l.until = min(l.proven, l.most)
	switch {
	case l.until == l.most:
		l.due = Never // it can't be lengthened
	case l.due == Never:
		l.due = now
	}
}

// Until returns when belief ends unless a renewal succeeds.
func (l *Lease) Until() Instant { return l.until }

// Terms returns the terms that the next renewal asks for.
func (l *Lease) Terms() Terms { return l.terms }

// End returns why the lease is over, or NotEnded.
func (l *Lease) End() End { return l.end }

// Bound returns when a renewal sent now is given up: soon enough for another
// try on another connection, and never after belief ended.
func (l *Lease) Bound(now Instant) Instant {
	return min(l.until, now.Add(max(l.terms.TTL/4, 5*time.Millisecond)))
}

// nextRenewal is a third of the TTL after the last success, or a little sooner, so
// that two more tries fit. A renewal that cannot lengthen belief any more is not made.
func (l *Lease) nextRenewal(ttl time.Duration, sent Instant, early float64) Instant {
	if l.until == l.most {
		return Never
	}
	third := float64(ttl / 3)
	return sent.Add(time.Duration(third * (1 - early)))
}

// next is when the keeper has to look at this lease again.
func (l *Lease) next() Instant { return min(l.until, l.due) }
func (l *Lease) spot() *int    { return &l.at }

// Batch is how many renewals share a request: few enough that the server is not held
// up for more than about half a millisecond.
const Batch = 128

// How much sooner than after a third of its TTL a lease may be renewed, so that leases
// that were taken together are not renewed together for ever.
const (
	earlyFirst = 0.5
	early      = 0.1
)

// A Keeper decides for all leases of one client when to renew and when belief
// ends, and for all its lines when to ask. The zero value is ready.
type Keeper struct {
	leases heap[*Lease]
	lines  heap[*Line]
	check  time.Duration // half of the smallest margin there is, or less
	ticks  int           // since check was computed
	jitter float64       // in [0, 1)
}

// Len returns how many leases are kept.
func (k *Keeper) Len() int { return len(k.leases) }

// Leases returns the leases that are kept.
func (k *Keeper) Leases() []*Lease { return slices.Clone(k.leases) }

// Hold starts keeping a lease.
func (k *Keeper) Hold(l *Lease) {
	if half := l.terms.Margin / 2; len(k.leases) == 0 || half < k.check {
		k.check = half
	}
	if l.due != Never {
		l.due = l.due.Add(-time.Duration(float64(l.granted/3) * earlyFirst * k.spread()))
	}
	k.leases.add(l)
}

// Limit bounds the present turn of a lease that is kept, see Lease.Limit.
func (k *Keeper) Limit(l *Lease, now Instant, longest time.Duration) {
	l.Limit(now, longest)
	k.leases.fix(l.at)
}

// Watch takes in that a line may have changed when it is due.
func (k *Keeper) Watch(l *Line) {
	switch due := l.Due(); {
	case due == Never:
		k.lines.remove(l)
	case l.at < 0:
		k.lines.add(l)
	default:
		k.lines.fix(l.at)
	}
}

// Drop stops keeping a lease that was released or closed. What still arrives
// for it is ignored: a renewal that was on its way is no loss.
func (k *Keeper) Drop(l *Lease) { k.finish(l, Withdrawn) }

// Wake returns when Tick has to be called at the latest, given that it is now.
// A lease is looked at every half margin even when nothing is due: a timer does
// not run while the machine is suspended, and a machine that comes back before
// the key expires must notice before the key expires.
func (k *Keeper) Wake(now Instant) Instant {
	wake := Never
	if len(k.lines) > 0 {
		wake = k.lines[0].next()
	}
	if len(k.leases) > 0 {
		wake = min(wake, k.leases[0].next(), now.Add(max(k.check, time.Millisecond)))
	}
	return wake
}

// Tick returns the leases that are over at now, and those that have to be
// renewed. Where one is due, those that come due within a twentieth of their TTL
// ride along until the request is full; a lease whose renewal failed keeps its
// backoff.
func (k *Keeper) Tick(now Instant) (renew, ended []*Lease) {
	defer k.relax()
	for len(k.leases) > 0 {
		l := k.leases[0]
		switch {
		case k.expire(l, now):
			ended = append(ended, l)
		case l.due <= now, len(renew)%Batch != 0 && l.failures == 0 && l.due <= now.Add(l.terms.TTL/20):
			l.due = Never
			k.leases.down(0)
			renew = append(renew, l)
		default:
			return renew, ended
		}
	}
	return renew, ended
}

// DueLine returns a line that has to ask at now, or nil, and watches it no longer.
func (k *Keeper) DueLine(now Instant) *Line {
	if len(k.lines) == 0 || k.lines[0].next() > now {
		return nil
	}
	l := k.lines[0]
	k.lines.remove(l)
	return l
}

// spread returns numbers in [0, 1), evenly over the calls, and 0 while there are so few
// leases that all may be renewed in one request.
func (k *Keeper) spread() float64 {
	if len(k.leases) < Batch {
		return 0
	}
	k.jitter = golden(k.jitter)
	return k.jitter
}

// relax computes check anew, so rarely that it costs nothing: one short lease must
// not make the keeper look often for ever.
func (k *Keeper) relax() {
	if k.ticks++; k.ticks <= len(k.leases) || len(k.leases) == 0 {
		return
	}
	k.ticks, k.check = 0, k.leases[0].terms.Margin/2
	for _, l := range k.leases {
		k.check = min(k.check, l.terms.Margin/2)
	}
}

// Expire ends the lease if its belief is over at now, and reports whether it is
// over, then or before. Callers that are about to rely on a lease ask it,
// because a timer can be late.
func (k *Keeper) Expire(l *Lease, now Instant) bool {
	return l.end != NotEnded || k.expire(l, now)
}

// Renewal takes in what became of a renewal that was sent at sent and asked for these
// terms, and returns why the lease is over, or NotEnded.
//
// A success counts from when it was sent, for what was asked for then, and only while
// belief still stands: a lost lease never revives, and a Change since does not lengthen
// what the server has granted. A success never shortens belief, because the server
// never shortens the key (see renew.lua), in whatever order requests run.
// Without an answer the lease stays believed until its time, and is tried again
// soon.
func (k *Keeper) Renewal(l *Lease, asked Terms, sent, now Instant, outcome Outcome) End {
	switch {
	case l.end != NotEnded:
		return l.end
	case outcome == NotOurs:
		return k.Taken(l)
	case k.expire(l, now):
		return l.end
	case outcome == Renewed:
		l.failures = 0
		l.proven = max(l.proven, asked.Until(sent))
		l.until = min(l.proven, l.most)
		l.due = max(l.nextRenewal(asked.TTL, sent, early*k.spread()), now)
	default:
		l.due = now.Add(backoff(l.failures, 20*time.Millisecond, l.terms.TTL/10))
		l.failures++
	}
	k.leases.fix(l.at)
	return NotEnded
}

// Change sets the terms that renewals ask for from now on. Belief does not
// change until one succeeds.
func (k *Keeper) Change(l *Lease, terms Terms) {
	l.terms = terms
	k.check = min(k.check, terms.Margin/2)
}

// Taken takes in that the server says that the key is not ours, and returns why the lease
// is over.
func (k *Keeper) Taken(l *Lease) End { return k.finish(l, Taken) }

// expire ends the lease when its time has come.
func (k *Keeper) expire(l *Lease, now Instant) bool {
	if now < l.until {
		return false
	}
	end := Expired
	if l.until == l.most {
		end = HeldMost
	}
	k.finish(l, end)
	return true
}

// finish takes the lease off the heap with its reason, once.
func (k *Keeper) finish(l *Lease, end End) End {
	if l.end == NotEnded {
		l.end = end
		k.leases.remove(l)
	}
	return l.end
}
