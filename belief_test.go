package lockkeeper_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper"
)

// With a TTL of 10 s and the default margin of 1 s, belief lasts 9 s from the
// sending of the request that it rests on.
const belief = 9 * time.Second

// A hold is a client with a lease, and a context that is bound to it.
type hold struct {
	server *server
	wire   *wire
	client *lockkeeper.Client
	lease  *lockkeeper.Lease
	ctx    context.Context
	start  time.Time
}

func holds(t *testing.T, opts ...lockkeeper.Option) *hold {
	t.Helper()
	h := &hold{server: newServer()}
	h.wire = h.server.wire()
	h.client = newClient(t, h.wire, lockkeeper.Config{})
	h.start = time.Now()
	h.lease = mustTry(t, h.client.Mutex("orders", opts...))
	ctx, cancel := h.lease.Bind(t.Context())
	t.Cleanup(cancel)
	h.ctx = ctx
	return h
}

// wantLostAfter waits until the context ends, and checks when and why.
func (h *hold) wantLostAfter(t *testing.T, d time.Duration) *lockkeeper.LostError {
	t.Helper()
	select {
	case <-h.ctx.Done():
	case <-time.After(d + time.Hour):
		t.Fatal("the lease is not lost")
	}
	wantTook(t, h.start, d)
	cause := context.Cause(h.ctx)
	var lost *lockkeeper.LostError
	if !errors.As(cause, &lost) {
		t.Fatalf("the cause is %v, want a *LostError", cause)
	}
	wantErr(t, cause, lockkeeper.ErrLost)
	wantErr(t, h.ctx.Err(), context.Canceled)
	if err := h.lease.Err(); err != cause {
		t.Errorf("Err is %v, the cause is %v", err, cause)
	}
	select {
	case <-h.lease.Done():
	default:
		t.Error("Done is not closed")
	}
	if lost.Name != "orders" || lost.Fence != h.lease.Fence() || lost.Reason == "" {
		t.Errorf("lost error is %+v", lost)
	}
	return lost
}

func TestBeliefEndsWhenRenewalsHang(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := holds(t)
		h.wire.breaks(hangs)
		lost := h.wantLostAfter(t, belief)
		wantNotErr(t, lost, context.DeadlineExceeded) // that is of the renewal, and no caller's
		wantKey(t, h.server, "lockkeeper:orders", true)
		if left := h.server.TTL("lockkeeper:orders"); left != time.Second {
			t.Errorf("%s are left of the key, want the margin", left)
		}
	})
}

func TestBeliefEndsWhenRenewalsFail(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := holds(t)
		h.wire.breaks(fails(errNetwork))
		lost := h.wantLostAfter(t, belief)
		wantErr(t, lost, errNetwork)
		// 3.33 s, then 20, 40, ... 640 ms, then every second: no hot loop.
		if n := h.wire.sent("renew"); n < 8 || n > 12 {
			t.Errorf("%d renewals in 5.67 s without an answer", n)
		}
	})
}

func TestBeliefEndsWhenTheReplyIsLate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := holds(t)
		// The server renews at once, and each answer comes after belief has ended.
		h.wire.breaks(on(late(belief), "renew"))
		h.wantLostAfter(t, belief)
		deadline := h.lease.Deadline()
		time.Sleep(2 * belief) // the answers arrive
		wantErr(t, h.lease.Err(), lockkeeper.ErrLost)
		if !h.lease.Deadline().Equal(deadline) {
			t.Error("belief grew after it had ended")
		}
	})
}

func TestBeliefCountsFromSending(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newServer()
		w := s.wire()
		c := newClient(t, w, lockkeeper.Config{})
		w.breaks(on(slow(100*ms, 2*time.Second), "acquire"))
		start := time.Now()
		lease := mustTry(t, c.Mutex("orders"))
		wantTook(t, start, 2100*ms)
		if want := start.Add(belief); !lease.Deadline().Equal(want) {
			t.Errorf("deadline is %s after sending, want %s", lease.Deadline().Sub(start), belief)
		}
		w.breaks(hangs)
		<-lease.Done()
		wantTook(t, start, belief)
	})
}

func TestRenewalCountsFromSending(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := holds(t)
		h.wire.breaks(once(slow(500*ms, time.Second)))
		renewal := h.start.Add(lockkeeper.DefaultTTL / 3)
		time.Sleep(time.Until(renewal.Add(1600 * ms)))
		if want := renewal.Add(belief); !h.lease.Deadline().Equal(want) {
			t.Errorf("deadline is %s after the renewal was sent, want %s", h.lease.Deadline().Sub(renewal), belief)
		}
	})
}

// A grant that comes when its own belief is over is none.
func TestGrantAfterItsBelief(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newServer()
		w := s.wire()
		c := newClient(t, w, lockkeeper.Config{})
		lock := c.Mutex("orders", lockkeeper.WithTTL(time.Second))
		w.breaks(on(late(950*ms), "acquire")) // belief is 900 ms
		lease, err := lock.Try(t.Context())
		if lease != nil {
			t.Fatal("a lease was returned whose belief is over")
		}
		wantErr(t, err, lockkeeper.ErrUnavailable)
		wantNotErr(t, err, lockkeeper.ErrHeld)
		synctest.Wait()
		wantKey(t, s, "lockkeeper:orders", false) // given back, before it expired
		if n := w.sent("release"); n != 1 {
			t.Errorf("%d requests gave it back, want 1", n)
		}

		// One that waits goes on waiting, and gets it when the network is good again.
		start := time.Now()
		result := goes(func() error { _, err := lock.Acquire(t.Context()); return err })
		time.Sleep(940 * ms)
		w.breaks(nil)
		if err := <-result; err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took > 1100*ms {
			t.Errorf("it took %s", took)
		}
	})
}

