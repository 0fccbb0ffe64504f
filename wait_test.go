package lockkeeper_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper"
)

var ordersKeys = []string{ordersKey, "{lockkeeper:orders}:lk-fence", lineKey, "{lockkeeper:orders}:lk-places"}

const (
	lineKey = "{lockkeeper:orders}:lk-line"
	poll    = 1250 * ms // the longest, with a subscription
)

// A party is processes that use one lock.
type party struct {
	server  *server
	holder  *lockkeeper.Lock // of a process of its own
	lock    *lockkeeper.Lock // of the process with this wire
	wire    *wire
	another *lockkeeper.Lock
	other   *wire
}

func newParty(t *testing.T, opts ...lockkeeper.Option) *party {
	t.Helper()
	p := &party{server: newServer()}
	p.wire, p.other = p.server.wire(), p.server.wire()
	p.holder = newClient(t, p.server.wire(), lockkeeper.Config{Label: "holder"}).Mutex("orders", opts...)
	p.lock = newClient(t, p.wire, lockkeeper.Config{}).Mutex("orders", opts...)
	p.another = newClient(t, p.other, lockkeeper.Config{}).Mutex("orders", opts...)
	return p
}

// An outcome is what a wait has brought, and when.
type outcome struct {
	lease *lockkeeper.Lease
	err   error
	at    time.Time
}

func waits(ctx context.Context, lock *lockkeeper.Lock) <-chan outcome {
	return goes(func() outcome {
		lease, err := lock.Acquire(ctx)
		return outcome{lease, err, time.Now()}
	})
}

// settled lets the waiters that were started go to sleep, after a while.
func settled(d time.Duration) {
	synctest.Wait()
	time.Sleep(d)
	synctest.Wait()
}

func (o outcome) wantWithin(t *testing.T, start time.Time, d time.Duration) {
	t.Helper()
	if o.err != nil {
		t.Fatal(o.err)
	}
	if took := o.at.Sub(start); took > d {
		t.Errorf("it took %s, want at most %s", took, d)
	}
}

func TestWaitersAreWokenByTheRelease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newParty(t)
		// At once, when the subscription is quite new, and after some polls.
		for _, held := range []time.Duration{0, ms, 300 * ms, 5300 * ms, time.Minute} {
			lease := mustTry(t, p.holder)
			result := waits(t.Context(), p.lock)
			settled(held)
			start := time.Now()
			mustRelease(t, lease)
			got := <-result
			got.wantWithin(t, start, ms)
			if got.lease.Fence() <= lease.Fence() || got.lease.Owner() == lease.Owner() {
				t.Errorf("fence %s after %s", got.lease.Fence(), lease.Fence())
			}
			mustRelease(t, got.lease)
		}
	})
}

// The belief of a lease that was handed over counts from the last request that was
// answered before, since the message may be late: 4 s, less the margin of 1 s.
func TestWaitersBeliefCountsFromTheLastAnswer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newParty(t)
		lease := mustTry(t, p.holder)
		var sent time.Time
		p.wire.breaks(on(func(_ context.Context, _ call, run func() (any, error)) (any, error) {
			sent = time.Now()
			return run()
		}, "acquire"))
		result := waits(t.Context(), p.lock)
		settled(time.Minute + 300*ms)
		mustRelease(t, lease)
		got := <-result
		if want := sent.Add(3 * time.Second); got.err != nil || !got.lease.Deadline().Equal(want) {
			t.Errorf("%v; the deadline is %s after sending, want 3s", got.err, got.lease.Deadline().Sub(sent))
		}
		time.Sleep(2 * time.Second) // the first renewal makes it a whole TTL
		if left := time.Until(got.lease.Deadline()); left < 6*time.Second {
			t.Errorf("belief has %s left", left)
		}
	})
}

