package schedule

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/lockkeepertest"
)

// The scripts of the lua folder as Go functions on a small Redis in memory, one each. They
// follow the Lua line by line where that is possible. TestModels runs both beside each other.

// A fakeRedis is the data of a server, but for locks. It is not safe for concurrent use.
type fakeRedis struct {
	hashes  map[string]map[string]string
	lists   map[string][]string
	ttl     map[string]time.Time // when a key goes
	now     int64                // TIME, in us
	lock    func(key string) (string, bool)
	publish func(channel, payload string)
}

func newFakeRedis() *fakeRedis {
	return &fakeRedis{
		hashes:  make(map[string]map[string]string),
		lists:   make(map[string][]string),
		ttl:     make(map[string]time.Time),
		lock:    func(string) (string, bool) { return "", false },
		publish: func(string, string) {},
	}
}

// expire takes away what has expired.
func (r *fakeRedis) expire() {
	for key, at := range r.ttl {
		if r.now >= at.UnixMicro() {
			delete(r.hashes, key)
			delete(r.lists, key)
			delete(r.ttl, key)
		}
	}
}

func (r *fakeRedis) pexpire(key, ms string) {
	if r.hashes[key] != nil || r.lists[key] != nil {
		r.ttl[key] = time.UnixMicro(r.now + number(ms)*1000)
	}
}

func (r *fakeRedis) hset(key, field, value string) {
	if r.hashes[key] == nil {
		r.hashes[key] = make(map[string]string)
	}
	r.hashes[key][field] = value
}

func (r *fakeRedis) hdel(key, field string) bool {
	_, was := r.hashes[key][field]
	delete(r.hashes[key], field)
	if len(r.hashes[key]) == 0 {
		delete(r.hashes, key)
		delete(r.ttl, key)
	}
	return was
}

func (r *fakeRedis) pairs(key string) []any {
	list := []any{}
	for _, field := range slices.Sorted(maps.Keys(r.hashes[key])) {
		list = append(list, field, r.hashes[key][field])
	}
	return list
}

func (r *fakeRedis) push(key, entry, keep, life string) {
	list := slices.Insert(r.lists[key], 0, entry)
	r.lists[key] = list[:min(len(list), int(number(keep)))]
	r.pexpire(key, life)
}

func (r *fakeRedis) us() string { return strconv.FormatInt(r.now, 10) }
func (r *fakeRedis) ms() string { return strconv.FormatInt(r.now/1000, 10) }

var models = map[string]func(r *fakeRedis, keys, args []string) any{
	"join":    joinModel,
	"claim":   claimModel,
	"finish":  finishModel,
	"control": controlModel,
	"look":    lookModel,
	"member":  memberModel,
}

func joinModel(r *fakeRedis, keys, args []string) any {
	last, has := r.hashes[keys[0]]["last"]
	if !has || args[1] == "1" && r.hashes[keys[0]]["when"] != args[0] {
		r.hset(keys[0], "when", args[0])
		if !has || number(last) < r.now/1000 {
			r.hset(keys[0], "last", r.ms())
		}
	}
	r.pexpire(keys[0], args[2])
	r.pexpire(keys[1], args[2])
	return []any{r.us(), r.pairs(keys[0])}
}

var (
	lockValue = regexp.MustCompile(`^lk1:([^:]+):`)
	runValue  = regexp.MustCompile(`^(\d+ [a-z]+ \d+ \d+) (.*)$`)
)

