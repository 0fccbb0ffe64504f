package goredisconn

import (
	"context"
	"errors"
	"net"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/internal/redistest"
)

func TestMain(m *testing.M) {
	logging.Disable() // it tells of every server that was killed on purpose
	m.Run()
}

func options(to redistest.Target) *redis.Options {
	return &redis.Options{Addr: to.Addr, Username: to.User, Password: to.Password, DB: to.DB, TLSConfig: to.TLS}
}

func connect(t testing.TB, opts *redis.Options) *redis.Client {
	t.Helper()
	rdb := redis.NewClient(opts)
	t.Cleanup(func() {
		if err := rdb.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return rdb
}

// Every way in which New can make a call end in time passes the same suite.
func TestSuite(t *testing.T) {
	for name, adjust := range map[string]func(*redis.Options){
		"default":               func(*redis.Options) {},
		"RESP2":                 func(o *redis.Options) { o.Protocol = 2 },
		"context timeouts on":   func(o *redis.Options) { o.ContextTimeoutEnabled = true },
		"deadlines forbidden":   func(o *redis.Options) { o.ReadTimeout, o.WriteTimeout = -2, -2 },
		"no timeouts":           func(o *redis.Options) { o.ReadTimeout, o.WriteTimeout = -1, -1 },
		"a pool of one":         func(o *redis.Options) { o.PoolSize = 1 },
		"many explicit retries": func(o *redis.Options) { o.MaxRetries = 100 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if testing.Short() && name != "default" {
				t.Skip("the default is enough")
			}
			redistest.Suite(t, func(t *testing.T, to redistest.Target) lockkeeper.Conn {
				opts := options(to)
				adjust(opts)
				return New(connect(t, opts))
			})
		})
	}
}

// opaque is a client of a type that New doesn't know.
type opaque struct{ redis.UniversalClient }

func TestSuiteUnknownClient(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("TestSuite is enough")
	}
	redistest.Suite(t, func(t *testing.T, to redistest.Target) lockkeeper.Conn {
		return New(opaque{connect(t, options(to))})
	})
}

func TestSuiteRing(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("TestSuite is enough")
	}
	redistest.Suite(t, func(t *testing.T, to redistest.Target) lockkeeper.Conn {
		ring := redis.NewRing(&redis.RingOptions{
			Addrs:    map[string]string{"one": to.Addr},
			Username: to.User, Password: to.Password, DB: to.DB, TLSConfig: to.TLS,
		})
		t.Cleanup(func() { _ = ring.Close() })
		return New(ring)
	})
}

// A recorder is a hook that remembers what has passed it.
type recorder struct {
	mu       sync.Mutex
	commands [][]any
	dials    int
}

func (r *recorder) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		r.mu.Lock()
		r.dials++
		r.mu.Unlock()
		return next(ctx, network, addr)
	}
}

func (r *recorder) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		r.mu.Lock()
		r.commands = append(r.commands, slices.Clone(cmd.Args()))
		r.mu.Unlock()
		return next(ctx, cmd)
	}
}

func (r *recorder) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// If this fails with two calls seen, then WithTimeout has learnt to keep hooks, and
// punctual must run its requests in another way.
func TestHooks(t *testing.T) {
	t.Parallel()
	var seen recorder
	rdb := connect(t, &redis.Options{Addr: redistest.Start(t).Addr(), Protocol: 2, DisableIdentity: true})
	rdb.AddHook(&seen)
	conn := New(rdb)
	if _, err := conn.Eval(t.Context(), `return 1`, []string{"key"}, []string{"a token"}); err != nil {
		t.Fatal(err)
	}
	if err := rdb.Set(t.Context(), "other", 1, 0).Err(); err != nil {
		t.Fatal(err)
	}
	var names []any
	for _, args := range seen.commands {
		if args[0] == "eval" {
			if args[3] != "key" || args[4] == "a token" {
				t.Errorf("the hook saw %v; want the key, but not the arguments", args)
			}
		}
		names = append(names, args[0])
	}
	if want := []any{"eval", "set"}; !reflect.DeepEqual(names, want) {
		t.Errorf("the hook saw %v, want %v", names, want)
	}
	if seen.dials != 1 {
		t.Errorf("%d connections were made, want one for both: a single pool", seen.dials)
	}
}

