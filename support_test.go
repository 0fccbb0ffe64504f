package lockkeeper_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/internal/redistest"
	"github.com/lockkeeper/lockkeeper/lockkeepertest"
)

const ms = time.Millisecond

// sources returns the scripts by their names, as they are sent to a server of
// today.
var sources = sync.OnceValue(func() map[string]string {
	all := make(map[string]string)
	for _, name := range []string{"acquire", "release", "renew", "raise", "break", "state"} {
		read := func(name string) string {
			text, err := os.ReadFile("lua/" + name + ".lua")
			if err != nil {
				panic(err)
			}
			return string(text)
		}
		text := read(name)
		for _, part := range []string{"join", "handoff"} {
			text = strings.Replace(text, "-- include: "+part+".lua\n", read(part), 1)
		}
		_, rest, _ := strings.Cut(text, "-- flags:")
		flags, _, _ := strings.Cut(rest, "\n")
		header := "#!lua"
		if flags = strings.TrimSpace(flags); flags != "" {
			header += " flags=" + flags
		}
		all[name] = header + "\n" + text
	}
	return all
})

// A server is a Redis in memory to which each client has a wire of its own.
type server struct{ *lockkeepertest.Memory }

// newServer returns an empty server that knows the scripts.
func newServer() *server {
	s := &server{lockkeepertest.NewMemory()}
	keys := []string{"a", "b", "c", "d"}
	args := map[string][]string{"acquire": {"lk1:x:", "1", "x", "0"}, "renew": make([]string, 8)}
	for name, src := range sources() {
		if args[name] == nil {
			args[name] = []string{"lk1:x:", ""}
		}
		// What it answers is of no interest; the server knows it from then on.
		_, _ = s.Eval(context.Background(), src, keys, args[name])
	}
	for _, key := range keys {
		s.Del(key)
	}
	s.SetHook(func(ctx context.Context, call call, run func() (any, error)) (any, error) {
		w, ok := ctx.Value(wireKey{}).(*wire)
		if !ok {
			return run()
		}
		return w.pass(ctx, call, run)
	})
	return s
}

// first returns the owner that is first in a line.
func (s *server) first(t *testing.T, line string) string {
	t.Helper()
	members := s.Line(line)
	if len(members) == 0 {
		t.Fatalf("nobody is in the line %s", line)
	}
	return members[0]
}

func (s *server) wire() *wire { return &wire{Memory: s.Memory, calls: make(map[string]int)} }

// A wire is one client's way to the server. A fault on it does not concern others.
type wire struct {
	*lockkeepertest.Memory

	mu      sync.Mutex
	fault   fault
	deaf    error // of Listen, if there is one
	calls   map[string]int
	listens int
}

type wireKey struct{}

// A fault stands between a client and the server, as a lockkeepertest.Hook does.
type (
	fault = lockkeepertest.Hook
	call  = lockkeepertest.Call
)

func (w *wire) EvalSha(ctx context.Context, sha string, keys, args []string) (any, error) {
	return w.Memory.EvalSha(context.WithValue(ctx, wireKey{}, w), sha, keys, args)
}

func (w *wire) Eval(ctx context.Context, src string, keys, args []string) (any, error) {
	return w.Memory.Eval(context.WithValue(ctx, wireKey{}, w), src, keys, args)
}

func (w *wire) Listen(ctx context.Context, channel string, ready func(), message func(string)) error {
	w.mu.Lock()
	w.listens++
	deaf := w.deaf
	w.mu.Unlock()
	if deaf != nil {
		return deaf
	}
	return w.Memory.Listen(ctx, channel, ready, message)
}

func (w *wire) pass(ctx context.Context, call call, run func() (any, error)) (any, error) {
	w.mu.Lock()
	w.calls[call.Script]++
	f := w.fault
	w.mu.Unlock()
	if f == nil {
		return run()
	}
	return f(ctx, call, run)
}

// breaks installs a fault; nil heals.
func (w *wire) breaks(f fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault = f
}

func (w *wire) deafens(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deaf = err
}

// sent returns how often a script was sent; "" is all.
func (w *wire) sent(script string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, calls := range w.calls {
		if script == "" || script == name {
			n += calls
		}
	}
	return n
}

