package flush

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/internal/redistest"
	"github.com/lockkeeper/lockkeeper/internal/script"
)

// The scripts and their models in models_test.go run beside each other: the same calls,
// by chance, on a real server and on the one in memory. After each call the replies and
// everything that there is in both are the same.

// A duel is one sequence of calls. choose returns a number below n; it decides all.
type duel struct {
	choose  func(n int) int
	conn    *redistest.Conn
	dialect script.Dialect
	scripts map[string]*script.Script // with what is planted
	fake    *fakeRedis
	keys    Keys
	serial  int
	lines   []string
}

// farClock is a last version beyond any server's time, so that the next one is known.
const farClock = "4000000000000000"

var duelData = []string{"hash:1", "hash:2", "text:1", "set:1", "set:2", "list:1", "zset:1", "log:1", "log:2", "gone:1"}

func newDuel(t testing.TB, conn *redistest.Conn, scripts map[string]*script.Script, choose func(n int) int) *duel {
	t.Helper()
	if _, err := conn.Do(t.Context(), "FLUSHALL"); err != nil {
		t.Fatal(err)
	}
	d := &duel{choose: choose, conn: conn, scripts: scripts, fake: newFakeRedis(), keys: KeysOf("", "duel")}
	if choose(4) > 0 {
		d.plain("SET", d.keys.Clock, farClock)
	}
	return d
}

// plain runs a command on both.
func (d *duel) plain(args ...string) {
	_, err := d.conn.Do(context.Background(), args...)
	_, mine := d.fake.command(args[0], args[1], args[2:]...)
	d.lines = append(d.lines, fmt.Sprintf("%q -> %v", args, mine))
	if (err == nil) != (mine == nil) {
		d.lines = append(d.lines, fmt.Sprintf("the server says %v", err))
	}
}

// step makes one call, and returns what is different, or "".
func (d *duel) step() string {
	if d.choose(6) == 0 {
		d.plainWrite()
		return d.compare("", nil, nil, nil, nil)
	}
	names := slices.Sorted(maps.Keys(models))
	name := names[d.choose(len(names))]
	switch d.choose(6) {
	case 0, 1: // without marks, most others have nothing to do
		name = "mark"
	case 2:
		name = []string{"ack", "hold", "advance", "entries"}[d.choose(4)]
	}
	keys, args := d.arguments(name)
	reply, err := d.scripts[name].Run(context.Background(), d.conn, &d.dialect, keys, args)
	var other *lockkeeper.ReplyError
	if err != nil && !errors.As(err, &other) {
		return err.Error()
	}
	state := d.serverState()
	d.follow(name, keys, reply, state)
	mine, myErr := models[name](d.fake, keys, args)
	d.lines = append(d.lines, fmt.Sprintf("%s %q %q -> %v %v", name, keys, args, reply, err))
	if diff := d.compare(name, args, reply, mine, state); diff != "" {
		return diff
	}
	if codeOf(err) != codeOf(myErr) {
		return fmt.Sprintf("the server's error is %v, the model's %v", err, myErr)
	}
	return ""
}

func codeOf(err error) string {
	var reply *lockkeeper.ReplyError
	if errors.As(err, &reply) {
		return reply.Code
	}
	return ""
}

// follow makes the model's time, and its choice of what to take out of a set, the
// server's.
func (d *duel) follow(name string, keys []string, reply any, state map[string]*object) {
	list, _ := reply.([]any)
	d.fake.now = 0
	clock := int64(0)
	if o := state[d.keys.Clock]; o != nil {
		clock = number(o.text)
	}
	switch name {
	case "page", "status", "member":
		if len(list) > 0 {
			d.fake.now = number(list[0])
		}
	case "mark":
		d.fake.now = clock
	case "intake", "touch", "digest":
		d.fake.now = clock - d.newVersions(state) + 1
	}
	d.fake.pop = func(set string, members []string, n int) []string {
		var popped []string
		for _, m := range members {
			if o := state[set]; o == nil || !o.set[m] {
				popped = append(popped, m)
			}
		}
		versions := state[d.keys.Versions]
		slices.SortFunc(popped, func(a, b string) int { return cmp.Compare(versions.hash[a], versions.hash[b]) })
		return popped
	}
}

