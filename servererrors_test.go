package lockkeeper_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/internal/redistest"
)

// wantServerError checks that an error is the server's, by its code, in its words,
// with what to do.
func wantServerError(t *testing.T, what string, err error, code, words, advice string) {
	t.Helper()
	var reply *lockkeeper.ReplyError
	if !errors.As(err, &reply) || reply.Code != code {
		t.Errorf("%s: got %v, want the server's %s", what, err, code)
		return
	}
	for _, want := range []string{words, advice} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %q does not say %q", what, err, want)
		}
	}
}

// SCRIPT FLUSH between any two calls is not noticed.
func TestNoScript(t *testing.T) {
	t.Parallel()
	s := startReal(t)
	c := newClient(t, s.conn, lockkeeper.Config{TTL: 300 * ms})
	flush := func() { s.Do(t, "SCRIPT", "FLUSH") }
	flush()
	lease := mustTry(t, c.Mutex("orders"))
	flush()
	wantHeld(t, c.Mutex("orders"))
	flush()
	if err := lease.Extend(t.Context(), time.Second); err != nil {
		t.Error(err)
	}
	flush()
	if err := lease.RaiseFence(t.Context(), lease.Fence()); err != nil {
		t.Error(err)
	}
	flush()
	if _, err := c.Inspect(t.Context(), "orders"); err != nil {
		t.Error(err)
	}
	flush()
	mustRelease(t, lease)
	flush()
	wantErr(t, c.Break(t.Context(), "orders", 5), lockkeeper.ErrNotHeld)
}

