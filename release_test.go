package lockkeeper_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper"
)

func TestRelease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := holds(t)
		mustRelease(t, h.lease)
		wantKey(t, h.server, ordersKey, false)
		wantErr(t, h.lease.Err(), lockkeeper.ErrNotHeld)
		wantNotErr(t, h.lease.Err(), lockkeeper.ErrLost, lockkeeper.ErrClosed)
		<-h.ctx.Done()
		<-h.lease.Done()
		wantErr(t, context.Cause(h.ctx), lockkeeper.ErrNotHeld)
		wantErr(t, h.lease.Extend(t.Context(), time.Minute), lockkeeper.ErrNotHeld)
		wantErr(t, h.lease.RaiseFence(t.Context(), 5), lockkeeper.ErrNotHeld)

		other := mustTry(t, h.client.Mutex("orders"))
		n := h.wire.sent("release")
		mustRelease(t, h.lease) // a second one does nothing
		if h.wire.sent("release") != n {
			t.Error("a second release was sent")
		}
		mustRelease(t, other)
	})
}

func TestReleaseIgnoresCancellation(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := holds(t)
		h.wire.breaks(once(fails(errNetwork)))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := h.lease.Release(ctx); err != nil {
			t.Error(err)
		}
		wantKey(t, h.server, ordersKey, false)
	})
}

// A deadline is no bound either: the work has ended, and others wait for the key.
func TestReleaseIgnoresTheDeadline(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := holds(t)
		h.wire.breaks(once(slow(500*ms, 0)))
		ctx, cancel := context.WithTimeout(t.Context(), 10*ms)
		defer cancel()
		if err := h.lease.Release(ctx); err != nil {
			t.Error(err)
		}
		wantTook(t, h.start, 500*ms)
	})
}

func TestReleaseIsRetriedAfterALostReply(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := holds(t)
		h.wire.breaks(once(losesReplies))
		if err := h.lease.Release(t.Context()); err != nil {
			t.Errorf("the lost request had released it: %v", err)
		}
		if n := h.wire.sent("release"); n != 2 {
			t.Errorf("%d requests, want 2", n)
		}
		wantTook(t, h.start, 1025*ms)
	})
}

func TestReleaseThroughTrouble(t *testing.T) {
	for _, line := range []string{"LOADING x", "READONLY x", "BUSY x", "OOM x"} {
		t.Run(line, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				h := holds(t)
				h.wire.breaks(fails(replies(line)))
				go func() { time.Sleep(2 * time.Second); h.wire.breaks(nil) }()
				mustRelease(t, h.lease)
				if took := time.Since(h.start); took > 2600*ms {
					t.Errorf("it took %s", took)
				}
				wantKey(t, h.server, ordersKey, false)
			})
		})
	}
}

// A refusal that time can't mend is told at once.
func TestReleaseIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := holds(t)
		refusal := replies("NOPERM this user has no permissions to run the 'evalsha' command")
		h.wire.breaks(fails(refusal))
		err := h.lease.Release(t.Context())
		wantTook(t, h.start, 0)
		wantErr(t, err, lockkeeper.ErrUnavailable, refusal)
	})
}

func TestReleaseIsCappedByBelief(t *testing.T) {
	for name, f := range map[string]fault{"hangs": hangs, "fails": fails(errNetwork)} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				h := holds(t)
				h.wire.breaks(f)
				err := h.lease.Release(context.Background())
				if took := time.Since(h.start); took > belief || took < belief-time.Second {
					t.Errorf("it blocked for %s", took)
				}
				wantErr(t, err, lockkeeper.ErrUnavailable)
				wantNotErr(t, err, lockkeeper.ErrLost)
				time.Sleep(2 * time.Second)
				wantKey(t, h.server, ordersKey, false) // by its TTL
				if err := h.lease.Release(t.Context()); err != nil {
					t.Errorf("a second release: %v", err)
				}
			})
		})
	}
}

func TestReleaseNeverDeletesAnothersValue(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := holds(t)
		other := newClient(t, h.server.wire(), lockkeeper.Config{})
		h.server.Del(ordersKey)
		next := mustTry(t, other.Mutex("orders"))
		err := h.lease.Release(t.Context())
		wantErr(t, err, lockkeeper.ErrLost)
		wantErr(t, h.lease.Release(t.Context()), lockkeeper.ErrLost) // and it stays so
		wantErr(t, h.lease.Err(), lockkeeper.ErrLost)
		wantKey(t, h.server, ordersKey, true)
		mustRelease(t, next)
	})
}

// Belief ends before the key: a release after the loss frees it for the others.
func TestReleaseAfterTheLoss(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := holds(t)
		h.wire.breaks(on(hangs, "renew"))
		<-h.ctx.Done()
		wantKey(t, h.server, ordersKey, true)
		wantErr(t, h.lease.Release(t.Context()), lockkeeper.ErrLost)
		wantErr(t, h.lease.Release(t.Context()), lockkeeper.ErrLost)
		synctest.Wait()
		wantKey(t, h.server, ordersKey, false)
		if n := h.wire.sent("release"); n != 1 {
			t.Errorf("%d requests, want 1", n)
		}
	})
}

func TestReleaseAfterTheLossLeavesOthersAlone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := holds(t)
		h.wire.breaks(on(hangs, "renew"))
		time.Sleep(lockkeeper.DefaultTTL)
		h.server.Set(ordersKey, "somebody", 0)
		wantErr(t, h.lease.Release(t.Context()), lockkeeper.ErrLost)
		synctest.Wait()
		if value, _ := h.server.Get(ordersKey); value != "somebody" {
			t.Errorf("the key is %q", value)
		}
	})
}