func claimModel(r *fakeRedis, keys, args []string) any {
	value, _ := r.lock(keys[0])
	held := lockValue.FindStringSubmatch(value)
	if held == nil || held[1] != args[0] && !strings.HasPrefix(args[0], held[1]+".") {
		return []any{"lost"}
	}
	h := r.hashes[keys[1]]
	run := h["run"]
	id := args[1] + " " + args[2] + " " + args[3] + " "
	if rest, same := strings.CutPrefix(run, id); same {
		started, _, _ := strings.Cut(rest, " ")
		return []any{"run", started}
	}
	isTick := args[2] == "tick"
	if isTick {
		if _, paused := h["pause"]; paused {
			return []any{"paused"}
		}
		if number(h["last"]) >= number(args[3]) {
			return []any{"done"}
		}
	} else if !strings.HasPrefix(h["trigger"], args[3]+" ") {
		return []any{"done"}
	}
	ms, early := r.now/1000, int64(0)
	if isTick {
		early = number(args[3]) - number(args[6]) - ms
	}
	if started := number(h["started"]); started <= ms {
		early = max(early, started+number(args[5])-ms)
	}
	if early > 0 {
		return []any{"early", strconv.FormatInt(early, 10)}
	}
	if m := runValue.FindStringSubmatch(run); m != nil {
		r.push(keys[2], m[1]+" "+r.us()+" lost "+m[2], args[8], args[9])
		r.hdel(keys[1], "run")
		if isTick && args[4] == "leader" {
			lost := number(h["lost"]) + 1
			r.hset(keys[1], "lost", strconv.FormatInt(lost, 10))
			if lost >= number(args[10]) {
				r.hdel(keys[1], "lost")
				r.hset(keys[1], "last", args[3])
				return []any{"done"}
			}
		}
	}
	r.hset(keys[1], "run", id+r.us()+" "+args[7])
	r.hset(keys[1], "started", r.ms())
	if !isTick {
		r.hdel(keys[1], "trigger")
	} else if args[4] == "guarded" {
		r.hset(keys[1], "last", args[3])
	}
	r.pexpire(keys[1], args[9])
	return []any{"run", r.us()}
}

func finishModel(r *fakeRedis, keys, args []string) any {
	h := r.hashes[keys[0]]
	id := args[0] + " " + args[1] + " " + args[2] + " "
	if !strings.HasPrefix(h["run"], id) {
		if h["ended"] == id {
			return int64(1)
		}
		return int64(0)
	}
	m := runValue.FindStringSubmatch(h["run"])
	entry := m[1] + " " + r.us() + " " + args[3] + " " + m[2]
	if args[4] != "" {
		entry += "\n" + args[4]
	}
	r.push(keys[1], entry, args[6], args[7])
	if args[1] == "tick" && args[5] == "1" && number(h["last"]) < number(args[2]) {
		r.hset(keys[0], "last", args[2])
	}
	r.hset(keys[0], "ended", id)
	r.hdel(keys[0], "run")
	r.hdel(keys[0], "lost")
	r.pexpire(keys[0], args[7])
	return int64(1)
}

func controlModel(r *fakeRedis, keys, args []string) any {
	switch args[0] {
	case "pause":
		r.hset(keys[0], "pause", args[1])
	case "trigger":
		r.hset(keys[0], "trigger", r.us()+" "+args[1])
	default:
		if r.hdel(keys[0], "pause") && number(r.hashes[keys[0]]["last"]) < r.now/1000 {
			r.hset(keys[0], "last", r.ms())
		}
	}
	r.pexpire(keys[0], args[4])
	r.publish(args[2], args[3])
	return r.us()
}

func lookModel(r *fakeRedis, keys, args []string) any {
	var lock any
	if value, held := r.lock(keys[0]); held {
		lock = value
	}
	runs := []any{}
	for _, run := range r.lists[keys[2]][:min(len(r.lists[keys[2]]), int(number(args[0])))] {
		runs = append(runs, run)
	}
	return []any{r.us(), lock, r.pairs(keys[1]), runs}
}

func memberModel(r *fakeRedis, keys, args []string) any {
	switch {
	case args[0] == "":
	case args[1] == "":
		r.hdel(keys[0], args[0])
	default:
		r.hset(keys[0], args[0], r.us()+" "+args[1])
	}
	for id, text := range r.hashes[keys[0]] {
		us, _, _ := strings.Cut(text, " ")
		if r.now-number(us) > number(args[2])*1000 {
			r.hdel(keys[0], id)
		}
	}
	r.pexpire(keys[0], args[2])
	return []any{r.us(), r.pairs(keys[0])}
}

