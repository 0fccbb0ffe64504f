package lockkeeper_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper"
)

// The holes that a line on the server with a hand-off can have, one test each.

const (
	countKey = "{lockkeeper:orders}:lk-fence"
	seatsKey = "{lockkeeper:orders}:lk-places"

	handOff   = 4 * time.Second // the TTL of a hand-off, with a TTL of 10 s
	atExpiry  = 5 * ms          // the first of the line asks then
	deafPoll  = 250 * ms        // the longest, without a subscription
	wakeOfAll = "lockkeeper:wake:"
)

// A lagging connection can keep messages back, and deliver or drop them later.
type lagging struct {
	*wire
	mu      sync.Mutex
	shut    bool
	kept    []string
	message func(string)
}

func (s *server) lagging() *lagging { return &lagging{wire: s.wire()} }

func (l *lagging) Listen(ctx context.Context, channel string, ready func(), message func(string)) error {
	return l.wire.Listen(ctx, channel, func() {
		l.mu.Lock()
		l.message = message
		l.mu.Unlock()
		ready()
	}, func(m string) {
		l.mu.Lock()
		if l.shut {
			l.kept = append(l.kept, m)
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
		message(m)
	})
}

// shuts keeps messages back from now on.
func (l *lagging) shuts() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shut = true
}

// opens ends that. What was kept back is delivered, or lost.
func (l *lagging) opens(deliver bool) (kept []string) {
	l.mu.Lock()
	kept, message := l.kept, l.message
	l.shut, l.kept = false, nil
	l.mu.Unlock()
	if deliver {
		for _, m := range kept {
			message(m)
		}
	}
	return kept
}

// stops is SIGSTOP for the process behind the connection, as far as it can be seen
// from the outside: nothing is sent or read any more, and nothing is closed.
func (l *lagging) stops() {
	l.breaks(hangs)
	l.shuts()
}

// A queue is a holder and processes that wait for it in the line, in their order.
type queue struct {
	server *server
	hold   *lockkeeper.Lease
	way    *wire // of the holder
	conns  []*lagging
	locks  []*lockkeeper.Lock
	got    []<-chan outcome
	cancel []context.CancelFunc
}

// lineUp has n processes wait for one that holds the lock, with 20 ms between them.
func lineUp(t *testing.T, n int, opts ...lockkeeper.Option) *queue {
	t.Helper()
	q := &queue{server: newServer()}
	q.way = q.server.wire()
	q.hold = mustTry(t, newClient(t, q.way, lockkeeper.Config{Label: "holder"}).Mutex("orders", opts...))
	for i := range n {
		conn := q.server.lagging()
		lock := newClient(t, conn, lockkeeper.Config{Label: fmt.Sprint("w", i)}).Mutex("orders", opts...)
		ctx, cancel := context.WithCancel(t.Context())
		q.conns, q.locks, q.cancel = append(q.conns, conn), append(q.locks, lock), append(q.cancel, cancel)
		q.got = append(q.got, waits(ctx, lock))
		settled(20 * ms)
	}
	return q
}

// must returns the lease of a waiter that has got it by now.
func must(t *testing.T, who string, got <-chan outcome) *lockkeeper.Lease {
	t.Helper()
	synctest.Wait()
	select {
	case o := <-got:
		if o.err != nil {
			t.Fatalf("%s: %v", who, o.err)
		}
		return o.lease
	default:
		t.Fatalf("%s does not have the lock", who)
		return nil
	}
}

// arrives waits for the end of a wait, in a bubble.
func arrives(t *testing.T, who string, got <-chan outcome) outcome {
	t.Helper()
	select {
	case o := <-got:
		return o
	case <-time.After(10 * time.Minute):
		t.Fatalf("%s still waits after 10 minutes", who)
		return outcome{}
	}
}

// none checks that a waiter still waits.
func none(t *testing.T, who string, got <-chan outcome) {
	t.Helper()
	synctest.Wait()
	select {
	case o := <-got:
		t.Fatalf("%s has stopped waiting: %+v", who, o)
	default:
	}
}

// labels returns the labels of those who wait, in their order.
func (s *server) labels() (names []string) {
	places := s.Places(seatsKey)
	for _, owner := range s.Line(lineKey) {
		part := strings.SplitN(places[owner], ":", 4)
		if len(part) != 4 {
			names = append(names, "?")
			continue
		}
		var n int
		_, _ = fmt.Sscan(part[2], &n)
		names = append(names, part[3][n:])
	}
	return names
}

func (s *server) wantLabels(t *testing.T, want string) {
	t.Helper()
	if got := strings.Join(s.labels(), " "); got != want {
		t.Errorf("in the line are %q, want %q", got, want)
	}
}

