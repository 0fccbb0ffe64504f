package lockkeeper_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper"
)

const renewal = lockkeeper.DefaultTTL / 3

// The key is not ours any more: the lease ends at its next renewal, not later.
func TestNotOursEndsAtTheNextRenewal(t *testing.T) {
	for name, takes := range map[string]func(t *testing.T, h *hold){
		"deleted":     func(_ *testing.T, h *hold) { h.server.Del("lockkeeper:orders") },
		"overwritten": func(_ *testing.T, h *hold) { h.server.Set("lockkeeper:orders", "mine now", 0) },
		"expired early by a step of the clock": func(_ *testing.T, h *hold) {
			h.server.StepClock(time.Minute)
		},
		"flushed": func(_ *testing.T, h *hold) { h.server.Flush() },
		"broken": func(t *testing.T, h *hold) {
			if err := h.client.Break(t.Context(), "orders", h.lease.Fence()); err != nil {
				t.Error(err)
			}
		},
		"broken and taken again": func(t *testing.T, h *hold) {
			other := newClient(t, h.server.wire(), lockkeeper.Config{})
			if err := other.Break(t.Context(), "orders", h.lease.Fence()); err != nil {
				t.Error(err)
			}
			mustTry(t, other.Mutex("orders"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				h := holds(t)
				time.Sleep(time.Second)
				takes(t, h)
				lost := h.wantLostAfter(t, renewal)
				if lost.Err != nil || !strings.Contains(lost.Reason, "somebody else's") {
					t.Errorf("lost error is %v", lost)
				}
			})
		})
	}
}

// Errors that are not "not yours" are survived for as long as belief lasts.
func TestTransientErrorsAreSurvived(t *testing.T) {
	for name, failure := range map[string]error{
		"loading":   replies("LOADING Redis is loading the dataset in memory"),
		"readonly":  replies("READONLY You can't write against a read only replica."),
		"oom":       replies("OOM command not allowed when used memory > 'maxmemory'."),
		"busy":      replies("BUSY Redis is busy running a script."),
		"noperm":    replies("NOPERM this user has no permissions"), // somebody may mend it in time
		"anything":  replies("ERR whatever"),
		"network":   errNetwork,
		"cancelled": context.Canceled,
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				h := holds(t)
				h.wire.breaks(fails(failure))
				time.Sleep(belief - 1500*ms)
				if err := h.lease.Err(); err != nil {
					t.Fatalf("lost while it was believed: %v", err)
				}
				if n := h.wire.sent("renew"); n < 3 {
					t.Errorf("%d renewals were tried", n)
				}
				h.wire.breaks(nil)
				time.Sleep(time.Minute)
				if err := h.lease.Err(); err != nil {
					t.Fatalf("lost after the errors had ended: %v", err)
				}
				h.wire.breaks(fails(failure))
				<-h.ctx.Done()
				wantErr(t, context.Cause(h.ctx), lockkeeper.ErrLost)
				if !errors.Is(failure, context.Canceled) && !errors.Is(failure, context.DeadlineExceeded) { // these are no caller's
					wantErr(t, context.Cause(h.ctx), failure)
				}
				if !strings.Contains(h.lease.Err().Error(), failure.Error()) {
					t.Errorf("%q does not say %q", h.lease.Err(), failure)
				}
			})
		})
	}
}

// A reply that makes no sense proves nothing.
func TestOddRepliesAreNoLoss(t *testing.T) {
	for name, odd := range map[string]any{
		"nil": nil, "a number": int64(0), "empty": []any{}, "too long": []any{int64(0), int64(0)},
		"a string": []any{"0"}, "nil inside": []any{nil}, "another number": []any{int64(2)},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				h := holds(t)
				h.wire.breaks(answers(odd, false))
				lost := h.wantLostAfter(t, belief)
				if lost.Err == nil || !strings.Contains(lost.Err.Error(), "unexpected reply") {
					t.Errorf("the loss is blamed on %v", lost.Err)
				}
			})
		})
	}
}

// One lease of a request that is not ours does not harm the others in it.
func TestOneOfManyIsLost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newServer()
		c := newClient(t, s.wire(), lockkeeper.Config{})
		a, b, d := mustTry(t, c.Mutex("a")), mustTry(t, c.Mutex("b")), mustTry(t, c.Mutex("d"))
		s.Del("lockkeeper:b")
		time.Sleep(time.Minute)
		wantErr(t, b.Err(), lockkeeper.ErrLost)
		if a.Err() != nil || d.Err() != nil {
			t.Errorf("the others: %v, %v", a.Err(), d.Err())
		}
	})
}