// newVersions counts the versions that the server has and the model has not yet.
func (d *duel) newVersions(state map[string]*object) int64 {
	n := int64(0)
	if o := state[d.keys.Versions]; o != nil {
		for key, version := range o.hash {
			if mine, _ := d.fake.hget(d.keys.Versions, key); mine != version {
				n++
			}
		}
	}
	return max(1, n)
}

// plainWrite does what an application, or somebody by hand, does.
func (d *duel) plainWrite() {
	key := duelData[d.choose(len(duelData))]
	switch d.choose(5) {
	case 0:
		d.plain("SADD", d.keys.Changed, key)
	case 1:
		d.plain("SADD", d.keys.Deleted, key)
	case 2:
		d.plain("ZADD", d.keys.Dirty, "17", key)
	case 3:
		d.plain("DEL", key)
	default:
		c := d.command(key)
		d.plain(append([]string{c[0], key}, c[1:]...)...)
	}
}

// command returns one that mostly fits the key.
func (d *duel) command(key string) []string {
	d.serial++
	n := fmt.Sprint(d.serial)
	kind := strings.Split(key, ":")[0]
	if d.choose(8) == 0 {
		kind = []string{"hash", "text", "set", "del", "expire", "nonsense"}[d.choose(6)]
	}
	small := fmt.Sprint(d.choose(4))
	switch kind {
	case "hash":
		if d.choose(3) == 0 {
			return []string{"HDEL", "f" + small, "g"}
		}
		return []string{"HSET", "f" + small, n, "g", small}
	case "set":
		if d.choose(2) == 0 {
			return []string{"SREM", small}
		}
		return []string{"SADD", small, n}
	case "list":
		return []string{"RPUSH", small}
	case "zset":
		return []string{"ZADD", small + ".5", "m" + small}
	case "log":
		return []string{"XADD", n + "-" + small, "n", n, "m", small}
	case "del", "gone":
		return []string{"DEL"}
	case "expire":
		return []string{"EXPIRE", "1000"}
	case "nonsense":
		return []string{"NONSENSE", "1"}
	}
	return []string{"SET", n}
}

func (d *duel) someKeys() []string {
	first, n := d.choose(len(duelData)), 1+d.choose(4)
	keys := make([]string, n)
	for i := range keys {
		keys[i] = duelData[(first+i)%len(duelData)]
	}
	return keys
}

func (d *duel) aside() []string { return []string{d.keys.Waiting, d.keys.Held("a"), d.keys.Held("b")} }

// epoch returns the one that stands, mostly.
func (d *duel) epoch() string {
	if current, there := d.fake.get(d.keys.Epoch); there && number(current) > 0 && d.choose(4) > 0 {
		return current
	}
	return fmt.Sprint(1 + d.choose(3))
}

// streams returns keys that are mostly streams.
func (d *duel) streams() []string {
	if d.choose(4) == 0 {
		return d.someKeys()
	}
	return []string{"log:1", "log:2"}[:1+d.choose(2)]
}

// id returns the ID of an entry, mostly of one that is there.
func (d *duel) id(key string) string {
	if o := d.fake.keys[key]; o != nil && len(o.stream) > 0 && d.choose(3) > 0 {
		return o.stream[d.choose(len(o.stream))].id
	}
	return []string{"2-0", "5-0", "11-1", "9-0", "9-3", "18446744073709551615-1"}[d.choose(6)]
}

// version returns the version of a key, mostly.
func (d *duel) version(key string) string {
	version, _ := d.fake.hget(d.keys.Versions, key)
	if d.choose(5) == 0 {
		return "1U"
	}
	return version
}

