package flush

import (
	"cmp"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/internal/script"
)

// A small Redis in memory, and the scripts of the lua folder as Go functions on it, one
// each. They follow the Lua line by line where that is possible. TestModels runs both
// beside each other on a real server; the simulator runs the engine on them.

// A fakeRedis is the data of a server. It is not safe for concurrent use.
type fakeRedis struct {
	keys   map[string]*object
	now    int64           // TIME, in microseconds
	loaded map[string]bool // scripts that the server knows, by SHA-1
	flaw   flaw            // a mistake that is planted

	// pop chooses what SPOP takes out of a set. nil takes the first by name.
	pop func(set string, members []string, n int) []string
}

// An object is the value of a key; the field of its kind is used.
type object struct {
	kind   string // as TYPE says
	text   string
	hash   map[string]string
	set    map[string]bool
	zset   map[string]float64
	list   []string
	stream []entryOf
}

// An entryOf is one entry of a stream.
type entryOf struct {
	id     string
	fields []string
}

// A flaw is a mistake that is planted in a model or in the fake database. "" is none.
type flaw string

func newFakeRedis() *fakeRedis {
	return &fakeRedis{keys: make(map[string]*object), loaded: make(map[string]bool)}
}

var errWrongType = lockkeeper.NewReplyError("WRONGTYPE Operation against a key holding the wrong kind of value")

// of returns the object of a key if it is of a kind; nil if it is not there.
func (r *fakeRedis) of(key, kind string) (*object, error) {
	o := r.keys[key]
	if o != nil && o.kind != kind {
		return nil, errWrongType
	}
	return o, nil
}

// make returns the object of a key, and makes it if it is not there.
func (r *fakeRedis) make(key, kind string) (*object, error) {
	o, err := r.of(key, kind)
	if err != nil || o != nil {
		return o, err
	}
	o = &object{kind: kind}
	switch kind {
	case "hash":
		o.hash = make(map[string]string)
	case "set":
		o.set = make(map[string]bool)
	case "zset":
		o.zset = make(map[string]float64)
	}
	r.keys[key] = o
	return o, nil
}

// tidy takes a key away that has become empty.
func (r *fakeRedis) tidy(key string) {
	o := r.keys[key]
	if o != nil && o.kind != "string" && o.kind != "stream" && o.size() == 0 {
		delete(r.keys, key)
	}
}

func (o *object) size() int64 {
	if o == nil {
		return 0
	}
	return int64(len(o.hash) + len(o.set) + len(o.zset) + len(o.list) + len(o.stream))
}

func (r *fakeRedis) exists(key string) bool { return r.keys[key] != nil }

// The following are for the keys of a job, which have the right type.

func (r *fakeRedis) get(key string) (string, bool) {
	o := r.keys[key]
	if o == nil {
		return "", false
	}
	return o.text, true
}

func (r *fakeRedis) hget(key, field string) (string, bool) {
	o := r.keys[key]
	if o == nil {
		return "", false
	}
	text, ok := o.hash[field]
	return text, ok
}

func (r *fakeRedis) hset(key, field, text string) {
	o, _ := r.make(key, "hash")
	o.hash[field] = text
}

func (r *fakeRedis) hdel(key, field string) bool {
	o := r.keys[key]
	if o == nil {
		return false
	}
	_, was := o.hash[field]
	delete(o.hash, field)
	r.tidy(key)
	return was
}

func (r *fakeRedis) zscore(key, member string) (float64, bool) {
	o := r.keys[key]
	if o == nil {
		return 0, false
	}
	score, ok := o.zset[member]
	return score, ok
}

func (r *fakeRedis) zadd(key string, score float64, member string) {
	o, _ := r.make(key, "zset")
	o.zset[member] = score
}

// zaddNX leaves a member as it is that is there.
func (r *fakeRedis) zaddNX(key string, score float64, member string) {
	if _, there := r.zscore(key, member); !there {
		r.zadd(key, score, member)
	}
}

func (r *fakeRedis) zrem(key, member string) {
	if o := r.keys[key]; o != nil {
		delete(o.zset, member)
		r.tidy(key)
	}
}

