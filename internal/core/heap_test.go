package core_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/core"
)

// A naive keeper: a list that is searched each time. It knows of a lease what the
// tests gave it, and nothing of the heap.
type naive struct {
	leases []*naiveLease
}

type naiveLease struct {
	l        *core.Lease
	until    core.Instant
	most     core.Instant
	due      core.Instant
	failures int
	end      core.End
}

func (n *naive) next() core.Instant {
	next := core.Never
	for _, x := range n.leases {
		if x.end == core.NotEnded {
			next = min(next, x.until, x.due)
		}
	}
	return next
}

func (n *naive) live() (live []*naiveLease) {
	for _, x := range n.leases {
		if x.end == core.NotEnded {
			live = append(live, x)
		}
	}
	return live
}

// tick expires what is over. What has to be renewed is only bounded from both
// sides: all that is due, and nothing that is not nearly due.
func (n *naive) tick(now core.Instant, renew, ended []*core.Lease) error {
	for _, x := range n.live() {
		over := now >= x.until
		if over != slices.Contains(ended, x.l) {
			return fmt.Errorf("until %d at %d: ended is %t", x.until, now, !over)
		}
		if over {
			x.end = core.Expired
			if x.until == x.most {
				x.end = core.HeldMost
			}
			continue
		}
		sent := slices.Contains(renew, x.l)
		mayRide := x.failures == 0 && x.due <= now.Add(x.l.Terms().TTL/20)
		if x.due <= now && !sent || sent && x.due > now && !mayRide {
			return fmt.Errorf("due %d at %d: renewed is %t", x.due, now, sent)
		}
		if sent {
			x.due = core.Never
		}
	}
	return nil
}

func (n *naive) renewal(x *naiveLease, sent, now core.Instant, outcome core.Outcome) {
	ttl := x.l.Terms().TTL
	switch {
	case x.end != core.NotEnded:
	case outcome == core.NotOurs:
		x.end = core.Taken
	case now >= x.until:
		x.end = core.Expired
		if x.until == x.most {
			x.end = core.HeldMost
		}
	case outcome == core.Renewed:
		x.until = min(x.most, max(x.until, sent.Add(ttl-x.l.Terms().Margin)))
		x.due, x.failures = max(now, sent.Add(ttl/3)), 0
		if x.until == x.most {
			x.due = core.Never
		}
	default:
		pause := 20 * ms << min(x.failures, 16)
		x.due = now.Add(min(pause, ttl/10))
		x.failures++
	}
}

// TestKeeperAgainstNaive does random things to a keeper and to the list, and
// compares after each: who is over, who is renewed, when to look next.
func TestKeeperAgainstNaive(t *testing.T) {
	for seed := range uint64(300) {
		if err := compare(rand.New(rand.NewPCG(seed, 1))); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

func compare(r *rand.Rand) error {
	var k core.Keeper
	var n naive
	now := core.Instant(0)
	for range 400 {
		now = now.Add(ms * 7 * time.Duration(r.IntN(6)))
		switch action := r.IntN(10); {
		case action < 3:
			n.hold(&k, r, now)
		case action < 6:
			renew, ended := k.Tick(now)
			if err := n.tick(now, renew, ended); err != nil {
				return err
			}
		default:
			live := n.leases
			if len(live) == 0 {
				continue
			}
			x := live[r.IntN(len(live))]
			n.touch(&k, r, x, now, action)
		}
		if err := n.agree(&k, now); err != nil {
			return err
		}
	}
	return nil
}

func (n *naive) hold(k *core.Keeper, r *rand.Rand, now core.Instant) {
	terms := core.Terms{TTL: ms * time.Duration(100+100*r.IntN(4)), Margin: ms * time.Duration(5+r.IntN(20))}
	longest := ms * time.Duration(r.IntN(2)*r.IntN(900))
	l := lease(terms, now, longest)
	x := &naiveLease{l: &l, most: core.Never, due: now.Add(terms.TTL / 3)}
	if longest > 0 {
		x.most = now.Add(longest)
	}
	x.until = min(x.most, now.Add(terms.TTL-terms.Margin))
	if x.until == x.most {
		x.due = core.Never
	}
	k.Hold(&l)
	n.leases = append(n.leases, x)
}

func (n *naive) touch(k *core.Keeper, r *rand.Rand, x *naiveLease, now core.Instant, action int) {
	switch action {
	case 6:
		k.Drop(x.l)
		if x.end == core.NotEnded {
			x.end = core.Withdrawn
		}
	case 7:
		if got := k.Expire(x.l, now); x.end == core.NotEnded && got {
			x.end = core.Expired
			if x.until == x.most {
				x.end = core.HeldMost
			}
		}
	default:
		sent := now.Add(-ms * time.Duration(r.IntN(60)))
		outcome := []core.Outcome{core.Renewed, core.Renewed, core.Unsure, core.Unsure, core.NotOurs}[r.IntN(5)]
		k.Renewal(x.l, x.l.Terms(), sent, now, outcome)
		n.renewal(x, sent, now, outcome)
	}
}

func (n *naive) agree(k *core.Keeper, now core.Instant) error {
	live := n.live()
	if k.Len() != len(live) {
		return fmt.Errorf("at %d: %d leases are kept, want %d", now, k.Len(), len(live))
	}
	kept := k.Leases()
	for _, x := range n.leases {
		if x.l.End() != x.end || x.l.Until() != x.until {
			return fmt.Errorf("at %d: end %d until %d, want %d %d", now, x.l.End(), x.l.Until(), x.end, x.until)
		}
		if slices.Contains(kept, x.l) != (x.end == core.NotEnded) {
			return fmt.Errorf("at %d: a lease with end %d is kept or not", now, x.end)
		}
	}
	// Wake is never later than what there is to do, nor than half a margin.
	wake := k.Wake(now)
	if next := n.next(); wake > next || len(live) > 0 && wake > now.Add(13*ms) || len(live) == 0 && wake != core.Never {
		return fmt.Errorf("at %d: wakes at %d, next is %d", now, wake, next)
	}
	return nil
}
