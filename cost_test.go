package lockkeeper_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper"
)

// What things cost, in requests to a real server that knows the scripts.
func TestRequestsOfEachCall(t *testing.T) {
	t.Parallel()
	s := startReal(t)
	c := newClient(t, s.conn, lockkeeper.Config{TTL: time.Minute})
	lock := c.Mutex("orders")
	cost := func(want int64, what string, f func() error) {
		t.Helper()
		before := s.conn.Requests()
		if err := f(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if got := s.conn.Requests() - before; got != want {
			t.Errorf("%s: %d requests, want %d", what, got, want)
		}
	}
	var lease *lockkeeper.Lease
	try := func() (err error) { lease, err = lock.Try(t.Context()); return err }
	acquire := func() (err error) { lease, err = lock.Acquire(t.Context()); return err }
	release := func() error { return lease.Release(t.Context()) }
	cost(2, "the first try", try) // EVALSHA, EVAL
	cost(2, "the first release", release)
	cost(1, "try", try)
	cost(1, "try of a held lock", func() error { wantHeld(t, lock); return nil })
	cost(1, "release", release)
	cost(1, "acquire", acquire)
	cost(0, "a second look", lease.Err)
	cost(1, "release", release)
	cost(0, "a second release", release)
	cost(2, "do", func() error {
		return lock.Do(t.Context(), func(context.Context, *lockkeeper.Lease) error { return nil })
	})
	lease = mustTry(t, lock)
	_ = lease.Extend(t.Context(), time.Minute) // loads the script
	cost(1, "extend", func() error { return lease.Extend(t.Context(), time.Minute) })
	cost(1, "close", func() error { return c.Close(t.Context()) })
}

// A thousand leases need no goroutine each, and few requests. No other test runs
// beside this one.
func TestManyLeasesAreCheap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer().wire()
		c := newClient(t, w, lockkeeper.Config{})
		before := runtime.NumGoroutine()
		leases := make([]*lockkeeper.Lease, 1000)
		for i := range leases {
			leases[i] = mustTry(t, c.Mutex(fmt.Sprint(i)))
		}
		if grown := runtime.NumGoroutine() - before; grown >= 5 {
			t.Errorf("%d goroutines more", grown)
		}
		n := w.sent("renew")
		time.Sleep(time.Minute)
		// 18 rounds of 8 requests with up to 128 leases each.
		if n = w.sent("renew") - n; n > 160 {
			t.Errorf("%d renewals in a minute", n)
		}
		for _, lease := range leases {
			if err := lease.Err(); err != nil {
				t.Fatal(err)
			}
		}
		n = w.sent("release")
		closes(t, c)
		if n = w.sent("release") - n; n != 1000 {
			t.Errorf("%d releases at Close", n)
		}
	})
}

// Taking and giving back a lock over and over starts no goroutines.
func TestShortHoldsAreCheap(t *testing.T) {
	w := newServer().wire()
	c := newClient(t, w, lockkeeper.Config{})
	lock := c.Mutex("orders")
	mustRelease(t, mustTry(t, lock))
	before := runtime.NumGoroutine()
	for range 1000 {
		mustRelease(t, mustAcquire(t, lock))
	}
	if grown := runtime.NumGoroutine() - before; grown >= 5 {
		t.Errorf("%d goroutines more", grown)
	}
	if n := w.sent(""); n != 2002 {
		t.Errorf("%d requests, want 2002", n)
	}
	allocs := testing.AllocsPerRun(1000, func() {
		lease, err := lock.Try(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_ = lease.Release(t.Context())
	})
	t.Logf("%.0f allocations, those of the server in memory included", allocs)
}
