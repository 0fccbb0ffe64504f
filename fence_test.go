package lockkeeper_test

import (
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper"
)

// A fence grows from hold to hold, whatever happens to its counter or to the
// server's clock, but not to both at a time.
func TestFencesGrow(t *testing.T) {
	t.Parallel()
	s := startReal(t)
	c := newClient(t, s.conn, lockkeeper.Config{TTL: time.Minute})
	lock := c.Mutex("orders")
	const counter = "{lockkeeper:orders}:lk-fence"
	var last lockkeeper.Fence
	hold := func(what string) {
		t.Helper()
		lease := mustAcquire(t, lock) // Try could meet the end of an old connection
		if lease.Fence() <= last {
			t.Errorf("%s: fence %s after %s", what, lease.Fence(), last)
		}
		last = lease.Fence()
		mustRelease(t, lease)
	}
	for range 200 {
		hold("in a row")
	}
	s.Do(t, "DEL", counter)
	hold("counter lost")
	s.Do(t, "SET", counter, "1")
	hold("counter rolled back")
	for _, broken := range []string{"", "nonsense", "nan", "inf", "-inf", "99999999999999999999", "9007199254740993"} {
		s.Do(t, "SET", counter, broken)
		hold("counter " + broken)
		hold("after counter " + broken)
	}
	s.Restart() // empty
	hold("server restarted")

	// A counter ahead of the clock, as after a step back of the clock.
	last = lockkeeper.Fence(time.Now().Add(24 * time.Hour).UnixMicro())
	s.Do(t, "SET", counter, last.String())
	for range 3 {
		hold("counter ahead of the clock")
	}
	if ttl := s.Do(t, "TTL", counter).(int64); ttl < 6*24*3600 || ttl > 7*24*3600 {
		t.Errorf("the counter lives for %d s, want a week", ttl)
	}
}

// Every key has a TTL, whatever was done.
func TestNoKeyWithoutATTL(t *testing.T) {
	t.Parallel()
	s := startReal(t)
	c := newClient(t, s.conn, lockkeeper.Config{TTL: time.Minute})
	lease := mustTry(t, c.Mutex("orders"))
	result := waits(t.Context(), newClient(t, connTo(t, s.Addr()), lockkeeper.Config{}).Mutex("orders"))
	for !s.exists(t, lineKey) {
		time.Sleep(ms)
	}
	if err := lease.RaiseFence(t.Context(), lease.Fence()); err != nil {
		t.Fatal(err)
	}
	keys := s.Do(t, "KEYS", "*").([]any)
	for _, key := range keys {
		if ttl := s.Do(t, "TTL", key.(string)).(int64); ttl < 0 {
			t.Errorf("key %s has TTL %d", key, ttl)
		}
	}
	if len(keys) != 4 {
		t.Errorf("keys %v, want the lock, its counter, its line and the places there", keys)
	}
	mustRelease(t, lease)
	if got := soon(t, "the waiter", result); got.err != nil {
		t.Error(got.err)
	}
}