// arguments returns what a script may be called with.
func (d *duel) arguments(name string) (keys, args []string) {
	k, n := d.keys, fmt.Sprint(1+d.choose(4))
	head := []string{k.Dirty, k.Versions, k.Clock}
	switch name {
	case "mark":
		key := duelData[d.choose(len(duelData))]
		op := []string{"U", "U", "U", "U", "D", "D", "x"}[d.choose(7)]
		return k.Mark(key), append([]string{op}, d.command(key)...)
	case "page":
		return append([]string{k.Dirty, k.Versions, k.Changed, k.Deleted, k.Parked, k.Control}, d.aside()...), []string{fmt.Sprint(d.choose(3)), n}
	case "intake":
		return append(head, k.Changed, k.Deleted), []string{n}
	case "read":
		return d.readArguments()
	case "entries":
		args = []string{n, fmt.Sprint(d.choose(120))}
		keys = d.streams()
		if d.choose(6) == 0 {
			for _, key := range keys {
				args = append(args, []string{"", d.id(key)}[d.choose(2)])
			}
		}
		return append([]string{k.Cursors}, keys...), args
	case "ack", "hold":
		return d.ackArguments(name)
	case "advance":
		args = []string{d.epoch()}
		for _, key := range d.streams() {
			now, _ := d.fake.hget(k.Cursors, key)
			args = append(args, key, []string{now, now, "2-1"}[d.choose(3)], []string{"", d.id(key), d.id(key)}[d.choose(3)])
		}
		return []string{k.Epoch, k.Cursors}, args
	case "rewind":
		for _, key := range d.streams() {
			id := d.id(key)
			if now, there := d.fake.hget(k.Cursors, key); there && d.choose(3) == 0 {
				id = justBefore(now)
			}
			args = append(args, key, id)
		}
		return []string{k.Cursors}, args
	case "unhold":
		return []string{k.Dirty, d.aside()[d.choose(3)]}, []string{n}
	}
	return d.otherArguments(name)
}

// otherArguments is arguments for what operators do.
func (d *duel) otherArguments(name string) (keys, args []string) {
	k := d.keys
	switch name {
	case "touch":
		keys = d.someKeys()
		for range keys {
			args = append(args, []string{"U", "D", "u", "d"}[d.choose(4)])
		}
		return append([]string{k.Dirty, k.Versions, k.Clock, k.Digests("a")}, keys...), args
	case "digest":
		kind := []string{"hash", "string", "set", "list", "zset", "stream"}[d.choose(6)]
		args = []string{kind, fmt.Sprint(1 + d.choose(4))}
		if kind == "hash" {
			args = append(args, "f1", "f2", "g")
		}
		return append([]string{k.Dirty, k.Versions, k.Clock, k.Digests("a")}, d.someKeys()...), args
	case "epoch":
		if d.choose(12) == 0 {
			d.plain("SET", k.Epoch, "nonsense")
		}
		return []string{k.Epoch}, []string{d.epoch()}
	case "control":
		field := "f" + fmt.Sprint(d.choose(3))
		return []string{k.Control}, []string{field, []string{"", "on", "off"}[d.choose(3)], "now", fmt.Sprint(d.choose(2))}
	case "database":
		return []string{k.Control}, []string{"db" + fmt.Sprint(d.choose(2)), []string{"", "1"}[d.choose(2)]}
	case "pick":
		if d.choose(2) == 0 {
			return []string{k.Parked}, append([]string{"get"}, d.someKeys()...)
		}
		args = []string{"drop"}
		for _, key := range d.someKeys() {
			now, _ := d.fake.hget(k.Parked, key)
			args = append(args, key, []string{now, "another"}[d.choose(2)])
		}
		return []string{k.Parked}, args
	case "fields":
		return []string{[]string{k.Parked, k.Versions}[d.choose(2)]}, []string{"0", "500"}
	case "walk":
		return nil, []string{"0", []string{"hash:*", "*:1", "set:2"}[d.choose(3)], "1000"}
	case "marked":
		return append([]string{k.Dirty, k.Versions, k.Parked, k.Changed, k.Deleted}, d.someKeys()...), nil
	case "member":
		return []string{k.Members}, []string{"m" + fmt.Sprint(d.choose(3)), []string{"", "{}", `{"x":1}`}[d.choose(3)], []string{"-1", "60000000"}[d.choose(2)]}
	case "status":
		return append([]string{k.Dirty, k.Parked, k.Epoch, k.Changed, k.Deleted, k.Control, k.Members}, d.aside()...), nil
	}
	panic("no arguments for " + name)
}

