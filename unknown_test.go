package lockkeeper_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/internal/redistest"
)

const ordersKey = "lockkeeper:orders"

// The outcome of an acquire is unknown when its reply is lost: it is taken back.
func TestLostAcquireReplyIsUndone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newServer()
		w := s.wire()
		c := newClient(t, w, lockkeeper.Config{})
		w.breaks(on(losesReplies, "acquire"))
		ctx, cancel := context.WithTimeout(t.Context(), 100*ms)
		defer cancel()
		start := time.Now()
		_, err := c.Mutex("orders").Try(ctx)
		wantTook(t, start, 100*ms)
		wantErr(t, err, lockkeeper.ErrUnavailable, context.DeadlineExceeded)
		wantNotErr(t, err, lockkeeper.ErrHeld)
		synctest.Wait()
		wantKey(t, s, ordersKey, false)
	})
}

// The undo has a life of its own: the caller's context has ended long ago.
func TestUndoOutlivesTheCaller(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newServer()
		w := s.wire()
		c := newClient(t, w, lockkeeper.Config{})
		w.breaks(losesReplies)
		ctx, cancel := context.WithTimeout(t.Context(), 100*ms)
		_, err := c.Mutex("orders").Try(ctx)
		cancel()
		wantErr(t, err, lockkeeper.ErrUnavailable)
		synctest.Wait()
		w.breaks(hangs) // the first try of the undo has been sent, and did its work
		time.Sleep(time.Second)
		wantKey(t, s, ordersKey, false)

		// Nothing arrives for 5 s: the undo goes on until something does.
		w.breaks(on(losesReplies, "acquire"))
		ctx, cancel = context.WithTimeout(t.Context(), 100*ms)
		defer cancel()
		go func() { time.Sleep(50 * ms); w.breaks(hangs) }()
		_, err = c.Mutex("orders").Try(ctx)
		wantErr(t, err, lockkeeper.ErrUnavailable)
		time.Sleep(5 * time.Second)
		wantKey(t, s, ordersKey, true)
		w.breaks(nil)
		time.Sleep(2 * time.Second)
		wantKey(t, s, ordersKey, false)
	})
}

// An undo that finds nothing is not done: the lost request may still be on its
// way. It runs after its time, and is refused; or in time, and is undone.
func TestLostRequestThatRunsLater(t *testing.T) {
	for _, tt := range []struct {
		name   string
		late   time.Duration // after it was sent
		during bool          // whether the key is there for a moment
	}{
		{"in time", 2900 * ms, true},
		{"at its last moment", 2999 * ms, true},
		{"too late", 3001 * ms, false},
		{"much too late", time.Minute, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newServer()
				w := s.wire()
				c := newClient(t, w, lockkeeper.Config{})
				if _, err := c.Inspect(t.Context(), "x"); err != nil { // knows nothing of the server's clock
					t.Fatal(err)
				}
				mustRelease(t, mustTry(t, c.Mutex("other"))) // learns it
				done := make(chan struct{})
				w.breaks(on(func(ctx context.Context, _ call, run func() (any, error)) (any, error) {
					go func() {
						defer close(done)
						time.Sleep(tt.late)
						_, _ = run()
					}()
					return nil, errNetwork
				}, "acquire"))
				_, err := c.Mutex("orders").Try(t.Context())
				wantErr(t, err, lockkeeper.ErrUnavailable, errNetwork)
				<-done
				if _, there := s.Get(ordersKey); there != tt.during {
					t.Errorf("after it ran the key is there: %t", there)
				}
				time.Sleep(500 * ms)
				wantKey(t, s, ordersKey, false)
				n := w.sent("release")
				time.Sleep(time.Minute)
				if w.sent("release") != n {
					t.Error("the undo does not end")
				}
			})
		})
	}
}

