package lockkeeper_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/internal/redistest"
)

// The holes that depend on what Redis does.

// listed waits until a lock's line has n places on a real server.
func (r *real) listed(t *testing.T, n int64) {
	t.Helper()
	redistest.Until(t, fmt.Sprint(n, " are in the line, and listen"), func() bool {
		if r.Do(t, "ZCARD", lineKey) != n {
			return false
		}
		for _, place := range r.Do(t, "HVALS", seatsKey).([]any) {
			if strings.Contains(place.(string), ":0:") { // it does not listen yet
				return false
			}
		}
		return r.Do(t, "HLEN", seatsKey) == n
	})
}

// process is a client with a connection of its own.
func (r *real) process(t *testing.T, cfg lockkeeper.Config) *lockkeeper.Lock {
	t.Helper()
	return newClient(t, connTo(t, r.Addr()), cfg).Mutex("orders")
}

// H17: memory is full: a release hands over still.
func TestHoleOutOfMemory(t *testing.T) {
	t.Parallel()
	s := startReal(t)
	lease := mustTry(t, s.process(t, lockkeeper.Config{}))
	first := waits(t.Context(), s.process(t, lockkeeper.Config{}))
	s.listed(t, 1)
	second := waits(t.Context(), s.process(t, lockkeeper.Config{}))
	s.listed(t, 2)
	s.Do(t, "CONFIG", "SET", "maxmemory-policy", "noeviction")
	s.Do(t, "CONFIG", "SET", "maxmemory", "1mb")
	start := time.Now()
	mustRelease(t, lease)
	o := soon(t, "the first", first)
	o.wantWithin(t, start, time.Second)
	start = time.Now()
	mustRelease(t, o.lease)
	last := soon(t, "the second", second)
	last.wantWithin(t, start, time.Second)
	if last.lease.Fence() <= o.lease.Fence() || o.lease.Fence() <= lease.Fence() {
		t.Error("fences do not grow")
	}
	mustRelease(t, last.lease)
	s.Do(t, "CONFIG", "SET", "maxmemory", "0")
	if s.exists(t, ordersKey) || s.exists(t, lineKey) {
		t.Error("something is left")
	}
}

// H24: a replica refuses what could hand over, and changes nothing.
func TestHoleReplica(t *testing.T) {
	t.Parallel()
	s := startReal(t)
	lease := mustTry(t, s.process(t, lockkeeper.Config{TTL: time.Minute}))
	waits(t.Context(), s.process(t, lockkeeper.Config{TTL: time.Minute}))
	s.listed(t, 1)
	replica := startReal(t, redistest.Args("--repl-diskless-sync-delay", "0"))
	replica.Do(t, "REPLICAOF", "127.0.0.1", strconv.Itoa(s.Port()))
	redistest.Until(t, "the replica has the line", func() bool { return replica.exists(t, lineKey) })
	value := replica.Do(t, "GET", ordersKey).(string)
	mine := strings.Join(strings.SplitAfterN(value, ":", 3)[:2], "")
	for script, args := range map[string][]string{
		"acquire": {"lk1:x.1:", "10000", "x", "0", "4000:4000:0:1:" + wakeOfAll},
		"release": {mine, ""}, "renew": {mine, "1000"}, "break": {lease.Fence().String()},
	} {
		keys := ordersKeys
		if script == "renew" {
			keys = keys[:1]
		}
		_, err := replica.conn.Eval(t.Context(), sources()[script], keys, args)
		var reply *lockkeeper.ReplyError
		if !errors.As(err, &reply) || reply.Code != "READONLY" {
			t.Errorf("%s: %v", script, err)
		}
	}
	if now := replica.Do(t, "GET", ordersKey); now != value || replica.Do(t, "ZCARD", lineKey) != int64(1) {
		t.Errorf("the value is %v, was %q", now, value)
	}
}

