package lockkeepertest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper"
)

func lockCases() []conformanceCase {
	return []conformanceCase{
		{"lock excludes", lockExcludes},
		{"lock is renewed", lockIsRenewed},
		{"lock expires without renewals", lockExpires},
		{"waiter is woken", waiterIsWoken},
		{"fences grow", fencesGrow},
		{"plain clients", plainClients},
		{"break", breakByFence},
		{"list", listLocks},
	}
}

// client makes a client that is closed with the test.
func client(t *testing.T, conn lockkeeper.Conn, ttl time.Duration) *lockkeeper.Client {
	t.Helper()
	c, err := lockkeeper.New(conn, lockkeeper.Config{TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return c
}

func try(t *testing.T, c *lockkeeper.Client, name string) *lockkeeper.Lease {
	t.Helper()
	lease, err := c.Mutex(name).Try(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

func wantHeld(t *testing.T, c *lockkeeper.Client, name string) *lockkeeper.HeldError {
	t.Helper()
	_, err := c.Mutex(name).Try(t.Context())
	var held *lockkeeper.HeldError
	if !errors.As(err, &held) || !errors.Is(err, lockkeeper.ErrHeld) {
		t.Fatalf("got error %v; want a *HeldError", err)
	}
	return held
}

func lockExcludes(t *testing.T, f Fixture) {
	a, b := client(t, f.Conn, 5*time.Second), client(t, f.Conn, 5*time.Second)
	lease := try(t, a, "orders")
	held := wantHeld(t, b, "orders")
	if held.Holder.Owner != lease.Owner() || held.Holder.Fence != lease.Fence() || held.Left <= 4*time.Second {
		t.Errorf("held error %+v does not name the holder", held)
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := try(t, b, "orders").Release(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func lockIsRenewed(t *testing.T, f Fixture) {
	a, b := client(t, f.Conn, time.Second), client(t, f.Conn, time.Second)
	lease := try(t, a, "orders")
	select {
	case <-lease.Done():
		t.Fatalf("lease ended: %v", lease.Err())
	case <-time.After(2500 * time.Millisecond):
	}
	wantHeld(t, b, "orders")
}

func lockExpires(t *testing.T, f Fixture) {
	a := client(t, f.Conn, 900*time.Millisecond)
	lease := try(t, a, "orders")
	f.Swallow()
	select {
	case <-lease.Done():
	case <-time.After(5 * time.Second):
		t.Fatal("the lease outlived its TTL without a renewal")
	}
	if _, ok := f.Get("lockkeeper:orders"); !ok {
		t.Error("the key expired before the lease ended")
	}
	if err := lease.Err(); !errors.Is(err, lockkeeper.ErrLost) {
		t.Errorf("got error %v; want ErrLost", err)
	}
}

func waiterIsWoken(t *testing.T, f Fixture) {
	a, b := client(t, f.Conn, 10*time.Second), client(t, f.Conn, 10*time.Second)
	lease := try(t, a, "orders")
	got := make(chan error, 1)
	go func() {
		lease, err := b.Mutex("orders").Acquire(t.Context())
		if err == nil {
			err = lease.Release(t.Context())
		}
		got <- err
	}()
	waitFor(t, "the waiter's place in the line", func() bool {
		s, err := eval(t, f, "line", []string{"{lockkeeper:orders}:lk-line"}, nil)
		return err == nil && s != int64(0)
	})
	if err := lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-got:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("the waiter was not woken")
	}
}

// waitFor asks until a condition holds.
func waitFor(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !holds(); {
		if time.Now().After(deadline) {
			t.Fatalf("waited 10 s for %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

func fencesGrow(t *testing.T, f Fixture) {
	c := client(t, f.Conn, 5*time.Second)
	var last lockkeeper.Fence
	for range 50 {
		lease := try(t, c, "orders")
		if lease.Fence() <= last {
			t.Fatalf("fence %s after %s", lease.Fence(), last)
		}
		last = lease.Fence()
		if err := lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func plainClients(t *testing.T, f Fixture) {
	c := client(t, f.Conn, 5*time.Second)
	f.Set("lockkeeper:orders", "somebody", time.Minute)
	if held := wantHeld(t, c, "orders"); !held.Holder.Foreign {
		t.Errorf("holder %+v is not called foreign", held.Holder)
	}
	if value, _ := f.Get("lockkeeper:orders"); value != "somebody" {
		t.Errorf("a foreign value became %q", value)
	}
	f.Del("lockkeeper:orders")
	lease := try(t, c, "orders")
	f.Set("lockkeeper:orders", "thief", time.Minute)
	if err := lease.Release(t.Context()); !errors.Is(err, lockkeeper.ErrLost) {
		t.Errorf("release of a stolen lock: got %v; want ErrLost", err)
	}
	if value, _ := f.Get("lockkeeper:orders"); value != "thief" {
		t.Errorf("a release changed somebody else's value to %q", value)
	}
}

func breakByFence(t *testing.T, f Fixture) {
	c := client(t, f.Conn, 600*time.Millisecond)
	lease := try(t, c, "orders")
	if err := c.Break(t.Context(), "orders", lease.Fence()+1); !errors.Is(err, lockkeeper.ErrHeld) {
		t.Errorf("break by another fence: got %v; want ErrHeld", err)
	}
	if err := c.Break(t.Context(), "orders", lease.Fence()); err != nil {
		t.Fatal(err)
	}
	if err := c.Break(t.Context(), "orders", lease.Fence()); !errors.Is(err, lockkeeper.ErrNotHeld) {
		t.Errorf("break of a free lock: got %v; want ErrNotHeld", err)
	}
	select {
	case <-lease.Done():
	case <-time.After(5 * time.Second):
		t.Fatal("the broken lease did not end")
	}
}

func listLocks(t *testing.T, f Fixture) {
	c := client(t, f.Conn, 5*time.Second)
	for _, name := range []string{"a:1", "a:2", "b:1"} {
		try(t, c, name)
	}
	found := make(map[string]lockkeeper.State)
	for s, err := range c.List(t.Context(), "a:*") {
		if err != nil {
			t.Fatal(err)
		}
		found[s.Name] = s
	}
	if len(found) != 2 || !found["a:1"].Held || !found["a:2"].Held {
		t.Errorf("found %v; want a:1 and a:2", found)
	}
}
