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
	until    Instant // belief ends
	most     Instant // belief never goes beyond: the longest hold
	due      Instant // next renewal; Never while one is on its way
	failures int     // renewals in a row without an answer
	end      End
	at       int // place in the heap; -1 outside
}

// NewLease describes a hold that a request sent at sent has obtained. A longest
// hold of 0 is none; it counts from sent.
func NewLease(holder any, terms Terms, sent Instant, longest time.Duration) Lease {
	l := Lease{Holder: holder, terms: terms, most: Never, at: -1}
	if longest > 0 {
		l.most = sent.Add(longest)
	}
	l.until = min(terms.Until(sent), l.most)
	l.due = l.nextRenewal(sent)
	return l
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

// nextRenewal is a third of the TTL after the last success, so that two more
// tries fit. A renewal that cannot lengthen belief any more is not made.
func (l *Lease) nextRenewal(sent Instant) Instant {
	if l.until == l.most {
		return Never
	}
	return sent.Add(l.terms.TTL / 3)
}

// next is when the keeper has to look at this lease again.
func (l *Lease) next() Instant { return min(l.until, l.due) }

// A Keeper decides for all leases of one client when to renew and when belief
// ends. The zero value is ready.
type Keeper struct {
	heap  []*Lease      // the lease to look at first is heap[0]
	check time.Duration // half of the smallest margin there is, or less
	ticks int           // since check was computed
}

// Len returns how many leases are kept.
func (k *Keeper) Len() int { return len(k.heap) }

// Leases returns the leases that are kept.
func (k *Keeper) Leases() []*Lease { return slices.Clone(k.heap) }

// Hold starts keeping a lease.
func (k *Keeper) Hold(l *Lease) {
	if half := l.terms.Margin / 2; len(k.heap) == 0 || half < k.check {
		k.check = half
	}
	l.at = len(k.heap)
	k.heap = append(k.heap, l)
	k.up(l.at)
}

// Drop stops keeping a lease that was released or closed. What still arrives
// for it is ignored: a renewal that was on its way is no loss.
func (k *Keeper) Drop(l *Lease) { k.finish(l, Withdrawn) }

// Wake returns when Tick has to be called at the latest, given that it is now.
// A lease is looked at every half margin even when nothing is due: a timer does
// not run while the machine is suspended, and a machine that comes back before
// the key expires must notice before the key expires.
func (k *Keeper) Wake(now Instant) Instant {
	if len(k.heap) == 0 {
		return Never
	}
	return min(k.heap[0].next(), now.Add(max(k.check, time.Millisecond)))
}

// Tick returns the leases that are over at now, and those that have to be
// renewed. Where one is due, those that come due within a twentieth of their TTL
// ride along, so that many leases share a request; a lease whose renewal failed
// keeps its backoff.
func (k *Keeper) Tick(now Instant) (renew, ended []*Lease) {
	defer k.relax()
	for len(k.heap) > 0 {
		l := k.heap[0]
		switch {
		case k.expire(l, now):
			ended = append(ended, l)
		case l.due <= now, len(renew) > 0 && l.failures == 0 && l.due <= now.Add(l.terms.TTL/20):
			l.due = Never
			k.down(0)
			renew = append(renew, l)
		default:
			return renew, ended
		}
	}
	return renew, ended
}

// relax computes check anew, so rarely that it costs nothing: one short lease must
// not make the keeper look often for ever.
func (k *Keeper) relax() {
	if k.ticks++; k.ticks <= len(k.heap) || len(k.heap) == 0 {
		return
	}
	k.ticks, k.check = 0, k.heap[0].terms.Margin/2
	for _, l := range k.heap {
		k.check = min(k.check, l.terms.Margin/2)
	}
}

// Expire ends the lease if its belief is over at now, and reports whether it is
// over, then or before. Callers that are about to rely on a lease ask it,
// because a timer can be late.
func (k *Keeper) Expire(l *Lease, now Instant) bool {
	return l.end != NotEnded || k.expire(l, now)
}

// Renewal takes in what became of a renewal that was sent at sent, and returns
// why the lease is over, or NotEnded.
//
// A success counts from when it was sent, and only while belief still stands: a
// lost lease never revives. A success never shortens belief, because the server
// never shortens the key (see renew.lua), in whatever order requests run.
// Without an answer the lease stays believed until its time, and is tried again
// soon.
func (k *Keeper) Renewal(l *Lease, sent, now Instant, outcome Outcome) End {
	switch {
	case l.end != NotEnded:
		return l.end
	case outcome == NotOurs:
		return k.finish(l, Taken)
	case k.expire(l, now):
		return l.end
	case outcome == Renewed:
		l.failures = 0
		l.until = min(max(l.until, l.terms.Until(sent)), l.most)
		l.due = max(l.nextRenewal(sent), now)
	default:
		l.due = now.Add(backoff(l.failures, 20*time.Millisecond, l.terms.TTL/10))
		l.failures++
	}
	k.fix(l.at)
	return NotEnded
}

// Change sets the terms that renewals ask for from now on. Belief does not
// change until one succeeds.
func (k *Keeper) Change(l *Lease, terms Terms) {
	l.terms = terms
	k.check = min(k.check, terms.Margin/2)
}

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
		k.remove(l)
	}
	return l.end
}
