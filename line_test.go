package lockkeeper_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/internal/redistest"
)

// H4: the message of a hand-off that is over comes after the process has asked anew,
// and was answered that another one holds the lock.
func TestHoleLateMessageAfterAnAnswer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		q := lineUp(t, 2)
		q.conns[0].stops()
		mustRelease(t, q.hold)
		second := arrives(t, "the second", q.got[1])
		if second.err != nil {
			t.Fatal(second.err)
		}
		q.conns[0].breaks(nil) // its requests come through before its messages do
		settled(4 * time.Second)
		none(t, "the late one", q.got[0])
		q.server.wantLabels(t, "w0")
		q.conns[0].opens(true)
		synctest.Wait()
		select {
		case o := <-q.got[0]:
			t.Fatalf("two hold the lock: %v with fence %s, and %v with fence %s",
				second.lease.Err(), second.lease.Fence(), o.lease.Err(), o.lease.Fence())
		default:
		}
		mustRelease(t, second.lease)
		mustRelease(t, must(t, "the late one", q.got[0]))
	})
}

// Two calls of a process with different options wait, and the first gives up: the
// lock that comes to the second is its own, with its label and its TTL, and belief
// ends before the key does.
func TestTurnsPlaceOfAnotherKind(t *testing.T) {
	for name, poll := range map[string]time.Duration{"before its next poll": 0, "after its next poll": poll} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newServer()
				holder := mustTry(t, newClient(t, s.wire(), lockkeeper.Config{}).Mutex("orders"))
				w := s.wire()
				c := newClient(t, w, lockkeeper.Config{})
				ctx, cancel := context.WithCancel(t.Context())
				first := waits(ctx, c.Mutex("orders", lockkeeper.WithLabel("long"), lockkeeper.WithTTL(10*time.Second)))
				settled(300 * ms)
				second := waits(t.Context(), c.Mutex("orders", lockkeeper.WithLabel("short"), lockkeeper.WithTTL(2*time.Second)))
				settled(3 * time.Second)
				cancel()
				<-first
				settled(poll)
				w.breaks(on(hangs, "renew", "acquire"))
				mustRelease(t, holder)
				lease := must(t, "the second", second)
				value, _ := s.Get(ordersKey)
				if !strings.HasSuffix(value, ":short") {
					t.Errorf("the value is %q", value)
				}
				if expires := time.Now().Add(s.TTL(ordersKey)); lease.Deadline().After(expires.Add(-200 * ms)) {
					t.Errorf("it believes %s beyond the end of the key", lease.Deadline().Sub(expires))
				}
				w.breaks(nil)
				settled(5 * time.Second)
				if err := lease.Err(); err != nil {
					t.Fatal(err)
				}
				if left := s.TTL(ordersKey); left > 2*time.Second {
					t.Errorf("it is renewed for %s", left)
				}
				mustRelease(t, lease)
			})
		})
	}
}

// The line's key is used by something else: a release that wants to wait again gives
// the lock back all the same, and the next call of the process gets it.
func TestTurnsReleaseWithAWrongLine(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newParty(t)
		lease := mustTry(t, p.lock)
		local := waits(t.Context(), p.lock)
		settled(300 * ms)
		p.server.Set(lineKey, "something else", 0)
		if err := lease.Release(t.Context()); err != nil {
			t.Errorf("Release: %v", err)
		}
		mustRelease(t, must(t, "the local one", local))
		settled(0)
		wantKey(t, p.server, ordersKey, false)
	})
}

// H12: a process that has had the lock goes behind those that wait, however long the next
// of its calls has waited. It does so again when the line is lost.
func TestHoleLostLineOfALateEntry(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newServer()
		process := func(label string) *lockkeeper.Client {
			return newClient(t, s.wire(), lockkeeper.Config{Label: label})
		}
		a, b, c := process("a"), process("b"), process("c")
		lease := mustTry(t, a.Mutex("orders"))
		first := waits(t.Context(), b.Mutex("orders"))
		settled(time.Second)
		local := waits(t.Context(), a.Mutex("orders", lockkeeper.WithLabel("a again")))
		settled(time.Second)
		last := waits(t.Context(), c.Mutex("orders"))
		settled(time.Second)
		mustRelease(t, lease)
		lease = must(t, "the first", first)
		s.wantLabels(t, "c a again")
		settled(2 * time.Second)
		s.Del(lineKey)
		settled(2 * poll)
		s.wantLabels(t, "c a again")
		mustRelease(t, lease)
		mustRelease(t, arrives(t, "c", last).lease)
		mustRelease(t, arrives(t, "a", local).lease)
	})
}

// C1: a fence is raised while the turn is released and passed on: no later turn has a
// smaller fence than an earlier one was given.
func TestTurnsRaiseFenceRacesWithRelease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newParty(t)
		lease := mustAcquire(t, p.lock)
		// The reserve comes with the first hold that is waited for.
		next := waits(t.Context(), p.lock)
		settled(300 * ms)
		mustRelease(t, lease)
		lease = must(t, "the first", next)
		next = waits(t.Context(), p.lock)
		settled(ms)
		p.wire.breaks(on(slow(ms, ms), "raise"))
		raised := goes(func() error { return lease.RaiseFence(t.Context(), lease.Fence()+1_000_000_000) })
		settled(0)
		mustRelease(t, lease)
		later := must(t, "the second", next)
		if err := <-raised; err == nil && later.Fence() <= lease.Fence() {
			t.Errorf("fence %s after %s", later.Fence(), lease.Fence())
		}
		mustRelease(t, later)
	})
}