// New must not change how the client serves its other users.
func TestClientStaysAsItIs(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	opts := &redis.Options{Addr: server.Addr(), ReadTimeout: 300 * time.Millisecond, MaxRetries: -1}
	rdb := connect(t, opts)
	before := *rdb.Options()
	conn := New(rdb)
	after := *rdb.Options()
	if before.ContextTimeoutEnabled != after.ContextTimeoutEnabled || before.MaxRetries != after.MaxRetries ||
		before.ReadTimeout != after.ReadTimeout || before.WriteTimeout != after.WriteTimeout {
		t.Errorf("New has changed the options from %+v to %+v", before, after)
	}
	server.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := conn.Eval(ctx, `return 1`, nil, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Eval: %v", err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	start := time.Now()
	if err := rdb.Ping(ctx).Err(); err == nil || time.Since(start) < 200*time.Millisecond {
		t.Errorf("PING of the client itself: %v after %s, want its own timeout", err, time.Since(start))
	}

	// The client's read timeout holds for requests of the Conn too.
	start = time.Now()
	_, err := conn.Eval(t.Context(), `return 1`, nil, nil)
	if took := time.Since(start); err == nil || took < 250*time.Millisecond || took > 3*time.Second {
		t.Errorf("Eval without a deadline: %v after %s, want the client's timeout", err, took)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Eval without a deadline: %v", err)
	}
	server.Resume()
}

// go-redis answers its own users after requests of a Conn with short deadlines have
// used, and left, the same pool.
func TestSharedPool(t *testing.T) {
	t.Parallel()
	rdb := connect(t, &redis.Options{Addr: redistest.Start(t).Addr(), PoolSize: 2})
	conn := New(rdb)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 200 {
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
				_, _ = conn.Eval(ctx, `return 1`, nil, nil)
				cancel()
			}
		})
		wg.Go(func() {
			for range 200 {
				if err := rdb.Ping(t.Context()).Err(); err != nil {
					t.Errorf("PING: %v", err)
				}
			}
		})
	}
	wg.Wait()
}

func TestListenSilentHole(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for name, protocol := range map[string]int{"RESP2": 2, "RESP3": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy := redistest.NewProxy(t, server.Addr())
			conn := New(connect(t, &redis.Options{Addr: proxy.Addr(), Protocol: protocol}))
			conn.ping = 100 * time.Millisecond
			var once sync.Once
			start := time.Now()
			err := conn.Listen(t.Context(), name, func() {
				// Answered pings keep it alive for longer than the limit.
				time.AfterFunc(500*time.Millisecond, func() { once.Do(proxy.SwallowReplies) })
			}, func(string) {})
			if took := time.Since(start); err == nil || took < 600*time.Millisecond || took > 5*time.Second {
				t.Errorf("Listen ended with %v after %s", err, took)
			}
		})
	}
}

// A message that takes longer than the silence that ends a subscription.
func TestListenSlowMessage(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	conn := New(connect(t, &redis.Options{Addr: server.Addr()}))
	conn.ping = 20 * time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var got []string
	err := conn.Listen(ctx, "news", func() {
		server.Do(t, "PUBLISH", "news", "one")
		server.Do(t, "PUBLISH", "news", "two")
	}, func(m string) {
		got = append(got, m)
		time.Sleep(100 * time.Millisecond)
		if len(got) == 2 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) || !slices.Equal(got, []string{"one", "two"}) {
		t.Errorf("got %v, %v", got, err)
	}
}

// What a script can send only after redis.setresp(3) comes as RESP2 has it.
func TestRESP3Replies(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for _, protocol := range []int{2, 3} {
		conn := New(connect(t, &redis.Options{Addr: server.Addr(), Protocol: protocol}))
		for script, want := range map[string]any{
			`redis.setresp(3); return true`:                         int64(1),
			`redis.setresp(3); return {double = 0.5}`:               "0.5",
			`redis.setresp(3); return {map = {field = 'value'}}`:    []any{"field", "value"},
			`redis.setresp(3); return {set = {member = true}}`:      []any{"member"},
			`redis.setresp(3); return {big_number = '12345678901'}`: "12345678901",
		} {
			got, err := conn.Eval(t.Context(), script, nil, nil)
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("RESP%d: %s: got %#v, %v; want %#v", protocol, script, got, err, want)
			}
		}
	}
}

// go-redis bounds a dial by a context of its own, whose end is not the caller's.
func TestDialTimeoutIsNotTheContext(t *testing.T) {
	t.Parallel()
	conn := New(connect(t, &redis.Options{
		Dialer:        func(ctx context.Context, _, _ string) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() },
		DialTimeout:   20 * time.Millisecond,
		DialerRetries: 1,
	}))
	if _, err := conn.Eval(t.Context(), `return 1`, nil, nil); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Eval: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := conn.Eval(ctx, `return 1`, nil, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Eval with a deadline: %v", err)
	}
}

// A cluster of one node: its client works, and a deadline ends its calls.
func TestCluster(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Args("--cluster-enabled", "yes"))
	server.Do(t, "CLUSTER", "ADDSLOTSRANGE", "0", "16383")
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{server.Addr()}})
	t.Cleanup(func() { _ = rdb.Close() })
	conn := New(rdb)
	redistest.Until(t, "the cluster is up", func() bool {
		_, err := conn.Eval(t.Context(), `return redis.call('SET', KEYS[1], ARGV[1])`, []string{"key"}, []string{"1"})
		return err == nil
	})
	var keys []string
	for key, err := range conn.Scan(t.Context(), "*") {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key)
	}
	if !slices.Equal(keys, []string{"key"}) {
		t.Errorf("Scan found %v", keys)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if err := conn.Listen(ctx, "news", cancel, func(string) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("Listen: %v", err)
	}
	server.Pause()
	defer server.Resume()
	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := conn.Eval(ctx, `return 1`, []string{"key"}, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Eval on a paused server: %v", err)
	}
}
