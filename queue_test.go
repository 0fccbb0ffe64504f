package lockkeeper_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper"
)

// A hand-off costs one request of who releases, and none of who gets the lock before it
// has it. One client is told, however many wait (H22).
func TestQueueHandOffIsOneRequest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		q := lineUp(t, 20)
		for i := range q.got {
			settled(2345 * ms)
			before := make([]int, len(q.conns))
			for j, conn := range q.conns {
				before[j] = conn.sent("")
			}
			start, sent := time.Now(), q.way.sent("")
			mustRelease(t, q.hold)
			got := must(t, fmt.Sprint("number ", i), q.got[i])
			wantTook(t, start, 0)
			if n := q.way.sent("") - sent; n != 1 {
				t.Errorf("%d requests of the releaser", n)
			}
			for j, conn := range q.conns {
				if n := conn.sent("") - before[j]; n != 0 && j != i-1 {
					t.Errorf("%d requests of number %d, when %d has the lock", n, j, i)
				}
			}
			q.hold, q.way = got, q.conns[i].wire
		}
		mustRelease(t, q.hold)
		q.server.wantNothing(t)
	})
}

// H23: the line on the server is full: the next is told so, and who holds the lock. It
// is not a matter of who waits already.
func TestQueueFullOnTheServer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		q := lineUp(t, 3)
		c := newClient(t, q.server.wire(), lockkeeper.Config{MaxQueue: 3})
		check := func(err error) {
			t.Helper()
			var held *lockkeeper.HeldError
			wantErr(t, err, lockkeeper.ErrQueueFull, lockkeeper.ErrHeld)
			wantNotErr(t, err, lockkeeper.ErrUnavailable)
			if !errors.As(err, &held) || held.Holder.Label != "holder" || held.Holder.Fence != q.hold.Fence() || held.Left <= 0 || held.Name != "orders" {
				t.Errorf("%+v", held)
			}
		}
		_, err := c.Mutex("orders").Acquire(t.Context())
		check(err)
		check(c.Mutex("orders").Do(t.Context(), nothing))
		synctest.Wait()
		q.server.wantLabels(t, "w0 w1 w2")
		q.cancel[1]()
		<-q.got[1]
		synctest.Wait()
		result := waits(t.Context(), c.Mutex("orders"))
		settled(3 * time.Second)
		none(t, "the newcomer", result)
		if n := len(q.server.Line(lineKey)); n != 3 {
			t.Errorf("%d are in the line", n)
		}
		for _, got := range []<-chan outcome{q.got[0], q.got[2], result} {
			mustRelease(t, q.hold)
			q.hold = must(t, "the next", got)
		}
		mustRelease(t, q.hold)
		q.server.wantNothing(t)
	})
}

func nothing(context.Context, *lockkeeper.Lease) error { return nil }

// H23: the line of one process is full, as well where the process holds the lock itself.
func TestQueueFullInTheProcess(t *testing.T) {
	for _, own := range []bool{false, true} {
		t.Run(fmt.Sprint("own: ", own), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				p := newParty(t)
				c := newClient(t, p.wire, lockkeeper.Config{MaxQueue: 5, Label: "holder"})
				lock, holder := c.Mutex("orders"), p.holder
				if own {
					holder = lock
				}
				lease := mustTry(t, holder)
				ends := many(t.Context(), 5, lock)
				before := p.wire.sent("")
				_, err := lock.Acquire(t.Context())
				var held *lockkeeper.HeldError
				wantErr(t, err, lockkeeper.ErrQueueFull, lockkeeper.ErrHeld)
				if !errors.As(err, &held) || held.Holder.Label != "holder" || held.Holder.Fence != lease.Fence() {
					t.Errorf("%+v", held)
				}
				if p.wire.sent("") != before {
					t.Error("the server was asked")
				}
				settled(300 * ms)
				mustRelease(t, lease)
				for _, end := range ends {
					mustRelease(t, must(t, "the next", end))
				}
			})
		})
	}
}

// WRONGTYPE: a key of the lock is used by something else. It is said, never overwritten
// where it is the lock, and nothing is left behind.
func TestQueueWrongTypes(t *testing.T) {
	for _, key := range []string{lineKey, seatsKey} {
		t.Run(key, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				p := newParty(t)
				lease := mustTry(t, p.holder)
				p.server.Set(key, "something else", 0)
				_, err := p.lock.Acquire(t.Context())
				wantErr(t, err, lockkeeper.ErrUnavailable)
				wantNotErr(t, err, lockkeeper.ErrHeld)
				settled(time.Second)
				if value, _ := p.server.Get(key); value != "something else" {
					t.Errorf("the foreign value is %q", value)
				}
				if key == seatsKey && len(p.server.Line(lineKey)) > 0 {
					t.Error("a place is left in the line")
				}
				// Who does not wait is not concerned.
				mustRelease(t, lease)
				mustRelease(t, mustTry(t, p.another))
				mustRelease(t, mustAcquire(t, p.lock))
			})
		})
	}
}