// A fakeServer is a server with both: lockkeepertest's has the locks. It works in a bubble.
type fakeServer struct {
	locks *lockkeepertest.Memory

	mu     sync.Mutex
	redis  *fakeRedis
	loaded map[string]string // name by SHA-1
}

func newFakeServer() *fakeServer {
	s := &fakeServer{locks: lockkeepertest.NewMemory(), redis: newFakeRedis(), loaded: make(map[string]string)}
	s.redis.lock, s.redis.publish = s.locks.Get, s.locks.Publish
	return s
}

func nameOf(src string) string {
	for name := range models {
		if strings.HasSuffix(src, scriptText(name)) {
			return name
		}
	}
	return ""
}

func (s *fakeServer) call(name string, keys, args []string) any {
	s.redis.now = time.Now().UnixMicro()
	s.redis.expire()
	return models[name](s.redis, keys, args)
}

func (s *fakeServer) eval(ctx context.Context, src string, keys, args []string) (any, error) {
	name := nameOf(src)
	if name == "" {
		return s.locks.Eval(ctx, src, keys, args)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := sha1.Sum([]byte(src))
	s.loaded[hex.EncodeToString(sum[:])] = name
	return s.call(name, keys, args), nil
}

func (s *fakeServer) evalSha(ctx context.Context, sha string, keys, args []string) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if name := s.loaded[sha]; name != "" {
		return s.call(name, keys, args), nil
	}
	return s.locks.EvalSha(ctx, sha, keys, args)
}

// A fakeConn is the connection of one process. before stands before each request and after behind
// it; an error of the one is a lost request, of the other a lost reply.
type fakeConn struct {
	server        *fakeServer
	before, after func(ctx context.Context, name string) error
	listening     func(ctx context.Context) (context.Context, context.CancelFunc) // ends with the connection
}

func (*fakeConn) InProcess() bool { return true }

func (c *fakeConn) run(ctx context.Context, name string, f func() (any, error)) (any, error) {
	if c.before != nil {
		if err := c.before(ctx, name); err != nil {
			return nil, err
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	reply, err := f()
	if c.after != nil {
		if err := c.after(ctx, name); err != nil {
			return nil, err
		}
	}
	return reply, err
}

func (c *fakeConn) Eval(ctx context.Context, src string, keys, args []string) (any, error) {
	return c.run(ctx, nameOf(src), func() (any, error) { return c.server.eval(ctx, src, keys, args) })
}

func (c *fakeConn) EvalSha(ctx context.Context, sha string, keys, args []string) (any, error) {
	c.server.mu.Lock()
	name := c.server.loaded[sha]
	c.server.mu.Unlock()
	return c.run(ctx, name, func() (any, error) { return c.server.evalSha(ctx, sha, keys, args) })
}

func (c *fakeConn) Listen(ctx context.Context, channel string, ready func(), message func(string)) error {
	if c.listening == nil {
		return c.server.locks.Listen(ctx, channel, ready, message)
	}
	inner, cancel := c.listening(ctx)
	defer cancel()
	err := c.server.locks.Listen(inner, channel, ready, message)
	if ctx.Err() == nil {
		err = errors.New("the connection is gone")
	}
	return err
}

var _ lockkeeper.Conn = (*fakeConn)(nil)

// checkTTLs sees to it that no key stays for ever.
func (s *fakeServer) checkTTLs(t testing.TB) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.redis.hashes {
		if s.redis.ttl[key].IsZero() {
			t.Errorf("the key %s has no TTL", key)
		}
	}
	for key := range s.redis.lists {
		if s.redis.ttl[key].IsZero() {
			t.Errorf("the key %s has no TTL", key)
		}
	}
}

const testSchedule = "nightly"