func (d *duel) readArguments() (keys, args []string) {
	kind := []string{"hash", "string", "set", "list", "zset"}[d.choose(5)]
	args = []string{kind, fmt.Sprint(d.choose(200))}
	if kind == "hash" {
		return d.someKeys(), append(args, "f1", "f2", "g")
	}
	return d.someKeys(), append(args, fmt.Sprint(1+d.choose(4)))
}

func (d *duel) ackArguments(name string) (keys, args []string) {
	k := d.keys
	args = []string{d.epoch()}
	if name == "ack" {
		args = append(args, []string{"20", "5000000000000000"}[d.choose(2)])
	}
	for _, key := range d.someKeys() {
		args = append(args, key, d.version(key))
		if name == "ack" {
			args = append(args, []string{"", "", `{"reason":"100% bad"}`}[d.choose(3)])
		}
	}
	if name == "ack" {
		return append([]string{k.Epoch, k.Dirty, k.Versions, k.Parked}, d.aside()...), args
	}
	return []string{k.Epoch, k.Dirty, k.Versions, d.aside()[d.choose(4)/2]}, args
}

// compare returns what is different between the server and the model, or "".
func (d *duel) compare(name string, args []string, reply, mine any, state map[string]*object) string {
	if a, b := canonical(name, args, reply), canonical(name, args, mine); a != b {
		return fmt.Sprintf("reply: the server's is %s, the model's %s", a, b)
	}
	if state == nil {
		state = d.serverState()
	}
	for _, key := range slices.Sorted(maps.Keys(state)) {
		theirs, ours := state[key], d.fake.keys[key]
		if key == d.keys.Parked {
			theirs, ours = timeless(theirs), timeless(ours)
		}
		if a, b := show(theirs), show(ours); a != b {
			return fmt.Sprintf("key %s: on the server %s, in the model %s", key, a, b)
		}
	}
	if o := state[d.keys.Parked]; o != nil {
		d.fake.keys[d.keys.Parked] = o // time goes on within a script
	}
	for _, key := range slices.Sorted(maps.Keys(d.fake.keys)) {
		if state[key] == nil {
			return fmt.Sprintf("key %s: not on the server, in the model %s", key, show(d.fake.keys[key]))
		}
	}
	return ""
}

// timeless returns parked keys without the times of the last attempts.
func timeless(o *object) *object {
	if o == nil || o.kind != "hash" {
		return o
	}
	plain := &object{kind: o.kind, hash: make(map[string]string)}
	for name, text := range o.hash {
		parts := strings.SplitN(text, " ", 4)
		if len(parts) == 4 && parts[0] == "1" {
			parts[1] = "first"
		}
		if len(parts) == 4 {
			parts[2] = "last"
		}
		plain.hash[name] = strings.Join(parts, " ")
	}
	return plain
}

func show(o *object) string {
	if o == nil {
		return "nothing"
	}
	return fmt.Sprintf("%s %q %q %v %v %q %q", o.kind, o.text, o.hash, o.set, o.zset, o.list, o.stream)
}

// canonical writes a reply; what comes in no order is sorted.
func canonical(name string, args []string, reply any) string {
	list, _ := reply.([]any)
	if len(list) == 0 {
		return fmt.Sprintf("%#v", reply)
	}
	out := slices.Clone(list)
	switch {
	case name == "page" && len(out) == 7:
		out[4] = sortedPairs(out[4])
	case name == "status" && len(out) == 9:
		out[6], out[7] = sortedPairs(out[6]), sortedPairs(out[7])
	case (name == "fields" || name == "member") && len(out) == 2:
		out[1] = sortedPairs(out[1])
	case name == "walk" && len(out) == 3:
		out[2] = sortedTexts(out[2])
	case name == "read" && args[0] == "set":
		for i := range out {
			out[i] = sortedTexts(out[i])
		}
	}
	return fmt.Sprintf("%#v", out)
}