// hangs is a silent hole: nothing arrives.
func hangs(ctx context.Context, _ call, _ func() (any, error)) (any, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// losesReplies lets requests arrive, and no reply.
func losesReplies(ctx context.Context, _ call, run func() (any, error)) (any, error) {
	_, _ = run()
	<-ctx.Done()
	return nil, ctx.Err()
}

// fails answers each request with an error, without running it.
func fails(err error) fault {
	return func(context.Context, call, func() (any, error)) (any, error) { return nil, err }
}

var errNetwork = errors.New("connection reset by peer")

// replies is an error of the server.
func replies(line string) error { return lockkeeper.NewReplyError(line) }

// slow delays each request, and each reply. A request that is given up runs all
// the same.
func slow(request, reply time.Duration) fault {
	return func(ctx context.Context, _ call, run func() (any, error)) (any, error) {
		done := make(chan struct{})
		var v any
		var err error
		go func() {
			defer close(done)
			time.Sleep(request)
			v, err = run()
			time.Sleep(reply)
		}()
		select {
		case <-done:
			return v, err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// late gives each reply after d, whatever the deadline.
func late(d time.Duration) fault {
	return func(_ context.Context, _ call, run func() (any, error)) (any, error) {
		defer time.Sleep(d)
		return run()
	}
}

// answers gives each request the same reply, and runs it or not.
func answers(reply any, runs bool) fault {
	return func(_ context.Context, _ call, run func() (any, error)) (any, error) {
		if runs {
			_, _ = run()
		}
		return reply, nil
	}
}

// on limits a fault to some scripts.
func on(f fault, scripts ...string) fault {
	return func(ctx context.Context, call call, run func() (any, error)) (any, error) {
		if slices.Contains(scripts, call.Script) {
			return f(ctx, call, run)
		}
		return run()
	}
}

// once limits a fault to the first request that it meets.
func once(f fault) fault {
	var used sync.Once
	return func(ctx context.Context, call call, run func() (any, error)) (reply any, err error) {
		first := false
		used.Do(func() { first = true })
		if first {
			return f(ctx, call, run)
		}
		return run()
	}
}

// bubble runs a test on fake time. When it ends, every goroutine must have ended.
func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, test)
}

// newClient makes a client that is closed with the test.
func newClient(t *testing.T, conn lockkeeper.Conn, cfg lockkeeper.Config) *lockkeeper.Client {
	t.Helper()
	c, err := lockkeeper.New(conn, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closes(t, c) })
	return c
}

func closes(t *testing.T, c *lockkeeper.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := c.Close(ctx); err != nil {
		t.Errorf("Close: %v", err)
	}
}

func mustTry(t *testing.T, lock *lockkeeper.Lock) *lockkeeper.Lease {
	t.Helper()
	lease, err := lock.Try(t.Context())
	if err != nil {
		t.Fatalf("Try: %v", err)
	}
	return lease
}

func mustAcquire(t *testing.T, lock *lockkeeper.Lock) *lockkeeper.Lease {
	t.Helper()
	lease, err := lock.Acquire(t.Context())
	if err != nil {
		t.Fatalf("Acquire: %v", err)
	}
	return lease
}

func mustRelease(t *testing.T, lease *lockkeeper.Lease) {
	t.Helper()
	if err := lease.Release(t.Context()); err != nil {
		t.Fatalf("Release: %v", err)
	}
}

// wantErr checks that err matches all of the targets.
func wantErr(t *testing.T, err error, targets ...error) {
	t.Helper()
	for _, target := range targets {
		if !errors.Is(err, target) {
			t.Errorf("got error %v; want one that matches %v", err, target)
		}
	}
}

func wantNotErr(t *testing.T, err error, targets ...error) {
	t.Helper()
	for _, target := range targets {
		if errors.Is(err, target) {
			t.Errorf("got error %v; it must not match %v", err, target)
		}
	}
}

func wantTook(t *testing.T, start time.Time, want time.Duration) {
	t.Helper()
	if took := time.Since(start); took != want {
		t.Errorf("it took %s, want exactly %s", took, want)
	}
}

func wantKey(t *testing.T, s interface {
	Get(string) (string, bool)
}, key string, want bool,
) {
	t.Helper()
	if value, ok := s.Get(key); ok != want {
		t.Errorf("key %q is there: %t (%q), want %t", key, ok, value, want)
	}
}

// goes runs f and returns a channel that gets its result.
func goes[T any](f func() T) <-chan T {
	result := make(chan T, 1)
	go func() { result <- f() }()
	return result
}

// A real is a redis-server with one connection.
type real struct {
	*redistest.Server
	conn *redistest.Conn
}

func startReal(t *testing.T, opts ...redistest.Option) *real {
	t.Helper()
	s := redistest.Start(t, opts...)
	return &real{s, connTo(t, s.Addr())}
}

func connTo(t *testing.T, addr string) *redistest.Conn {
	t.Helper()
	conn := redistest.NewConn(addr)
	t.Cleanup(conn.Close)
	return conn
}

// exists reports whether there is a key, by a connection of its own.
func (r *real) exists(t *testing.T, key string) bool {
	t.Helper()
	return r.Do(t, "EXISTS", key) == int64(1)
}

// stacks returns what all goroutines do, for a failure message.
func stacks() string {
	buf := make([]byte, 1<<20)
	return string(buf[:runtime.Stack(buf, true)])
}

// soon waits for a result for so long that only a hang exceeds it.
func soon[T any](t *testing.T, what string, result <-chan T) T {
	t.Helper()
	select {
	case v := <-result:
		return v
	case <-time.After(20 * time.Second):
		t.Fatalf("%s: not after 20 s\n%s", what, stacks())
		panic(fmt.Sprint("unreachable: ", what))
	}
}

// wantHeld checks that a lock is held by somebody, and returns what is said of it.
func wantHeld(t *testing.T, lock *lockkeeper.Lock) *lockkeeper.HeldError {
	t.Helper()
	lease, err := lock.Try(t.Context())
	var held *lockkeeper.HeldError
	if lease != nil || !errors.As(err, &held) || !errors.Is(err, lockkeeper.ErrHeld) {
		t.Fatalf("Try: got %v, %v; want a *HeldError", lease, err)
	}
	wantNotErr(t, err, lockkeeper.ErrUnavailable)
	return held
}

// A logBuffer is a log that is read while it is written.
type logBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
