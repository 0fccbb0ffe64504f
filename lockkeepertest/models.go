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

// An entry is one key: a string, a line's sorted set, or the hash of its places.
type entry struct {
	value   string
	scores  map[string]int64
	fields  map[string]string
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

func (m *Memory) exists(key string) int64 {
	if m.get(key) == nil {
		return 0
	}
	return 1
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

var errWrongType = lockkeeper.NewReplyError("WRONGTYPE Operation against a key holding the wrong kind of value")

// leaveLine takes owners out of a line and its places.
func (m *Memory) leaveLine(keys []string, owners ...string) {
	line, places := m.get(keys[2]), m.get(keys[3])
	for _, owner := range owners {
		if places != nil && places.fields != nil {
			delete(places.fields, owner)
		}
		if line != nil && line.scores != nil {
			delete(line.scores, owner)
		}
	}
	if places != nil && places.fields != nil && len(places.fields) == 0 {
		delete(m.keys, keys[3])
	}
	if line != nil && line.scores != nil && len(line.scores) == 0 {
		delete(m.keys, keys[2])
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
	mine, ttl, label, notAfter := args[0], millis(args[1]), args[2], args[3]
	owner := mine[len("lk1:") : len(mine)-1]
	now := m.now().UnixMicro()
	us := strconv.FormatInt(now, 10)
	if bound, _ := strconv.ParseInt(notAfter, 10, 64); bound != 0 && now > bound {
		return []any{"late", us}, nil
	}
	if m.get(keys[0]) == nil {
		if m.get(keys[2]) == nil {
			return m.grant(keys, mine, now, label, ttl), nil
		}
		to, first, last, others := m.handOff(keys, m.counter(keys[1]), owner, label, ttl)
		if to == "" {
			first, last = m.give(keys, owner, label, ttl, m.counter(keys[1])+1)
			m.leaveLine(keys, owner)
			others = m.exists(keys[2])
		}
		if to == "" || to == owner {
			return []any{first, us, last, others}, nil
		}
	}
	if e := m.owned(keys[0], mine); e != nil {
		if m.pttl(keys[0]) < ttl.Milliseconds() {
			e.expires = m.now().Add(ttl)
		}
		m.leaveLine(keys, owner)
		fence := strings.Split(e.value, ":")[2]
		n, _ := strconv.ParseInt(fence, 10, 64)
		return []any{fence, us, strconv.FormatInt(max(m.counter(keys[1]), n), 10), m.exists(keys[2])}, nil
	}
	value := m.get(keys[0]).value
	if len(args) < 5 {
		return []any{"held", value, m.pttl(keys[0]), us}, nil
	}
	since := ""
	if len(args) > 5 {
		since = args[5]
	}
	before, length, err := m.join(keys, owner, args[4], label, since)
	switch {
	case err != nil:
		return nil, err
	case before < 0:
		return []any{"full", value, m.pttl(keys[0]), us, length}, nil
	}
	if match := holderOf.FindStringSubmatch(value); length == 1 && match != nil {
		m.publish(channelOf(strings.SplitN(args[4], ":", 5)[4], match[1]), "w:lk1:"+match[1]+":"+keys[0])
	}
	return []any{"held", value, m.pttl(keys[0]), us, before}, nil
}

func (m *Memory) grant(keys []string, mine string, now int64, label string, ttl time.Duration) any {
	us := strconv.FormatInt(now, 10)
	m.set(keys[0], mine+us+":"+us+":"+label, ttl)
	last := m.counter(keys[1])
	if last < now {
		m.set(keys[1], us, week)
		return us
	}
	fence := strconv.FormatInt(last+1, 10)
	m.set(keys[0], mine+fence+":"+us+":"+label, ttl)
	m.set(keys[1], fence, week)
	return []any{fence, us}
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
	mine, digits := args[0], args[1]
	us := m.micros()
	e := m.owned(keys[0], mine)
	if e == nil {
		m.leaveLine(keys, mine[len("lk1:"):len(mine)-1])
		return []any{us}, nil
	}
	now, _ := strconv.ParseInt(us, 10, 64)
	var again, label string
	var ttl time.Duration
	var before int64
	if len(args) > 2 {
		if bound, _ := strconv.ParseInt(args[5], 10, 64); bound == 0 || now <= bound {
			since := ""
			if len(args) > 7 {
				since = args[7]
			}
			again, ttl, label = args[2][len("lk1:"):len(args[2])-1], millis(args[3]), args[4]
			var err error
			if before, _, err = m.join(keys, again, args[6], label, since); err != nil {
				again = ""
			}
		}
	}
	value := strings.Split(e.value, ":")[2]
	first, _ := strconv.ParseInt(value, 10, 64)
	used, _ := strconv.ParseInt(digits, 10, 64)
	free := digits != "" && used >= first
	if !free {
		used = first
	}
	to, begins, last, others := m.handOff(keys, used, again, label, ttl)
	switch {
	case to == "":
		if free {
			m.set(keys[1], digits, week)
		}
		delete(m.keys, keys[0])
		return int64(1), nil
	case again == "":
		return int64(1), nil
	case to == again:
		return []any{begins, us, last, others}, nil
	}
	reply := []any{"held", m.get(keys[0]).value, m.pttl(keys[0]), us}
	if before < 0 { // the line is full
		return reply, nil
	}
	return append(reply, before), nil
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
		fence, _ := strconv.ParseInt(args[0], 10, 64)
		if to, _, _, _ := m.handOff(keys, max(fence, m.counter(keys[1])), "", "", 0); to == "" {
			delete(m.keys, keys[0])
		}
		return int64(1), nil
	}
	return []any{e.value, m.pttl(keys[0]), m.micros()}, nil
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
