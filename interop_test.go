package lockkeeper_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/internal/redistest"
)

// A plain client excludes us and is excluded by us.
func TestPlainClientsExcludeAndAreExcluded(t *testing.T) {
	t.Parallel()
	s := startReal(t)
	c := newClient(t, s.conn, lockkeeper.Config{Prefix: lockkeeper.NoPrefix, TTL: time.Second})
	lock := c.Mutex("orders")

	if got := s.Do(t, "SET", "orders", "theirs", "NX", "PX", "600"); got != "OK" {
		t.Fatalf("SET: %v", got)
	}
	held := wantHeld(t, lock)
	if !held.Holder.Foreign || held.Left <= 0 || held.Left > 600*ms {
		t.Errorf("held error %+v", held)
	}
	lease := mustAcquire(t, lock) // when theirs has expired
	if got := s.Do(t, "SET", "orders", "theirs", "NX", "PX", "60000"); got != nil {
		t.Errorf("SET NX beside a lease: %v", got)
	}
	time.Sleep(1500 * ms) // it is renewed
	if got := s.Do(t, "SET", "orders", "theirs", "NX", "PX", "60000"); got != nil {
		t.Errorf("SET NX beside a renewed lease: %v", got)
	}
	mustRelease(t, lease)
	if got := s.Do(t, "SET", "orders", "theirs", "NX", "PX", "60000"); got != "OK" {
		t.Errorf("SET NX after the release: %v", got)
	}
	result := waits(t.Context(), lock)
	redistest.Until(t, "the waiter is in the line", func() bool { return s.Do(t, "EXISTS", "{orders}:lk-line") == int64(1) })
	s.Do(t, "DEL", "orders") // by its holder, who wakes nobody
	got := soon(t, "the waiter", result)
	if got.err != nil {
		t.Fatal(got.err)
	}
	mustRelease(t, got.lease)
}

// foreign makes a key that is not ours, in many shapes.
var foreign = map[string][]string{
	"empty":          {"SET", ordersKey, ""},
	"token":          {"SET", ordersKey, "4a7d1ed414474e4033ac29ccb8653d9b"},
	"mark only":      {"SET", ordersKey, "lk1:"},
	"two fields":     {"SET", ordersKey, "lk1:a:b"},
	"no fence":       {"SET", ordersKey, "lk1:x:0:0:y"},
	"no owner":       {"SET", ordersKey, "lk1::5:6:y"},
	"no time":        {"SET", ordersKey, "lk1:x:5:z:y"},
	"odd digits":     {"SET", ordersKey, "lk1:x:05:6:y"},
	"three fields":   {"SET", ordersKey, "lk1:x:5:6"},
	"next version":   {"SET", ordersKey, "lk2:x:5:6:y"},
	"bytes":          {"SET", ordersKey, "\x00\xff\r\n"},
	"number":         {"SET", ordersKey, "5"},
	"hash":           {"HSET", ordersKey, "uuid:1", "1"}, // as Redisson has it
	"list":           {"RPUSH", ordersKey, "a"},
	"set":            {"SADD", ordersKey, "a"},
	"sorted set":     {"ZADD", ordersKey, "1", "a"},
	"stream":         {"XADD", ordersKey, "1-1", "a", "b"},
	"with a TTL":     {"SET", ordersKey, "x", "PX", "60000"},
	"ours, by shape": {"SET", ordersKey, "lk1:x:5:6:y"}, // a lock, but never this client's
}

// Whatever is there, no call of ours deletes, renews or changes it, but for Break by
// the fence that it shows.
func TestForeignValuesAreLeftAlone(t *testing.T) {
	t.Parallel()
	s := startReal(t)
	for name, command := range foreign {
		t.Run(name, func(t *testing.T) {
			s.Do(t, "FLUSHALL")
			c := newClient(t, s.conn, lockkeeper.Config{TTL: time.Second})
			lock := c.Mutex("orders")
			lease := mustTry(t, lock) // and lose it to the foreign value
			s.Do(t, "DEL", ordersKey)
			s.Do(t, command...)
			dump, ttl := s.Do(t, "DUMP", ordersKey), s.Do(t, "PEXPIRETIME", ordersKey)
			for what, err := range useAgainst(t, c, lease) {
				if err != nil {
					t.Errorf("%s: %v", what, err)
				}
				if now := s.Do(t, "DUMP", ordersKey); !reflect.DeepEqual(now, dump) || s.Do(t, "PEXPIRETIME", ordersKey) != ttl {
					t.Fatalf("%s changed it to %q, expiring at %v", what, now, s.Do(t, "PEXPIRETIME", ordersKey))
				}
			}
		})
	}
}