func TestWaitersOfAProcessKeepTheirOrder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newParty(t)
		lease := mustTry(t, p.holder)
		p.wire.breaks(slow(2*ms, 3*ms))
		const n = 50
		var order []int
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				lease, err := p.lock.Acquire(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				order = append(order, i) // under the lock
				time.Sleep(ms)
				mustRelease(t, lease)
			})
			synctest.Wait() // some come while the first request is on its way
			if i%10 == 0 {
				time.Sleep(10 * ms)
			}
		}
		time.Sleep(3 * time.Second)
		mustRelease(t, lease)
		wg.Wait()
		for i, got := range order {
			if got != i {
				t.Fatalf("they came in the order %v", order)
			}
		}
	})
}

// 200 goroutines of a process cost what one does.
func TestOnlyTheFirstOfAProcessAsks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newParty(t)
		mustTry(t, p.holder)
		ctx, cancel := context.WithCancel(t.Context())
		results := make([]<-chan outcome, 200)
		for i := range results {
			results[i] = waits(ctx, p.lock)
		}
		time.Sleep(10 * time.Second)
		if n := p.wire.sent(""); n < 8 || n > 20 {
			t.Errorf("%d requests in 10 s", n)
		}
		cancel()
		for _, result := range results {
			wantErr(t, (<-result).err, context.Canceled, lockkeeper.ErrHeld)
		}
		synctest.Wait()
		if n := p.wire.sent("release"); n != 1 {
			t.Errorf("the place in the line was given up %d times", n)
		}
		wantKey(t, p.server, lineKey, false)
	})
}

// A hand-over inside of a process costs no request, but for the first, which learns that
// nobody else waits, and one in a while.
func TestRequestsOfLocalHandOvers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newParty(t)
		lease := mustTry(t, p.lock)
		const n = 1000
		var wg sync.WaitGroup
		for range n {
			wg.Go(func() {
				lease, err := p.lock.Acquire(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				mustRelease(t, lease)
			})
		}
		settled(time.Second)
		before := p.wire.sent("")
		mustRelease(t, lease)
		wg.Wait()
		if sent := p.wire.sent("") - before; sent > 2 {
			t.Errorf("%d requests for %d hand-overs", sent, n)
		}
	})
}

// The key goes away and nobody says so: a poll finds it.
func TestLostWakeUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newParty(t)
		for range 20 {
			lease := mustTry(t, p.holder)
			result := waits(t.Context(), p.lock)
			settled(3333 * ms)
			start := time.Now()
			p.server.Del(ordersKey)
			got := <-result
			got.wantWithin(t, start, poll)
			mustRelease(t, got.lease)
			wantErr(t, lease.Release(t.Context()), lockkeeper.ErrLost)
		}
	})
}

func TestDeadHolder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newParty(t)
		for i := range 20 {
			expires := time.Now().Add(3*time.Second + time.Duration(i)*137*ms)
			p.server.Set(ordersKey, "dead", time.Until(expires))
			got := <-waits(t.Context(), p.lock)
			got.wantWithin(t, expires, 2*ms)
			if got.at.Before(expires) {
				t.Error("taken before it was free")
			}
			mustRelease(t, got.lease)
		}
	})
}

// A holder without a TTL, or with one for a year, is waited for as well.
func TestHolderWithoutATTL(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newParty(t)
		p.server.Set(ordersKey, "x", 0)
		result := waits(t.Context(), p.lock)
		time.Sleep(time.Minute)
		if n := p.wire.sent("acquire"); n > 80 {
			t.Errorf("%d requests in a minute", n)
		}
		start := time.Now()
		p.server.Del(ordersKey)
		(<-result).wantWithin(t, start, poll)
	})
}

// The process that has waited longest is woken first, though it asked again since.
func TestProcessesAreWokenInTheirOrder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newParty(t)
		for range 10 {
			lease := mustTry(t, p.holder)
			first := waits(t.Context(), p.lock)
			settled(700 * ms)
			second := waits(t.Context(), p.another)
			settled(4444 * ms)
			mustRelease(t, lease)
			synctest.Wait()
			select {
			case <-second:
				t.Fatal("the second was woken first")
			case got := <-first:
				mustRelease(t, got.lease)
			}
			mustRelease(t, (<-second).lease)
		}
	})
}

