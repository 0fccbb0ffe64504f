package lockkeeper_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper"
)

// H6: the wait is cancelled, and the lock was handed over just before: the message is
// still on its way. The next has it at once.
func TestHoleCancelAfterTheGrant(t *testing.T) {
	bubble(t, func(t *testing.T) {
		q := lineUp(t, 2)
		settled(3300 * ms)
		q.conns[0].shuts()
		mustRelease(t, q.hold)
		none(t, "the second", q.got[1])
		q.cancel[0]()
		wantErr(t, arrives(t, "the waiter", q.got[0]).err, context.Canceled)
		second := must(t, "the second", q.got[1])
		q.conns[0].opens(true) // for nobody
		settled(poll)
		if second.Err() != nil {
			t.Error(second.Err())
		}
		mustRelease(t, second)
		q.server.wantNothing(t)
	})
}

// H6: the same in the other order, and with both at once; the message finds nobody.
func TestHoleCancelBeforeTheGrant(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, wait := range []time.Duration{0, ms, 2 * ms} {
			q := lineUp(t, 2)
			settled(3300 * ms)
			q.conns[0].breaks(on(slow(ms, ms), "release"))
			q.cancel[0]()
			time.Sleep(wait)
			mustRelease(t, q.hold)
			got := arrives(t, "the waiter", q.got[0])
			if got.err == nil { // it was faster than the cancellation
				mustRelease(t, got.lease)
			} else {
				wantErr(t, got.err, context.Canceled)
			}
			settled(2 * ms)
			mustRelease(t, must(t, "the second", q.got[1]))
			settled(poll)
			q.server.wantNothing(t)
		}
	})
}

// H6: what a cancelled wait had in the line is gone when it has returned and its
// request has run: the place, and what is kept of it.
func TestHoleCancelledPlaceIsGone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		q := lineUp(t, 3)
		q.server.wantLabels(t, "w0 w1 w2")
		q.cancel[1]()
		wantErr(t, arrives(t, "the waiter", q.got[1]).err, context.Canceled, lockkeeper.ErrHeld)
		synctest.Wait()
		q.server.wantLabels(t, "w0 w2")
		if n := len(q.server.Places(seatsKey)); n != 2 {
			t.Errorf("%d places are kept", n)
		}
		q.cancel[0]()
		q.cancel[2]()
		<-q.got[0]
		<-q.got[2]
		synctest.Wait()
		wantKey(t, q.server, lineKey, false)
		wantKey(t, q.server, seatsKey, false)
		mustRelease(t, q.hold)
	})
}

// H7: a request for a place runs after its wait was cancelled. It is refused by its
// time, or what it took is given back.
func TestHoleZombieEnqueue(t *testing.T) {
	for name, known := range map[string]bool{"the server's clock is known": true, "it is not": false} {
		for _, free := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", the lock is free: ", free), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					p := newParty(t)
					if known {
						mustRelease(t, mustTry(t, p.lock))
					}
					var lease *lockkeeper.Lease
					if !free {
						lease = mustTry(t, p.holder)
					}
					p.wire.breaks(on(slow(7*time.Second, 0), "acquire"))
					ctx, cancel := context.WithCancel(t.Context())
					result := waits(ctx, p.lock)
					settled(100 * ms)
					cancel()
					wantErr(t, arrives(t, "the waiter", result).err, context.Canceled)
					p.wire.breaks(nil)
					time.Sleep(6*time.Second + 350*ms)
					if p.server.Line(lineKey) != nil {
						t.Error("it is in the line before its time: the test is wrong")
					}
					time.Sleep(600*ms + 500*ms) // the zombie has run, and an undo after it
					if known && p.wire.sent("acquire") == 0 {
						t.Error("nothing was sent")
					}
					if lease != nil {
						mustRelease(t, lease)
					}
					p.server.wantNothing(t)
				})
			})
		}
	}
}

