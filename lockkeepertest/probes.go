package lockkeepertest

import "github.com/lockkeeper/lockkeeper"

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