// A replica says that it is one: that is no "not yours".
func TestReadOnly(t *testing.T) {
	t.Parallel()
	s := startReal(t)
	c := newClient(t, s.conn, lockkeeper.Config{TTL: time.Minute})
	lease := mustTry(t, c.Mutex("orders"))
	mustRelease(t, mustTry(t, c.Mutex("free")))
	short := mustTry(t, c.Mutex("short", lockkeeper.WithTTL(time.Second)))
	s.Do(t, "REPLICAOF", "127.0.0.1", "1") // nobody is there, so that it keeps its data

	const words, advice = "READONLY You can't write against a read only replica", "connect to the primary"
	_, err := c.Mutex("free").Try(t.Context())
	wantErr(t, err, lockkeeper.ErrUnavailable)
	wantServerError(t, "try", err, "READONLY", words, advice)
	err = lease.Extend(t.Context(), time.Minute)
	wantErr(t, err, lockkeeper.ErrUnavailable)
	wantNotErr(t, err, lockkeeper.ErrLost)
	wantServerError(t, "extend", err, "READONLY", words, advice)
	wantServerError(t, "raise", lease.RaiseFence(t.Context(), 5), "READONLY", words, advice)
	wantServerError(t, "break", c.Break(t.Context(), "orders", 5), "READONLY", words, advice)
	if _, err := c.Inspect(t.Context(), "orders"); err != nil {
		t.Errorf("a replica can be asked who holds a lock: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*ms)
	defer cancel()
	_, err = c.Mutex("free").Acquire(ctx)
	wantErr(t, err, lockkeeper.ErrUnavailable, context.DeadlineExceeded)
	wantServerError(t, "acquire", err, "READONLY", words, advice)

	if short.Err() == nil { // unless the machine was very slow
		err = short.Release(t.Context())
		wantNotErr(t, err, lockkeeper.ErrLost)
		wantServerError(t, "release", err, "READONLY", words, advice)
	}
	s.Do(t, "REPLICAOF", "NO", "ONE") // for Close
}

// The loss after a time on a replica names it.
func TestReadOnlyUntilBeliefEnds(t *testing.T) {
	t.Parallel()
	s := startReal(t)
	c := newClient(t, s.conn, lockkeeper.Config{TTL: 400 * ms})
	lease := mustTry(t, c.Mutex("orders"))
	s.Do(t, "REPLICAOF", "127.0.0.1", "1")
	soon(t, "the loss", lease.Done())
	wantErr(t, lease.Err(), lockkeeper.ErrLost)
	if errors.Is(lease.Err(), context.DeadlineExceeded) {
		return // the machine was so slow that the last renewal was given up
	}
	wantServerError(t, "loss", lease.Err(), "READONLY", "read only replica", "connect to the primary")
}

// Memory is full: nothing new is granted, and what is held is renewed and released.
func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	s := startReal(t)
	c := newClient(t, s.conn, lockkeeper.Config{TTL: 300 * ms})
	lease, other := mustTry(t, c.Mutex("orders")), mustTry(t, c.Mutex("other"))
	s.Do(t, "CONFIG", "SET", "maxmemory-policy", "noeviction")
	s.Do(t, "CONFIG", "SET", "maxmemory", "1mb")
	_, err := c.Mutex("new").Try(t.Context())
	wantErr(t, err, lockkeeper.ErrUnavailable)
	wantServerError(t, "try", err, "OOM", "OOM command not allowed when used memory > 'maxmemory'", "noeviction")
	time.Sleep(time.Second)
	if lease.Err() != nil || other.Err() != nil {
		t.Fatalf("not renewed: %v, %v", lease.Err(), other.Err())
	}
	mustRelease(t, lease)
	if s.exists(t, ordersKey) {
		t.Error("the key is still there")
	}
	if err := c.Break(t.Context(), "other", other.Fence()); err != nil {
		t.Error(err)
	}
	result := waits(t.Context(), c.Mutex("orders")) // waits the trouble out
	time.Sleep(100 * ms)
	s.Do(t, "CONFIG", "SET", "maxmemory", "0")
	got := soon(t, "the waiter", result)
	if got.err != nil {
		t.Fatal(got.err)
	}
	mustRelease(t, got.lease)
}

// A script that blocks the server is waited out.
func TestBusy(t *testing.T) {
	t.Parallel()
	s := startReal(t, redistest.Args("--busy-reply-threshold", "1"))
	c := newClient(t, s.conn, lockkeeper.Config{TTL: 5 * time.Second})
	lease := mustTry(t, c.Mutex("orders"))
	other := connTo(t, s.Addr())
	loop := goes(func() error {
		_, err := other.Do(context.Background(), "EVAL", "while true do end", "0")
		return err
	})
	redistest.Until(t, "the server is busy", func() bool {
		_, err := s.conn.Do(t.Context(), "PING")
		return err != nil && strings.HasPrefix(err.Error(), "BUSY")
	})
	const words, advice = "BUSY Redis is busy running a script", "SCRIPT KILL"
	_, err := c.Mutex("free").Try(t.Context())
	wantErr(t, err, lockkeeper.ErrUnavailable)
	wantServerError(t, "try", err, "BUSY", words, advice)
	wantServerError(t, "extend", lease.Extend(t.Context(), 5*time.Second), "BUSY", words, advice)
	if lease.Err() != nil {
		t.Error("the lease was lost to a busy server")
	}
	released := goes(func() error { return lease.Release(t.Context()) })
	waiter := waits(t.Context(), c.Mutex("free"))
	time.Sleep(100 * ms)
	s.Do(t, "SCRIPT", "KILL")
	if err := soon(t, "the release", released); err != nil {
		t.Errorf("release: %v", err)
	}
	if got := soon(t, "the waiter", waiter); got.err != nil {
		t.Errorf("acquire: %v", got.err)
	}
	soon(t, "the script", loop)
}

// A server that reads its data after a restart is waited out, and leases that it
// still has are kept.
func TestLoading(t *testing.T) {
	t.Parallel()
	s := startReal(t, redistest.Args("--key-load-delay", "2000", "--loading-process-events-interval-bytes", "1024"))
	c := newClient(t, s.conn, lockkeeper.Config{TTL: 30 * time.Second})
	lease := mustTry(t, c.Mutex("orders"))
	s.Do(t, "DEBUG", "POPULATE", "1000") // they take 2 s to read
	s.Do(t, "SAVE")
	s.Kill()

	checked := goes(func() (released <-chan error) {
		for range 1000 {
			if _, err := c.Inspect(t.Context(), "x"); err != nil && strings.Contains(err.Error(), "LOADING") {
				break
			}
			time.Sleep(ms)
		}
		const words, advice = "LOADING Redis is loading the dataset in memory", "it will answer when that is done"
		_, err := c.Mutex("free").Try(t.Context())
		wantErr(t, err, lockkeeper.ErrUnavailable)
		wantServerError(t, "try", err, "LOADING", words, advice)
		wantServerError(t, "extend", lease.Extend(t.Context(), 30*time.Second), "LOADING", words, advice)
		return goes(func() error { return lease.Release(t.Context()) })
	})
	waiter := waits(t.Context(), c.Mutex("free"))
	s.Restart() // returns when it has loaded
	if err := soon(t, "the release", soon(t, "the checks", checked)); err != nil {
		t.Errorf("release: %v", err)
	}
	if got := soon(t, "the waiter", waiter); got.err != nil {
		t.Errorf("acquire: %v", got.err)
	}
}

// The server asks for a password, or has another one.
func TestNoAuth(t *testing.T) {
	t.Parallel()
	s := startReal(t, redistest.Args("--requirepass", "secret"))
	// Redis refuses a request of more than ten words before it looks at what it is.
	for _, tt := range []struct{ password, inspect, acquire, words string }{
		{"", "NOAUTH", "ERR", "unauthenticated multibulk length"},
		{"wrong", "WRONGPASS", "WRONGPASS", "WRONGPASS invalid"},
	} {
		conn := redistest.NewConn(s.Addr())
		defer conn.Close()
		conn.Password = tt.password
		c := newClient(t, conn, lockkeeper.Config{})
		_, err := c.Inspect(t.Context(), "orders")
		wantServerError(t, "inspect", err, tt.inspect, tt.inspect, "password")
		start := time.Now()
		_, err = c.Mutex("orders").Acquire(t.Context()) // waiting mends nothing
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("%s: it took %s", tt.acquire, took)
		}
		wantErr(t, err, lockkeeper.ErrUnavailable)
		wantServerError(t, "acquire", err, tt.acquire, tt.words, "password")
		closes(t, c)
	}
}

