package lockkeepertest

import (
	"regexp"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper"
)

// The scripts of the root package's lua folder, in Go, one function each. They
// follow the Lua line by line where that is possible; a test runs both beside each
// other on a real server.

// An entry is one key: a string, or a line's sorted set.
type entry struct {
	value   string
	scores  map[string]int64
	expires time.Time // zero: never
}

func (m *Memory) now() time.Time { return time.Now().Add(m.skew) }

func (m *Memory) micros() string { return strconv.FormatInt(m.now().UnixMicro(), 10) }

// get returns a key that has not expired.
func (m *Memory) get(key string) *entry {
	e := m.keys[key]
	if e != nil && !e.expires.IsZero() && !m.now().Before(e.expires) {
		delete(m.keys, key)
		return nil
	}
	return e
}

func (m *Memory) set(key, value string, ttl time.Duration) {
	e := &entry{value: value}
	if ttl > 0 {
		e.expires = m.now().Add(ttl)
	}
	m.keys[key] = e
}

// pttl is PTTL: milliseconds, rounded to the nearest as Redis does; -1 without a
// TTL, -2 without a key.
func (m *Memory) pttl(key string) int64 {
	switch e := m.get(key); {
	case e == nil:
		return -2
	case e.expires.IsZero():
		return -1
	default:
		return (e.expires.Sub(m.now()) + time.Millisecond/2).Milliseconds()
	}
}

// owned returns the key if its value begins with mine.
func (m *Memory) owned(key, mine string) *entry {
	if e := m.get(key); e != nil && strings.HasPrefix(e.value, mine) {
		return e
	}
	return nil
}

// wakeNext pops the first of a line that is heard, and tells it.
func (m *Memory) wakeNext(key, line string) bool {
	for range 16 {
		members := m.members(line)
		if len(members) == 0 {
			return false
		}
		m.leaveLine(line, members[0])
		if m.hears(members[0]) {
			m.publish(members[0], key)
			return true
		}
	}
	return false
}

// members returns who is in a line, in order.
func (m *Memory) members(line string) []string {
	e := m.get(line)
	if e == nil {
		return nil
	}
	var members []string
	for member := range e.scores {
		members = append(members, member)
	}
	sort.Slice(members, func(i, j int) bool {
		a, b := members[i], members[j]
		if e.scores[a] != e.scores[b] {
			return e.scores[a] < e.scores[b]
		}
		return a < b
	})
	return members
}

// hears reports whether somebody is subscribed to a channel.
func (m *Memory) hears(channel string) bool {
	for s := range m.subs {
		if s.channel == channel {
			return true
		}
	}
	return false
}

// wrongType is what the server answers when a line's key is something else.
func (m *Memory) wrongType(line string) error {
	if e := m.get(line); e != nil && e.scores == nil {
		return lockkeeper.NewReplyError("WRONGTYPE Operation against a key holding the wrong kind of value")
	}
	return nil
}

func (m *Memory) leaveLine(line, member string) {
	e := m.get(line)
	if e == nil || e.scores == nil {
		return
	}
	delete(e.scores, member)
	if len(e.scores) == 0 {
		delete(m.keys, line)
	}
}

type model func(m *Memory, keys, args []string) (any, error)

// modelOf returns a script by its name, or a probe by its source; nil if there is
// none.
func modelOf(name string) model {
	switch name {
	case "acquire":
		return acquireModel
	case "release":
		return releaseModel
	case "renew":
		return renewModel
	case "raise":
		return raiseModel
	case "break":
		return breakModel
	case "leave":
		return leaveModel
	case "state":
		return stateModel
	}
	for _, p := range probes {
		if p.src == name {
			return p.model
		}
	}
	return nil
}

const week = 7 * 24 * time.Hour

func millis(s string) time.Duration {
	n, _ := strconv.ParseInt(s, 10, 64)
	return time.Duration(n) * time.Millisecond
}

func acquireModel(m *Memory, keys, args []string) (any, error) {
	mine, ttl, label, notAfter, channel := args[0], millis(args[1]), args[2], args[3], args[4]
	us := m.micros()
	now, _ := strconv.ParseInt(us, 10, 64)
	if bound, _ := strconv.ParseInt(notAfter, 10, 64); bound != 0 && now > bound {
		return []any{"late", us}, nil
	}
	if m.get(keys[0]) == nil {
		return m.grant(keys, mine, now, label, ttl, channel)
	}
	if e := m.owned(keys[0], mine); e != nil {
		if m.pttl(keys[0]) < ttl.Milliseconds() {
			e.expires = m.now().Add(ttl)
		}
		return []any{strings.Split(e.value, ":")[2], us}, nil
	}
	if channel != "" {
		if err := m.joinLine(keys[2], channel, now); err != nil {
			return nil, err
		}
	}
	return []any{"held", m.keys[keys[0]].value, m.pttl(keys[0]), us}, nil
}

func (m *Memory) joinLine(key, channel string, now int64) error {
	if err := m.wrongType(key); err != nil {
		return err
	}
	line := m.get(key)
	if line == nil {
		line = &entry{scores: make(map[string]int64)}
		m.keys[key] = line
	}
	if _, there := line.scores[channel]; !there {
		line.scores[channel] = now
	}
	line.expires = m.now().Add(time.Minute)
	return nil
}