// H8, H9: the holder has died, with a line behind it: the first of the line has the
// lock when the key expires. Newcomers don't barge, not even with the first request.
func TestHoleDeadHolderWithALine(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for i, newcomer := range []string{"nobody", "try", "acquire"} {
			for j := range 10 {
				q := lineUp(t, 2)
				q.way.breaks(on(hangs, "renew"))
				left := 3*time.Second + time.Duration(i*10+j)*171*ms
				value, _ := q.server.Get(ordersKey)
				q.server.Set(ordersKey, value, left)
				expires := time.Now().Add(left)
				c := newClient(t, q.server.wire(), lockkeeper.Config{Label: "new"})
				time.Sleep(left)
				var late <-chan outcome
				switch newcomer { // exactly at the expiry, before anybody else
				case "try":
					_, err := c.Mutex("orders").Try(t.Context())
					wantErr(t, err, lockkeeper.ErrHeld)
				case "acquire":
					late = waits(t.Context(), c.Mutex("orders"))
				}
				first := arrives(t, "the waiter", q.got[0])
				first.wantWithin(t, expires, atExpiry)
				if first.at.Before(expires) {
					t.Error("it had the lock before the key expired")
				}
				none(t, "the second", q.got[1])
				mustRelease(t, first.lease)
				second := must(t, "the second", q.got[1])
				if second.Fence() <= first.lease.Fence() || first.lease.Fence() <= q.hold.Fence() {
					t.Error("fences do not grow")
				}
				mustRelease(t, second)
				if late != nil {
					mustRelease(t, must(t, "the newcomer", late))
				}
				_ = q.hold.Release(t.Context())
			}
		}
	})
}

// H10: who has been handed the lock is not in the line any more, and not served twice.
func TestHoleGrantedIsNotInTheLine(t *testing.T) {
	bubble(t, func(t *testing.T) {
		q := lineUp(t, 2)
		mustRelease(t, q.hold)
		first := must(t, "the first", q.got[0])
		q.server.wantLabels(t, "w1")
		settled(5 * time.Second) // its renewals and the other's polls change nothing
		q.server.wantLabels(t, "w1")
		mustRelease(t, first)
		mustRelease(t, must(t, "the second", q.got[1]))
		q.server.wantNothing(t)
	})
}

// H11: a release is sent twice, since its reply was lost: the second finds another
// holder and changes nothing.
func TestHoleDuplicateRelease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newParty(t)
		lease := mustTry(t, p.lock)
		first := waits(t.Context(), p.holder)
		settled(20 * ms)
		second := waits(t.Context(), p.another)
		settled(300 * ms)
		p.wire.breaks(once(func(_ context.Context, _ call, run func() (any, error)) (any, error) {
			_, _ = run()
			return nil, errNetwork
		}))
		mustRelease(t, lease)
		if n := p.wire.sent("release"); n != 2 {
			t.Errorf("%d releases were sent", n)
		}
		got := must(t, "the first", first)
		none(t, "the second", second)
		settled(3 * time.Second)
		if got.Err() != nil {
			t.Error(got.Err())
		}
		mustRelease(t, got)
		mustRelease(t, must(t, "the second", second))
	})
}

// H4, H11: a message comes twice, while the lock is held and after its release.
func TestHoleDuplicateMessage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		q := lineUp(t, 2)
		q.conns[0].shuts()
		mustRelease(t, q.hold)
		synctest.Wait()
		message := q.conns[0].opens(true)
		first := must(t, "the first", q.got[0])
		local := waits(t.Context(), q.locks[0])
		settled(ms)
		q.conns[0].message(message[0])
		settled(ms)
		none(t, "a call of the same process", local)
		if first.Err() != nil {
			t.Error(first.Err())
		}
		mustRelease(t, first)
		synctest.Wait()
		q.conns[0].message(message[0])
		settled(ms)
		if a, b := len(local), len(q.got[1]); a+b != 1 {
			t.Errorf("%d have the lock", a+b)
		}
		one, other := must(t, "the local one", local), q.got[1]
		mustRelease(t, one)
		mustRelease(t, must(t, "the other", other))
		q.server.wantNothing(t)
	})
}