// A key of the lock is used by something else.
func TestWrongType(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"{lockkeeper:orders}:lk-fence", lineKey} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			s := startReal(t)
			c := newClient(t, s.conn, lockkeeper.Config{TTL: time.Minute})
			s.Do(t, "HSET", key, "a", "b")
			if key == lineKey { // only who waits needs the line
				s.Do(t, "SET", ordersKey, "x")
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			_, err := c.Mutex("orders").Acquire(ctx)
			wantErr(t, err, lockkeeper.ErrUnavailable)
			wantNotErr(t, err, context.DeadlineExceeded)
			wantServerError(t, "acquire", err, "WRONGTYPE", "wrong kind of value", "choose another name or prefix")
			if key != lineKey { // what the script had written before it failed is undone
				redistest.Until(t, "the key is gone", func() bool { return !s.exists(t, ordersKey) })
			}
			if got := s.Do(t, "HGET", key, "a"); got != "b" {
				t.Errorf("the other's key is now %v", got)
			}
		})
	}
}

// Rights that a user lacks are told by the server's words; a lease is not lost to them.
func TestMissingRights(t *testing.T) {
	t.Parallel()
	s := startReal(t)
	conn := s.user(t, "+@all", "-set")
	c := newClient(t, conn, lockkeeper.Config{TTL: 2 * time.Second})
	_, err := c.Mutex("orders").Acquire(t.Context())
	wantErr(t, err, lockkeeper.ErrUnavailable)
	if !strings.Contains(err.Error(), "can't run this command") || !strings.Contains(err.Error(), "the ACL user lacks a right") {
		t.Errorf("got %q", err)
	}
	s.Do(t, "ACL", "SETUSER", "locks", "+set")
	lease := mustTry(t, c.Mutex("orders"))
	s.Do(t, "ACL", "SETUSER", "locks", "-get") // within a script
	err = lease.Extend(t.Context(), 2*time.Second)
	wantErr(t, err, lockkeeper.ErrUnavailable)
	wantNotErr(t, err, lockkeeper.ErrLost)
	_, err = c.Mutex("orders").Try(t.Context())
	wantErr(t, err, lockkeeper.ErrUnavailable)
	wantNotErr(t, err, lockkeeper.ErrHeld)
	_, err = c.Inspect(t.Context(), "orders")
	wantErr(t, err, lockkeeper.ErrUnavailable)
	wantErr(t, c.Break(t.Context(), "orders", 5), lockkeeper.ErrUnavailable)
	wantErr(t, lease.RaiseFence(t.Context(), 5), lockkeeper.ErrUnavailable)
	s.Do(t, "ACL", "SETUSER", "locks", "+get", "-evalsha") // the script itself
	err = lease.Extend(t.Context(), 2*time.Second)
	wantErr(t, err, lockkeeper.ErrUnavailable)
	wantServerError(t, "extend", err, "NOPERM", "evalsha", "the ACL user lacks a right")
	if err := lease.Err(); err != nil && !strings.Contains(err.Error(), "no renewal was answered") {
		t.Errorf("the lease was lost to a missing right: %v", err)
	}
}

// user makes the user "locks" with these rights over all keys and channels, and
// returns a connection of that user.
func (r *real) user(t *testing.T, rights ...string) *redistest.Conn {
	t.Helper()
	r.Do(t, append([]string{"ACL", "SETUSER", "locks", "reset", "on", ">pw", "~*", "&*"}, rights...)...)
	conn := redistest.NewConn(r.Addr())
	conn.User, conn.Password = "locks", "pw"
	t.Cleanup(conn.Close)
	return conn
}

// A server that dies and comes back empty: the wait goes on through it, and the
// old lease ends at its next renewal at the latest.
func TestRestart(t *testing.T) {
	t.Parallel()
	s := startReal(t)
	a := newClient(t, s.conn, lockkeeper.Config{TTL: 5 * time.Second})
	b := newClient(t, connTo(t, s.Addr()), lockkeeper.Config{TTL: 5 * time.Second})
	lease := mustTry(t, a.Mutex("orders"))
	result := waits(t.Context(), b.Mutex("orders"))
	redistest.Until(t, "the waiter is in the line", func() bool { return s.exists(t, lineKey) })
	s.Kill()
	time.Sleep(200 * ms)
	s.Restart()
	got := soon(t, "the waiter", result)
	if got.err != nil {
		t.Fatal(got.err)
	}
	if got.lease.Fence() <= lease.Fence() {
		t.Errorf("fence %s after %s", got.lease.Fence(), lease.Fence())
	}
	soon(t, "the loss", lease.Done())
	wantErr(t, lease.Err(), lockkeeper.ErrLost)
	wantErr(t, lease.Release(t.Context()), lockkeeper.ErrLost)
	mustRelease(t, got.lease)
}