func (m *Memory) grant(keys []string, mine string, now int64, label string, ttl time.Duration, channel string) (any, error) {
	us := strconv.FormatInt(now, 10)
	m.set(keys[0], mine+us+":"+us+":"+label, ttl)
	if channel != "" {
		if err := m.wrongType(keys[2]); err != nil {
			return nil, err // as on Redis: what was written stays
		}
		m.leaveLine(keys[2], channel)
	}
	last := m.counter(keys[1])
	if last < now {
		m.set(keys[1], us, week)
		return us, nil
	}
	fence := strconv.FormatInt(last+1, 10)
	m.set(keys[0], mine+fence+":"+us+":"+label, ttl)
	m.set(keys[1], fence, week)
	return []any{fence, us}, nil
}

// counter returns a fence counter; 0 if there is none that the scripts have written.
func (m *Memory) counter(key string) int64 {
	e := m.get(key)
	if e == nil {
		return 0
	}
	last, err := strconv.ParseInt(e.value, 10, 64)
	if err != nil || last >= 9e15 {
		return 0
	}
	return last
}

func releaseModel(m *Memory, keys, args []string) (any, error) {
	if m.owned(keys[0], args[0]) == nil {
		return []any{m.micros()}, nil
	}
	delete(m.keys, keys[0])
	m.wakeNext(keys[0], keys[1])
	return int64(1), nil
}

func renewModel(m *Memory, keys, args []string) (any, error) {
	out := make([]any, len(keys))
	for i, key := range keys {
		out[i] = int64(0)
		if e := m.owned(key, args[2*i]); e != nil {
			ttl := millis(args[2*i+1])
			if m.pttl(key) < ttl.Milliseconds() {
				e.expires = m.now().Add(ttl)
			}
			out[i] = int64(1)
		}
	}
	return out, nil
}

func raiseModel(m *Memory, keys, args []string) (any, error) {
	e := m.owned(keys[0], args[0])
	if e == nil {
		return int64(0), nil
	}
	seen, _ := strconv.ParseInt(args[1], 10, 64)
	fence := max(seen+1, m.now().UnixMicro(), m.counter(keys[1])+1)
	digits := strconv.FormatInt(fence, 10)
	m.set(keys[1], digits, week)
	rest := strings.SplitN(strings.TrimPrefix(e.value, args[0]), ":", 2)[1]
	e.value = args[0] + digits + ":" + rest
	return digits, nil
}

var lockValue = regexp.MustCompile(`^lk1:[^:]+:([1-9]\d*):[1-9]\d*:`)

func breakModel(m *Memory, keys, args []string) (any, error) {
	e := m.get(keys[0])
	if e == nil {
		return []any{nil, int64(-2), m.micros()}, nil
	}
	if match := lockValue.FindStringSubmatch(e.value); match != nil && match[1] == args[0] {
		delete(m.keys, keys[0])
		m.wakeNext(keys[0], keys[1])
		return int64(1), nil
	}
	return []any{e.value, m.pttl(keys[0]), m.micros()}, nil
}

func leaveModel(m *Memory, keys, args []string) (any, error) {
	if err := m.wrongType(keys[1]); err != nil {
		return nil, err
	}
	m.leaveLine(keys[1], args[0])
	if m.get(keys[0]) == nil && m.wakeNext(keys[0], keys[1]) {
		return int64(1), nil
	}
	return int64(0), nil
}

func stateModel(m *Memory, keys, _ []string) (any, error) {
	out := []any{m.micros()}
	for _, key := range keys {
		var value any
		if e := m.get(key); e != nil {
			value = e.value
		}
		out = append(out, value, m.pttl(key))
	}
	return out, nil
}

// probe returns the source of a probe.
func probe(name string) string {
	for _, p := range probes {
		if p.name == name {
			return p.src
		}
	}
	panic("no probe " + name)
}

// probes are scripts that only the conformance suite runs: reply types and errors.
var probes = []struct {
	name  string
	src   string
	model model
}{
	{"types", "return {1, 'a', false, {'b', 9007199254740991}}", func(*Memory, []string, []string) (any, error) {
		return []any{int64(1), "a", nil, []any{"b", int64(9007199254740991)}}, nil
	}},
	{"nothing", "return false", func(*Memory, []string, []string) (any, error) { return nil, nil }},
	{"status", "return redis.status_reply('FINE')", func(*Memory, []string, []string) (any, error) { return "FINE", nil }},
	{"error", "return redis.error_reply('OOPS it went wrong')", func(*Memory, []string, []string) (any, error) {
		return nil, lockkeeper.NewReplyError("OOPS it went wrong")
	}},
	{"echo", "return {KEYS[1], ARGV[1], ARGV[2]}", func(_ *Memory, keys, args []string) (any, error) {
		return []any{keys[0], args[0], args[1]}, nil
	}},
	{"publish", "return redis.call('PUBLISH', KEYS[1], ARGV[1])", func(m *Memory, keys, args []string) (any, error) {
		m.publish(keys[0], args[0])
		return int64(1), nil
	}},
	{"line", "return redis.call('ZCARD', KEYS[1])", func(m *Memory, keys, _ []string) (any, error) {
		if e := m.get(keys[0]); e != nil {
			return int64(len(e.scores)), nil
		}
		return int64(0), nil
	}},
}