// H2, H8: the key of a dead holder expires on a real server: the line has it at once, by
// its order, and Try does not barge.
func TestHoleRealExpiry(t *testing.T) {
	t.Parallel()
	s := startReal(t)
	s.Do(t, "SET", ordersKey, "lk1:dead.1:5:5:dead", "PX", "3000")
	expires := time.Now().Add(3 * time.Second)
	first := waits(t.Context(), s.process(t, lockkeeper.Config{}))
	s.listed(t, 1)
	second := waits(t.Context(), s.process(t, lockkeeper.Config{}))
	s.listed(t, 2)
	barger := s.process(t, lockkeeper.Config{})
	for len(first) == 0 {
		if lease, err := barger.Try(t.Context()); err == nil {
			t.Fatalf("Try had the lock with fence %s", lease.Fence())
		}
	}
	o := soon(t, "the first", first)
	o.wantWithin(t, expires, 200*ms)
	if o.at.Before(expires.Add(-50 * ms)) {
		t.Error("too soon")
	}
	start := time.Now()
	mustRelease(t, o.lease)
	last := soon(t, "the second", second)
	last.wantWithin(t, start, 200*ms)
	mustRelease(t, last.lease)
}

// H3: subscriptions are killed by the server, again and again: hand-offs go on.
func TestHoleKilledSubscriptions(t *testing.T) {
	t.Parallel()
	s := startReal(t)
	lease := mustTry(t, s.process(t, lockkeeper.Config{}))
	for i := range 5 {
		next := waits(t.Context(), s.process(t, lockkeeper.Config{}))
		s.listed(t, 1)
		if i%2 == 0 {
			s.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
		}
		start := time.Now()
		mustRelease(t, lease)
		if i%2 == 1 {
			s.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
		}
		o := soon(t, "the next", next)
		o.wantWithin(t, start, poll+200*ms)
		if o.lease.Fence() <= lease.Fence() {
			t.Error("the fence does not grow")
		}
		lease = o.lease
	}
	mustRelease(t, lease)
}

// A split connection subscribes by another way than that of its requests.
type split struct {
	*redistest.Conn
	listen *redistest.Conn
}

func (s *split) Listen(ctx context.Context, channel string, ready func(), message func(string)) error {
	return s.listen.Listen(ctx, channel, ready, message)
}

// H3: a half-open subscription: the server sends, and nobody hears. The poll finds the
// hand-off, before it is over.
func TestHoleHalfOpenSubscription(t *testing.T) {
	t.Parallel()
	s := startReal(t)
	proxy := redistest.NewProxy(t, s.Addr())
	conn := &split{connTo(t, s.Addr()), connTo(t, proxy.Addr())}
	lease := mustTry(t, s.process(t, lockkeeper.Config{}))
	next := waits(t.Context(), newClient(t, conn, lockkeeper.Config{}).Mutex("orders"))
	s.listed(t, 1)
	proxy.Swallow()
	start := time.Now()
	mustRelease(t, lease)
	o := soon(t, "the next", next)
	o.wantWithin(t, start, poll+200*ms)
	mustRelease(t, o.lease)
	proxy.Heal()
}

// Without the right to publish, nobody is told and everybody is served.
func TestHoleNoRightToPublish(t *testing.T) {
	t.Parallel()
	s := startReal(t)
	lock := func() *lockkeeper.Lock {
		return newClient(t, s.user(t, "+@all", "-publish"), lockkeeper.Config{}).Mutex("orders")
	}
	lease := mustTry(t, lock())
	for range 3 {
		next := waits(t.Context(), lock())
		s.listed(t, 1)
		start := time.Now()
		mustRelease(t, lease)
		if !s.exists(t, ordersKey) {
			t.Error("who waits was passed over")
		}
		o := soon(t, "the next", next)
		o.wantWithin(t, start, poll+200*ms)
		lease = o.lease
	}
	mustRelease(t, lease)
}