// H26: who is far back asks less often, and the places live on.
func TestQueueTrafficOfManyWaiters(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const n = 150
		s := newServer()
		c := newClient(t, s.wire(), lockkeeper.Config{})
		lease := mustTry(t, c.Mutex("orders"))
		ctx, cancel := context.WithCancel(t.Context())
		var conns []*wire
		var ends []<-chan outcome
		for range n {
			w := s.wire()
			conns = append(conns, w)
			ends = append(ends, waits(ctx, newClient(t, w, lockkeeper.Config{}).Mutex("orders")))
			settled(ms)
		}
		time.Sleep(20 * time.Second)
		before := make([]int, n)
		for i, w := range conns {
			before[i] = w.sent("")
		}
		time.Sleep(60 * time.Second)
		for _, i := range []int{0, 30, 63, 64, 100, 130, 149} {
			want := 60 / (1 + i/64)
			if got := conns[i].sent("") - before[i]; got < want*3/4 || got > want*5/4+1 {
				t.Errorf("number %d has sent %d requests in a minute, want about %d", i, got, want)
			}
		}
		if left := len(s.Line(lineKey)); left != n {
			t.Errorf("%d are in the line", left)
		}
		mustRelease(t, lease)
		mustRelease(t, must(t, "the first", ends[0]))
		cancel()
		for _, end := range ends[1:] {
			if o := <-end; o.err == nil {
				mustRelease(t, o.lease)
			}
		}
	})
}

// No right to subscribe, for anybody: everything works by asking, in bounded time.
func TestQueueWithoutSubscriptions(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newServer()
		deaf := func() *lockkeeper.Lock {
			w := s.wire()
			w.deafens(replies("NOPERM this user has no permissions to access one of the channels used as arguments"))
			return newClient(t, w, lockkeeper.Config{}).Mutex("orders")
		}
		lease := mustTry(t, deaf())
		var ends []<-chan outcome
		for range 5 {
			ends = append(ends, waits(t.Context(), deaf()))
			settled(10 * ms)
		}
		ctx, cancel := context.WithCancel(t.Context())
		gone := waits(ctx, deaf())
		settled(3 * time.Second)
		cancel()
		<-gone
		for i, end := range ends {
			start := time.Now()
			mustRelease(t, lease)
			o := arrives(t, fmt.Sprint("number ", i), end)
			o.wantWithin(t, start, deafPoll)
			if o.lease.Fence() <= lease.Fence() {
				t.Error("the fence does not grow")
			}
			lease = o.lease
			settled(time.Second)
		}
		mustRelease(t, lease)
		settled(0)
		s.wantNothing(t)
	})
}

// Fences grow over everything: local turns, hand-offs, expiry, and the loss of the
// counter, each after each.
func TestQueueFencesGrow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newParty(t)
		var leases []*lockkeeper.Lease
		got := func(lease *lockkeeper.Lease) *lockkeeper.Lease {
			leases = append(leases, lease)
			return lease
		}
		steps := map[string]func(){
			"counter": func() { time.Sleep(ms); p.server.Del(countKey) },
			"try":     func() { mustRelease(t, got(mustTry(t, p.another))); time.Sleep(time.Microsecond) },
			"turns":   func() { leases = append(leases, turns(t, p.lock, 8, 8, 0)...); time.Sleep(time.Millisecond) },
			"hand-off": func() {
				lease := got(mustTry(t, p.holder))
				result := waits(t.Context(), p.lock)
				settled(ms)
				mustRelease(t, lease)
				mustRelease(t, got(must(t, "the waiter", result)))
			},
			"expiry": func() {
				p.other.breaks(hangs)
				// Its request has run.
				p.other.breaks(on(hangs, "renew", "release"))
				lease := got(mustTry(t, p.another))
				mustRelease(t, got(arrives(t, "the waiter", waits(t.Context(), p.lock)).lease))
				wantErr(t, lease.Err(), lockkeeper.ErrLost)
				p.other.breaks(nil)
			},
		}
		for first := range steps {
			for second := range steps {
				steps[first]()
				steps[second]()
				synctest.Wait()
			}
		}
		wantGrowing(t, leases)
	})
}

// Nobody starves: 8 processes with 4 goroutines each get the same, within Jain's index
// of 0.97, and each is served all the time.
func TestQueueIsFair(t *testing.T) {
	for turn, long := range map[time.Duration]time.Duration{100 * time.Microsecond: time.Second, ms: 4 * time.Second, 4 * ms: 8 * time.Second} {
		t.Run(turn.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newServer()
				const processes, each = 8, 4
				var count [processes]float64
				var most [processes]time.Duration // without a turn
				ctx, cancel := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				for i := range processes {
					w := s.wire()
					w.breaks(slow(100*time.Microsecond, 100*time.Microsecond))
					lock := newClient(t, w, lockkeeper.Config{}).Mutex("orders")
					last := time.Now()
					for range each {
						wg.Go(func() {
							for {
								lease, err := lock.Acquire(ctx)
								if err != nil {
									return
								}
								most[i] = max(most[i], time.Since(last))
								time.Sleep(turn)
								last = time.Now()
								count[i]++
								mustRelease(t, lease)
							}
						})
					}
				}
				time.Sleep(long)
				cancel()
				wg.Wait()
				var sum, squares float64
				for _, n := range count {
					sum += n
					squares += n * n
				}
				if jain := sum * sum / (processes * squares); jain < 0.97 {
					t.Errorf("Jain's index is %.3f: %v", jain, count)
				}
				for i, d := range most {
					if d > 2*time.Second {
						t.Errorf("process %d was without a turn for %s", i, d)
					}
				}
			})
		})
	}
}
