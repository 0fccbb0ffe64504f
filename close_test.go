package lockkeeper_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper"
)

// Every test here ends a bubble, which fails if a goroutine is left.

func TestCloseOfAnUnusedClient(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newServer()
		n := s.Requests()
		c := newClient(t, s.wire(), lockkeeper.Config{})
		closes(t, c)
		closes(t, c) // a second one returns nil
		if s.Requests() != n {
			t.Error("something was sent")
		}
	})
}

func TestCloseReleasesWhatIsHeld(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newServer()
		w := s.wire()
		c, err := lockkeeper.New(w, lockkeeper.Config{})
		if err != nil {
			t.Fatal(err)
		}
		var leases []*lockkeeper.Lease
		var bound []context.Context
		for i := range 100 {
			lease := mustTry(t, c.Mutex(fmt.Sprint(i)))
			ctx, cancel := lease.Bind(t.Context())
			defer cancel()
			leases, bound = append(leases, lease), append(bound, ctx)
		}
		closes(t, c)
		for i, lease := range leases {
			wantKey(t, s, "lockkeeper:"+lease.Name(), false)
			wantErr(t, lease.Err(), lockkeeper.ErrClosed)
			wantErr(t, context.Cause(bound[i]), lockkeeper.ErrClosed)
			<-lease.Done()
		}
		// A deferred release of a lease that Close has released is no loss.
		n := w.sent("")
		if err := leases[0].Release(t.Context()); err != nil {
			t.Errorf("Release after Close: %v", err)
		}
		if w.sent("") != n {
			t.Error("something was sent after Close")
		}
	})
}

func TestCloseEndsWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newParty(t)
		mustTry(t, p.holder)
		c := newClient(t, p.wire, lockkeeper.Config{})
		lock := c.Mutex("orders")
		results := []<-chan outcome{
			waits(t.Context(), lock), waits(t.Context(), lock),
			goes(func() outcome {
				err := lock.Do(t.Context(), func(context.Context, *lockkeeper.Lease) error { return nil })
				return outcome{err: err}
			}),
			goes(func() outcome {
				err := c.Election("orders").Run(t.Context(), func(context.Context, *lockkeeper.Lease) error { return nil })
				return outcome{err: err}
			}),
		}
		settled(3 * time.Second)
		start := time.Now()
		closes(t, c)
		for _, result := range results {
			if got := <-result; got.err != lockkeeper.ErrClosed {
				t.Errorf("got %v", got.err)
			}
		}
		wantTook(t, start, 0)
		wantKey(t, p.server, lineKey, false) // its place in the line is given up
	})
}

func TestCloseWaitsForBodies(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newServer()
		c := newClient(t, s.wire(), lockkeeper.Config{})
		var ended bool
		body := func(ctx context.Context, _ *lockkeeper.Lease) error {
			<-ctx.Done()
			wantErr(t, context.Cause(ctx), lockkeeper.ErrClosed)
			time.Sleep(3 * time.Second)
			wantKey(t, s, ordersKey, true) // held until the body has ended
			ended = true
			return nil
		}
		result := goes(func() error { return c.Mutex("orders").Do(t.Context(), body) })
		synctest.Wait()
		start := time.Now()
		closes(t, c)
		wantTook(t, start, 3*time.Second)
		if !ended {
			t.Error("Close did not wait for the body")
		}
		wantKey(t, s, ordersKey, false)
		wantErr(t, <-result, lockkeeper.ErrClosed)
	})
}

func TestCloseWaitsForElections(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newServer()
		c := newClient(t, s.wire(), lockkeeper.Config{})
		terms := 0
		result := goes(func() error {
			return c.Election("orders").Run(t.Context(), func(ctx context.Context, _ *lockkeeper.Lease) error {
				terms++
				<-ctx.Done()
				return context.Cause(ctx)
			})
		})
		synctest.Wait()
		closes(t, c)
		if err := <-result; err != lockkeeper.ErrClosed || terms != 1 {
			t.Errorf("%v after %d terms", err, terms)
		}
		wantKey(t, s, ordersKey, false)
	})
}