// H12, H13: the line is lost, the places with it or not, or all but the lock: everybody
// enters again, in the order in which they came, and before who comes later.
func TestHoleLostLine(t *testing.T) {
	for name, keys := range map[string][]string{
		"line": {lineKey}, "places": {seatsKey}, "both": {lineKey, seatsKey}, "all but the lock": {lineKey, seatsKey, countKey},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				q := lineUp(t, 6)
				settled(3333 * ms)
				for _, key := range keys {
					q.server.Del(key)
				}
				late := waits(t.Context(), newClient(t, q.server.wire(), lockkeeper.Config{Label: "late"}).Mutex("orders"))
				settled(2 * poll)
				q.server.wantLabels(t, "w0 w1 w2 w3 w4 w5 late")
				last := q.hold
				for i, got := range append(q.got, late) {
					mustRelease(t, last)
					lease := must(t, fmt.Sprint("number ", i), got)
					if lease.Fence() <= last.Fence() {
						t.Errorf("fence %s after %s", lease.Fence(), last.Fence())
					}
					last = lease
				}
				mustRelease(t, last)
				q.server.wantNothing(t)
			})
		})
	}
}

// H13: the server comes back empty: everybody is served still, one at a time.
func TestHoleAllLost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		q := lineUp(t, 6)
		settled(3333 * ms)
		q.server.Flush()
		q.server.BreakSubscriptions()
		var held atomic.Int32
		var all sync.WaitGroup
		for i, got := range q.got {
			all.Go(func() {
				o := <-got
				if o.err != nil {
					t.Error(o.err)
					return
				}
				if n := held.Add(1); n != 1 || o.lease.Fence() <= q.hold.Fence() {
					t.Errorf("number %d: %d hold it; fence %s after %s", i, n, o.lease.Fence(), q.hold.Fence())
				}
				time.Sleep(100 * ms)
				held.Add(-1)
				mustRelease(t, o.lease)
			})
		}
		start := time.Now()
		all.Wait()
		if took := time.Since(start); took > 6*100*ms+2*poll {
			t.Errorf("it took %s", took)
		}
		settled(5 * time.Second)
		wantErr(t, q.hold.Err(), lockkeeper.ErrLost)
	})
}

// H14: a failover loses the hand-off, the old holder's value is back. The new one loses
// its lease by its next renewal, and the line waits for the old value's end.
func TestHoleLostGrant(t *testing.T) {
	bubble(t, func(t *testing.T) {
		q := lineUp(t, 2)
		value, _ := q.server.Get(ordersKey)
		mustRelease(t, q.hold)
		first := must(t, "the first", q.got[0])
		q.way.breaks(on(hangs, "renew"))
		q.server.Set(ordersKey, value, 6*time.Second)
		expires := time.Now().Add(6 * time.Second)
		<-first.Done()
		wantErr(t, first.Err(), lockkeeper.ErrLost)
		arrives(t, "the waiter", q.got[1]).wantWithin(t, expires, atExpiry)
	})
}

// H16: a foreign holder without a word to us, and a foreign DEL with a line: found by
// the poll. Its expiry is waited for.
func TestHoleForeignHolder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		q := lineUp(t, 2)
		q.server.Set(ordersKey, "somebody", 3*time.Second) // takes it from the holder
		settled(0)
		_, err := q.locks[0].Try(t.Context())
		wantErr(t, err, lockkeeper.ErrHeld)
		expires := time.Now().Add(q.server.TTL(ordersKey))
		first := arrives(t, "the waiter", q.got[0])
		first.wantWithin(t, expires, atExpiry)
		if first.lease.Fence() <= q.hold.Fence() {
			t.Error("the fence does not grow")
		}
		q.server.Set(ordersKey, "again", 0)
		wantErr(t, first.lease.Release(t.Context()), lockkeeper.ErrLost)
		settled(5 * time.Second)
		none(t, "the second", q.got[1])
		if value, _ := q.server.Get(ordersKey); value != "again" {
			t.Errorf("the foreign value is %q", value)
		}
		start := time.Now()
		q.server.Del(ordersKey)
		second := arrives(t, "the waiter", q.got[1])
		second.wantWithin(t, start, poll)
		q.server.Del(ordersKey) // below our feet
		settled(6 * time.Second)
		wantErr(t, second.lease.Err(), lockkeeper.ErrLost)
		if q.server.SetNX(ordersKey, "plain client", time.Second) != true {
			t.Error("it is not free")
		}
	})
}