func sortedTexts(v any) any {
	list, ok := v.([]any)
	if !ok {
		return v
	}
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b any) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return list
}

func sortedPairs(v any) any {
	list, _ := v.([]any)
	pairs := []string{}
	for pair := range slices.Chunk(list, 2) {
		pairs = append(pairs, fmt.Sprintf("%q", pair))
	}
	slices.Sort(pairs)
	return pairs
}

// dump returns everything that a server has.
const dump = `
local out = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  local kind = redis.call('TYPE', key)['ok']
  local how = {
    string = {'GET', key}, hash = {'HGETALL', key}, set = {'SMEMBERS', key}, list = {'LRANGE', key, 0, -1},
    zset = {'ZRANGE', key, 0, -1, 'WITHSCORES'}, stream = {'XRANGE', key, '-', '+'}
  }
  out[#out + 1] = {key, kind, redis.call(unpack(how[kind]))}
end
return out`

func (d *duel) serverState() map[string]*object {
	reply, err := d.conn.Eval(context.Background(), dump, nil, nil)
	if err != nil {
		panic(err) // the server is the test's own
	}
	state := make(map[string]*object)
	r := newFakeRedis()
	for _, item := range reply.([]any) {
		v := item.([]any)
		key, kind := v[0].(string), v[1].(string)
		o, _ := r.make(key, kind)
		list, _ := v[2].([]any)
		switch kind {
		case "string":
			o.text = v[2].(string)
		case "hash":
			for p := range slices.Chunk(list, 2) {
				o.hash[p[0].(string)] = p[1].(string)
			}
		case "set":
			for _, m := range list {
				o.set[m.(string)] = true
			}
		case "list":
			for _, m := range list {
				o.list = append(o.list, m.(string))
			}
		case "zset":
			for p := range slices.Chunk(list, 2) {
				o.zset[p[0].(string)] = number64(p[1].(string))
			}
		case "stream":
			for _, entry := range list {
				pair := entry.([]any)
				e := entryOf{id: pair[0].(string)}
				for _, f := range pair[1].([]any) {
					e.fields = append(e.fields, f.(string))
				}
				o.stream = append(o.stream, e)
			}
		}
		state[key] = o
	}
	return state
}

// fight makes calls until something is different, or there were n.
func (d *duel) fight(n int) string {
	for range n {
		if diff := d.step(); diff != "" {
			return diff + "\n  " + strings.Join(d.lines, "\n  ")
		}
	}
	return ""
}

