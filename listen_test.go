package lockkeeper_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper"
)

// heard returns how often the wire's client has subscribed.
func (w *wire) heard() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.listens
}

// While the subscription was broken a wake-up may have been missed: a new one makes
// every waiter ask at once.
func TestReconnectedListenerAsksAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newParty(t)
		for range 20 {
			mustTry(t, p.holder)
			result := waits(t.Context(), p.lock)
			settled(5 * time.Second)
			p.server.BreakSubscriptions()
			p.server.Del(ordersKey) // without a wake-up
			start := time.Now()
			got := <-result
			got.wantWithin(t, start, 101*ms) // the pause before it subscribes again
			mustRelease(t, got.lease)
		}
	})
}

func TestNothingListensWithoutWaiters(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newParty(t)
		mustRelease(t, mustTry(t, p.lock))
		mustRelease(t, mustAcquire(t, p.lock))
		synctest.Wait()
		if p.wire.heard() != 0 {
			t.Error("a subscription was made though nobody has waited")
		}
		mustTry(t, p.holder)
		result := waits(t.Context(), p.lock)
		settled(time.Minute)
		if p.wire.heard() != 1 {
			t.Errorf("%d subscriptions for one that stands", p.wire.heard())
		}
		p.server.Del(ordersKey)
		<-result
	})
}

// No rights to subscribe: waiters poll, the server is not bothered with more tries,
// and the log says it once.
func TestRefusedSubscription(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var log logBuffer
		s := newServer()
		w := s.wire()
		w.deafens(replies("NOPERM this user has no permissions to access one of the channels used as arguments"))
		c := newClient(t, w, lockkeeper.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		s.Set(ordersKey, "x", 0)
		result := waits(t.Context(), c.Mutex("orders"))
		settled(0)
		second := waits(t.Context(), c.Mutex("orders"))
		third := waits(t.Context(), c.Mutex("more"))
		mustRelease(t, (<-third).lease)
		settled(time.Minute)
		if n := w.sent("acquire"); n < 240 || n > 400 { // 5 a second, spread by a quarter
			t.Errorf("%d requests in a minute", n)
		}
		if n := w.heard(); n > 3 {
			t.Errorf("it has tried to subscribe %d times in a minute", n)
		}
		if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), "NOPERM this user") ||
			!strings.Contains(log.String(), "docs/PROTOCOL.md") {
			t.Errorf("logged:\n%s", log.String())
		}
		start := time.Now()
		s.Del(ordersKey)
		got := <-result
		got.wantWithin(t, start, 250*ms)
		mustRelease(t, got.lease)
		(<-second).wantWithin(t, start, 500*ms)
		wantKey(t, s, lineKey, false) // nobody is in the line who would not hear
	})
}

// Rights come back: the subscription is made again, and polls get rare.
func TestSubscriptionComesBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newParty(t)
		p.wire.deafens(errNetwork)
		lease := mustTry(t, p.holder)
		result := waits(t.Context(), p.lock)
		settled(time.Minute)
		if n := p.wire.heard(); n < 30 || n > 40 { // at first 100 ms, then every 2 s
			t.Errorf("it has tried to subscribe %d times in a minute", n)
		}
		p.wire.deafens(nil)
		time.Sleep(2 * time.Second)
		n := p.wire.sent("acquire")
		time.Sleep(time.Minute)
		if n = p.wire.sent("acquire") - n; n > 81 {
			t.Errorf("%d requests in a minute with a subscription", n)
		}
		start := time.Now()
		mustRelease(t, lease)
		(<-result).wantWithin(t, start, ms)
	})
}

// The subscription hangs: that delays no wait beyond a poll.
func TestHangingSubscription(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newServer()
		w := &hangingListener{s.wire()}
		c := newClient(t, w, lockkeeper.Config{})
		s.Set(ordersKey, "x", 3*time.Second)
		start := time.Now()
		lease := mustAcquire(t, c.Mutex("orders"))
		if took := time.Since(start); took > 3*time.Second+2*ms {
			t.Errorf("it took %s", took)
		}
		mustRelease(t, lease)
	})
}

type hangingListener struct{ *wire }

func (*hangingListener) Listen(ctx context.Context, _ string, _ func(), _ func(string)) error {
	<-ctx.Done()
	return ctx.Err()
}

// Strange messages on the channel do no harm.
func TestStrangeMessages(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newParty(t)
		lease := mustTry(t, p.holder)
		result := waits(t.Context(), p.lock)
		settled(time.Second)
		id, _, _ := strings.Cut(p.server.first(t, lineKey), ".")
		channel := "lockkeeper:wake:" + id
		for _, message := range []string{"", "x", "lockkeeper:other", "{", "}", "{}", "a}b", ordersKey, lineKey, "\x00"} {
			p.server.Publish(channel, message)
		}
		settled(time.Second)
		select {
		case got := <-result:
			t.Fatalf("a message gave the lock: %+v", got)
		default:
		}
		start := time.Now()
		mustRelease(t, lease)
		(<-result).wantWithin(t, start, ms)
		synctest.Wait()
		for _, key := range p.server.Keys() {
			if key != ordersKey && key != "{lockkeeper:orders}:lk-fence" {
				t.Errorf("key %q is there", key)
			}
		}
	})
}

// What another client holds is not given up because of a message about it.
func TestMessageAboutAnother(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newParty(t)
		lease := mustTry(t, p.holder)
		waits(t.Context(), p.lock)
		settled(time.Second)
		id, _, _ := strings.Cut(p.server.first(t, lineKey), ".")
		p.server.Publish("lockkeeper:wake:"+id, "g:lk1:"+lease.Owner()+":9999999999999999:1:0:"+ordersKey)
		settled(time.Minute)
		if err := lease.Err(); err != nil {
			t.Errorf("the other's lease: %v", err)
		}
	})
}