// deadLine puts dead places in the line.
func (s *server) deadLine(t *testing.T, n int) {
	for i := range n {
		s.seat(t, fmt.Sprintf("dead%04d.1", i), "600000:4000:0:1:"+wakeOfAll)
	}
	time.Sleep(ms)
}

// H10: who gets the free lock behind many dead places is not in the line any more.
func TestHoleGrantedBehindDeadPlaces(t *testing.T) {
	for name, deaf := range map[string]error{"who listens": nil, "who does not": errNetwork} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				p := newParty(t)
				p.wire.deafens(deaf)
				p.server.Set(ordersKey, "x", 0)
				p.server.deadLine(t, 1024)
				result := waits(t.Context(), p.lock)
				settled(300 * ms)
				p.server.Del(ordersKey)
				lease := arrives(t, "the waiter", result).lease
				if line := p.server.Line(lineKey); len(line) != 0 {
					t.Errorf("in the line are %v, and the holder is %s", line, lease.Owner())
				}
				mustRelease(t, lease)
				wantKey(t, p.server, ordersKey, false)
				settled(0)
			})
		})
	}
}

// A newcomer that finds the first 1024 of the line dead has the lock, and others wait
// still behind those: it is not alone.
func TestQueueNewcomerIsNotAlone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newParty(t)
		p.server.Set(ordersKey, "x", 0)
		own := waits(t.Context(), p.lock) // subscribed from here on
		settled(300 * ms)
		p.server.Del(ordersKey)
		mustRelease(t, arrives(t, "the process", own).lease)

		p.server.Set(ordersKey, "x", 0)
		p.server.deadLine(t, 1024)
		other := waits(t.Context(), p.another)
		settled(300 * ms)
		p.server.Del(ordersKey)
		lease := mustAcquire(t, p.lock)
		start := time.Now()
		for time.Since(start) < 5*time.Second && len(other) == 0 {
			next := waits(t.Context(), p.lock)
			settled(ms)
			mustRelease(t, lease)
			synctest.Wait()
			if len(other) > 0 {
				break
			}
			lease = must(t, "the next", next)
		}
		if turns := time.Since(start) / ms; turns > 12 {
			t.Errorf("the other had to wait for %d turns", turns)
		}
	})
}

// H19: in a cluster a client subscribes at any node, and PUBLISH says how many have
// heard it at this one. Whose channel is elsewhere is told, and must not be passed over.
func TestHoleSubscriptionAtAnotherNode(t *testing.T) {
	t.Parallel()
	a, b := cluster(t)
	lease := mustTry(t, a.process(t, lockkeeper.Config{}))
	conn := &split{connTo(t, a.Addr()), connTo(t, b.Addr())}
	first := waits(t.Context(), newClient(t, conn, lockkeeper.Config{}).Mutex("orders"))
	a.listed(t, 1)
	second := waits(t.Context(), a.process(t, lockkeeper.Config{}))
	a.listed(t, 2)
	mustRelease(t, lease)
	time.Sleep(300 * ms)
	if len(first) > 0 && len(second) > 0 {
		one, other := <-first, <-second
		t.Fatalf("two hold the lock: %v with fence %s, and %v with fence %s",
			one.lease.Err(), one.lease.Fence(), other.lease.Err(), other.lease.Fence())
	}
	if len(first) == 0 {
		t.Error("the first was passed over")
	}
}

// H19: a client that subscribes at a replica is told, and PUBLISH at the primary does
// not count it: it must not be passed over.
func TestHoleSubscriptionAtAReplica(t *testing.T) {
	t.Parallel()
	s := startReal(t)
	replica := startReal(t, redistest.Args("--repl-diskless-sync-delay", "0"))
	replica.Do(t, "REPLICAOF", "127.0.0.1", strconv.Itoa(s.Port()))
	lease := mustTry(t, s.process(t, lockkeeper.Config{}))
	redistest.Until(t, "the replica follows", func() bool { return replica.exists(t, ordersKey) })
	conn := &split{connTo(t, s.Addr()), connTo(t, replica.Addr())}
	first := waits(t.Context(), newClient(t, conn, lockkeeper.Config{}).Mutex("orders"))
	s.listed(t, 1)
	second := waits(t.Context(), s.process(t, lockkeeper.Config{}))
	s.listed(t, 2)
	mustRelease(t, lease)
	time.Sleep(300 * ms)
	if len(first) > 0 && len(second) > 0 {
		one, other := <-first, <-second
		t.Fatalf("two hold the lock: %v with fence %s, and %v with fence %s",
			one.lease.Err(), one.lease.Fence(), other.lease.Err(), other.lease.Fence())
	}
}
