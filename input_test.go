package lockkeeper_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/lockkeepertest"
)

// wantInvalid checks that every call on the lock is refused before anything is sent.
func wantInvalid(t *testing.T, build func(c *lockkeeper.Client) *lockkeeper.Lock) {
	t.Helper()
	t.Parallel()
	m := lockkeepertest.NewMemory()
	lock := build(newClient(t, m, lockkeeper.Config{}))
	_, err := lock.Try(t.Context())
	wantErr(t, err, lockkeeper.ErrInvalid)
	_, err = lock.Acquire(t.Context())
	wantErr(t, err, lockkeeper.ErrInvalid)
	wantErr(t, lock.Do(t.Context(), func(context.Context, *lockkeeper.Lease) error { return nil }), lockkeeper.ErrInvalid)
	wantNotErr(t, err, lockkeeper.ErrUnavailable, lockkeeper.ErrHeld)
	if n := m.Requests(); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}

// wantBadName checks the same for a name, and for everything that takes one.
func wantBadName(t *testing.T, name string) {
	t.Helper()
	wantInvalid(t, func(c *lockkeeper.Client) *lockkeeper.Lock { return c.Mutex(name) })
	m := lockkeepertest.NewMemory()
	c := newClient(t, m, lockkeeper.Config{})
	_, err := c.Inspect(t.Context(), name)
	wantErr(t, err, lockkeeper.ErrInvalid)
	wantErr(t, c.Break(t.Context(), name, 5), lockkeeper.ErrInvalid)
	e := c.Election(name)
	_, err = e.Leader(t.Context())
	wantErr(t, err, lockkeeper.ErrInvalid)
	wantErr(t, e.Run(t.Context(), func(context.Context, *lockkeeper.Lease) error { return nil }), lockkeeper.ErrInvalid)
	if n := m.Requests(); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}

func TestEmptyName(t *testing.T) { wantBadName(t, "") }

func TestLongName(t *testing.T) { wantBadName(t, strings.Repeat("x", 513-len("lockkeeper:"))) }

func TestReservedNames(t *testing.T) {
	for _, name := range []string{"a:lk-fence", "a:lk-line", "{a}:lk-fence", ":lk-line"} {
		t.Run(name, func(t *testing.T) { wantBadName(t, name) })
	}
}

func TestBadBraces(t *testing.T) {
	for _, name := range []string{"{", "}", "{}", "a}b", "a{b", "}{", "{}a{b}", "a}b{"} {
		t.Run(name, func(t *testing.T) { wantBadName(t, name) })
	}
}

// "{x}" and "x" would have one line and one fence counter.
func TestTagAlone(t *testing.T) {
	for prefix, name := range map[string]string{lockkeeper.NoPrefix: "{x}", "{": "x}", "{a": "}"} {
		m := lockkeepertest.NewMemory()
		_, err := newClient(t, m, lockkeeper.Config{Prefix: prefix}).Mutex(name).Try(t.Context())
		wantErr(t, err, lockkeeper.ErrInvalid)
	}
}

// Names at the border of what is allowed work.
func TestGoodNames(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newServer()
		c := newClient(t, s.wire(), lockkeeper.Config{})
		for _, name := range []string{
			"x", " ", "\x00", "ümlaut", strings.Repeat("x", 512-len("lockkeeper:")), "{user:7}:cart", "a{b}c", "a}b{c}", "{a}{b",
			"a:lk-fence:b", "line\nbreak", "*", "a?[b]",
		} {
			lease := mustTry(t, c.Mutex(name))
			wantKey(t, s, "lockkeeper:"+name, true)
			if held := wantHeld(t, c.Mutex(name)); held.Name != name || held.Holder.Owner != lease.Owner() {
				t.Errorf("%q: %+v", name, held)
			}
			var found int
			for state, err := range c.List(t.Context(), "*") {
				if err != nil {
					t.Error(err)
				}
				if state.Name == name {
					found++
				}
			}
			if found != 1 {
				t.Errorf("%q is listed %d times", name, found)
			}
			mustRelease(t, lease)
		}
	})
}

// The keys of a name are in one slot of a cluster, and no two names share one.
func TestKeysOfANameAreInOneSlot(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, prefix := range []string{"", lockkeeper.NoPrefix, "{app}:", "a{b}"} {
			for name, tag := range map[string]string{"x": "x", "{user:7}:cart": "user:7", "a}b{c}": "c"} {
				w := newServer().wire()
				c := newClient(t, w, lockkeeper.Config{Prefix: prefix})
				var keys []string
				w.breaks(func(_ context.Context, c call, run func() (any, error)) (any, error) {
					keys = c.Keys
					return run()
				})
				mustTry(t, c.Mutex(name))
				switch prefix {
				case "{app}:":
					tag = "app"
				case "a{b}":
					tag = "b"
				}
				for i, key := range keys {
					got := key
					if _, rest, ok := strings.Cut(key, "{"); ok && strings.Contains(rest, "}") {
						got, _, _ = strings.Cut(rest, "}")
					}
					if want := tag; got != want && got != "lockkeeper:"+want {
						t.Errorf("prefix %q, name %q: key %d is %q, hashed by %q", prefix, name, i, key, got)
					}
				}
			}
		}
	})
}