func (r *fakeRedis) has(set, member string) bool {
	o := r.keys[set]
	return o != nil && o.set[member]
}

func (r *fakeRedis) srem(set, member string) bool {
	o := r.keys[set]
	if o == nil || !o.set[member] {
		return false
	}
	delete(o.set, member)
	r.tidy(set)
	return true
}

func (r *fakeRedis) spop(set string, n int) []string {
	o := r.keys[set]
	if o == nil {
		return nil
	}
	members := slices.Sorted(maps.Keys(o.set))
	if r.pop != nil {
		members = r.pop(set, members, n)
	}
	members = members[:min(n, len(members))]
	for _, m := range members {
		r.srem(set, m)
	}
	return members
}

// ranked returns the members of a sorted set in its order.
func (o *object) ranked() []string {
	if o == nil {
		return nil
	}
	members := make([]string, 0, len(o.zset))
	for m := range o.zset {
		members = append(members, m)
	}
	slices.SortFunc(members, func(a, b string) int {
		return cmp.Or(cmp.Compare(o.zset[a], o.zset[b]), cmp.Compare(a, b))
	})
	return members
}

// score is how Redis writes one.
func score(f float64) string {
	if f == math.Trunc(f) && math.Abs(f) < 1<<62 {
		return strconv.FormatInt(int64(f), 10)
	}
	return strconv.FormatFloat(f, 'g', 17, 64)
}

func (r *fakeRedis) us() string { return strconv.FormatInt(r.now, 10) }

func number64(s string) float64 {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0
	}
	return f
}

// command runs one of the commands that the tests write with.
func (r *fakeRedis) command(name, key string, args ...string) (any, error) {
	switch strings.ToUpper(name) {
	case "DEL", "UNLINK":
		was := r.exists(key)
		delete(r.keys, key)
		return bit(was), nil
	case "SET":
		r.keys[key] = &object{kind: "string", text: args[0]}
		return "OK", nil
	case "HSET":
		return r.each(key, "hash", args, 2, func(o *object, a []string) bool {
			_, was := o.hash[a[0]]
			o.hash[a[0]] = a[1]
			return !was
		})
	case "HDEL":
		return r.each(key, "hash", args, 1, func(o *object, a []string) bool {
			_, was := o.hash[a[0]]
			delete(o.hash, a[0])
			return was
		})
	case "SADD":
		return r.each(key, "set", args, 1, func(o *object, a []string) bool {
			was := o.set[a[0]]
			o.set[a[0]] = true
			return !was
		})
	case "SREM":
		return r.each(key, "set", args, 1, func(o *object, a []string) bool {
			was := o.set[a[0]]
			delete(o.set, a[0])
			return was
		})
	case "ZADD":
		return r.each(key, "zset", args, 2, func(o *object, a []string) bool {
			_, was := o.zset[a[1]]
			o.zset[a[1]] = number64(a[0])
			return !was
		})
	case "RPUSH":
		_, err := r.each(key, "list", args, 1, func(o *object, a []string) bool {
			o.list = append(o.list, a[0])
			return true
		})
		if err != nil {
			return nil, err
		}
		return r.keys[key].size(), nil
	case "XADD":
		o, err := r.make(key, "stream")
		if err != nil {
			return nil, err
		}
		o.stream = append(o.stream, entryOf{args[0], args[1:]})
		return args[0], nil
	case "EXPIRE":
		return bit(r.exists(key)), nil // the tests end no key's life by this
	}
	return nil, lockkeeper.NewReplyError("ERR unknown command " + name)
}

// each calls f for every so many arguments, and counts the true answers.
func (r *fakeRedis) each(key, kind string, args []string, n int, f func(o *object, a []string) bool) (any, error) {
	o, err := r.make(key, kind)
	if err != nil {
		return nil, err
	}
	defer r.tidy(key)
	count := int64(0)
	for a := range slices.Chunk(args, n) {
		if f(o, a) {
			count++
		}
	}
	return count, nil
}

func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// A model is a script in Go.
type model func(r *fakeRedis, keys, args []string) (any, error)