// A lost lease never comes back, not even when the server still has the key.
func TestLostLeaseStaysLost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := holds(t)
		h.wire.breaks(hangs)
		h.wantLostAfter(t, belief)
		h.wire.breaks(nil)
		wantErr(t, h.lease.Extend(t.Context(), time.Minute), lockkeeper.ErrLost)
		wantErr(t, h.lease.RaiseFence(t.Context(), h.lease.Fence()), lockkeeper.ErrLost)
		n := h.wire.sent("")
		time.Sleep(time.Minute)
		wantErr(t, h.lease.Err(), lockkeeper.ErrLost)
		if h.wire.sent("") != n {
			t.Error("something was sent for a lost lease")
		}
		next := mustTry(t, h.client.Mutex("orders"))
		if next.Owner() == h.lease.Owner() || next.Fence() <= h.lease.Fence() {
			t.Errorf("the next hold has owner %s, fence %s", next.Owner(), next.Fence())
		}
	})
}

func TestExtend(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := holds(t)
		if err := h.lease.Extend(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
		if left := h.server.TTL("lockkeeper:orders"); left != time.Minute {
			t.Errorf("%s are left of the key", left)
		}
		h.wire.breaks(hangs)
		h.wantLostAfter(t, 54*time.Second)
	})
}

// A shorter TTL takes nothing away that was granted.
func TestExtendNeverShortens(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := holds(t)
		if err := h.lease.Extend(t.Context(), 100*ms); err != nil {
			t.Fatal(err)
		}
		if left := h.server.TTL("lockkeeper:orders"); left != lockkeeper.DefaultTTL {
			t.Errorf("%s are left of the key", left)
		}
		h.wire.breaks(hangs)
		h.wantLostAfter(t, belief)
	})
}

// Extend while a renewal is on its way: when that is answered and Extend's own request is
// lost, the key lives for as long as the renewal has asked for.
func TestExtendBesideARenewal(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := holds(t)
		renewals := 0
		h.wire.breaks(func(ctx context.Context, c call, run func() (any, error)) (any, error) {
			if renewals++; renewals == 1 {
				defer time.Sleep(20 * ms)
				return run()
			}
			return hangs(ctx, c, run)
		})
		time.Sleep(renewal + 10*ms) // it has run, and is not answered
		ctx, cancel := context.WithTimeout(t.Context(), 100*ms)
		defer cancel()
		wantErr(t, h.lease.Extend(ctx, time.Minute), lockkeeper.ErrUnavailable)
		if left, most := time.Until(h.lease.Deadline()), h.server.TTL("lockkeeper:orders"); left >= most {
			t.Errorf("believed for %s, and the key lives for %s", left, most)
		}
		h.wantLostAfter(t, renewal+belief)
	})
}

func TestExtendFails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := holds(t)
		h.wire.breaks(hangs)
		ctx, cancel := context.WithTimeout(t.Context(), 50*ms)
		defer cancel()
		err := h.lease.Extend(ctx, time.Minute)
		wantTook(t, h.start, 50*ms)
		wantErr(t, err, lockkeeper.ErrUnavailable, context.DeadlineExceeded)
		<-ctx.Done() // which is at the same instant
		n := h.wire.sent("")
		err = h.lease.Extend(ctx, time.Minute)
		wantErr(t, err, context.DeadlineExceeded)
		wantNotErr(t, err, lockkeeper.ErrUnavailable) // nothing was asked
		if h.wire.sent("") != n {
			t.Error("a request was sent for a context that had ended")
		}
		if h.lease.Err() != nil {
			t.Error("the lease did not stand")
		}
		h.wire.breaks(nil)
		time.Sleep(renewal) // it asks for the new TTL
		if left := h.server.TTL("lockkeeper:orders"); left < 50*time.Second {
			t.Errorf("%s are left of the key", left)
		}
		h.server.Del("lockkeeper:orders")
		wantErr(t, h.lease.Extend(t.Context(), time.Minute), lockkeeper.ErrLost)
		wantErr(t, context.Cause(h.ctx), lockkeeper.ErrLost)
	})
}