// Before the server's clock is known nothing bounds a request there. The undo keeps
// looking for two TTLs.
func TestLostRequestWithoutBound(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newServer()
		w := s.wire()
		c := newClient(t, w, lockkeeper.Config{})
		w.breaks(on(func(_ context.Context, _ call, run func() (any, error)) (any, error) {
			go func() { time.Sleep(15 * time.Second); _, _ = run() }()
			return nil, errNetwork
		}, "acquire"))
		_, err := c.Mutex("orders").Try(t.Context())
		wantErr(t, err, lockkeeper.ErrUnavailable)
		time.Sleep(15 * time.Second)
		synctest.Wait()
		wantKey(t, s, ordersKey, true)
		time.Sleep(600 * ms)
		wantKey(t, s, ordersKey, false)
		time.Sleep(time.Minute)
		n := w.sent("")
		time.Sleep(time.Minute)
		if w.sent("") != n {
			t.Error("the undo does not end")
		}
	})
}

// The server's clock steps: an acquire is refused once, corrected, and asked again.
func TestServerClockSteps(t *testing.T) {
	for _, step := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(step.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newServer()
				w := s.wire()
				c := newClient(t, w, lockkeeper.Config{})
				first := mustTry(t, c.Mutex("orders"))
				mustRelease(t, first)
				s.StepClock(step)
				n := w.sent("acquire")
				second := mustTry(t, c.Mutex("orders"))
				if second.Fence() <= first.Fence() {
					t.Errorf("fence %s after %s", second.Fence(), first.Fence())
				}
				if n = w.sent("acquire") - n; n > 2 {
					t.Errorf("%d requests", n)
				}
				mustRelease(t, second)
			})
		})
	}
}

// A server whose clock cannot be followed makes no endless loop of requests.
func TestServerClockRunsAway(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newServer()
		w := s.wire()
		c := newClient(t, w, lockkeeper.Config{})
		mustRelease(t, mustTry(t, c.Mutex("orders")))
		w.breaks(on(func(_ context.Context, _ call, run func() (any, error)) (any, error) {
			s.StepClock(time.Hour)
			return run()
		}, "acquire"))
		n := w.sent("acquire")
		_, err := c.Mutex("orders").Try(t.Context())
		wantErr(t, err, lockkeeper.ErrUnavailable)
		if n = w.sent("acquire") - n; n != 4 {
			t.Errorf("%d requests, want 4", n)
		}
		wantKey(t, s, ordersKey, false)
	})
}

// An error of the server that proves that nothing was done needs no undo.
func TestNoUndoWithoutEffect(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newServer().wire()
		c := newClient(t, w, lockkeeper.Config{})
		for _, line := range []string{"LOADING x", "READONLY x", "OOM x", "NOAUTH x", "ERR max number of clients reached"} {
			w.breaks(fails(replies(line)))
			_, err := c.Mutex("orders").Try(t.Context())
			wantErr(t, err, lockkeeper.ErrUnavailable)
		}
		synctest.Wait()
		if n := w.sent("release"); n != 0 {
			t.Errorf("%d undos", n)
		}
		w.breaks(on(fails(replies("NOPERM x")), "acquire"))
		_, err := c.Mutex("orders").Try(t.Context())
		wantErr(t, err, lockkeeper.ErrUnavailable)
		synctest.Wait()
		if n := w.sent("release"); n != 1 {
			t.Errorf("%d undos after an error that may come from the middle, want 1", n)
		}
	})
}

// A grant that makes no sense is given back.
func TestOddGrants(t *testing.T) {
	for name, odd := range map[string]any{
		"nil": nil, "zero": int64(0), "string": "x", "number": int64(5), "short": []any{"5"}, "no digits": []any{"x", "5"},
		"long": []any{"held", "x"}, "six": []any{"held", "x", int64(1), "5", "6", "7"}, "nil fence": []any{nil, "5"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newServer()
				w := s.wire()
				c := newClient(t, w, lockkeeper.Config{})
				w.breaks(on(answers(odd, true), "acquire"))
				_, err := c.Mutex("orders").Acquire(t.Context())
				wantErr(t, err, lockkeeper.ErrUnavailable)
				synctest.Wait()
				wantKey(t, s, ordersKey, false)
			})
		})
	}
}

