package schedule

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/lockkeeper/lockkeeper/internal/redistest"
	"github.com/lockkeeper/lockkeeper/internal/script"
)

// A duel runs the same calls, by chance, on a real server and on the models. After each, the
// replies and all that is kept are the same.
type duel struct {
	rnd     *rand.Rand
	conn    *redistest.Conn
	dialect script.Dialect
	scripts map[string]*script.Script
	fake    *fakeRedis
	owner   string // who has the lock; "" is nobody
	keys    keys
	lines   []string
}

const duelMembers = "lockkeeper:schedule:{duel}:members"

func newDuel(t testing.TB, conn *redistest.Conn, scripts map[string]*script.Script, seed uint64) *duel {
	t.Helper()
	if _, err := conn.Do(t.Context(), "FLUSHALL"); err != nil {
		t.Fatal(err)
	}
	d := &duel{rnd: rand.New(rand.NewPCG(seed, 6)), conn: conn, scripts: scripts, fake: newFakeRedis(), keys: keysOf("lockkeeper:", "duel", "job")}
	d.fake.lock = func(string) (string, bool) { return d.lockValue(), d.owner != "" }
	return d
}

func (d *duel) lockValue() string {
	if d.owner == "plain" {
		return d.owner
	}
	return "lk1:" + d.owner + ":7:8:somebody"
}

func (d *duel) pick(list ...string) string { return list[d.rnd.IntN(len(list))] }

// ticks are long ago or far away, so that it does not matter when a call runs; that of "now" is
// the server's time, which no rest and no lead depend on.
func (d *duel) arguments(name string) (keys, args []string) {
	k := d.keys
	kind := d.pick("tick", "tick", "trigger")
	number := d.pick("1000", "2000", "3000", "9000000000000")
	if asked, _, _ := strings.Cut(d.fake.hashes[k.state]["trigger"], " "); kind == "trigger" && asked != "" && d.rnd.IntN(4) > 0 {
		number = asked
	}
	fence := d.pick("7", "7", "8")
	switch name {
	case "join":
		return []string{k.state, k.runs}, []string{d.pick("every 1h", "every 2h"), d.pick("0", "1"), "100000"}
	case "claim":
		return []string{k.lock, k.state, k.runs}, []string{d.pick("a.1", "a.1", "a.1.3", "a.10", "b.1"), fence, kind, number, d.pick("leader", "guarded"),
			d.pick("0", "0", "1000000"), d.pick("10000", "9000000000000"), "host/1 and more", "3", "100000", "3"}
	case "finish":
		if part := strings.Fields(d.fake.hashes[k.state]["run"]); len(part) > 2 && d.rnd.IntN(3) > 0 {
			fence, kind, number = part[0], part[1], part[2]
		}
		return []string{k.state, k.runs}, []string{fence, kind, number, d.pick("ok", "failed"), d.pick("", "it went\nwrong"), d.pick("0", "1"), "3", "100000"}
	case "control":
		return []string{k.state}, []string{d.pick("pause", "resume", "resume", "trigger"), `{"by":"ann"}`, "channel", "job", "100000"}
	case "look":
		return []string{k.lock, k.state, k.runs}, []string{d.pick("1", "2", "100")}
	}
	return []string{duelMembers}, []string{d.pick("", "x", "y"), d.pick("", "{}"), "1000000"}
}