func TestNoPrefix(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newServer()
		c := newClient(t, s.wire(), lockkeeper.Config{Prefix: lockkeeper.NoPrefix})
		lease := mustTry(t, c.Mutex("orders"))
		wantKey(t, s, "orders", true)
		for state, err := range c.List(t.Context(), "*") {
			if err != nil || state.Name != "orders" {
				t.Errorf("listed %+v, %v", state, err)
			}
		}
		mustRelease(t, lease)
		wantKey(t, s, "orders", false)
	})
}

func withTTL(ttl time.Duration) func(c *lockkeeper.Client) *lockkeeper.Lock {
	return func(c *lockkeeper.Client) *lockkeeper.Lock { return c.Mutex("orders", lockkeeper.WithTTL(ttl)) }
}

func wantBadConfig(t *testing.T, cfg lockkeeper.Config) {
	t.Helper()
	c, err := lockkeeper.New(lockkeepertest.NewMemory(), cfg)
	if c != nil {
		t.Errorf("%+v makes a client", cfg)
	}
	wantErr(t, err, lockkeeper.ErrInvalid)
}

func TestShortTTL(t *testing.T) {
	wantBadConfig(t, lockkeeper.Config{TTL: 9 * ms})
	wantInvalid(t, withTTL(9*ms))
}

func TestZeroTTLOption(t *testing.T) { wantInvalid(t, withTTL(0)) }

func TestNegativeTTL(t *testing.T) {
	wantBadConfig(t, lockkeeper.Config{TTL: -time.Second})
	wantInvalid(t, withTTL(-time.Second))
}

func TestTTLInPartsOfAMillisecond(t *testing.T) {
	wantBadConfig(t, lockkeeper.Config{TTL: time.Second + 1})
	wantInvalid(t, withTTL(time.Second+999*time.Microsecond))
}

func TestNegativeMargin(t *testing.T) {
	wantBadConfig(t, lockkeeper.Config{Margin: -1})
}

func TestLargeMargin(t *testing.T) {
	wantBadConfig(t, lockkeeper.Config{TTL: 3 * time.Second, Margin: time.Second})
	wantBadConfig(t, lockkeeper.Config{Margin: time.Minute})
	if _, err := lockkeeper.New(lockkeepertest.NewMemory(), lockkeeper.Config{TTL: 3 * time.Second, Margin: time.Second - 1}); err != nil {
		t.Error(err)
	}
}

func TestLongLabel(t *testing.T) {
	wantBadConfig(t, lockkeeper.Config{Label: strings.Repeat("x", 257)})
	wantInvalid(t, func(c *lockkeeper.Client) *lockkeeper.Lock {
		return c.Mutex("orders", lockkeeper.WithLabel(strings.Repeat("x", 257)))
	})
}

func TestNegativeMaxWait(t *testing.T) {
	wantInvalid(t, func(c *lockkeeper.Client) *lockkeeper.Lock { return c.Mutex("orders", lockkeeper.WithMaxWait(-1)) })
}

func TestNegativeMaxHold(t *testing.T) {
	wantInvalid(t, func(c *lockkeeper.Client) *lockkeeper.Lock { return c.Mutex("orders", lockkeeper.WithMaxHold(-1)) })
}

// The first mistake is told, also when a later option is right.
func TestFirstMistakeIsTold(t *testing.T) {
	c := newClient(t, lockkeepertest.NewMemory(), lockkeeper.Config{})
	_, err := c.Mutex("", lockkeeper.WithTTL(-1), lockkeeper.WithTTL(time.Second)).Try(t.Context())
	if err == nil || !strings.Contains(err.Error(), "empty name") {
		t.Errorf("got %v", err)
	}
}

func TestNilConn(t *testing.T) {
	if _, err := lockkeeper.New(nil, lockkeeper.Config{}); !errors.Is(err, lockkeeper.ErrInvalid) {
		t.Errorf("got %v", err)
	}
}

func TestNilFunction(t *testing.T) {
	m := lockkeepertest.NewMemory()
	c := newClient(t, m, lockkeeper.Config{})
	wantErr(t, c.Mutex("orders").Do(t.Context(), nil), lockkeeper.ErrInvalid)
	wantErr(t, c.Election("orders").Run(t.Context(), nil), lockkeeper.ErrInvalid)
	if n := m.Requests(); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}

func TestFenceZero(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := holds(t)
		n := h.wire.sent("")
		wantErr(t, h.client.Break(t.Context(), "orders", 0), lockkeeper.ErrInvalid)
		wantErr(t, h.lease.RaiseFence(t.Context(), 0), lockkeeper.ErrInvalid)
		if h.wire.sent("") != n {
			t.Error("something was sent")
		}
	})
}