func allScripts() map[string]*script.Script {
	all := make(map[string]*script.Script)
	for name := range models {
		all[name] = script.New(scriptText(name))
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
	for seed := range uint64(fromEnv("LOCKKEEPER_DUELS", 200)) {
		d := newDuel(t, conn, scripts, rand.New(rand.NewPCG(seed, 2)).IntN)
		if diff := d.fight(60); diff != "" {
			t.Fatalf("seed %d: %s", seed, diff)
		}
	}
}

func FuzzModels(f *testing.F) {
	conn, scripts := serverConn(f), allScripts()
	f.Add([]byte("lockkeeper"))
	f.Add([]byte{0, 200, 1, 180, 40, 7, 90, 33, 12, 250, 61, 5, 77, 8, 140, 19, 2, 66})
	f.Fuzz(func(t *testing.T, choices []byte) {
		at := 0
		d := newDuel(t, conn, scripts, func(n int) int {
			if at >= len(choices) {
				return 0
			}
			at++
			return int(choices[at-1]) % n
		})
		for calls := 0; at < len(choices) && calls < 100; calls++ {
			if diff := d.fight(1); diff != "" {
				t.Fatal(diff)
			}
		}
	})
}

// Each of these changes of a script has to be noticed.
func TestModelsFindPlants(t *testing.T) {
	conn := serverConn(t)
	for _, plant := range []struct{ name, old, with string }{
		{"ack", "(versions[i] or '') ~= version", "false"},
		{"ack", "if epoch ~= ARGV[1] then", "if false then"},
		{"ack", "'XX', ARGV[2], key", "'XX', 1, key"},
		{"ack", "redis.call('ZREM', KEYS[i], unpack(gone))", ""},
		{"ack", "elseif some then", "elseif false then"},
		{"ack", "(times or 0) + 1", "1"},
		{"advance", "(redis.call('HGET', KEYS[2], ARGV[i]) or '') == ARGV[i + 1]", "true"},
		{"advance", "if epoch ~= ARGV[1] then", "if false then"},
		{"rewind", "ms == nowms and less(n, nown)", "false"},
		{"rewind", "#a < #b or #a == #b and a < b", "a < b"},
		{"rewind", "if now then", "now = now or '99-0' if now then"},
		{"hold", "(redis.call('HGET', KEYS[3], ARGV[i]) or '') == ARGV[i + 1]", "true"},
		{"hold", "'NX', since", "since"},
		{"unhold", "redis.call('ZADD', KEYS[1], marks[i + 1], marks[i])", "redis.call('ZADD', KEYS[1], 1, marks[i])"},
		{"intake", "mark(deleted[i], gone(deleted[i], true) and 'D' or 'U')", "mark(deleted[i], 'D')"},
		{"intake", "redis.call('SREM', KEYS[4], deleted[i])", ""},
		{"intake", "string.sub(redis.call('HGET', KEYS[2], key) or '', -1) == 'D'", "false"},
		{"mark", "'NX', version, key", "version, key"},
		{"mark", "redis.call('SET', KEYS[4], version)", ""},
		{"mark", "if deleted and", "if ARGV[1] == 'D' and"},
		{"page", "ARGV[1] + ARGV[2] - 1", "ARGV[1] + ARGV[2]"},
		{"page", "redis.call('SCARD', KEYS[3]) + ", ""},
		{"read", "if left <= 0 then", "if left < 0 then"},
		{"read", "elseif n > most then", "elseif n >= most then"},
		{"entries", "'(' .. before", "before"},
		{"entries", "left = left - 16", "left = left - 15"},
		{"touch", "op = 'u'", "op = 'd'"},
		{"touch", "and not redis.call('ZSCORE', KEYS[1], key)", ""},
		{"touch", "op == 'D' and fits", "fits"},
		{"digest", "redis.call('HSET', KEYS[4], key, now)", ""},
		{"digest", "table.sort(all)", ""},
		{"digest", "if n > most then", "if n > most + 1 then"},
		{"epoch", ">= tonumber", "> tonumber"},
		{"epoch", "math.huge", "0"},
		{"database", "ARGV[2] ~= '1'", "true"},
		{"digest", "or 'a ' .. found", "or 'another'"},
		{"control", "redis.call('HDEL', KEYS[1], ARGV[i])", ""},
		{"pick", "redis.call('HGET', KEYS[1], ARGV[i]) == ARGV[i + 1]", "true"},
		{"marked", "or redis.call('ZSCORE', KEYS[1], key)", ""},
		{"member", "> tonumber(ARGV[3])", "> 0"},
		{"status", "return redis.call('ZRANGE', key, 0, 0", "return redis.call('ZRANGE', key, -1, -1"},
		{"walk", "'MATCH', ARGV[2]", "'MATCH', '*'"},
	} {
		text := scriptText(plant.name)
		if !strings.Contains(text, plant.old) {
			t.Errorf("%s.lua does not have %q any more", plant.name, plant.old)
			continue
		}
		scripts := allScripts()
		scripts[plant.name] = script.New(strings.Replace(text, plant.old, plant.with, 1))
		found := false
		for seed := uint64(0); seed < 300 && !found; seed++ {
			found = newDuel(t, conn, scripts, rand.New(rand.NewPCG(seed, 2)).IntN).fight(60) != ""
		}
		if !found {
			t.Errorf("%s.lua with %q in the place of %q: nobody notices", plant.name, plant.with, plant.old)
		}
	}
}