// step makes one call, and returns what is different, or "".
func (d *duel) step(ctx context.Context) string {
	if d.rnd.IntN(5) == 0 {
		d.setLock(ctx)
	}
	if d.rnd.IntN(12) == 0 && len(d.fake.hashes[d.keys.state]) > 0 {
		field, value := d.pick("last", "started"), "1000"
		_, _ = d.conn.Do(ctx, "HSET", d.keys.state, field, value)
		d.fake.hset(d.keys.state, field, value)
		d.lines = append(d.lines, "HSET "+field+" "+value)
	}
	if d.rnd.IntN(12) == 0 { // a process that has died long ago
		_, _ = d.conn.Do(ctx, "HSET", duelMembers, "z", "1 {}")
		d.fake.hset(duelMembers, "z", "1 {}")
	}
	name := d.pick("join", "claim", "claim", "claim", "finish", "finish", "control", "look", "member")
	keys, args := d.arguments(name)
	reply, err := d.scripts[name].Run(ctx, d.conn, &d.dialect, keys, args)
	if err != nil {
		return err.Error()
	}
	hash, runs, members := d.read(ctx)
	d.fake.now = d.timeOf(name, args, reply, runs)
	mine := models[name](d.fake, keys, args)
	d.lines = append(d.lines, fmt.Sprintf("%s %q -> %v", name, args, reply))
	if a, b := canonical(name, reply), canonical(name, mine); !reflect.DeepEqual(a, b) {
		return fmt.Sprintf("the reply is %v, the model's %v", a, b)
	}
	for _, c := range []struct{ what, real, fake any }{
		{"state", hash, d.fake.pairs(d.keys.state)}, {"members", members, d.fake.pairs(duelMembers)}, {"runs", runs, d.fake.lists[d.keys.runs]},
	} {
		if fmt.Sprint(c.real) != fmt.Sprint(c.fake) {
			return fmt.Sprintf("%s is %v, the model's %v", c.what, c.real, c.fake)
		}
	}
	for key := range d.fake.ttl { // those that the script has written to
		if ttl, _ := d.conn.Do(ctx, "PTTL", key); ttl == int64(-1) {
			return key + " has no TTL"
		}
	}
	return ""
}

func (d *duel) setLock(ctx context.Context) {
	d.owner = d.pick("a.1", "a.1", "a.1", "", "plain")
	if d.owner == "" {
		_, _ = d.conn.Do(ctx, "DEL", d.keys.lock)
	} else {
		_, _ = d.conn.Do(ctx, "SET", d.keys.lock, d.lockValue())
	}
	d.lines = append(d.lines, "lock "+d.owner)
}

// timeOf returns the server's time in a call, in us, as far as that matters.
func (d *duel) timeOf(name string, args []string, reply any, runs []string) int64 {
	list, _ := reply.([]any)
	switch name {
	case "join", "look", "member":
		return number(list[0])
	case "control":
		return number(reply)
	case "claim":
		if list[0] == "run" {
			return number(list[1])
		}
		if list[0] == "early" {
			at := number(d.fake.hashes[d.keys.state]["started"]) + number(args[5])
			if args[2] == "tick" {
				at = max(at, number(args[3])-number(args[6]))
			}
			return (at - number(list[1])) * 1000
		}
	}
	if len(runs) > 0 {
		return number(strings.Fields(runs[0])[4])
	}
	return 0
}

// read returns all that the server has of the job.
func (d *duel) read(ctx context.Context) (hash []any, runs []string, members []any) {
	v, _ := d.conn.Do(ctx, "HGETALL", d.keys.state)
	m, _ := d.conn.Do(ctx, "HGETALL", duelMembers)
	l, _ := d.conn.Do(ctx, "LRANGE", d.keys.runs, "0", "-1")
	for _, run := range l.([]any) {
		runs = append(runs, run.(string))
	}
	return sortedPairs(v), runs, sortedPairs(m)
}

func sortedPairs(v any) []any {
	list, _ := v.([]any)
	var pairs [][2]any
	for i := 0; i+1 < len(list); i += 2 {
		pairs = append(pairs, [2]any{list[i], list[i+1]})
	}
	slices.SortFunc(pairs, func(a, b [2]any) int { return strings.Compare(a[0].(string), b[0].(string)) })
	sorted := []any{}
	for _, p := range pairs {
		sorted = append(sorted, p[0], p[1])
	}
	return sorted
}

// canonical sorts the hash in a reply.
func canonical(name string, reply any) any {
	list, ok := reply.([]any)
	if ok && (name == "join" || name == "member") {
		return []any{list[0], sortedPairs(list[1])}
	}
	if ok && name == "look" {
		return []any{list[0], list[1], sortedPairs(list[2]), list[3]}
	}
	return reply
}

func (d *duel) fight(ctx context.Context, n int) string {
	for range n {
		if diff := d.step(ctx); diff != "" {
			return diff + "\n" + strings.Join(d.lines[max(0, len(d.lines)-12):], "\n")
		}
	}
	return ""
}

func allScripts() map[string]*script.Script {
	all := make(map[string]*script.Script)
	for name := range models {
		all[name] = loadScript(name)
	}
	return all
}