// Processes that died in the line hold nobody up.
func TestDeadWaitersArePassedOver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newParty(t)
		lease := mustTry(t, p.holder)
		for i := range 10 {
			args := []string{fmt.Sprintf("lk1:dead%d.x:", i), "10000", "", "0", "10000:4000:0:1:lockkeeper:wake:"}
			if _, err := p.server.Eval(t.Context(), sources()["acquire"], ordersKeys, args); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(ms) // they are before it
		result := waits(t.Context(), p.lock)
		settled(3300 * ms)
		start := time.Now()
		mustRelease(t, lease)
		(<-result).wantWithin(t, start, ms)
	})
}

// Nobody in a process overtakes those who wait there, except by Try.
func TestNobodyOvertakesInAProcess(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newParty(t)
		lease := mustTry(t, p.holder)
		first := waits(t.Context(), p.lock)
		settled(300 * ms)
		p.server.Del(ordersKey) // free, and the first does not know
		second := waits(t.Context(), p.lock)
		synctest.Wait()
		select {
		case <-second:
			t.Fatal("the second was first")
		default:
		}
		got := <-first
		mustRelease(t, got.lease)
		mustRelease(t, (<-second).lease)
		_ = lease.Release(t.Context())
	})
}

func TestMaxWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newParty(t, lockkeeper.WithMaxWait(3*time.Second))
		lease := mustTry(t, p.holder)
		start := time.Now()
		first := waits(t.Context(), p.lock)
		settled(0)
		second := waits(t.Context(), p.lock) // behind it, and never asks
		for name, result := range map[string]<-chan outcome{"first": first, "second": second} {
			got := <-result
			var held *lockkeeper.HeldError
			if !errors.As(got.err, &held) {
				t.Fatalf("%s: %v", name, got.err)
			}
			if held.Holder.Label != "holder" || held.Holder.Fence != lease.Fence() || held.Name != "orders" || held.Left <= 0 {
				t.Errorf("%s: %+v", name, held)
			}
			wantErr(t, got.err, lockkeeper.ErrHeld, context.DeadlineExceeded)
			wantNotErr(t, got.err, lockkeeper.ErrUnavailable, context.Canceled)
			if strings.Contains(got.err.Error(), "\n") {
				t.Errorf("%s: %q", name, got.err)
			}
			if took := got.at.Sub(start); took != 3*time.Second {
				t.Errorf("%s: after %s", name, took)
			}
		}
		synctest.Wait()
		wantKey(t, p.server, lineKey, false)
	})
}

func TestWaitEndsWithTheCallersCause(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newParty(t)
		mustTry(t, p.holder)
		ctx, cancel := context.WithCancelCause(t.Context())
		result := waits(ctx, p.lock)
		settled(time.Second)
		cancel(errWork)
		wantErr(t, (<-result).err, lockkeeper.ErrHeld, context.Canceled, errWork)
		synctest.Wait() // the place in the line is given up

		n := p.wire.sent("")
		_, err := p.lock.Acquire(ctx)
		wantErr(t, err, context.Canceled, errWork)
		if p.wire.sent("") != n {
			t.Error("a request was sent for a context that had ended")
		}
	})
}

