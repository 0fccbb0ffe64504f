package lockkeeper_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper"
)

// The calls of one process take turns with one hold: the rules of that, one test each.

// served returns a lease that the process has waited for: its subscription stands, so
// that it hears of others, and it has fences in reserve.
func (p *party) served(t *testing.T) *lockkeeper.Lease {
	t.Helper()
	lease := mustTry(t, p.holder)
	result := waits(t.Context(), p.lock)
	settled(300 * ms)
	mustRelease(t, lease)
	return must(t, "the waiter", result)
}

func (p *party) warm(t *testing.T) {
	t.Helper()
	mustRelease(t, p.served(t))
	synctest.Wait()
}

// many starts n waits, in this order.
func many(ctx context.Context, n int, lock *lockkeeper.Lock) (ends []<-chan outcome) {
	for range n {
		ends = append(ends, waits(ctx, lock))
		synctest.Wait()
	}
	return ends
}

// turns has n goroutines take count turns each, and returns the leases in the order of
// their turns.
func turns(t *testing.T, lock *lockkeeper.Lock, n, count int, turn time.Duration) (leases []*lockkeeper.Lease) {
	t.Helper()
	first := mustAcquire(t, lock) // until all of them wait
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			for range count {
				lease, err := lock.Acquire(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				leases = append(leases, lease) // under the lock
				if turn > 0 {
					time.Sleep(turn)
				}
				mustRelease(t, lease)
			}
		})
	}
	synctest.Wait()
	mustRelease(t, first)
	wg.Wait()
	return leases
}

func wantGrowing(t *testing.T, leases []*lockkeeper.Lease) {
	t.Helper()
	for i := 1; i < len(leases); i++ {
		if leases[i].Fence() <= leases[i-1].Fence() {
			t.Fatalf("turn %d has fence %s after %s", i, leases[i].Fence(), leases[i-1].Fence())
		}
	}
}

// C1, C3: turns cost the server nothing while nobody else waits: 1000 of 64 goroutines
// need a handful of requests. Each has a fence and an owner of its own.
func TestTurnsCostNoRequests(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newParty(t)
		p.warm(t)
		before := p.wire.sent("")
		leases := turns(t, p.lock, 64, 16, 0)
		if n := p.wire.sent("") - before; n > 6 {
			t.Errorf("%d requests for %d turns", n, len(leases))
		}
		wantGrowing(t, leases)
		owners := make(map[string]bool)
		for _, lease := range leases {
			if owners[lease.Owner()] {
				t.Fatalf("owner %s comes twice", lease.Owner())
			}
			owners[lease.Owner()] = true
		}
		synctest.Wait()
		p.server.wantNothing(t)
		// The counter is behind none that was used.
		last := leases[len(leases)-1].Fence()
		if lease := mustTry(t, p.another); lease.Fence() <= last {
			t.Errorf("fence %s of another process after %s", lease.Fence(), last)
		}
	})
}

// C2: the fences in reserve run out: the next turns get others from the server.
func TestTurnsUseUpTheirFences(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newParty(t)
		p.warm(t)
		before := p.wire.sent("")
		leases := turns(t, p.lock, 64, 1100, 0) // no time passes
		wantGrowing(t, leases)
		if n := p.wire.sent("") - before; n < 3 || n > len(leases)/10 {
			t.Errorf("%d requests for %d turns", n, len(leases))
		}
	})
}

// C3: another process waits: it has the lock after 8 further turns, or at the first
// release after 10 ms, whichever is first. So it is where the holder is deaf.
func TestTurnsEndWhenOthersWait(t *testing.T) {
	for _, tt := range []struct {
		turn time.Duration
		want int // turns, with the one during which the other came
	}{{500 * time.Microsecond, 9}, {ms, 9}, {2 * ms, 5}, {3 * ms, 4}, {5 * ms, 2}, {12 * ms, 1}} {
		for _, how := range []string{"it is told before it has turns", "by message", "deaf"} {
			t.Run(fmt.Sprint(tt.turn, " ", how), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					p := newParty(t)
					if how != "deaf" {
						p.warm(t)
					} else {
						p.wire.deafens(errNetwork)
					}
					lease := mustTry(t, p.holder)
					first := waits(t.Context(), p.lock)
					settled(300 * ms)
					var other <-chan outcome
					if how != "by message" {
						other = waits(t.Context(), p.another)
						settled(300 * ms)
					}
					mustRelease(t, lease)
					if how == "deaf" {
						time.Sleep(deafPoll)
					}
					lease = must(t, "the first", first)
					if how == "by message" {
						other = waits(t.Context(), p.another)
						settled(100 * time.Microsecond)
					}
					start := time.Now()
					ends := many(t.Context(), 20, p.lock)
					n := 0
					for len(other) == 0 {
						time.Sleep(tt.turn)
						mustRelease(t, lease)
						n++
						synctest.Wait()
						if len(other) == 0 {
							lease = must(t, fmt.Sprint("turn ", n), ends[n-1])
						}
					}
					if n != tt.want && how != "deaf" || n > tt.want {
						t.Errorf("it had %d turns in %s, want %d", n, time.Since(start), tt.want)
					}
					mustRelease(t, must(t, "the other", other))
					for _, end := range ends[n-1:] {
						mustRelease(t, arrives(t, "a call", end).lease)
					}
					settled(0)
					p.server.wantNothing(t)
				})
			})
		}
	}
}