func serverConn(tb testing.TB) *redistest.Conn {
	conn := redistest.NewConn(redistest.Start(tb).Addr())
	tb.Cleanup(conn.Close)
	return conn
}

func TestModels(t *testing.T) {
	conn, scripts := serverConn(t), allScripts()
	files, err := luaFiles.ReadDir("lua")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if models[strings.TrimSuffix(f.Name(), ".lua")] == nil {
			t.Errorf("%s has no model", f.Name())
		}
	}
	for seed := range uint64(150) {
		if diff := newDuel(t, conn, scripts, seed).fight(t.Context(), 60); diff != "" {
			t.Fatalf("seed %d: %s", seed, diff)
		}
	}
}

// Each of these changes of a script has to be noticed.
func TestModelsFindPlants(t *testing.T) {
	conn := serverConn(t)
	for _, plant := range []struct{ name, old, with string }{
		{"join", "ARGV[2] == '1' and", ""},
		{"join", "last < tonumber(ms)", "true"},
		{"claim", "held ~= ARGV[1] and", "true and"},
		{"claim", "string.sub(ARGV[1], 1, #held + 1) ~= held .. '.'", "string.sub(ARGV[1], 1, #held) ~= held"},
		{"claim", "if not held or", "if"},
		{"claim", "if run and string.sub(run, 1, #id) == id then", "if false then"},
		{"claim", ">= tonumber(ARGV[4]) then", "> tonumber(ARGV[4]) then"},
		{"claim", "redis.call('HEXISTS', KEYS[2], 'pause') == 1", "false"},
		{"claim", "redis.call('HDEL', KEYS[2], 'trigger')", ""},
		{"claim", "elseif ARGV[5] == 'guarded' then", "else"},
		{"claim", "tonumber(ARGV[4]) - tonumber(ARGV[7]) - ms", "0"},
		{"claim", "started + tonumber(ARGV[6]) - ms", "0"},
		{"claim", "redis.call('LPUSH', KEYS[3], head .. ' ' .. us .. ' lost ' .. who)", ""},
		{"claim", "ARGV[9] - 1", "ARGV[9]"},
		{"claim", ">= tonumber(ARGV[11])", "> tonumber(ARGV[11])"},
		{"finish", "redis.call('HGET', KEYS[1], 'ended') == id and 1 or 0", "0"},
		{"finish", "ARGV[6] == '1' and", ""},
		{"finish", "'run', 'lost'", "'run'"},
		{"finish", "ARGV[2] == 'tick' and", ""},
		{"control", "redis.call('HDEL', KEYS[1], 'pause') == 1", "redis.call('HDEL', KEYS[1], 'pause') >= 0"},
		{"control", "us .. ' ' .. ARGV[2]", "ARGV[2]"},
		{"look", "ARGV[1] - 1", "ARGV[1]"},
		{"member", "> tonumber(ARGV[3]) * 1000", "< 0"},
	} {
		text := scriptText(plant.name)
		if !strings.Contains(text, plant.old) {
			t.Errorf("%s.lua does not have %q any more", plant.name, plant.old)
			continue
		}
		scripts := allScripts()
		scripts[plant.name] = script.New(strings.Replace(text, plant.old, plant.with, 1))
		found := false
		for seed := uint64(0); seed < 150 && !found; seed++ {
			found = newDuel(t, conn, scripts, seed).fight(t.Context(), 60) != ""
		}
		if !found {
			t.Errorf("%s.lua with %q in the place of %q: nobody notices", plant.name, plant.with, plant.old)
		}
	}
}

// All keys of a job are in one cluster slot.
func TestKeysOfAJobAreInOneSlot(t *testing.T) {
	server := redistest.Start(t, redistest.Args("--cluster-enabled", "yes"))
	for _, prefix := range []string{"", "lockkeeper:", "{mine}:"} {
		k := keysOf(prefix, "nightly", "a/report")
		var slots []any
		for _, key := range []string{k.lock, k.state, k.runs} {
			slots = append(slots, server.Do(t, "CLUSTER", "KEYSLOT", key))
		}
		if slots[0] != slots[1] || slots[1] != slots[2] {
			t.Errorf("%+v are in the slots %v", k, slots)
		}
	}
}