// wantNothing checks that nothing but the fence counter is left on the server.
func (s *server) wantNothing(t *testing.T) {
	t.Helper()
	for _, key := range s.Keys() {
		if key != countKey {
			value, _ := s.Get(key)
			t.Errorf("%s is left behind: %q %v %v", key, value, s.Line(key), s.Places(key))
		}
	}
}

// seat puts a raw place in the line, as a client in any language may.
func (s *server) seat(t *testing.T, owner, place string) {
	t.Helper()
	args := []string{"lk1:" + owner + ":", "10000", "raw", "0", place}
	if _, err := s.Eval(t.Context(), sources()["acquire"], ordersKeys, args); err != nil {
		t.Fatal(err)
	}
}

// unserved subscribes a channel, and nobody does anything with what comes.
func (s *server) unserved(t *testing.T, id string) {
	t.Helper()
	go func() { _ = s.Listen(t.Context(), wakeOfAll+id, func() {}, func(string) {}) }()
	synctest.Wait()
}

// H1: a dead waiter gets the grant, and the lock idles. Who is subscribed and has not
// asked for the time of its place is passed over at once, and is out of the line.
func TestHoleDeadWaiterWhosePlaceIsOver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		q := lineUp(t, 2)
		q.conns[0].stops()
		settled(10 * time.Second)
		mustRelease(t, q.hold)
		mustRelease(t, must(t, "the second", q.got[1]))
		q.conns[0].breaks(nil)
		q.conns[0].opens(false)
		mustRelease(t, arrives(t, "the waiter", q.got[0]).lease)
		q.server.wantNothing(t)
	})
}

// H1, H2: a waiter that has just died looks alive: it costs one hand-off TTL, which is at
// most 4 s, or the TTL if that is shorter. After that the next of the line,
// who was told nothing, has the lock.
func TestHoleDeadWaiterWhoLooksAlive(t *testing.T) {
	for ttl, want := range map[time.Duration]time.Duration{
		10 * time.Second: handOff, time.Second: time.Second, time.Minute: handOff, time.Hour: handOff,
	} {
		t.Run(ttl.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				q := lineUp(t, 2, lockkeeper.WithTTL(ttl))
				q.conns[0].stops()
				start := time.Now()
				mustRelease(t, q.hold)
				if left := q.server.TTL(ordersKey); left != want {
					t.Errorf("the hand-off gives %s, want %s", left, want)
				}
				got := arrives(t, "the waiter", q.got[1])
				got.wantWithin(t, start, want+atExpiry)
				if got.at.Before(start.Add(want)) {
					t.Error("there were two holders")
				}
				q.conns[0].breaks(nil)
				q.conns[0].opens(false)
				mustRelease(t, got.lease)
				mustRelease(t, arrives(t, "the waiter", q.got[0]).lease)
			})
		})
	}
}

// H1: a raw place whose channel is subscribed, and that nobody serves.
func TestHoleDeadWaiterUnserved(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newParty(t)
		lease := mustTry(t, p.holder)
		p.server.unserved(t, "dead")
		p.server.seat(t, "dead.1", "4000:4000:0:1:"+wakeOfAll)
		time.Sleep(ms)
		result := waits(t.Context(), p.lock)
		settled(3 * time.Second)
		start := time.Now()
		mustRelease(t, lease)
		arrives(t, "the waiter", result).wantWithin(t, start, handOff+atExpiry)
	})
}

// H1: many dead places: a release looks at 1024 and is done; polls do the rest.
func TestHoleDeadWaitersInMasses(t *testing.T) {
	for n, most := range map[int]time.Duration{63: ms, 200: ms, 1023: ms, 1024: 13 * time.Second, 1500: 13 * time.Second} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				p := newParty(t)
				lease := mustTry(t, p.holder)
				for i := range n {
					p.server.seat(t, fmt.Sprintf("dead%04d.1", i), "600000:4000:0:1:"+wakeOfAll)
				}
				time.Sleep(ms)
				result := waits(t.Context(), p.lock)
				settled(3 * time.Second)
				start := time.Now()
				mustRelease(t, lease)
				if left := len(p.server.Line(lineKey)); left != max(0, n+1-1024) {
					t.Errorf("%d are left in the line", left)
				}
				arrives(t, "the waiter", result).wantWithin(t, start, most)
			})
		})
	}
}

// H3: the message is lost, and nobody knows: the waiter has the lock by its next poll,
// and long before the hand-off is over.
func TestHoleLostMessage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for i := range 20 {
			q := lineUp(t, 1)
			settled(3*time.Second + time.Duration(i)*53*ms)
			q.conns[0].shuts()
			start := time.Now()
			mustRelease(t, q.hold)
			got := arrives(t, "the waiter", q.got[0])
			got.wantWithin(t, start, poll)
			if got.at.Equal(start) {
				t.Error("the message was not lost")
			}
			q.conns[0].opens(false)
			mustRelease(t, got.lease)
			q.server.wantNothing(t)
		}
	})
}

