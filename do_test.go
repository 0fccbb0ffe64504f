package lockkeeper_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper"
)

var errWork = errors.New("the work failed")

// A doer is a client with a lock to do something under.
func doer(t *testing.T) (*server, *wire, *lockkeeper.Lock) {
	t.Helper()
	s := newServer()
	w := s.wire()
	return s, w, newClient(t, w, lockkeeper.Config{}).Mutex("orders")
}

func TestDo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, _, lock := doer(t)
		ran := 0
		err := lock.Do(t.Context(), func(ctx context.Context, lease *lockkeeper.Lease) error {
			ran++
			wantKey(t, s, ordersKey, true)
			if lease.Err() != nil || ctx.Err() != nil || lease.Name() != "orders" || !lease.Fence().Valid() {
				t.Errorf("lease %v, ctx %v", lease.Err(), ctx.Err())
			}
			time.Sleep(time.Minute)
			return ctx.Err()
		})
		if err != nil || ran != 1 {
			t.Errorf("ran %d times, %v", ran, err)
		}
		wantKey(t, s, ordersKey, false)

		err = lock.Do(t.Context(), func(context.Context, *lockkeeper.Lease) error { return errWork })
		if err != errWork {
			t.Errorf("got %v, want the work's error as it is", err)
		}
		wantKey(t, s, ordersKey, false)
	})
}

func TestDoEndsTheBodyOnLoss(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, w, lock := doer(t)
		start := time.Now()
		w.breaks(on(hangs, "renew"))
		var cause error
		err := lock.Do(t.Context(), func(ctx context.Context, _ *lockkeeper.Lease) error {
			<-ctx.Done()
			wantTook(t, start, belief)
			cause = context.Cause(ctx)
			return errWork
		})
		wantErr(t, cause, lockkeeper.ErrLost)
		wantErr(t, err, lockkeeper.ErrLost, errWork, cause)
		synctest.Wait()
		wantKey(t, s, ordersKey, false) // freed before it would have expired
	})
}

// The work may say itself why it stopped; then it is said once.
func TestDoJoinsErrors(t *testing.T) {
	for name, body := range map[string]func(ctx context.Context) error{
		"nil":     func(context.Context) error { return nil },
		"cause":   context.Cause,
		"ctx.Err": func(ctx context.Context) error { return ctx.Err() },
		"own":     func(context.Context) error { return errWork },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				_, w, lock := doer(t)
				w.breaks(on(hangs, "renew"))
				var own error
				err := lock.Do(t.Context(), func(ctx context.Context, _ *lockkeeper.Lease) error {
					<-ctx.Done()
					own = body(ctx)
					return own
				})
				wantErr(t, err, lockkeeper.ErrLost)
				if own != nil {
					wantErr(t, err, own)
				}
				if n := strings.Count(err.Error(), "lost:"); n != 1 {
					t.Errorf("%q tells the loss %d times", err, n)
				}
			})
		})
	}
}

// A body that does not look at its context is not interrupted, and Do tells of the loss.
func TestDoWithADeafBody(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, w, lock := doer(t)
		w.breaks(on(hangs, "renew"))
		err := lock.Do(t.Context(), func(context.Context, *lockkeeper.Lease) error {
			time.Sleep(belief + 500*ms)
			wantKey(t, s, ordersKey, true)
			return nil
		})
		wantErr(t, err, lockkeeper.ErrLost)
	})
}

// The key was deleted, and no renewal has told before the body ended.
func TestDoFindsTheLossAtItsRelease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, _, lock := doer(t)
		err := lock.Do(t.Context(), func(context.Context, *lockkeeper.Lease) error {
			s.Del(ordersKey)
			return nil
		})
		wantErr(t, err, lockkeeper.ErrLost)
	})
}

// However the body ends, the lock is given up then and not before.
func TestDoReleasesAfterTheBody(t *testing.T) {
	for name, end := range map[string]func(){
		"return": func() {},
		"panic":  func() { panic(errWork) },
		"goexit": runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s, w, lock := doer(t)
				var recovered any
				done := make(chan struct{})
				go func() {
					defer close(done)
					defer func() { recovered = recover() }()
					_ = lock.Do(t.Context(), func(context.Context, *lockkeeper.Lease) error {
						defer func() { // the very last of the body
							time.Sleep(time.Second)
							wantKey(t, s, ordersKey, true)
							if w.sent("release") != 0 {
								t.Error("released before the body has ended")
							}
						}()
						end()
						return nil
					})
				}()
				<-done
				wantKey(t, s, ordersKey, false)
				if (name == "panic") != (recovered == any(errWork)) {
					t.Errorf("recovered %v", recovered)
				}
			})
		})
	}
}

// The caller's context ends: the body is told, and the lock is held until it has ended.
func TestDoWithACancelledCaller(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, w, lock := doer(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		err := lock.Do(ctx, func(ctx context.Context, lease *lockkeeper.Lease) error {
			cancel(errWork)
			<-ctx.Done()
			wantErr(t, context.Cause(ctx), errWork)
			time.Sleep(time.Minute)
			wantKey(t, s, ordersKey, true)
			if lease.Err() != nil {
				t.Errorf("the lease ended with the caller: %v", lease.Err())
			}
			w.breaks(once(fails(errNetwork)))
			return context.Cause(ctx)
		})
		if err != errWork {
			t.Errorf("got %v", err)
		}
		wantKey(t, s, ordersKey, false)
	})
}

// The longest wait bounds the wait only.
func TestDoMaxWaitIsNoDeadline(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newServer()
		c := newClient(t, s.wire(), lockkeeper.Config{})
		err := c.Mutex("orders", lockkeeper.WithMaxWait(time.Second)).Do(t.Context(), func(ctx context.Context, _ *lockkeeper.Lease) error {
			if _, ok := ctx.Deadline(); ok {
				t.Error("the body has a deadline")
			}
			time.Sleep(time.Minute)
			return ctx.Err()
		})
		if err != nil {
			t.Error(err)
		}
	})
}

func TestDoNeverRunsWithoutTheLock(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, w, lock := doer(t)
		s.Set(ordersKey, "somebody", 0)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		run := func(context.Context, *lockkeeper.Lease) error { t.Error("it ran"); return nil }
		wantErr(t, lock.Do(ctx, run), lockkeeper.ErrHeld, context.DeadlineExceeded)
		w.breaks(fails(replies("NOPERM x")))
		wantErr(t, lock.Do(t.Context(), run), lockkeeper.ErrUnavailable)
	})
}

// A body may release by itself; that ends its hold, and Do says so.
func TestDoWithAnEarlyRelease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, w, lock := doer(t)
		err := lock.Do(t.Context(), func(ctx context.Context, lease *lockkeeper.Lease) error {
			mustRelease(t, lease)
			<-ctx.Done()
			return nil
		})
		wantErr(t, err, lockkeeper.ErrNotHeld)
		if n := w.sent("release"); n != 1 {
			t.Errorf("%d releases", n)
		}
	})
}

// The work was done under the lock: a release without an answer is logged, and no
// error.
func TestDoLogsAReleaseThatFailed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var log logBuffer
		w := newServer().wire()
		c := newClient(t, w, lockkeeper.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		err := c.Mutex("orders").Do(t.Context(), func(context.Context, *lockkeeper.Lease) error {
			w.breaks(fails(replies("NOPERM no rights")))
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), "NOPERM no rights") {
			t.Errorf("logged:\n%s", log.String())
		}
	})
}