// useAgainst calls everything there is against a foreign value, and yields what
// went wrong with each.
func useAgainst(t *testing.T, c *lockkeeper.Client, lease *lockkeeper.Lease) func(func(string, error) bool) {
	lock := c.Mutex("orders")
	ctx, cancel := context.WithTimeout(t.Context(), 300*ms)
	want := func(err, target error) error {
		if errors.Is(err, target) {
			return nil
		}
		return fmt.Errorf("got %w, want %w", err, target)
	}
	steps := []struct {
		name string
		run  func() error
	}{
		{"try", func() error { _, err := lock.Try(t.Context()); return want(err, lockkeeper.ErrHeld) }},
		{"raise", func() error { return want(lease.RaiseFence(t.Context(), 5), lockkeeper.ErrLost) }},
		{"extend", func() error { return want(lease.Extend(t.Context(), time.Minute), lockkeeper.ErrLost) }},
		{"release", func() error { return want(lease.Release(t.Context()), lockkeeper.ErrLost) }},
		{"acquire", func() error { _, err := lock.Acquire(ctx); return want(err, lockkeeper.ErrHeld) }},
		{"break", func() error { return want(c.Break(t.Context(), "orders", lease.Fence()), lockkeeper.ErrHeld) }},
		{"break 6", func() error { return want(c.Break(t.Context(), "orders", 6), lockkeeper.ErrHeld) }},
		{"inspect", func() error {
			state, err := c.Inspect(t.Context(), "orders")
			if err == nil && !state.Held {
				err = errors.New("it is not held")
			}
			return err
		}},
		{"close", func() error { return c.Close(t.Context()) }},
	}
	return func(yield func(string, error) bool) {
		defer cancel()
		for _, step := range steps {
			if !yield(step.name, step.run()) {
				return
			}
		}
	}
}

// Break by the fence that a foreign value seems to show does not delete it either.
func TestBreakLeavesForeignValuesAlone(t *testing.T) {
	t.Parallel()
	s := startReal(t)
	c := newClient(t, s.conn, lockkeeper.Config{})
	for name, command := range foreign {
		s.Do(t, "DEL", ordersKey)
		s.Do(t, command...)
		err := c.Break(t.Context(), "orders", 5)
		if name == "ours, by shape" {
			if err != nil || s.exists(t, ordersKey) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		var held *lockkeeper.HeldError
		if !errors.As(err, &held) || !held.Holder.Foreign || !s.exists(t, ordersKey) {
			t.Errorf("%s: %v, %+v", name, err, held)
		}
	}
}

// List shows locks of plain clients too, and no counters or lines.
func TestListOnARealServer(t *testing.T) {
	t.Parallel()
	s := startReal(t)
	c := newClient(t, s.conn, lockkeeper.Config{})
	for i := range 250 {
		mustTry(t, c.Mutex(fmt.Sprint("job:", i)))
	}
	s.Do(t, "SET", "lockkeeper:job:plain", "x", "PX", "60000")
	s.Do(t, "SET", "job:other prefix", "x")
	mustTry(t, c.Mutex("else"))
	found := make(map[string]lockkeeper.State)
	for state, err := range c.List(t.Context(), "job:*") {
		if err != nil {
			t.Fatal(err)
		}
		if _, twice := found[state.Name]; twice || !state.Held {
			t.Errorf("listed twice, or not held: %+v", state)
		}
		found[state.Name] = state
	}
	if len(found) != 251 || !found["job:plain"].Holder.Foreign || found["job:17"].Holder.Foreign {
		t.Errorf("%d are listed: %+v", len(found), found["job:plain"])
	}
}