// C3: the message that another process waits comes before the answer to the request
// that has got the lock. It is not forgotten.
func TestTurnsHearOfOthersBeforeTheAnswer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newParty(t)
		p.warm(t)
		before := mustAcquire(t, p.lock)
		first := waits(t.Context(), p.lock)
		synctest.Wait()
		// The request runs at once, and its answer takes 5 ms.
		p.wire.breaks(once(on(slow(0, 5*ms), "release")))
		released := goes(func() error { return before.Release(t.Context()) })
		settled(ms)
		other := waits(t.Context(), p.another)
		settled(5 * ms)
		if err := <-released; err != nil {
			t.Fatal(err)
		}
		lease := must(t, "the first", first)
		n := 0
		for ; len(other) == 0 && n < 100; n++ {
			next := waits(t.Context(), p.lock)
			settled(ms / 2)
			mustRelease(t, lease)
			synctest.Wait()
			if len(other) == 0 {
				lease = must(t, "the next", next)
			}
		}
		if n > 9 {
			t.Errorf("the other had to wait for %d turns", n)
		}
		mustRelease(t, must(t, "the other", other))
	})
}

// C3: a message that others wait is lost: a hold is passed on for a second at most.
func TestTurnsEndWithoutAMessage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newParty(t)
		conn := p.server.lagging()
		lock := newClient(t, conn, lockkeeper.Config{}).Mutex("orders")
		p.lock, p.wire = lock, conn.wire
		p.warm(t)
		lease := mustAcquire(t, lock)
		next := waits(t.Context(), lock)
		settled(0)
		mustRelease(t, lease)
		lease = must(t, "the next", next)
		conn.shuts()
		other := waits(t.Context(), p.another)
		start := time.Now()
		for len(other) == 0 {
			next := waits(t.Context(), lock)
			settled(10 * ms)
			mustRelease(t, lease)
			synctest.Wait()
			if len(other) == 0 {
				lease = must(t, "the next", next)
			}
		}
		if took := time.Since(start); took > time.Second+10*ms || took < 100*ms {
			t.Errorf("the other waited for %s", took)
		}
		conn.opens(false)
		mustRelease(t, must(t, "the other", other))
	})
}

// C4: a hold that is almost over is not passed on: the next call asks the server.
func TestTurnsDoNotInheritWhatIsAlmostOver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newParty(t)
		start := time.Now()
		p.wire.breaks(on(fails(errNetwork), "renew"))
		lease := p.served(t)
		next := waits(t.Context(), p.lock)
		settled(700 * ms) // 2 s of the 3 s are left, of 9 s that there may be
		before := p.wire.sent("release")
		mustRelease(t, lease)
		lease = must(t, "the next", next)
		if p.wire.sent("release") == before {
			t.Error("it was passed on without the server")
		}
		if left := time.Until(lease.Deadline()); left < belief-ms {
			t.Errorf("the next has %s left, %s after the start", left, time.Since(start))
		}
		mustRelease(t, lease)
	})
}

// C5: the lease is lost: the contexts of the lost turn have ended when the next call
// has the lock, and it has it from the server.
func TestTurnsLostLease(t *testing.T) {
	for _, how := range []string{"no answer", "stolen"} {
		t.Run(how, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				p := newParty(t)
				p.warm(t)
				lease := mustAcquire(t, p.lock)
				ctx, cancel := lease.Bind(t.Context())
				defer cancel()
				ends := many(t.Context(), 2, p.lock)
				next, last := ends[0], ends[1]
				settled(ms)
				if how == "stolen" {
					p.server.Set(ordersKey, "thief", 4*time.Second)
				} else {
					p.wire.breaks(hangs)
					time.AfterFunc(belief+ms, func() { p.wire.breaks(nil) })
				}
				got := arrives(t, "the next", next)
				if got.err != nil {
					t.Fatal(got.err)
				}
				select {
				case <-ctx.Done():
					wantErr(t, context.Cause(ctx), lockkeeper.ErrLost)
				default:
					t.Error("the lost turn's context has not ended")
				}
				wantErr(t, lease.Err(), lockkeeper.ErrLost)
				if got.lease.Fence() <= lease.Fence() || strings.HasPrefix(got.lease.Owner(), lease.Owner()) {
					t.Errorf("owner %s, fence %s after %s, %s", got.lease.Owner(), got.lease.Fence(), lease.Owner(), lease.Fence())
				}
				wantErr(t, lease.Release(t.Context()), lockkeeper.ErrLost)
				settled(time.Second)
				if got.lease.Err() != nil {
					t.Errorf("the release of the lost turn ended the next: %v", got.lease.Err())
				}
				mustRelease(t, got.lease)
				mustRelease(t, arrives(t, "the last", last).lease)
			})
		})
	}
}

