package rueidisconn

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/internal/redistest"
)

func options(to redistest.Target) rueidis.ClientOption {
	return rueidis.ClientOption{
		InitAddress: []string{to.Addr},
		Username:    to.User,
		Password:    to.Password,
		SelectDB:    to.DB,
		TLSConfig:   to.TLS,
	}
}

func connect(t testing.TB, opts rueidis.ClientOption) rueidis.Client {
	t.Helper()
	client, err := rueidis.NewClient(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// Every way in which rueidis can send a request passes the same suite.
func TestSuite(t *testing.T) {
	for name, adjust := range map[string]func(*rueidis.ClientOption){
		"default":           func(*rueidis.ClientOption) {},
		"RESP2":             func(o *rueidis.ClientOption) { o.AlwaysRESP2, o.DisableCache = true, true },
		"always pipelining": func(o *rueidis.ClientOption) { o.AlwaysPipelining = true },
		"never pipelining":  func(o *rueidis.ClientOption) { o.DisableAutoPipelining = true },
		"single connection": func(o *rueidis.ClientOption) { o.PipelineMultiplex = -1 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if testing.Short() && name != "default" {
				t.Skip("the default is enough")
			}
			redistest.Suite(t, func(t *testing.T, to redistest.Target) lockkeeper.Conn {
				opts := options(to)
				adjust(&opts)
				return New(connect(t, opts))
			})
		})
	}
}

func TestListenSilentHole(t *testing.T) {
	t.Parallel()
	proxy := redistest.NewProxy(t, redistest.Start(t).Addr())
	conn := New(connect(t, options(redistest.Target{Addr: proxy.Addr()})))
	conn.ping = 100 * time.Millisecond
	var once sync.Once
	start := time.Now()
	err := conn.Listen(t.Context(), "news", func() {
		// Answered pings keep it alive for longer than the limit.
		time.AfterFunc(500*time.Millisecond, func() { once.Do(proxy.SwallowReplies) })
	}, func(string) {})
	if took := time.Since(start); err == nil || took < 500*time.Millisecond || took > 5*time.Second {
		t.Errorf("Listen ended with %v after %s", err, took)
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		t.Errorf("Listen ended with %v, which is not its context's", err)
	}
}

// A message that takes longer than a ping may.
func TestListenSlowMessage(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	conn := New(connect(t, options(redistest.Target{Addr: server.Addr()})))
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

// Many subscriptions must not use up what the client has for dedicated connections.
func TestListenGivesBack(t *testing.T) {
	t.Parallel()
	opts := options(redistest.Target{Addr: redistest.Start(t).Addr()})
	opts.BlockingPoolSize = 1
	conn := New(connect(t, opts))
	for range 5 {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		if err := conn.Listen(ctx, "news", cancel, func(string) {}); !errors.Is(err, context.Canceled) {
			t.Fatalf("Listen: %v", err)
		}
	}
}

// What the server says while rueidis connects has to come out as said, too.
func TestErrorWhileConnecting(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Args("--user", "worker", "on", ">pw", "~*", "&*", "+@all"))
	proxy := redistest.NewProxy(t, server.Addr())
	conn := New(connect(t, options(redistest.Target{Addr: proxy.Addr(), User: "worker", Password: "pw"})))
	server.Do(t, "ACL", "SETUSER", "worker", "resetpass", ">other")
	proxy.CutAll()
	var reply *lockkeeper.ReplyError
	redistest.Until(t, "the server refuses", func() bool {
		_, err := conn.Eval(t.Context(), `return 1`, nil, nil)
		return errors.As(err, &reply)
	})
	if reply.Code != "WRONGPASS" {
		t.Errorf("error %v, want WRONGPASS", reply)
	}
}

// What a script can send only after redis.setresp(3) comes as RESP2 has it.
func TestRESP3Replies(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for _, resp2 := range []bool{false, true} {
		opts := options(redistest.Target{Addr: server.Addr()})
		opts.AlwaysRESP2, opts.DisableCache = resp2, resp2
		conn := New(connect(t, opts))
		for script, want := range map[string]any{
			`redis.setresp(3); return true`:                                                      int64(1),
			`redis.setresp(3); return {double = 0.5}`:                                            "0.5",
			`redis.setresp(3); return {map = {field = 'value'}}`:                                 []any{"field", "value"},
			`redis.setresp(3); return {set = {member = true}}`:                                   []any{"member"},
			`redis.setresp(3); return {big_number = '12345678901'}`:                              "12345678901",
			`redis.setresp(3); return {verbatim_string = {format = 'txt', string = 'as it is'}}`: "as it is",
		} {
			got, err := conn.Eval(t.Context(), script, nil, nil)
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("RESP2 %t: %s: got %#v, %v; want %#v", resp2, script, got, err, want)
			}
		}
	}
}

// A cluster of one primary and one replica: its client works, and finds every key
// once.
func TestCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.Args("--cluster-enabled", "yes", "--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1")
	primary, replica := redistest.Start(t, cluster), redistest.Start(t, cluster)
	primary.Do(t, "CLUSTER", "ADDSLOTSRANGE", "0", "16383")
	id := primary.Do(t, "CLUSTER", "MYID").(string)
	replica.Do(t, "CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(primary.Port()))
	redistest.Until(t, "the cluster is up", func() bool {
		info := replica.Do(t, "CLUSTER", "INFO").(string)
		return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_known_nodes:2")
	})
	replica.Do(t, "CLUSTER", "REPLICATE", id)
	redistest.Until(t, "the replica is known", func() bool {
		slots := primary.Do(t, "CLUSTER", "SLOTS").([]any)
		return len(slots[0].([]any)) == 4 // from, to, primary, replica
	})
	conn := New(connect(t, options(redistest.Target{Addr: primary.Addr()})))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := conn.Eval(ctx, `return redis.call('SET', KEYS[1], ARGV[1])`, []string{"key"}, []string{"1"}); err != nil {
		t.Fatal(err)
	}
	if n := len(conn.client.Nodes()); n != 2 {
		t.Fatalf("the client knows %d nodes, want 2", n)
	}
	var keys []string
	for key, err := range conn.Scan(ctx, "*") {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key)
	}
	if !slices.Equal(keys, []string{"key"}) {
		t.Errorf("Scan found %v", keys)
	}
	listened, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := conn.Listen(listened, "news", cancel, func(string) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("Listen: %v", err)
	}
	primary.Pause()
	defer primary.Resume()
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if _, err := conn.Eval(short, `return 1`, []string{"key"}, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Eval on a paused server: %v", err)
	}
}