// H16: a foreign holder releases with nobody to hand it to, and another foreign one is
// faster than the line: that is safe, and waited out.
func TestHoleForeignHolderIsFaster(t *testing.T) {
	bubble(t, func(t *testing.T) {
		q := lineUp(t, 1)
		q.server.Set(ordersKey, "a", 0)
		for range 5 {
			settled(1777 * ms)
			q.server.Del(ordersKey)
			q.server.SetNX(ordersKey, "b", 0)
		}
		none(t, "the waiter", q.got[0])
		start := time.Now()
		q.server.Del(ordersKey)
		arrives(t, "the waiter", q.got[0]).wantWithin(t, start, poll)
	})
}

// H20: a renewal of the old holder runs after its release: it lengthens nothing.
func TestHoleRenewalAfterTheHandOff(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newParty(t)
		lease := mustTry(t, p.lock)
		result := waits(t.Context(), p.another)
		settled(3 * time.Second)
		p.wire.breaks(on(slow(time.Second, 0), "renew"))
		settled(500 * ms) // it is on its way
		if p.wire.sent("renew") != 1 {
			t.Fatal("no renewal is on its way")
		}
		p.other.breaks(on(hangs, "renew", "acquire"))
		mustRelease(t, lease)
		got := must(t, "the other", result)
		left := p.server.TTL(ordersKey)
		settled(time.Second)
		if now := p.server.TTL(ordersKey); now > left-time.Second {
			t.Errorf("%s were left, and are %s after 1 s", left, now)
		}
		p.other.breaks(nil)
		if got.Err() != nil {
			t.Error(got.Err())
		}
	})
}

// H21: hand-offs that nobody takes leave gaps in the fences, and no fence comes twice.
func TestHoleFenceGaps(t *testing.T) {
	bubble(t, func(t *testing.T) {
		q := lineUp(t, 3)
		q.conns[0].stops()
		q.conns[1].stops()
		mustRelease(t, q.hold)
		value, _ := q.server.Get(ordersKey)
		untaken := fenceIn(t, value)
		got := arrives(t, "the waiter", q.got[2])
		if untaken <= q.hold.Fence() || got.lease.Fence() <= untaken {
			t.Errorf("fences %s, %s (not taken), %s", q.hold.Fence(), untaken, got.lease.Fence())
		}
		q.conns[0].breaks(nil)
		q.conns[1].breaks(nil)
	})
}

// fenceIn returns the fence in a lock's value.
func fenceIn(t *testing.T, value string) lockkeeper.Fence {
	t.Helper()
	part := strings.SplitN(value, ":", 5)
	if len(part) != 5 {
		t.Fatalf("value %q", value)
	}
	fence, err := strconv.ParseUint(part[2], 10, 64)
	if err != nil {
		t.Fatalf("value %q: %v", value, err)
	}
	return lockkeeper.Fence(fence)
}

// H6, H7: the lock is handed to an owner of whom the process knows nothing any more: it
// passes it on at once.
func TestHoleHandOffToNobody(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newParty(t)
		id, _, _ := strings.Cut(p.served(t).Owner(), ".")
		p.server.Del(ordersKey)
		lease := mustTry(t, p.holder)
		p.server.seat(t, id+".forgotten", "60000:4000:0:1:"+wakeOfAll)
		settled(ms)
		other := waits(t.Context(), p.another)
		settled(300 * ms)
		start := time.Now()
		mustRelease(t, lease)
		arrives(t, "the other", other).wantWithin(t, start, ms)
	})
}
