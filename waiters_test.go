package lockkeeper_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper"
)

// A turn is lost by its longest hold, and what it gives back is what no turn has used:
// the next holder's fence is larger than that of the last turn.
func TestTurnsLostLeaseKeepsItsFences(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newParty(t)
		ahead := mustTry(t, p.holder)
		if err := ahead.RaiseFence(t.Context(), lockkeeper.Fence(time.Now().Add(time.Hour).UnixMicro())); err != nil {
			t.Fatal(err)
		}
		mustRelease(t, ahead) // now the counter decides, and not the clock
		lease := mustTry(t, p.holder)
		var local []<-chan outcome
		for range 4 {
			local = append(local, waits(t.Context(), p.lock))
			settled(ms)
		}
		other := waits(t.Context(), p.another)
		settled(ms)
		mustRelease(t, lease)
		for _, turn := range local[:3] {
			lease = must(t, "the turn", turn)
			mustRelease(t, lease)
		}
		lease = must(t, "the last turn", local[3])
		p.wire.breaks(on(hangs, "renew"))
		<-lease.Done()
		last := lease.Fence()
		p.wire.breaks(nil)
		wantErr(t, lease.Release(t.Context()), lockkeeper.ErrLost)
		next := arrives(t, "the other", other).lease
		if next.Fence() <= last {
			t.Errorf("fence %s after %s", next.Fence(), last)
		}
		mustRelease(t, next)
	})
}

// What says that it waits for itself is told that the lock is held.
func TestNestedAcquireIsHeld(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newClient(t, newServer().wire(), lockkeeper.Config{Label: "me"})
		for _, get := range []func(context.Context) (*lockkeeper.Lease, error){c.Mutex("orders").Try, c.Mutex("orders").Acquire} {
			lease, err := get(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			_, err = c.Mutex("orders", lockkeeper.WithMaxWait(time.Second)).Acquire(t.Context())
			wantErr(t, err, lockkeeper.ErrHeld, context.DeadlineExceeded)
			wantNotErr(t, err, lockkeeper.ErrUnavailable)
			if held := err.(*lockkeeper.HeldError); held.Holder.Label != "me" || held.Holder.Fence != lease.Fence() || held.Holder.Owner != lease.Owner() {
				t.Errorf("it is said to be held by %+v", held.Holder)
			}
			mustRelease(t, lease)
		}
	})
}

// A process with many waiters has the weight of one.
func TestManyWaitersHaveTheWeightOfOne(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newParty(t)
		lease := mustTry(t, p.lock)
		ctx, cancel := context.WithCancel(t.Context())
		var many sync.WaitGroup
		defer many.Wait()
		defer cancel()
		for range 1000 {
			many.Go(func() {
				for {
					lease, err := p.lock.Acquire(ctx)
					if err != nil {
						return
					}
					time.Sleep(ms)
					_ = lease.Release(ctx)
				}
			})
		}
		settled(ms)
		mustRelease(t, lease)
		for range 20 {
			time.Sleep(100 * ms)
			start := time.Now()
			got := <-waits(t.Context(), p.another)
			got.wantWithin(t, start, 12*ms)
			mustRelease(t, got.lease)
		}
	})
}

// A wait is cancelled while its request is out, and the request is answered soon after:
// nothing is left to wait for.
func TestUndoEndsWithTheAnswer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newParty(t)
		mustTry(t, p.holder)
		c := newClient(t, p.wire, lockkeeper.Config{})
		ctx, cancel := context.WithCancel(t.Context())
		result := waits(ctx, c.Mutex("orders"))
		settled(300 * ms)
		p.wire.breaks(on(slow(100*ms, 100*ms), "acquire"))
		p.server.BreakSubscriptions() // it asks
		settled(50 * ms)
		cancel()
		wantErr(t, (<-result).err, context.Canceled)
		settled(200 * ms) // the request has run, after the first undo, and is answered
		wantKey(t, p.server, lineKey, false)
		start := time.Now()
		closes(t, c)
		wantTook(t, start, 0)
		synctest.Wait()
	})
}

// A request of an owner runs after its release, and takes the lock again; then that is
// undone by what the owner knows, which is from before: no fence is given out twice.
func TestFencesOfAFormerLife(t *testing.T) {
	s := newServer()
	run := func(script string, args ...string) any {
		reply, err := s.Eval(t.Context(), sources()[script], ordersKeys, args)
		if err != nil {
			t.Fatal(err)
		}
		return reply
	}
	s.Set("{lockkeeper:orders}:lk-fence", "4000000000000000", 0) // ahead of the clock
	first := run("acquire", "lk1:a.1:", "10000", "", "0").([]any)[0].(string)
	run("release", "lk1:a.1:", first)
	between := run("acquire", "lk1:b.1:", "10000", "", "0").([]any)[0].(string)
	run("release", "lk1:b.1:", "")
	run("acquire", "lk1:a.1:", "10000", "", "0") // late
	run("release", "lk1:a.1:", first)
	if last := run("acquire", "lk1:c.1:", "10000", "", "0").([]any)[0].(string); last <= between {
		t.Errorf("fence %s after %s", last, between)
	}
}
