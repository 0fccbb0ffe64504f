package lockkeeper

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/core"
)

// A sleeper is a machine that can be suspended: the clock that runs meanwhile is
// ahead of Go's, which is the bubble's, by gap.
type sleeper struct {
	start time.Time
	gap   atomic.Int64
}

func (s *sleeper) read() (time.Duration, bool) {
	return time.Hour + time.Since(s.start) + time.Duration(s.gap.Load()), true
}

func (s *sleeper) suspend(d time.Duration) { s.gap.Add(int64(d)) }

// A grantor is a Conn that grants and renews everything.
type grantor struct{ fence atomic.Int64 }

func (g *grantor) EvalSha(_ context.Context, _ string, keys, args []string) (any, error) {
	switch {
	case len(keys) == 4 && len(args) > 2:
		return strconv.FormatInt(g.fence.Add(1), 10), nil
	case len(args) == 2*len(keys):
		out := make([]any, len(keys))
		for i := range out {
			out[i] = int64(1)
		}
		return out, nil
	}
	return int64(1), nil
}

func (g *grantor) Eval(ctx context.Context, _ string, keys, args []string) (any, error) {
	return g.EvalSha(ctx, "", keys, args)
}

func (g *grantor) Listen(ctx context.Context, _ string, _ func(), _ func(string)) error {
	<-ctx.Done()
	return ctx.Err()
}

// suspended makes a client on such a machine, with a lease of TTL 10 s.
func suspended(t *testing.T) (*sleeper, *Lease, context.Context) {
	t.Helper()
	c, err := New(new(grantor), Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	s := &sleeper{start: time.Now()}
	c.clock = &clock{origin: time.Now(), read: s.read}
	c.clock.boot, _ = s.read()
	lease, err := c.Mutex("orders").Try(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := lease.Bind(t.Context())
	t.Cleanup(cancel)
	return s, lease, ctx
}

// Timers stand still while the machine is suspended: the keeper notices at its
// next look, half a margin later at the latest, and so before the key expires.
func TestSuspendEndsALeaseWithinHalfAMargin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, ctx := suspended(t)
		time.Sleep(120 * time.Millisecond)
		s.suspend(8900 * time.Millisecond) // 20 ms past belief, 980 before the key expires
		resumed := time.Now()
		select {
		case <-ctx.Done():
		case <-time.After(time.Minute):
		}
		if took := time.Since(resumed); took > 500*time.Millisecond {
			t.Errorf("noticed after %s", took)
		}
		var lost *LostError
		if !errors.As(context.Cause(ctx), &lost) {
			t.Errorf("the cause is %v", context.Cause(ctx))
		}
	})
}

func TestSuspendIsSeenAtOnceByErr(t *testing.T) {
	for name, ask := range map[string]func(*Lease, context.Context) error{
		"lease":         func(l *Lease, _ context.Context) error { return l.Err() },
		"bound context": func(_ *Lease, ctx context.Context) error { return ctx.Err() },
		"new context": func(l *Lease, _ context.Context) error {
			ctx, cancel := l.Bind(context.Background())
			defer cancel()
			return ctx.Err()
		},
		"extend": func(l *Lease, ctx context.Context) error { return l.Extend(ctx, time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, lease, ctx := suspended(t)
				if err := ask(lease, context.Background()); err != nil {
					t.Fatal(err)
				}
				s.suspend(20 * time.Second)
				if ask(lease, ctx) == nil {
					t.Error("nothing was noticed")
				}
				if !errors.Is(context.Cause(ctx), ErrLost) {
					t.Errorf("the cause is %v", context.Cause(ctx))
				}
			})
		})
	}
}

// A short suspend is made up for by a renewal that is due at once.
func TestSuspendBelowBelief(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, lease, _ := suspended(t)
		s.suspend(8 * time.Second)
		time.Sleep(500 * time.Millisecond)
		synctest.Wait()
		if lease.Err() != nil || time.Until(lease.Deadline()) < 8*time.Second {
			t.Errorf("err %v, deadline in %s", lease.Err(), time.Until(lease.Deadline()))
		}
	})
}

func TestClockNeverGoesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sleeper{start: time.Now()}
		c := clock{origin: time.Now(), read: s.read}
		c.boot, _ = s.read()
		time.Sleep(time.Second)
		if got := c.now(); got != core.Instant(time.Second) {
			t.Errorf("now is %s", time.Duration(got))
		}
		s.suspend(-500 * time.Millisecond) // the other clock is behind: it does not count
		if got := c.now(); got != core.Instant(time.Second) {
			t.Errorf("now is %s", time.Duration(got))
		}
		s.suspend(time.Second)
		if got := c.now(); got != core.Instant(1500*time.Millisecond) {
			t.Errorf("now is %s", time.Duration(got))
		}
		if got := c.at(core.Instant(2 * time.Second)); !got.Equal(time.Now().Add(500 * time.Millisecond)) {
			t.Errorf("2 s is in %s", time.Until(got))
		}
		c.read = func() (time.Duration, bool) { return 0, false } // the system does not tell any more
		if got := c.now(); got != core.Instant(time.Second) {
			t.Errorf("now is %s", time.Duration(got))
		}
	})
}

// The server in the same process is suspended with us.
func TestInProcessServerNeedsNoOtherClock(t *testing.T) {
	c := newClock(struct {
		Conn
		inProcess
	}{})
	if c.boot != 0 {
		t.Error("the other clock is read")
	}
	if boot, ok := sinceBoot(); ok {
		if c := newClock(new(grantor)); c.boot < boot {
			t.Error("the other clock is not read")
		}
	}
}

type inProcess struct{}

func (inProcess) InProcess() bool { return true }

// Somebody has found out that the lease is over, and has not come to its contexts
// yet: whoever asks one meanwhile is told the truth.
func TestBoundContextDoesNotWaitForTheKeeper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, lease, ctx := suspended(t)
		c := lease.lock.c
		c.mu.Lock()
		c.keeper.Drop(&lease.hold.core.Lease)
		lease.err = lease.lostError(core.Expired)
		c.mu.Unlock()
		if ctx.Err() == nil || !errors.Is(context.Cause(ctx), ErrLost) {
			t.Errorf("err %v, cause %v", ctx.Err(), context.Cause(ctx))
		}
	})
}

// On a busy machine the process can stand still between its two looks at the time.
func TestPauseBetweenTwoClocksIsNoSuspension(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sleeper{start: time.Now()}
		c := clock{origin: time.Now()}
		c.boot, _ = s.read()
		c.read = func() (time.Duration, bool) {
			time.Sleep(time.Second) // before it is read
			defer time.Sleep(time.Second)
			return s.read()
		}
		now := c.now()
		old := core.Instant(time.Since(c.origin)).Sub(now)
		if left := time.Until(c.deadline(now.Add(10 * time.Second))); left != 10*time.Second-old {
			t.Errorf("a deadline in 10 s has %s left, %s later", left, old)
		}
	})
}

// The client is closed after a call has been let in and before it stands in line.
func TestAcquireBesideClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := New(new(grantor), Config{})
		if err != nil {
			t.Fatal(err)
		}
		c.shut()
		for _, how := range []manner{{}, {wait: true}} {
			if lease, err := c.Mutex("orders").obtain(t.Context(), how); err != ErrClosed || lease != nil {
				t.Errorf("%+v: got %v, %v; want ErrClosed", how, lease, err)
			}
		}
		c.stop()
	})
}

// A context ends between two looks at it: its own error is visible all the same.
func TestContextEndsInBetween(t *testing.T) {
	inner, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("gave up"))
	if err := ended(&endsLate{Context: inner}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// endsLate is a context that has not ended when it is first asked.
type endsLate struct {
	context.Context
	asked bool
}

func (c *endsLate) Err() error {
	if !c.asked {
		c.asked = true
		return nil
	}
	return c.Context.Err()
}
