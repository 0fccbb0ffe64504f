package lockkeeper_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper"
)

// C11, H27: a process has one place in the line, for all of its calls.
func TestTurnsOnePlaceOfAProcess(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newParty(t)
		lease := mustTry(t, p.holder)
		ends := many(t.Context(), 50, p.lock)
		other := waits(t.Context(), p.another)
		settled(5 * time.Second)
		if n := len(p.server.Line(lineKey)); n != 2 {
			t.Errorf("%d places in the line", n)
		}
		mustRelease(t, lease)
		for _, end := range append(ends, other) {
			go func() { mustRelease(t, arrives(t, "a call", end).lease) }()
		}
		settled(time.Second)
		p.server.wantNothing(t)
	})
}

// Different options on one name share no hold: the value and its life on the server are
// those of the turn, and Extend in a turn is none of the next one's.
func TestTurnsOfDifferentKinds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newParty(t)
		p.warm(t)
		c := newClient(t, p.server.wire(), lockkeeper.Config{Label: "plain"})
		locks := []*lockkeeper.Lock{
			c.Mutex("orders"), c.Mutex("orders", lockkeeper.WithLabel("red")), c.Mutex("orders", lockkeeper.WithTTL(3*time.Second)),
			c.Mutex("orders", lockkeeper.WithLabel("red"), lockkeeper.WithTTL(3*time.Second)),
		}
		labels, ttls := []string{"plain", "red", "plain", "red"}, []time.Duration{10 * time.Second, 10 * time.Second, 3 * time.Second, 3 * time.Second}
		var ends []<-chan outcome
		order := []int{0, 1, 2, 3, 2, 1, 0, 0, 3, 3, 1}
		for _, i := range order {
			ends = append(ends, waits(t.Context(), locks[i]))
			settled(10 * ms)
		}
		last := ""
		for i, end := range ends {
			lease := arrives(t, fmt.Sprint("call ", i), end).lease
			value, _ := p.server.Get(ordersKey)
			if kind := order[i]; !strings.HasSuffix(value, ":"+labels[kind]) || p.server.TTL(ordersKey) > ttls[kind] {
				t.Errorf("turn %d: %q for %s", i, value, p.server.TTL(ordersKey))
			}
			same := i > 0 && order[i] == order[i-1]
			if passed := strings.HasPrefix(lease.Owner(), last+"."); i > 0 && passed != same {
				t.Errorf("turn %d: owner %s after %s", i, lease.Owner(), last)
			}
			last = lease.Owner()
			mustRelease(t, lease)
			synctest.Wait()
		}
	})
}

func TestTurnsExtendDoesNotLeak(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newParty(t)
		lease := p.served(t)
		next := waits(t.Context(), p.lock)
		settled(ms)
		if err := lease.Extend(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
		if left := p.server.TTL(ordersKey); left != time.Minute {
			t.Fatalf("extended to %s", left)
		}
		mustRelease(t, lease)
		lease = must(t, "the next", next)
		settled(5 * time.Second)
		if left := p.server.TTL(ordersKey); left > 10*time.Second {
			t.Errorf("the next has %s", left)
		}
		if left := time.Until(lease.Deadline()); left > belief {
			t.Errorf("the next believes for %s", left)
		}
		mustRelease(t, lease)
	})
}

// A fence is raised in a turn: the next, passed on or not, has a larger one.
func TestTurnsAfterRaiseFence(t *testing.T) {
	for _, before := range []int{0, 3} {
		t.Run(fmt.Sprint("after ", before, " turns"), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				p := newParty(t)
				lease := p.served(t)
				var leases []*lockkeeper.Lease
				for i := range before + 4 {
					leases = append(leases, lease)
					if i == before {
						seen := lease.Fence() + 1_000_000_000_000
						if err := lease.RaiseFence(t.Context(), seen); err != nil || lease.Fence() <= seen {
							t.Fatalf("fence %s, raised above %s: %v", lease.Fence(), seen, err)
						}
					}
					next := waits(t.Context(), p.lock)
					settled(ms)
					mustRelease(t, lease)
					lease = must(t, "the next", next)
				}
				mustRelease(t, lease)
				leases = append(leases, lease, mustTry(t, p.another))
				wantGrowing(t, leases)
			})
		})
	}
}

// Close with calls in the line: they end with ErrClosed, the turn's context ends, and
// nothing of the client is left on the server.
func TestTurnsClose(t *testing.T) {
	for _, holds := range []bool{true, false} {
		t.Run(fmt.Sprint("it holds the lock: ", holds), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				p := newParty(t)
				c, err := lockkeeper.New(p.server.wire(), lockkeeper.Config{Label: "closing"})
				if err != nil {
					t.Fatal(err)
				}
				lock := c.Mutex("orders")
				holder := lock
				if !holds {
					holder = p.holder
				}
				lease := mustTry(t, holder)
				ends := many(t.Context(), 20, lock)
				settled(3 * time.Second)
				other := waits(t.Context(), p.another)
				settled(300 * ms)
				closes(t, c)
				for _, end := range ends {
					wantErr(t, arrives(t, "a call", end).err, lockkeeper.ErrClosed)
				}
				if slices.Contains(p.server.labels(), "closing") {
					t.Errorf("in the line are %v", p.server.labels())
				}
				if holds {
					wantErr(t, lease.Err(), lockkeeper.ErrClosed)
				} else {
					mustRelease(t, lease)
				}
				mustRelease(t, must(t, "the other", other))
				settled(time.Second)
				p.server.wantNothing(t)
			})
		})
	}
}

// A call that waits costs its own goroutine and nothing more: no timer's, no watcher's.
func TestTurnsNoGoroutinePerWaiter(t *testing.T) { // not parallel: it counts
	synctest.Test(t, func(t *testing.T) {
		p := newParty(t)
		lease := mustTry(t, p.holder)
		first := waits(t.Context(), p.lock)
		settled(3 * time.Second)
		before := runtime.NumGoroutine()
		ends := many(t.Context(), 500, p.lock)
		settled(3 * time.Second)
		if n := runtime.NumGoroutine() - before; n > 502 {
			t.Errorf("500 calls wait in %d goroutines", n)
		}
		mustRelease(t, lease)
		for _, end := range append([]<-chan outcome{first}, ends...) {
			mustRelease(t, arrives(t, "a call", end).lease)
		}
	})
}

// A release that waits again for the next call is on its way while the client closes:
// nothing of the client is left on the server.
func TestTurnsCloseDuringARelease(t *testing.T) {
	for name, other := range map[string]bool{"with another process": true, "alone": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newServer()
				w := s.wire()
				c, err := lockkeeper.New(w, lockkeeper.Config{Label: "closing"})
				if err != nil {
					t.Fatal(err)
				}
				lease := mustTry(t, c.Mutex("orders"))
				if other {
					defer func(got <-chan outcome) {
						mustRelease(t, must(t, "the other", got))
						s.wantNothing(t)
					}(waits(t.Context(), newClient(t, s.wire(), lockkeeper.Config{Label: "other"}).Mutex("orders")))
				} else {
					defer s.wantNothing(t)
				}
				settled(20 * ms)
				local := waits(t.Context(), c.Mutex("orders", lockkeeper.WithLabel("x")))
				settled(300 * ms)
				w.breaks(on(slow(50*ms, 50*ms), "release"))
				released := goes(func() error { return lease.Release(t.Context()) })
				settled(10 * ms)
				closes(t, c)
				wantErr(t, (<-local).err, lockkeeper.ErrClosed)
				if err := <-released; err != nil {
					t.Error(err)
				}
				settled(0)
			})
		})
	}
}