// models are all scripts, by their names.
var models = map[string]model{
	"ack": ackModel, "advance": advanceModel, "control": controlModel, "database": databaseModel, "digest": digestModel, "entries": entriesModel,
	"epoch": epochModel, "fields": fieldsModel, "hold": holdModel, "intake": intakeModel, "mark": markModel,
	"marked": markedModel, "member": memberModel, "page": pageModel, "pick": pickModel, "read": readModel, "rewind": rewindModel,
	"status": statusModel, "touch": touchModel, "unhold": unholdModel, "walk": walkModel,
}

// A scripted is a script as it comes over the wire.
type scripted struct {
	name, source string
	run          model
}

// scriptsBySHA finds scripts by the SHA-1 of the form that servers from 7 on take.
var scriptsBySHA = func() map[string]*scripted {
	all := make(map[string]*scripted)
	for name, run := range models {
		c := &capture{}
		_, _ = script.New(scriptText(name)).Run(context.Background(), c, new(script.Dialect), nil, nil) // it is only to see the source
		sum := sha1.Sum([]byte(c.source))
		all[hex.EncodeToString(sum[:])] = &scripted{name, c.source, run}
	}
	return all
}()

// A capture keeps the source of a script that is run.
type capture struct{ source string }

func (c *capture) EvalSha(context.Context, string, []string, []string) (any, error) {
	return nil, &noScript{}
}

func (c *capture) Eval(_ context.Context, source string, _, _ []string) (any, error) {
	c.source = source
	return nil, nil
}

type noScript struct{}

func (*noScript) Error() string { return "NOSCRIPT" }
func (*noScript) Line() string  { return "NOSCRIPT" }

// evalSha runs a script that the server knows.
func (r *fakeRedis) evalSha(sha string, keys, args []string) (any, error) {
	s := scriptsBySHA[sha]
	if s == nil || !r.loaded[sha] {
		return nil, lockkeeper.NewReplyError("NOSCRIPT No matching script. Please use EVAL.")
	}
	return s.run(r, keys, args)
}

func (r *fakeRedis) eval(source string, keys, args []string) (any, error) {
	sum := sha1.Sum([]byte(source))
	sha := hex.EncodeToString(sum[:])
	if scriptsBySHA[sha] == nil {
		return nil, lockkeeper.NewReplyError("ERR no model of this script")
	}
	r.loaded[sha] = true
	return r.evalSha(sha, keys, args)
}

// newVersion returns a version that is larger than all before. us is read once in a
// script, last is what the script has got so far.
func newVersion(us int64, last *int64) string {
	*last = max(us, *last+1)
	return strconv.FormatInt(*last, 10)
}