// A renewal that is on its way when the lease is released neither makes the key
// again nor calls the lease lost.
func TestReleaseBesideARenewal(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := holds(t)
		h.wire.breaks(on(slow(time.Second, 0), "renew"))
		time.Sleep(renewal + 500*ms)
		mustRelease(t, h.lease)
		time.Sleep(time.Second)
		wantKey(t, h.server, ordersKey, false)
		wantErr(t, h.lease.Err(), lockkeeper.ErrNotHeld)
		wantNotErr(t, h.lease.Err(), lockkeeper.ErrLost)
	})
}

func TestReleaseFromManyGoroutines(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := holds(t)
		results := make([]<-chan error, 20)
		for i := range results {
			results[i] = goes(func() error { return h.lease.Release(t.Context()) })
		}
		for _, result := range results {
			if err := <-result; err != nil {
				t.Error(err)
			}
		}
		if n := h.wire.sent("release"); n != 1 {
			t.Errorf("%d requests, want 1", n)
		}
	})
}

// What the server answers to a release must make sense to be believed.
func TestReleaseOddReply(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := holds(t)
		h.wire.breaks(once(answers("OK", false)))
		mustRelease(t, h.lease)
		wantKey(t, h.server, ordersKey, false)
	})
}

type contextKey struct{}

// Values of the caller's context reach the connection, for tracing.
func TestRequestsCarryValues(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newServer().wire()
		c := newClient(t, w, lockkeeper.Config{})
		var seen []string
		w.breaks(func(ctx context.Context, c call, run func() (any, error)) (any, error) {
			if ctx.Value(contextKey{}) == "trace" {
				seen = append(seen, c.Script)
			}
			if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) > 10*time.Second || ctx.Err() != nil {
				t.Errorf("%s has deadline %v %t, err %v", c.Script, deadline, ok, ctx.Err())
			}
			return run()
		})
		ctx := context.WithValue(t.Context(), contextKey{}, "trace")
		lease, err := c.Mutex("orders").Try(ctx)
		err = errors.Join(err, lease.Extend(ctx, 20*time.Second), lease.RaiseFence(ctx, 1), lease.Release(ctx))
		if err != nil || len(seen) != 4 {
			t.Errorf("seen in %v, err %v", seen, err)
		}
	})
}

// An odd reply to a release is no loss.
func TestOddReleasesAreNoLoss(t *testing.T) {
	for name, odd := range map[string]any{"nil": nil, "empty": []any{}, "two": []any{"1", "2"}, "string": "x"} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newServer().wire()
				lease := mustTry(t, newClient(t, w, lockkeeper.Config{TTL: time.Second}).Mutex("orders"))
				w.breaks(on(answers(odd, false), "release"))
				err := lease.Release(t.Context())
				wantErr(t, err, lockkeeper.ErrUnavailable)
				wantNotErr(t, err, lockkeeper.ErrLost)
			})
		})
	}
}

// RaiseFence finds that the lock is lost while another call of the client waits: the line
// goes on without the hold, and the release must not touch it.
func TestReleaseAfterRaiseFoundALoss(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newParty(t)
		lease := mustTry(t, p.lock)
		next := waits(t.Context(), p.lock)
		settled(time.Second)
		p.server.Del(ordersKey)
		other := mustTry(t, p.holder)
		wantErr(t, lease.RaiseFence(t.Context(), lease.Fence()), lockkeeper.ErrLost)
		wantErr(t, lease.Release(t.Context()), lockkeeper.ErrLost)
		synctest.Wait()
		select {
		case <-next:
			t.Fatal("two have the lock")
		default:
		}
		mustRelease(t, other)
		mustRelease(t, (<-next).lease)
	})
}

// A message of the hand-off that comes a second time while the release is tried again:
// what it is about is being given up already.
func TestHandOffIsToldDuringTheRelease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newParty(t)
		first := mustTry(t, p.holder)
		got := waits(t.Context(), p.lock)
		settled(time.Second)
		id, _, _ := strings.Cut(p.server.first(t, lineKey), ".")
		mustRelease(t, first)
		lease := (<-got).lease
		tries := 0
		p.wire.breaks(on(func(ctx context.Context, c call, run func() (any, error)) (any, error) {
			if tries++; tries == 1 {
				return nil, &lockkeeper.ReplyError{Code: "LOADING", Message: "x"}
			}
			return run()
		}, "release"))
		result := goes(func() error { return lease.Release(t.Context()) })
		synctest.Wait()
		p.server.Publish("lockkeeper:wake:"+id, fmt.Sprintf("g:lk1:%s:%s:1:0:%s", lease.Owner(), lease.Fence(), ordersKey))
		if err := <-result; err != nil || tries != 2 {
			t.Errorf("%v after %d tries", err, tries)
		}
	})
}

// The lock came by a message while a request was on its way; that one is granted while the
// release is tried again.
func TestGrantIsToldDuringTheRelease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newParty(t)
		first := mustTry(t, p.holder)
		got := waits(t.Context(), p.lock)
		settled(time.Second)
		asked, goOn, tries := make(chan struct{}), make(chan struct{}), 0
		p.wire.breaks(func(_ context.Context, c call, run func() (any, error)) (any, error) {
			switch c.Script {
			case "acquire":
				asked <- struct{}{}
				<-goOn
			case "release":
				if tries++; tries == 1 {
					return nil, replies("TRYAGAIN x")
				}
			}
			return run()
		})
		<-asked
		mustRelease(t, first)
		lease := (<-got).lease
		result := goes(func() error { return lease.Release(t.Context()) })
		synctest.Wait()
		close(goOn)
		if err := <-result; err != nil {
			t.Error(err)
		}
	})
}