// Extend changes terms while the keeper groups its renewals by them: for the race
// detector.
func TestExtendBesideTheKeeper(t *testing.T) {
	t.Parallel()
	c := newClient(t, newServer().wire(), lockkeeper.Config{TTL: 300 * ms})
	leases := make([]*lockkeeper.Lease, 2000)
	for i := range leases {
		leases[i] = mustTry(t, c.Mutex(strconv.Itoa(i)))
	}
	for start, i := time.Now(), 0; time.Since(start) < 500*ms; i++ {
		ttl := time.Duration(300+i%7) * ms
		err := leases[i*31%len(leases)].Extend(t.Context(), ttl)
		if err != nil && !errors.Is(err, lockkeeper.ErrLost) && !errors.Is(err, lockkeeper.ErrUnavailable) { // a slow machine
			t.Fatal(err)
		}
		time.Sleep(100 * time.Microsecond)
	}
}

func TestRaiseFence(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := holds(t)
		before := h.lease.Fence()
		if err := h.lease.RaiseFence(t.Context(), before+1_000_000_000); err != nil {
			t.Fatal(err)
		}
		if got := h.lease.Fence(); got != before+1_000_000_001 {
			t.Errorf("fence %s after %s", got, before)
		}
		state, err := h.client.Inspect(t.Context(), "orders")
		if err != nil || state.Holder.Fence != h.lease.Fence() || state.Holder.Owner != h.lease.Owner() {
			t.Errorf("the server says %+v, %v", state, err)
		}
		if left := h.server.TTL("lockkeeper:orders"); left != lockkeeper.DefaultTTL {
			t.Errorf("raising changed the time left to %s", left)
		}
		mustRelease(t, h.lease)
		if next := mustTry(t, h.client.Mutex("orders")); next.Fence() != before+1_000_000_002 {
			t.Errorf("the next fence is %s", next.Fence())
		}
	})
}

// Two raises at once: whichever answer comes last, the larger fence stays.
func TestRaiseFenceTwiceAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := holds(t)
		seen := h.lease.Fence()
		h.wire.breaks(once(slow(0, time.Second))) // the first answer is late
		first := goes(func() error { return h.lease.RaiseFence(t.Context(), seen) })
		synctest.Wait()
		if err := h.lease.RaiseFence(t.Context(), seen+10); err != nil {
			t.Fatal(err)
		}
		if err := <-first; err != nil {
			t.Fatal(err)
		}
		state, err := h.client.Inspect(t.Context(), "orders")
		if err != nil || h.lease.Fence() != state.Holder.Fence || h.lease.Fence() <= seen+10 {
			t.Errorf("the lease has fence %s, the server %s (%v)", h.lease.Fence(), state.Holder.Fence, err)
		}
	})
}

func TestRaiseFenceFails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := holds(t)
		fence := h.lease.Fence()
		h.wire.breaks(answers(nil, false))
		wantErr(t, h.lease.RaiseFence(t.Context(), fence), lockkeeper.ErrUnavailable)
		h.wire.breaks(hangs)
		ctx, cancel := context.WithTimeout(t.Context(), 50*ms)
		defer cancel()
		wantErr(t, h.lease.RaiseFence(ctx, fence), lockkeeper.ErrUnavailable, context.DeadlineExceeded)
		wantTook(t, h.start, 50*ms)
		wantErr(t, h.lease.RaiseFence(ctx, fence), context.DeadlineExceeded)
		if h.lease.Err() != nil || h.lease.Fence() != fence {
			t.Errorf("the lease has ended: %v", h.lease.Err())
		}
		h.wire.breaks(nil)
		h.server.Del("lockkeeper:orders")
		wantErr(t, h.lease.RaiseFence(t.Context(), fence), lockkeeper.ErrLost)
		wantErr(t, h.lease.Err(), lockkeeper.ErrLost)
	})
}

// A counter that no script wrote counts as lost, and does not spoil the lock.
func TestBrokenCounterHeals(t *testing.T) {
	for _, counter := range []string{"99999999999999999999", "9223372036854775807", "9007199254740993", "nonsense", ""} {
		t.Run(counter, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newServer()
				c := newClient(t, s.wire(), lockkeeper.Config{})
				s.Set("{lockkeeper:orders}:lk-fence", counter, time.Hour)
				var last lockkeeper.Fence
				for range 3 {
					lease := mustTry(t, c.Mutex("orders"))
					if lease.Fence() <= last {
						t.Errorf("fence %s after %s", lease.Fence(), last)
					}
					last = lease.Fence()
					mustRelease(t, lease)
				}
			})
		})
	}
}