// A fence beyond what the scripts can count would spoil the counter for a week.
func TestFenceOutOfReach(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := holds(t)
		n := h.wire.sent("")
		for _, seen := range []lockkeeper.Fence{1<<52 + 1, 1 << 53, 1 << 63, 1<<64 - 1} {
			wantErr(t, h.lease.RaiseFence(t.Context(), seen), lockkeeper.ErrInvalid)
		}
		if h.wire.sent("") != n || h.lease.Err() != nil {
			t.Error("something was sent, or the lease has ended")
		}
		if err := h.lease.RaiseFence(t.Context(), 1<<52); err != nil || h.lease.Fence() != 1<<52+1 {
			t.Errorf("fence %s, %v", h.lease.Fence(), err)
		}
		mustRelease(t, h.lease)
		if next := mustTry(t, h.client.Mutex("orders")); next.Fence() != 1<<52+2 {
			t.Errorf("the next fence is %s", next.Fence())
		}
	})
}

func TestBadTTLOfExtend(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := holds(t)
		n := h.wire.sent("")
		for _, ttl := range []time.Duration{0, -time.Second, 9 * ms, time.Second + 1} {
			wantErr(t, h.lease.Extend(t.Context(), ttl), lockkeeper.ErrInvalid)
		}
		if h.wire.sent("") != n || h.lease.Err() != nil {
			t.Error("something was sent, or the lease has ended")
		}
	})
}

func TestListWithoutAScanner(t *testing.T) {
	m := lockkeepertest.NewMemory()
	c := newClient(t, struct{ lockkeeper.Conn }{m}, lockkeeper.Config{})
	for _, err := range c.List(t.Context(), "*") {
		wantErr(t, err, lockkeeper.ErrInvalid)
	}
	if n := m.Requests(); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}

// After Close everything returns ErrClosed, and nothing is sent.
func TestUseAfterClose(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := holds(t)
		lock, e := h.client.Mutex("orders"), h.client.Election("orders")
		closes(t, h.client)
		n := h.wire.sent("")
		nothing := func(context.Context, *lockkeeper.Lease) error { return errors.New("it ran") }
		for name, f := range map[string]func() error{
			"try":        func() error { _, err := lock.Try(t.Context()); return err },
			"acquire":    func() error { _, err := lock.Acquire(t.Context()); return err },
			"do":         func() error { return lock.Do(t.Context(), nothing) },
			"run":        func() error { return e.Run(t.Context(), nothing) },
			"leader":     func() error { _, err := e.Leader(t.Context()); return err },
			"observe":    func() error { return first(e.Observe(t.Context())) },
			"inspect":    func() error { _, err := h.client.Inspect(t.Context(), "orders"); return err },
			"list":       func() error { return first(h.client.List(t.Context(), "*")) },
			"break":      func() error { return h.client.Break(t.Context(), "orders", 5) },
			"err":        h.lease.Err,
			"extend":     func() error { return h.lease.Extend(t.Context(), time.Minute) },
			"raise":      func() error { return h.lease.RaiseFence(t.Context(), 5) },
			"new mutex":  func() error { _, err := h.client.Mutex("x").Try(t.Context()); return err },
			"bind cause": func() error { ctx, cancel := h.lease.Bind(t.Context()); defer cancel(); return context.Cause(ctx) },
		} {
			if err := f(); err != lockkeeper.ErrClosed {
				t.Errorf("%s: got %v, want ErrClosed", name, err)
			}
		}
		if h.wire.sent("") != n {
			t.Error("something was sent")
		}
	})
}

// first returns the first error of a sequence.
func first[T any](seq func(func(T, error) bool)) error {
	for _, err := range seq {
		return err
	}
	return errors.New("nothing was yielded")
}

// A context that has ended is seen before anything is sent.
func TestEndedContext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := holds(t)
		lock := h.client.Mutex("other")
		n := h.wire.sent("")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errWork)
		for name, f := range map[string]func() error{
			"try":     func() error { _, err := lock.Try(ctx); return err },
			"acquire": func() error { _, err := lock.Acquire(ctx); return err },
			"do":      func() error { return lock.Do(ctx, func(context.Context, *lockkeeper.Lease) error { return nil }) },
			"inspect": func() error { _, err := h.client.Inspect(ctx, "orders"); return err },
			"break":   func() error { return h.client.Break(ctx, "orders", h.lease.Fence()) },
			"extend":  func() error { return h.lease.Extend(ctx, time.Minute) },
			"raise":   func() error { return h.lease.RaiseFence(ctx, h.lease.Fence()) },
			"list":    func() error { return first(h.client.List(ctx, "*")) },
		} {
			err := f()
			if !errors.Is(err, context.Canceled) || errors.Is(err, lockkeeper.ErrUnavailable) {
				t.Errorf("%s: got %v, want context.Canceled", name, err)
			}
		}
		if h.wire.sent("") != n {
			t.Error("something was sent")
		}
	})
}

func TestLabelWithControlCharacters(t *testing.T) {
	for _, label := range []string{"a\nb", "\x1b[31m", "a\x00"} {
		_, err := lockkeeper.New(newServer().wire(), lockkeeper.Config{Label: label})
		wantErr(t, err, lockkeeper.ErrInvalid)
	}
	h := lockkeeper.Holder{Owner: "x", Fence: 1, Label: "a\nb"}
	if strings.Contains(h.String(), "\n") {
		t.Errorf("%q is printed as it is", h.Label)
	}
}