// A driver that sends a request twice gets the same grant twice.
func TestAcquireIsIdempotent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newServer()
		w := s.wire()
		c := newClient(t, w, lockkeeper.Config{})
		w.breaks(on(func(_ context.Context, _ call, run func() (any, error)) (any, error) {
			_, _ = run()
			return run()
		}, "acquire"))
		lease := mustTry(t, c.Mutex("orders"))
		value, _ := s.Get(ordersKey)
		if held := wantHeld(t, c.Mutex("orders")); held.Holder.Fence != lease.Fence() || held.Holder.Owner != lease.Owner() {
			t.Errorf("the value is %q, the lease has fence %s", value, lease.Fence())
		}
		mustRelease(t, lease)
	})
}

// Cancelling a wait while its request is out: it returns at once, and what the
// request takes is given back.
func TestCancelWhileARequestIsOut(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newServer()
		holder := newClient(t, s.wire(), lockkeeper.Config{})
		w := s.wire()
		c := newClient(t, w, lockkeeper.Config{})
		mustTry(t, holder.Mutex("orders"))
		ctx, cancel := context.WithCancel(t.Context())
		result := goes(func() error { _, err := c.Mutex("orders").Acquire(ctx); return err })
		synctest.Wait()
		w.breaks(on(slow(time.Second, time.Second), "acquire"))
		s.Del(ordersKey)
		s.BreakSubscriptions()
		time.Sleep(400 * ms) // it asks
		start := time.Now()
		cancel()
		err := <-result
		wantTook(t, start, 0)
		wantErr(t, err, context.Canceled, lockkeeper.ErrHeld)
		time.Sleep(700 * ms)
		wantKey(t, s, ordersKey, true) // the request ran after its caller had left
		time.Sleep(500 * ms)
		wantKey(t, s, ordersKey, false)
	})
}

// The undo of a cancelled request has overtaken it, and nothing bounds either: when
// the request is answered after all, what it took is given back right then.
func TestOvertakenRequest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newServer()
		w := s.wire()
		c := newClient(t, w, lockkeeper.Config{})
		w.breaks(fails(errNetwork))
		ctx, cancel := context.WithCancel(t.Context())
		result := waits(ctx, c.Mutex("orders"))
		time.Sleep(5 * ms)
		w.breaks(on(slow(2900*ms, 0), "acquire")) // the second request, after a pause
		time.Sleep(100 * ms)
		cancel()
		wantErr(t, (<-result).err, context.Canceled)
		time.Sleep(2700 * ms)
		wantKey(t, s, ordersKey, false)
		for range 200 { // it runs some time in these
			time.Sleep(ms)
			synctest.Wait()
			wantKey(t, s, ordersKey, false)
		}
		wantKey(t, s, "{lockkeeper:orders}:lk-fence", true) // it has run
	})
}

// A waiter that gets no answers keeps what it has to take back until somebody
// answers: no storm of undos on a server that is down.
func TestNoStormWhileRedisIsDown(t *testing.T) {
	for name, f := range map[string]fault{"refuses": fails(errNetwork), "hangs": hangs, "full": fails(replies("ERR max number of clients reached"))} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newServer().wire()
				c := newClient(t, w, lockkeeper.Config{})
				mustRelease(t, mustTry(t, c.Mutex("orders")))
				w.breaks(f)
				n := w.sent("")
				result := goes(func() error { _, err := c.Mutex("orders").Acquire(t.Context()); return err })
				time.Sleep(10 * time.Minute)
				if n = w.sent("") - n; n > 650 || n < 100 {
					t.Errorf("%d requests in 10 minutes", n)
				}
				w.breaks(nil)
				start := time.Now()
				if err := <-result; err != nil {
					t.Error(err)
				}
				if took := time.Since(start); took > 5*time.Second {
					t.Errorf("it took %s once the server answered", took)
				}
			})
		})
	}
}