func (r *fakeRedis) lastVersion(clock string) int64 {
	text, _ := r.get(clock)
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

func (r *fakeRedis) setString(key, text string) { r.keys[key] = &object{kind: "string", text: text} }

func markModel(r *fakeRedis, keys, args []string) (any, error) {
	key, dirty, versions, clock := keys[0], keys[1], keys[2], keys[3]
	if args[0] != opUpdate && args[0] != opDelete {
		return nil, lockkeeper.NewReplyError("ERR the first argument of mark is U or D, and nothing was written")
	}
	deleted := args[0] == opDelete || r.exists(key) || r.markedDeleted(versions, key)
	last := r.lastVersion(clock)
	version := newVersion(r.now, &last)
	r.setString(clock, version)
	r.version(versions, key, version, opUpdate)
	r.zaddNX(dirty, number64(version), key)
	reply, err := r.command(args[1], key, args[2:]...)
	if err == nil && deleted && !r.exists(key) {
		now, _ := r.hget(versions, key)
		r.hset(versions, key, strings.TrimSuffix(now, opUpdate)+opDelete)
	}
	return reply, err
}

// markedDeleted reports whether the mark of a key is that of a delete.
func (r *fakeRedis) markedDeleted(versions, key string) bool {
	version, _ := r.hget(versions, key)
	return strings.HasSuffix(version, opDelete)
}

// perKeyCounter counts the changes of each key from 1, and begins anew after an
// acknowledgement.
const perKeyCounter flaw = "a counter of each key in place of a unique version"

func (r *fakeRedis) version(versions, key, version, op string) {
	if r.flaw == perKeyCounter {
		before, _ := r.hget(versions, key)
		n, _ := strconv.Atoi(strings.TrimRight(before, "UD"))
		version = strconv.Itoa(n + 1)
	}
	r.hset(versions, key, version+op)
}

// popBeforeWrite takes marks away when they are read.
const popBeforeWrite flaw = "marks are taken away before the write"

func pageModel(r *fakeRedis, keys, args []string) (any, error) {
	aside := make([]any, 0, len(keys))
	for _, key := range keys[6:] {
		aside = append(aside, r.keys[key].size())
	}
	ranked := r.keys[keys[0]].ranked()
	skip, _ := strconv.Atoi(args[0])
	most, _ := strconv.Atoi(args[1])
	ranked = ranked[min(skip, len(ranked)):]
	ranked = ranked[:min(most, len(ranked))]
	names, versions := make([]any, len(ranked)), make([]any, len(ranked))
	for i, key := range ranked {
		names[i] = key
		versions[i] = textOrNil(r.hget(keys[1], key))
		if r.flaw == popBeforeWrite {
			r.hdel(keys[1], key)
			r.zrem(keys[0], key)
		}
	}
	intake := r.keys[keys[2]].size() + r.keys[keys[3]].size()
	return []any{r.us(), intake, r.keys[keys[4]].size(), aside, r.pairs(keys[5]), names, versions}, nil
}

func textOrNil(text string, there bool) any {
	if !there {
		return nil
	}
	return text
}

// pairs is HGETALL.
func (r *fakeRedis) pairs(key string) []any {
	list := []any{}
	if o := r.keys[key]; o != nil {
		for _, field := range slices.Sorted(maps.Keys(o.hash)) {
			list = append(list, field, o.hash[field])
		}
	}
	return list
}

func intakeModel(r *fakeRedis, keys, args []string) (any, error) {
	dirty, versions, clock, changed, deleted := keys[0], keys[1], keys[2], keys[3], keys[4]
	n, _ := strconv.Atoi(args[0])
	last := r.lastVersion(clock)
	mark := func(key, op string) {
		version := newVersion(r.now, &last)
		r.version(versions, key, version, op)
		r.zaddNX(dirty, number64(version), key)
	}
	gone := func(key string, said bool) string {
		if !r.exists(key) && (said || r.markedDeleted(versions, key)) {
			return opDelete
		}
		return opUpdate
	}
	popped := r.spop(deleted, n)
	for _, key := range popped {
		r.srem(changed, key)
		mark(key, gone(key, true))
	}
	more := r.spop(changed, n)
	for _, key := range more {
		mark(key, gone(key, r.srem(deleted, key)))
	}
	if len(popped)+len(more) > 0 {
		r.setString(clock, strconv.FormatInt(last, 10))
	}
	return int64(len(popped) + len(more)), nil
}

func readModel(r *fakeRedis, keys, args []string) (any, error) {
	kind, left := args[0], int(number(args[1]))
	out := []any{}
	for _, key := range keys {
		if left <= 0 {
			break
		}
		o := r.keys[key]
		switch {
		case o == nil:
			out = append(out, nil)
		case o.kind != kind:
			out = append(out, o.kind)
		default:
			value := o.value(args[2:])
			left -= bytesOf(value)
			out = append(out, value)
		}
	}
	return out, nil
}

// bytesOf is how read counts.
func bytesOf(values []any) int {
	sum := 0
	for _, v := range values {
		text, _ := v.(string)
		if v != nil {
			sum += 16 + len(text)
		}
	}
	return sum
}

// value is what read returns of a key that is there.
func (o *object) value(args []string) []any {
	switch o.kind {
	case "string":
		return []any{o.text}
	case "hash":
		values := make([]any, len(args))
		for i, field := range args {
			text, there := o.hash[field]
			values[i] = textOrNil(text, there)
		}
		return values
	}
	values := []any{o.size()}
	if o.size() > number(args[0]) {
		return values
	}
	switch o.kind {
	case "set":
		for _, m := range slices.Sorted(maps.Keys(o.set)) {
			values = append(values, m)
		}
	case "zset":
		for _, m := range o.ranked() {
			values = append(values, m, score(o.zset[m]))
		}
	case "list":
		for _, m := range o.list {
			values = append(values, m)
		}
	}
	return values
}

// advanceBeforeCommit moves the cursor when entries are read.
const advanceBeforeCommit flaw = "the cursor of a stream is advanced before the commit"

func entriesModel(r *fakeRedis, keys, args []string) (any, error) {
	most, left := int(number(args[0])), int(number(args[1]))
	out := []any{}
	for i, key := range keys[1:] {
		if left <= 0 {
			break
		}
		o := r.keys[key]
		if o == nil {
			out = append(out, nil)
			continue
		}
		if o.kind != "stream" {
			out = append(out, o.kind)
			continue
		}
		cursor, _ := r.hget(keys[0], key)
		if i+2 < len(args) {
			cursor = args[i+2]
		}
		list := []any{cursor}
		for _, entry := range o.stream {
			if cursor != "" && compareIDs(entry.id, cursor) <= 0 {
				continue
			}
			if len(list) > most {
				break
			}
			fields := make([]any, len(entry.fields))
			for i, f := range entry.fields {
				fields[i] = f
				left -= 16 + len(f)
			}
			list = append(list, []any{entry.id, fields})
			if r.flaw == advanceBeforeCommit {
				r.hset(keys[0], key, entry.id)
			}
		}
		out = append(out, list)
	}
	return out, nil
}

// fenced returns the reply for a worker whose epoch does not stand.
func (r *fakeRedis) fenced(key, epoch string) any {
	current, there := r.get(key)
	if there && current == epoch {
		return nil
	}
	return []any{"fenced", textOrNil(current, there)}
}

// ackWithoutCompare takes marks away whatever their versions are.
const ackWithoutCompare flaw = "an acknowledgement does not compare versions"

func ackModel(r *fakeRedis, keys, args []string) (any, error) {
	dirty, versions, parkedKey := keys[1], keys[2], keys[3]
	if reply := r.fenced(keys[0], args[0]); reply != nil {
		return reply, nil
	}
	if len(args) < 5 {
		return []any{int64(0), int64(0), int64(0)}, nil
	}
	some := r.keys[parkedKey].size() > 0
	var done []string
	var parked, changed int64
	for i := 2; i+2 < len(args); i += 3 {
		key, version, why := args[i], args[i+1], args[i+2]
		if now, _ := r.hget(versions, key); now != version && r.flaw != ackWithoutCompare {
			if _, there := r.zscore(dirty, key); there {
				r.zadd(dirty, number64(args[1]), key)
			}
			changed++
			continue
		}
		done = append(done, key)
		switch {
		case why != "":
			r.park(parkedKey, key, why)
			parked++
		case some:
			r.hdel(parkedKey, key)
		}
	}
	for _, key := range done {
		r.hdel(versions, key)
		r.zrem(dirty, key)
		for _, aside := range keys[4:] {
			r.zrem(aside, key)
		}
	}
	return []any{int64(len(done)) - parked, parked, changed}, nil
}

func (r *fakeRedis) park(hash, key, why string) {
	before, _ := r.hget(hash, key)
	times, first := 0, r.us()
	if parts := strings.SplitN(before, " ", 3); len(parts) == 3 {
		times, first = int(number(parts[0])), parts[1]
	}
	r.hset(hash, key, fmt.Sprintf("%d %s %s %s", times+1, first, r.us(), why))
}

func advanceModel(r *fakeRedis, keys, args []string) (any, error) {
	if reply := r.fenced(keys[0], args[0]); reply != nil {
		return reply, nil
	}
	for i := 1; i < len(args); i += 3 {
		key, before, last := args[i], args[i+1], args[i+2]
		now, _ := r.hget(keys[1], key)
		if last == "" || now == before {
			r.setOrDrop(keys[1], key, last)
		}
	}
	return int64(1), nil
}

// setOrDrop sets a field, or takes it away with "".
func (r *fakeRedis) setOrDrop(hash, field, text string) {
	if text == "" {
		r.hdel(hash, field)
		return
	}
	r.hset(hash, field, text)
}

// holdWithoutCompare puts marks aside whatever their versions are.
const holdWithoutCompare flaw = "marks are put aside without comparing versions"

func holdModel(r *fakeRedis, keys, args []string) (any, error) {
	if reply := r.fenced(keys[0], args[0]); reply != nil {
		return reply, nil
	}
	held := int64(0)
	for i := 1; i < len(args); i += 2 {
		since, there := r.zscore(keys[1], args[i])
		now, _ := r.hget(keys[2], args[i])
		if there && (now == args[i+1] || r.flaw == holdWithoutCompare) {
			r.zaddNX(keys[3], since, args[i])
			r.zrem(keys[1], args[i])
			held++
		}
	}
	return held, nil
}

func unholdModel(r *fakeRedis, keys, args []string) (any, error) {
	o := r.keys[keys[1]]
	ranked := o.ranked()
	for _, key := range ranked[:min(int(number(args[0])), len(ranked))] {
		r.zadd(keys[0], o.zset[key], key)
		r.zrem(keys[1], key)
	}
	return r.keys[keys[1]].size(), nil
}

func touchModel(r *fakeRedis, keys, args []string) (any, error) {
	dirty, versions, clock, digests := keys[0], keys[1], keys[2], keys[3]
	last, marked := r.lastVersion(clock), int64(0)
	for i, key := range keys[4:] {
		op := args[i]
		fits := op == "u" || op == "d" || r.exists(key) == (op == opUpdate)
		if op == "d" && r.exists(key) {
			op = "u"
		}
		_, versioned := r.hget(versions, key)
		_, isDirty := r.zscore(dirty, key)
		if fits && !versioned && !isDirty {
			version := newVersion(r.now, &last)
			r.version(versions, key, version, strings.ToUpper(op))
			r.zaddNX(dirty, number64(version), key)
			marked++
		}
		if op == opDelete && fits {
			r.hdel(digests, key)
		}
	}
	if marked > 0 {
		r.setString(clock, strconv.FormatInt(last, 10))
	}
	return marked, nil
}

func digestModel(r *fakeRedis, keys, args []string) (any, error) {
	dirty, versions, clock, digests := keys[0], keys[1], keys[2], keys[3]
	last := r.lastVersion(clock)
	var marked, same, other int64
	for _, key := range keys[4:] {
		o := r.keys[key]
		if o == nil {
			other++
			continue
		}
		now := "a " + o.kind
		if o.kind == args[0] {
			now = o.digest(args)
		}
		if before, _ := r.hget(digests, key); before == now {
			same++
			continue
		}
		r.hset(digests, key, now)
		if _, there := r.hget(versions, key); !there {
			version := newVersion(r.now, &last)
			r.version(versions, key, version, opUpdate)
			r.zaddNX(dirty, number64(version), key)
		}
		marked++
	}
	if marked > 0 {
		r.setString(clock, strconv.FormatInt(last, 10))
	}
	return []any{marked, same, other}, nil
}

func (o *object) digest(args []string) string {
	var values []any
	switch o.kind {
	case "hash", "string":
		values = o.value(args[2:])
	case "stream":
		last := ""
		if n := len(o.stream); n > 0 {
			last = o.stream[n-1].id
		}
		values = []any{last, o.size()}
	default:
		if o.size() > number(args[1]) {
			return fmt.Sprintf("too many: %d", o.size())
		}
		values = o.value(args[1:2])[1:]
	}
	var all strings.Builder
	for _, v := range values {
		if v == nil {
			all.WriteByte('-')
			continue
		}
		text := fmt.Sprint(v)
		fmt.Fprintf(&all, "%d:%s", len(text), text)
	}
	sum := sha1.Sum([]byte(all.String()))
	return hex.EncodeToString(sum[:])[:20]
}

func databaseModel(r *fakeRedis, keys, args []string) (any, error) {
	if known, there := r.hget(keys[0], "database"); there && args[1] != "1" {
		return known, nil
	}
	r.hset(keys[0], "database", args[0])
	return args[0], nil
}

func epochModel(r *fakeRedis, keys, args []string) (any, error) {
	if current, there := r.get(keys[0]); there {
		f, err := strconv.ParseFloat(current, 64)
		if err != nil || f >= number64(args[0]) {
			return current, nil
		}
	}
	r.setString(keys[0], args[0])
	return int64(1), nil
}

func rewindModel(r *fakeRedis, keys, args []string) (any, error) {
	rewound := int64(0)
	for i := 0; i+1 < len(args); i += 2 {
		now, there := r.hget(keys[0], args[i])
		if there && compareIDs(args[i+1], now) < 0 {
			r.hset(keys[0], args[i], args[i+1])
			rewound++
		}
	}
	return rewound, nil
}

func controlModel(r *fakeRedis, keys, args []string) (any, error) {
	for i := 0; i+1 < len(args); i += 2 {
		r.setOrDrop(keys[0], args[i], args[i+1])
	}
	return r.keys[keys[0]].size(), nil
}

func pickModel(r *fakeRedis, keys, args []string) (any, error) {
	if args[0] == "get" {
		values := make([]any, len(args)-1)
		for i, field := range args[1:] {
			values[i] = textOrNil(r.hget(keys[0], field))
		}
		return values, nil
	}
	dropped := int64(0)
	for i := 1; i+1 < len(args); i += 2 {
		if now, there := r.hget(keys[0], args[i]); there && now == args[i+1] {
			r.hdel(keys[0], args[i])
			dropped++
		}
	}
	return dropped, nil
}

func fieldsModel(r *fakeRedis, keys, _ []string) (any, error) {
	return []any{"0", r.pairs(keys[0])}, nil
}

func walkModel(r *fakeRedis, _, args []string) (any, error) {
	found := []any{}
	for _, key := range slices.Sorted(maps.Keys(r.keys)) {
		if ok, _ := path.Match(args[1], key); ok {
			found = append(found, key)
		}
	}
	return []any{"0", int64(len(r.keys)), found}, nil
}

func markedModel(r *fakeRedis, keys, _ []string) (any, error) {
	out := make([]any, 0, len(keys))
	for _, key := range keys[5:] {
		sum := bit(r.exists(key))
		_, versioned := r.hget(keys[1], key)
		_, isDirty := r.zscore(keys[0], key)
		if versioned || isDirty || r.has(keys[3], key) || r.has(keys[4], key) {
			sum += 2
		}
		if _, isParked := r.hget(keys[2], key); isParked {
			sum += 4
		}
		out = append(out, sum)
	}
	return out, nil
}

func memberModel(r *fakeRedis, keys, args []string) (any, error) {
	r.setOrDrop(keys[0], args[0], "")
	if args[1] != "" {
		r.hset(keys[0], args[0], r.us()+" "+args[1])
	}
	all, fresh := r.pairs(keys[0]), []any{}
	for i := 0; i < len(all); i += 2 {
		said, _, _ := strings.Cut(all[i+1].(string), " ")
		if r.now-number(said) > number(args[2]) {
			r.hdel(keys[0], all[i].(string))
			continue
		}
		fresh = append(fresh, all[i], all[i+1])
	}
	return []any{r.us(), fresh}, nil
}

func statusModel(r *fakeRedis, keys, _ []string) (any, error) {
	oldest := func(key string) any {
		o := r.keys[key]
		if o.size() == 0 {
			return nil
		}
		return score(o.zset[o.ranked()[0]])
	}
	aside := []any{}
	for _, key := range keys[7:] {
		aside = append(aside, r.keys[key].size(), oldest(key))
	}
	return []any{
		r.us(), r.keys[keys[0]].size(), oldest(keys[0]), r.keys[keys[1]].size(), textOrNil(r.get(keys[2])),
		r.keys[keys[3]].size() + r.keys[keys[4]].size(), r.pairs(keys[5]), r.pairs(keys[6]), aside,
	}, nil
}