// Redis goes away during the wait: the wait goes on, and its error is not that
// somebody holds the lock.
func TestRedisDownDuringTheWait(t *testing.T) {
	for name, f := range map[string]fault{"fails": fails(errNetwork), "hangs": hangs, "loading": fails(replies("LOADING x"))} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				p := newParty(t)
				lease := mustTry(t, p.holder)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				first := waits(ctx, p.lock)
				settled(0)
				second := waits(ctx, p.lock)
				settled(5 * time.Second)
				p.wire.breaks(f)
				for _, result := range []<-chan outcome{first, second} {
					got := <-result
					wantErr(t, got.err, lockkeeper.ErrUnavailable, context.DeadlineExceeded)
					wantNotErr(t, got.err, lockkeeper.ErrHeld)
					if strings.Contains(got.err.Error(), "\n") {
						t.Errorf("%q", got.err)
					}
				}
				third := waits(t.Context(), p.lock)
				settled(time.Hour)
				p.wire.breaks(nil)
				start := time.Now()
				mustRelease(t, lease)
				(<-third).wantWithin(t, start, 5*time.Second)
			})
		})
	}
}

// The wait ends while a request is out: for a short time that says nothing about
// Redis, and what the last answer said is told.
func TestWaitEndsDuringARequest(t *testing.T) {
	for _, tt := range []struct {
		out  time.Duration
		want error
	}{{100 * ms, lockkeeper.ErrHeld}, {600 * ms, lockkeeper.ErrUnavailable}} {
		for _, how := range []string{"deadline", "cancel"} {
			t.Run(how+" after "+tt.out.String(), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					p := newParty(t)
					mustTry(t, p.holder)
					ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
					defer cancel()
					if how == "cancel" {
						ctx, cancel = context.WithCancel(t.Context())
						defer cancel()
						time.AfterFunc(10*time.Second, cancel)
					}
					result := waits(ctx, p.lock)
					time.Sleep(10*time.Second - tt.out)
					synctest.Wait()
					p.wire.breaks(hangs)
					p.server.BreakSubscriptions() // it asks
					got := <-result
					wantErr(t, got.err, tt.want, ctx.Err())
					if tt.want == lockkeeper.ErrHeld {
						wantNotErr(t, got.err, lockkeeper.ErrUnavailable)
					} else {
						wantNotErr(t, got.err, lockkeeper.ErrHeld)
					}
				})
			})
		}
	}
}

// Redis is down from the start, for a wait that ends before it answers.
func TestRedisDownFromTheStart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newParty(t, lockkeeper.WithMaxWait(5*time.Second))
		p.wire.breaks(hangs)
		start := time.Now()
		first := waits(t.Context(), p.lock)
		settled(0)
		second := waits(t.Context(), p.lock)
		for _, result := range []<-chan outcome{first, second} {
			got := <-result
			wantErr(t, got.err, lockkeeper.ErrUnavailable, context.DeadlineExceeded)
			wantNotErr(t, got.err, lockkeeper.ErrHeld)
		}
		wantTook(t, start, 5*time.Second)
	})
}

// A waiter whose context ends returns at once, also while its request hangs; but
// the first request of all has to be sat out.
func TestCancelDoesNotWaitForTheNetwork(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newParty(t)
		p.wire.breaks(hangs)
		for _, tt := range []struct{ cancel, want time.Duration }{{100 * ms, 500 * ms}, {2 * time.Second, 2 * time.Second}} {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(tt.cancel, cancel)
			start := time.Now()
			_, err := p.lock.Acquire(ctx)
			wantErr(t, err, context.Canceled, lockkeeper.ErrUnavailable)
			wantTook(t, start, tt.want)
		}
	})
}

// The lock comes by a message while a request is on its way, which is granted later: to
// who waits behind it, that is no trouble with Redis.
func TestAnswerAfterTheMessage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newParty(t)
		first := mustTry(t, p.holder)
		got := waits(t.Context(), p.lock)
		settled(time.Second)
		asked, goOn := make(chan struct{}), make(chan struct{})
		p.wire.breaks(on(func(_ context.Context, _ call, run func() (any, error)) (any, error) {
			asked <- struct{}{}
			<-goOn
			return run()
		}, "acquire"))
		<-asked
		mustRelease(t, first)
		lease := (<-got).lease
		close(goOn)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wantErr(t, (<-waits(ctx, p.lock)).err, lockkeeper.ErrHeld, context.DeadlineExceeded)
		mustRelease(t, lease)
	})
}