// ... and then takes it back: its own lost grant does not keep it waiting.
func TestLostReplyOfAWaiter(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newServer()
		w := s.wire()
		c := newClient(t, w, lockkeeper.Config{})
		w.breaks(once(losesReplies))
		start := time.Now()
		lease := mustAcquire(t, c.Mutex("orders"))
		if took := time.Since(start); took > 800*ms { // 500 for the lost reply
			t.Errorf("it took %s", took)
		}
		mustRelease(t, lease)
		wantKey(t, s, ordersKey, false)
	})
}

func TestLostAcquireReplyOnARealServer(t *testing.T) {
	t.Parallel()
	s := startReal(t)
	proxy := redistest.NewProxy(t, s.Addr())
	c := newClient(t, connTo(t, proxy.Addr()), lockkeeper.Config{TTL: time.Minute})
	lock := c.Mutex("orders")
	mustRelease(t, mustTry(t, lock))
	proxy.SwallowReplies()
	ctx, cancel := context.WithTimeout(t.Context(), 200*ms)
	defer cancel()
	_, err := lock.Try(ctx)
	wantErr(t, err, lockkeeper.ErrUnavailable, context.DeadlineExceeded)
	proxy.Heal()
	redistest.Until(t, "the key is gone", func() bool { return !s.exists(t, ordersKey) })
}

// The server stands still, the client gives up, and the server goes on with what it
// has in its sockets: no lock may come out of that.
func TestLateExecutionOnARealServer(t *testing.T) {
	t.Parallel()
	s := startReal(t)
	c := newClient(t, s.conn, lockkeeper.Config{TTL: time.Minute})
	lock := c.Mutex("orders")
	mustRelease(t, mustTry(t, lock))
	s.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 100*ms)
	defer cancel()
	_, err := lock.Try(ctx)
	wantErr(t, err, lockkeeper.ErrUnavailable, context.DeadlineExceeded)
	time.Sleep(100 * ms) // beyond not after
	s.Resume()
	// The sockets are served in turn, but not in the order of their requests.
	deadline := time.Now().Add(500 * ms)
	for time.Now().Before(deadline) {
		if s.exists(t, ordersKey) {
			t.Fatal("a request ran after its caller had given it up")
		}
	}
}

// The same before the client knows the server's clock: the undo finds it.
func TestLateExecutionWithoutBound(t *testing.T) {
	t.Parallel()
	s := startReal(t)
	warm := newClient(t, connTo(t, s.Addr()), lockkeeper.Config{})
	mustRelease(t, mustTry(t, warm.Mutex("other"))) // loads the scripts
	c := newClient(t, s.conn, lockkeeper.Config{TTL: time.Minute})
	s.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 100*ms)
	defer cancel()
	_, err := c.Mutex("orders").Try(ctx)
	wantErr(t, err, lockkeeper.ErrUnavailable)
	s.Resume()
	redistest.Until(t, "the request has run", func() bool { return s.exists(t, "{lockkeeper:orders}:lk-fence") })
	redistest.Until(t, "the key is gone", func() bool { return !s.exists(t, ordersKey) })
}

// errors.Is asks whose context has ended: the bound of a request is nobody's.
func TestBoundOfARequestIsNoContextOfTheCaller(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newServer()
		w := s.wire()
		c := newClient(t, w, lockkeeper.Config{})
		w.breaks(hangs)
		_, err := c.Mutex("orders").Try(context.Background())
		wantErr(t, err, lockkeeper.ErrUnavailable)
		wantNotErr(t, err, context.DeadlineExceeded, context.Canceled)

		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(5*time.Second, cancel)
		_, err = c.Mutex("orders").Acquire(ctx)
		wantErr(t, err, lockkeeper.ErrUnavailable, context.Canceled)
		wantNotErr(t, err, context.DeadlineExceeded)
	})
}