// cluster starts two servers that know each other; the first has all slots.
func cluster(t *testing.T) (a, b *real) {
	t.Helper()
	opts := redistest.Args("--cluster-enabled", "yes", "--cluster-require-full-coverage", "no")
	a, b = startReal(t, opts), startReal(t, opts)
	a.Do(t, "CLUSTER", "ADDSLOTSRANGE", "0", "16383")
	b.Do(t, "CLUSTER", "SET-CONFIG-EPOCH", "9")
	b.Do(t, "CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(a.Port()))
	for _, s := range []*real{a, b} {
		redistest.Until(t, "the cluster is up", func() bool {
			info := s.Do(t, "CLUSTER", "INFO").(string)
			nodes := s.Do(t, "CLUSTER", "NODES").(string)
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_known_nodes:2") &&
				!strings.Contains(nodes, "handshake")
		})
	}
	return a, b
}

// H18: the slot is being moved, with all keys here and with some: a release hands over,
// or does nothing, or leaves a free lock with its fence counter where nobody waits.
func TestHoleSlotMigration(t *testing.T) {
	t.Parallel()
	a, b := cluster(t)
	const fence = "1700000000000000"
	slot := fmt.Sprint(a.Do(t, "CLUSTER", "KEYSLOT", ordersKey))
	ids := [2]string{a.Do(t, "CLUSTER", "MYID").(string), b.Do(t, "CLUSTER", "MYID").(string)}
	far := time.Now().Add(time.Hour).UnixMicro()
	for _, alive := range []bool{true, false} {
		for moved := range 16 {
			a.Do(t, "SET", ordersKey, "lk1:h.1:"+fence+":"+fence+":holder", "PX", "100000")
			a.Do(t, "SET", countKey, fence)
			a.Do(t, "ZADD", lineKey, "1", "w.1")
			deadline := far
			if !alive {
				deadline = 1
			}
			a.Do(t, "HSET", seatsKey, "w.1", fmt.Sprintf("%d:4000:0:waiter", deadline))
			a.Do(t, "CLUSTER", "SETSLOT", slot, "MIGRATING", ids[1])
			b.Do(t, "CLUSTER", "SETSLOT", slot, "IMPORTING", ids[0])
			for i, key := range ordersKeys {
				if moved&(1<<i) != 0 {
					a.Do(t, "MIGRATE", "127.0.0.1", strconv.Itoa(b.Port()), key, "0", "5000")
				}
			}
			what := fmt.Sprintf("the waiter lives: %t, moved %04b", alive, moved)
			released, err := a.conn.Eval(t.Context(), sources()["release"], ordersKeys, []string{"lk1:h.1:", ""})
			if err != nil && moved == 15 { // ASK: the other has them
				if _, err := b.conn.Do(t.Context(), "ASKING"); err != nil {
					t.Fatal(err)
				}
				released, err = b.conn.Eval(t.Context(), sources()["release"], ordersKeys, []string{"lk1:h.1:", ""})
			}
			read := func(get ...string) string {
				for _, s := range []*real{a, b} {
					if s == b {
						_, _ = s.conn.Do(t.Context(), "ASKING")
					}
					if v, err := s.conn.Do(t.Context(), get...); err == nil && v != nil {
						return fmt.Sprint(v)
					}
				}
				return ""
			}
			value, counter := read("GET", ordersKey), read("GET", countKey)
			all := moved == 0 || moved == 15
			switch {
			case counter < fence:
				t.Errorf("%s: the fence counter is %q", what, counter)
			case (err == nil) != all:
				t.Errorf("%s: %v, %v", what, released, err)
			case err != nil && !strings.HasPrefix(value, "lk1:h.1:"):
				t.Errorf("%s: it failed with %v, and the value is %q", what, err, value)
			case err != nil && !strings.Contains(err.Error(), "TRYAGAIN") && !strings.Contains(err.Error(), "ASK"):
				t.Errorf("%s: %v", what, err)
			case err == nil && alive && !strings.HasPrefix(value, "lk1:w.1:"):
				t.Errorf("%s: handed to %q", what, value)
			case err == nil && !alive && value != "":
				t.Errorf("%s: nobody lives, and the value is %q", what, value)
			}
			if err != nil { // the holder's key lives on while one key is asked for
				at := a
				if moved&1 != 0 {
					at = b
					_, _ = b.conn.Do(t.Context(), "ASKING")
				}
				reply, err := at.conn.Eval(t.Context(), sources()["renew"], ordersKeys[:1], []string{"lk1:h.1:", "200000"})
				if err != nil || fmt.Sprint(reply) != "[1]" {
					t.Errorf("%s: renewal: %v, %v", what, reply, err)
				}
			}
			for _, key := range ordersKeys {
				_, _ = b.conn.Do(t.Context(), "ASKING")
				_, _ = b.conn.Do(t.Context(), "DEL", key)
				_, _ = a.conn.Do(t.Context(), "DEL", key)
			}
			a.Do(t, "CLUSTER", "SETSLOT", slot, "STABLE")
			b.Do(t, "CLUSTER", "SETSLOT", slot, "STABLE")
		}
	}
}