// A body that does not end: Close gives up with its context, and the body ends as
// it likes.
func TestCloseHonoursItsContext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newServer()
		c := newClient(t, s.wire(), lockkeeper.Config{})
		result := goes(func() error {
			return c.Mutex("orders").Do(t.Context(), func(context.Context, *lockkeeper.Lease) error {
				time.Sleep(5 * time.Second)
				return nil
			})
		})
		synctest.Wait()
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errWork)
		defer cancel()
		start := time.Now()
		err := c.Close(ctx)
		wantTook(t, start, time.Second)
		wantErr(t, err, context.DeadlineExceeded, errWork)
		wantErr(t, <-result, lockkeeper.ErrClosed)
		wantTook(t, start, 5*time.Second)
		wantKey(t, s, ordersKey, false) // released by the body's end
	})
}

// Redis hangs: Close takes until belief ends at the longest, or its context.
func TestCloseWithRedisHanging(t *testing.T) {
	for _, timeout := range []time.Duration{time.Second, time.Minute} {
		t.Run(timeout.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var log logBuffer
				s := newServer()
				w := s.wire()
				c := newClient(t, w, lockkeeper.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
				for i := range 100 {
					mustTry(t, c.Mutex(fmt.Sprint(i)))
				}
				wait := waits(t.Context(), c.Mutex("1"))
				settled(time.Second)
				w.breaks(hangs)
				ctx, cancel := context.WithTimeout(t.Context(), timeout)
				defer cancel()
				start := time.Now()
				err := c.Close(ctx)
				took := time.Since(start)
				if timeout == time.Second {
					wantErr(t, err, context.DeadlineExceeded)
					wantTook(t, start, time.Second)
				} else if err != nil || took > belief {
					t.Errorf("%v after %s", err, took)
				}
				wantErr(t, (<-wait).err, lockkeeper.ErrClosed)
				time.Sleep(time.Minute)
				if n := strings.Count(log.String(), "not released at close"); n != 100 {
					t.Errorf("%d leases were logged as not released", n)
				}
			})
		})
	}
}

// An acquisition is on its way when the client closes: what it gets is given back.
func TestCloseDuringAnAcquisition(t *testing.T) {
	for name, get := range map[string]func(*lockkeeper.Lock, context.Context) (*lockkeeper.Lease, error){
		"try":     (*lockkeeper.Lock).Try,
		"acquire": (*lockkeeper.Lock).Acquire,
	} {
		for _, f := range []struct {
			name  string
			fault fault
		}{
			{"slow request", on(slow(300*ms, 0), "acquire")},
			{"slow reply", on(slow(0, 300*ms), "acquire")},
			{"lost reply", on(losesReplies, "acquire")},
			{"late run", on(func(_ context.Context, _ call, run func() (any, error)) (any, error) {
				go func() { time.Sleep(700 * ms); _, _ = run() }()
				time.Sleep(300 * ms)
				return nil, errNetwork
			}, "acquire")},
		} {
			t.Run(name+" "+f.name, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					s := newServer()
					w := s.wire()
					c := newClient(t, w, lockkeeper.Config{})
					mustRelease(t, mustTry(t, c.Mutex("other"))) // learns the server's clock
					w.breaks(f.fault)
					result := goes(func() error { _, err := get(c.Mutex("orders"), t.Context()); return err })
					time.Sleep(100 * ms)
					closes(t, c)
					wantErr(t, <-result, lockkeeper.ErrClosed)
					wantKey(t, s, ordersKey, false)
					time.Sleep(time.Second)
					wantKey(t, s, ordersKey, false)
				})
			})
		}
	}
}

// A waiter's request is on its way when the client closes.
func TestCloseDuringAWaitersRequest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newParty(t)
		mustTry(t, p.holder)
		c := newClient(t, p.wire, lockkeeper.Config{})
		result := waits(t.Context(), c.Mutex("orders"))
		settled(300 * ms)
		p.wire.breaks(on(slow(0, 400*ms), "acquire"))
		p.server.Del(ordersKey)
		p.server.BreakSubscriptions() // it asks and takes the lock, but does not know yet
		synctest.Wait()
		start := time.Now()
		closes(t, c)
		if got := <-result; got.err != lockkeeper.ErrClosed || got.at != start {
			t.Errorf("%v after %s", got.err, got.at.Sub(start))
		}
		wantKey(t, p.server, ordersKey, false)
	})
}