func TestMarginOfTheConfig(t *testing.T) {
	for _, tt := range []struct{ ttl, margin, want time.Duration }{
		{0, 0, belief},
		{10 * time.Second, 3 * time.Second, 7 * time.Second},
		{10 * time.Second, time.Nanosecond, 10*time.Second - time.Nanosecond},
		{10 * ms, 0, 8 * ms},
		{time.Second, 333 * ms, 667 * ms},
	} {
		t.Run(tt.ttl.String()+" "+tt.margin.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newServer().wire()
				c := newClient(t, w, lockkeeper.Config{TTL: tt.ttl, Margin: tt.margin})
				start := time.Now()
				lease := mustTry(t, c.Mutex("orders"))
				w.breaks(hangs)
				<-lease.Done()
				wantTook(t, start, tt.want)
			})
		})
	}
}

// A margin of the config that is too large for the TTL of one lock is not used
// for that lock.
func TestMarginOfALock(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newServer().wire()
		c := newClient(t, w, lockkeeper.Config{Margin: 3 * time.Second})
		start := time.Now()
		short := mustTry(t, c.Mutex("a", lockkeeper.WithTTL(time.Second)))
		long := mustTry(t, c.Mutex("b", lockkeeper.WithTTL(20*time.Second)))
		w.breaks(hangs)
		<-short.Done()
		wantTook(t, start, 900*ms)
		<-long.Done()
		wantTook(t, start, 17*time.Second)
	})
}

// The keeper has had nothing to do for long when a lease comes.
func TestLeaseAfterAnIdleTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := holds(t)
		mustRelease(t, h.lease)
		time.Sleep(90 * time.Minute)
		h.start = time.Now()
		h.lease = mustTry(t, h.client.Mutex("orders"))
		time.Sleep(time.Minute)
		if err := h.lease.Err(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestRenewedForAsLongAsItRuns(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := holds(t)
		const hour = time.Hour
		time.Sleep(hour)
		if err := h.lease.Err(); err != nil {
			t.Fatal(err)
		}
		if left := h.server.TTL("lockkeeper:orders"); left < 6600*ms {
			t.Errorf("%s are left of the key", left)
		}
		if n := h.wire.sent("renew"); n < 1070 || n > 1080 { // a third of 10 s
			t.Errorf("%d renewals in an hour, want 1080", n)
		}
		mustRelease(t, h.lease)
		n := h.wire.sent("renew")
		time.Sleep(hour)
		if h.wire.sent("renew") != n {
			t.Error("renewed after the release")
		}
	})
}

func TestMaxHoldEndsALease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := holds(t, lockkeeper.WithMaxHold(time.Minute))
		lost := h.wantLostAfter(t, time.Minute)
		if lost.Err != nil {
			t.Errorf("the loss is blamed on %v", lost.Err)
		}
		time.Sleep(lockkeeper.DefaultTTL)
		wantKey(t, h.server, "lockkeeper:orders", false) // not renewed any more
	})
}

func TestMaxHoldOfAllTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := holds(t, lockkeeper.WithMaxHold(1<<63-1))
		time.Sleep(time.Minute)
		if err := h.lease.Err(); err != nil {
			t.Error(err)
		}
	})
}

func TestBindSeveral(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := holds(t)
		parent, stop := context.WithCancelCause(t.Context())
		a, cancelA := h.lease.Bind(parent)
		b, cancelB := h.lease.Bind(context.Background())
		defer cancelB()
		child, cancelChild := context.WithTimeout(b, time.Hour)
		defer cancelChild()

		stop(errNetwork)
		<-a.Done()
		wantErr(t, context.Cause(a), errNetwork)
		cancelA()
		if b.Err() != nil || h.lease.Err() != nil {
			t.Error("the end of one parent ended another context, or the lease")
		}
		h.wire.breaks(hangs)
		<-child.Done()
		wantTook(t, h.start, belief)
		wantErr(t, context.Cause(child), lockkeeper.ErrLost)
		wantErr(t, child.Err(), context.Canceled)

		late, cancelLate := h.lease.Bind(context.Background())
		defer cancelLate()
		if late.Err() == nil || !errors.Is(context.Cause(late), lockkeeper.ErrLost) {
			t.Errorf("bound to a lost lease: %v", context.Cause(late))
		}
	})
}

// Many leases of different TTLs end each at its own time.
func TestEachLeaseHasItsTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newServer().wire()
		c := newClient(t, w, lockkeeper.Config{})
		start := time.Now()
		results := make([]<-chan time.Duration, 200)
		for i := range results {
			ttl := time.Duration(20+10*(i*77%len(results))) * ms
			lease := mustTry(t, c.Mutex(fmt.Sprint(i), lockkeeper.WithTTL(ttl)))
			results[i] = goes(func() time.Duration { <-lease.Done(); return time.Since(start) - ttl*9/10 })
			synctest.Wait() // the keeper sleeps when the next one comes
		}
		w.breaks(hangs)
		for i, result := range results {
			if late := <-result; late != 0 {
				t.Errorf("lease %d ended %s late", i, late)
			}
		}
	})
}