// H3: the subscription breaks just before the release, or just after.
func TestHoleBrokenSubscription(t *testing.T) {
	for name, before := range map[string]bool{"before": true, "after": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				q := lineUp(t, 2)
				settled(3333 * ms)
				q.conns[0].shuts()
				if before {
					q.server.BreakSubscriptions()
				}
				start := time.Now()
				mustRelease(t, q.hold)
				if !before {
					q.server.BreakSubscriptions()
				}
				q.conns[0].opens(false)
				for i := range q.got { // whoever is first
					select {
					case got := <-q.got[0]:
						got.wantWithin(t, start, poll)
						mustRelease(t, got.lease)
					case got := <-q.got[1]:
						got.wantWithin(t, start, poll)
						mustRelease(t, got.lease)
					}
					if time.Since(start) > poll+101*ms {
						t.Errorf("number %d took %s", i, time.Since(start))
					}
				}
				q.server.wantNothing(t)
			})
		})
	}
}

// H4: a message that comes after its grant is over gives nothing: the process was
// stopped, and reads its messages before it asks anew.
func TestHoleLateMessage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		q := lineUp(t, 2)
		q.conns[0].stops()
		mustRelease(t, q.hold)
		second := arrives(t, "the waiter", q.got[1]).lease
		settled(700 * ms)
		if kept := q.conns[0].opens(true); len(kept) == 0 {
			t.Fatal("there was no message")
		}
		none(t, "the late one", q.got[0])
		q.conns[0].breaks(nil)
		settled(3 * time.Second)
		none(t, "the late one", q.got[0])
		if second.Err() != nil {
			t.Error(second.Err())
		}
		q.server.wantLabels(t, "w0")
		mustRelease(t, second)
		third := must(t, "the late one", q.got[0])
		if third.Fence() <= second.Fence() {
			t.Errorf("fence %s after %s", third.Fence(), second.Fence())
		}
		mustRelease(t, third)
	})
}

// H4: belief in a hand-off counts from the last request that was answered, never from
// the message: a message that comes 1 s late makes it no longer.
func TestHoleLateMessageAndBelief(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for i := range 20 {
			q := lineUp(t, 1)
			settled(2*time.Second + time.Duration(i)*61*ms)
			var asked time.Time
			q.conns[0].breaks(func(_ context.Context, call call, run func() (any, error)) (any, error) {
				if call.Script == "acquire" {
					asked = time.Now()
				}
				return run()
			})
			time.Sleep(poll) // it asks
			q.conns[0].breaks(on(hangs, "acquire", "renew"))
			q.conns[0].shuts()
			mustRelease(t, q.hold)
			expires := time.Now().Add(q.server.TTL(ordersKey))
			settled(300 * ms)
			q.conns[0].opens(true)
			got := must(t, "the waiter", q.got[0])
			want := asked.Add(handOff - time.Second)
			if !got.Deadline().Equal(want) || got.Deadline().After(expires.Add(-time.Second)) {
				t.Errorf("it believes until %s after it asked, want %s; the key expires %s after",
					got.Deadline().Sub(asked), want.Sub(asked), expires.Sub(asked))
			}
			<-got.Done()
			if now := time.Now(); !now.Equal(want) {
				t.Errorf("lost %s after it should be", now.Sub(want))
			}
			q.conns[0].breaks(nil)
			settled(5 * time.Second)
			_ = got.Release(t.Context())
		}
	})
}

// H5: a grant that was not taken in time leaves the place where it was, and the third
// sends it to the end of the line: who is too slow does not block all others.
func TestHoleMissedHandOffs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		q := lineUp(t, 5) // w0 misses; w4 stays in the line all the time
		holder := q.hold
		for i, want := range []string{"w0 w2 w3 w4", "w0 w3 w4", "w4 w0"} {
			q.conns[0].stops()
			mustRelease(t, holder)
			got := arrives(t, "the waiter", q.got[i+1]) // after the hand-off was over
			if got.err != nil {
				t.Fatal(got.err)
			}
			holder = got.lease
			settled(3100 * ms) // what hangs is given up, and the next hangs as well
			q.conns[0].opens(true)
			q.conns[0].breaks(nil)
			settled(4 * time.Second)
			none(t, "the slow one", q.got[0])
			q.server.wantLabels(t, want)
		}
		mustRelease(t, holder)
		mustRelease(t, must(t, "w4", q.got[4]))
		mustRelease(t, must(t, "w0", q.got[0]))
		q.server.wantNothing(t)
	})
}