// Close with undos on their way: those that the server answers are waited for.
func TestCloseWaitsForUndos(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newServer()
		w := s.wire()
		c := newClient(t, w, lockkeeper.Config{})
		mustRelease(t, mustTry(t, c.Mutex("other")))
		w.breaks(on(func(_ context.Context, _ call, run func() (any, error)) (any, error) {
			go func() { time.Sleep(time.Second); _, _ = run() }()
			return nil, errNetwork
		}, "acquire"))
		_, err := c.Mutex("orders").Try(t.Context())
		wantErr(t, err, lockkeeper.ErrUnavailable)
		start := time.Now()
		closes(t, c)
		wantKey(t, s, ordersKey, false)
		if took := time.Since(start); took < time.Second || took > 3500*ms {
			t.Errorf("it took %s", took)
		}
	})
}

// ... and those that nothing bounds, or that get no answer, are not.
func TestCloseDoesNotWaitForHopelessUndos(t *testing.T) {
	for name, f := range map[string]fault{"unbounded": on(fails(errNetwork), "acquire"), "down": fails(errNetwork), "hangs": hangs} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newServer().wire()
				c := newClient(t, w, lockkeeper.Config{})
				w.breaks(f)
				_, err := c.Mutex("orders").Try(t.Context())
				wantErr(t, err, lockkeeper.ErrUnavailable)
				start := time.Now()
				closes(t, c)
				if took := time.Since(start); took > 1100*ms {
					t.Errorf("it took %s", took)
				}
			})
		})
	}
}

// The keeper, the listener and all that they started have ended with Close.
func TestCloseJoinsGoroutines(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newParty(t)
		mustTry(t, p.holder)
		c, err := lockkeeper.New(p.wire, lockkeeper.Config{TTL: 100 * ms})
		if err != nil {
			t.Fatal(err)
		}
		mustTry(t, c.Mutex("a"))
		wait := waits(t.Context(), c.Mutex("orders"))
		settled(time.Second)
		p.wire.breaks(on(hangs, "renew", "leave"))
		time.Sleep(35 * ms) // a renewal is on its way
		closes(t, c)
		<-wait
		n := p.wire.sent("")
		time.Sleep(time.Minute)
		if p.wire.sent("") != n {
			t.Error("requests were sent after Close")
		}
	})
}

// Close beside everything else, for the race detector.
func TestCloseBesideEverything(t *testing.T) {
	t.Parallel()
	for round := range 50 {
		s := newServer()
		ttl := 10 * time.Second
		if round%2 == 0 {
			ttl = 20 * ms // with renewals and losses
		}
		c := newClient(t, s.wire(), lockkeeper.Config{TTL: ttl})
		results := make([]<-chan error, 0, 20)
		for i := range 20 {
			lock := c.Mutex(fmt.Sprint(i % 3))
			results = append(results, goes(func() error {
				for range 100 {
					ctx, cancel := context.WithTimeout(t.Context(), 3*ms)
					err := lock.Do(ctx, func(context.Context, *lockkeeper.Lease) error { return nil })
					cancel()
					if err == lockkeeper.ErrClosed {
						return nil
					}
				}
				return nil
			}))
		}
		time.Sleep(time.Duration(round) * 100 * time.Microsecond)
		closes(t, c)
		for _, result := range results {
			soon(t, "a caller", result)
		}
		if ttl == 20*ms {
			time.Sleep(ttl) // what was lost on a slow machine expires
		}
		for _, key := range s.Keys() {
			if !strings.HasSuffix(key, ":lk-fence") {
				t.Errorf("key %q is left", key)
			}
		}
	}
}

// A second Close waits for what the first one could not wait for.
func TestSecondCloseWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, err := lockkeeper.New(newServer().wire(), lockkeeper.Config{})
		if err != nil {
			t.Fatal(err)
		}
		started, done := make(chan struct{}), time.Time{}
		go func() {
			_ = c.Mutex("orders").Do(t.Context(), func(ctx context.Context, _ *lockkeeper.Lease) error {
				close(started)
				<-ctx.Done()
				time.Sleep(time.Second)
				done = time.Now()
				return nil
			})
		}()
		<-started
		ctx, cancel := context.WithTimeout(t.Context(), 100*ms)
		defer cancel()
		wantErr(t, c.Close(ctx), context.DeadlineExceeded)
		if err := c.Close(t.Context()); err != nil || done.IsZero() {
			t.Errorf("%v; the work ended at %s", err, done)
		}
	})
}
