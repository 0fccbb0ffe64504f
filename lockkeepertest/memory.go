package lockkeepertest

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"iter"
	"maps"
	"path"
	"regexp"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper"
)

// A Call is one request as the hook sees it.
type Call struct {
	Script string // acquire, release, renew, raise, break or state; "" when the server does not know it yet
	Keys   []string
	Args   []string
}

// A Hook stands between the client and the server. It may call run, which runs the
// request on the server, at any time or not at all, and returns what the client
// gets: returning an error after run is a lost reply, returning one without run a
// lost request. It must return when ctx ends.
type Hook func(ctx context.Context, call Call, run func() (any, error)) (any, error)

// A Memory is a server and the connection to it. All methods are safe for
// concurrent use.
type Memory struct {
	mu       sync.Mutex
	hook     Hook
	keys     map[string]*entry
	scripts  map[string]string // name by SHA-1
	subs     map[*subscription]struct{}
	requests int
	skew     time.Duration
}

var (
	_ lockkeeper.Conn    = (*Memory)(nil)
	_ lockkeeper.Scanner = (*Memory)(nil)
)

// NewMemory returns an empty server.
func NewMemory() *Memory {
	return &Memory{
		keys:    make(map[string]*entry),
		scripts: make(map[string]string),
		subs:    make(map[*subscription]struct{}),
	}
}

// InProcess tells the client that this server is suspended whenever it is.
func (m *Memory) InProcess() bool { return true }

// SetHook installs a hook; nil removes it.
func (m *Memory) SetHook(h Hook) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hook = h
}

// Requests returns how many requests have been sent, those included that a hook has
// lost.
func (m *Memory) Requests() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.requests
}

// StepClock moves the server's clock, forward or back. Keys keep the instant at
// which they expire, as on Redis: a step forward frees locks early.
func (m *Memory) StepClock(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.skew += d
}

// Flush deletes everything, and forgets the scripts, as a server does that
// restarts without persistence.
func (m *Memory) Flush() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.keys)
	clear(m.scripts)
}

// Set writes a string key as a plain client does. A ttl of 0 is none.
func (m *Memory) Set(key, value string, ttl time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.set(key, value, ttl)
}

// SetNX is Set for a key that is not there, and reports whether it has written.
func (m *Memory) SetNX(key, value string, ttl time.Duration) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.get(key) != nil {
		return false
	}
	m.set(key, value, ttl)
	return true
}

// Get reads a string key.
func (m *Memory) Get(key string) (value string, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.get(key)
	if e == nil {
		return "", false
	}
	return e.value, true
}

// Line returns the owners that wait in a line, in their order.
func (m *Memory) Line(key string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.members(key)
}

// Places returns what is kept of the owners in a line, by its places key.
func (m *Memory) Places(key string) map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.get(key); e != nil {
		return maps.Clone(e.fields)
	}
	return nil
}

// TTL returns how long a key lives; negative when it has no TTL or is not there.
func (m *Memory) TTL(key string) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.get(key)
	if e == nil || e.expires.IsZero() {
		return -1
	}
	return e.expires.Sub(m.now())
}

// Del deletes a key.
func (m *Memory) Del(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.keys, key)
}

// Keys returns all keys, sorted.
func (m *Memory) Keys() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var keys []string
	for key := range m.keys {
		if m.get(key) != nil {
			keys = append(keys, key)
		}
	}
	sort.Strings(keys)
	return keys
}

var scriptName = regexp.MustCompile(`(?m)^-- ([a-z-]+): `)

// Eval runs a script of Lockkeeper's, or one of the suite's probes.
func (m *Memory) Eval(ctx context.Context, src string, keys, args []string) (any, error) {
	name := src
	if match := scriptName.FindStringSubmatch(src); match != nil {
		name = match[1]
	}
	if modelOf(name) == nil {
		return nil, lockkeeper.NewReplyError("ERR lockkeepertest knows only the scripts of Lockkeeper")
	}
	sum := sha1.Sum([]byte(src))
	return m.send(ctx, Call{name, keys, args}, func() (any, error) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.scripts[hex.EncodeToString(sum[:])] = name
		return modelOf(name)(m, keys, args)
	})
}

// EvalSha runs a script that Eval has seen.
func (m *Memory) EvalSha(ctx context.Context, sha string, keys, args []string) (any, error) {
	m.mu.Lock()
	name := m.scripts[sha]
	m.mu.Unlock()
	return m.send(ctx, Call{name, keys, args}, func() (any, error) {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.scripts[sha] == "" {
			return nil, lockkeeper.NewReplyError("NOSCRIPT No matching script. Please use EVAL.")
		}
		return modelOf(m.scripts[sha])(m, keys, args)
	})
}

func (m *Memory) send(ctx context.Context, call Call, run func() (any, error)) (any, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	m.requests++
	hook := m.hook
	m.mu.Unlock()
	if hook == nil {
		return run()
	}
	return hook(ctx, call, run)
}

// A subscription is one Listen. Messages wait in it without bound, as they do
// in a socket for as long as the server allows.
type subscription struct {
	channel string
	queue   []string
	more    chan struct{}
	broken  chan struct{}
}

var errBroken = errors.New("lockkeepertest: the connection broke")

// Listen subscribes to a channel.
func (m *Memory) Listen(ctx context.Context, channel string, ready func(), message func(string)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s := &subscription{channel: channel, more: make(chan struct{}, 1), broken: make(chan struct{})}
	m.mu.Lock()
	m.subs[s] = struct{}{}
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		delete(m.subs, s)
		m.mu.Unlock()
	}()
	ready()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.broken:
			return errBroken
		case <-s.more:
		}
		m.mu.Lock()
		queue := s.queue
		s.queue = nil
		m.mu.Unlock()
		for _, payload := range queue {
			message(payload)
		}
	}
}

// BreakSubscriptions ends every Listen with an error; messages that were not
// delivered are lost.
func (m *Memory) BreakSubscriptions() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for s := range m.subs {
		close(s.broken)
		delete(m.subs, s)
	}
}

// Publish sends a message as a plain client does.
func (m *Memory) Publish(channel, payload string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.publish(channel, payload)
}

func (m *Memory) publish(channel, payload string) {
	for s := range m.subs {
		if s.channel != channel {
			continue
		}
		s.queue = append(s.queue, payload)
		select {
		case s.more <- struct{}{}:
		default:
		}
	}
}

// Scan yields the keys that match a glob pattern.
func (m *Memory) Scan(ctx context.Context, match string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for _, key := range m.Keys() {
			if err := ctx.Err(); err != nil {
				yield("", err)
				return
			}
			// Redis lets * match a slash, path.Match does not.
			unslashed := strings.ReplaceAll(key, "/", "\x00")
			ok, err := path.Match(strings.ReplaceAll(match, "/", "\x00"), unslashed)
			if err != nil {
				yield("", err)
				return
			}
			if ok && !yield(key, nil) {
				return
			}
		}
	}
}