// C6: a call is cancelled in the moment in which its turn comes: the turn goes on to
// the next, and nothing stays held.
func TestTurnsCancelRacesWithAPass(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newParty(t)
		p.warm(t)
		for i := range 200 {
			lease := mustAcquire(t, p.lock)
			ctx, cancel := context.WithCancel(t.Context())
			next := waits(ctx, p.lock)
			synctest.Wait()
			last := waits(t.Context(), p.lock)
			synctest.Wait()
			// The order of the two is the scheduler's.
			go cancel()
			if i%2 == 0 {
				runtime.Gosched()
			}
			mustRelease(t, lease)
			if o := arrives(t, "the next", next); o.err == nil {
				mustRelease(t, o.lease)
			} else {
				wantErr(t, o.err, context.Canceled)
			}
			mustRelease(t, arrives(t, "the last", last).lease)
			synctest.Wait()
			p.server.wantNothing(t)
		}
	})
}

// C7: a turn that never ends is bounded by WithMaxHold, each from its own beginning.
func TestTurnsMaxHoldIsPerTurn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newParty(t, lockkeeper.WithMaxHold(400*ms))
		lease := p.served(t)
		next := waits(t.Context(), p.lock)
		settled(300 * ms)
		mustRelease(t, lease)
		second := must(t, "the next", next)
		if second.Owner() != lease.Owner()+".1" {
			t.Fatal("it was not passed on")
		}
		start := time.Now()
		third := waits(t.Context(), p.lock)
		<-second.Done()
		wantTook(t, start, 400*ms)
		wantErr(t, second.Err(), lockkeeper.ErrLost)
		got := arrives(t, "the third", third)
		mustRelease(t, got.lease)
	})
}

// C7: the limit of one turn is none for the next, whose lock has none.
func TestTurnsMaxHoldDoesNotLeak(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newParty(t)
		p.warm(t)
		c := newClient(t, p.server.wire(), lockkeeper.Config{})
		short, long := c.Mutex("orders", lockkeeper.WithMaxHold(4*time.Second)), c.Mutex("orders")
		result := waits(t.Context(), short)
		lease := arrives(t, "the first", result).lease
		next := waits(t.Context(), long)
		settled(time.Second)
		mustRelease(t, lease)
		lease = must(t, "the next", next)
		settled(time.Minute)
		if lease.Err() != nil {
			t.Error(lease.Err())
		}
		mustRelease(t, lease)
	})
}

// C8: calls that come while the release is on its way wait for its result, with one
// request for all.
func TestTurnsArriveDuringTheRelease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newParty(t)
		lease := mustAcquire(t, p.lock)
		p.wire.breaks(on(slow(5*ms, 5*ms), "release"))
		released := goes(func() error { return lease.Release(t.Context()) })
		settled(ms)
		var ends []<-chan outcome
		for range 10 {
			ends = append(ends, waits(t.Context(), p.lock))
			settled(100 * time.Microsecond)
		}
		before := p.wire.sent("acquire")
		settled(20 * ms)
		if err := <-released; err != nil {
			t.Fatal(err)
		}
		if n := p.wire.sent("acquire") - before; n > 2 { // and one for the subscription
			t.Errorf("%d requests", n)
		}
		var leases []*lockkeeper.Lease
		for i, end := range ends {
			leases = append(leases, arrives(t, fmt.Sprint("call ", i), end).lease)
			mustRelease(t, leases[i])
		}
		wantGrowing(t, append([]*lockkeeper.Lease{lease}, leases...))
	})
}

// C9: nobody knows what became of a release: the next call has the lock as soon as the
// server says so, and no two have it.
func TestTurnsAmbiguousRelease(t *testing.T) {
	for _, kind := range []string{"request", "reply"} {
		for _, others := range []bool{false, true} {
			t.Run(fmt.Sprint(kind, " lost, others wait: ", others), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					p := newParty(t)
					lease := mustTry(t, p.lock) // without fences in reserve
					var other <-chan outcome
					if others {
						other = waits(t.Context(), p.another)
						settled(10 * ms)
					}
					next := waits(t.Context(), p.lock)
					settled(300 * ms)
					p.wire.breaks(once(on(map[string]fault{"request": hangs, "reply": losesReplies}[kind], "release")))
					start := time.Now()
					released := goes(func() error { return lease.Release(t.Context()) })
					last := lease.Fence()
					if others {
						o := arrives(t, "the other", other)
						o.wantWithin(t, start, 5*time.Second)
						last = o.lease.Fence()
						settled(2 * time.Second)
						none(t, "the next", next)
						mustRelease(t, o.lease)
					}
					o := arrives(t, "the next", next)
					o.wantWithin(t, start, 8*time.Second)
					if o.lease.Fence() <= last {
						t.Errorf("fence %s after %s", o.lease.Fence(), last)
					}
					if err := <-released; err != nil {
						t.Error(err)
					}
					settled(5 * time.Second)
					if o.lease.Err() != nil {
						t.Error(o.lease.Err())
					}
					mustRelease(t, o.lease)
					p.server.wantNothing(t)
				})
			})
		}
	}
}
