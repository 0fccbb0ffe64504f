package flush

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper"
)

// simStart is when the simulated Redis begins, in microseconds.
const simStart = 1_700_000_000_000_000

// newWorld makes the world of a schedule. Everything that is left to chance follows
// from the seed, but for the length of the engine's own pauses.
func newWorld(seed uint64, f flaw) *world {
	w := &world{
		rng: rand.New(rand.NewPCG(seed, 1)), seed: seed, flaw: f,
		redis: newFakeRedis(), keys: KeysOf("", "sim"),
		db:    &simDB{rows: make(map[string]simRow), broken: make(map[string]bool)},
		byKey: make(map[string]*truth), marks: make(map[string]int), done: make(map[string]bool), touched: make(map[string]bool),
	}
	w.redis.now, w.redis.flaw = simStart, f
	if w.rng.IntN(2) == 0 {
		for sha := range scriptsBySHA {
			w.redis.loaded[sha] = true
		}
	}
	batch := 1 + w.rng.IntN(4)
	w.admin = w.newEngine(nil, 0)
	w.operator = &slot{world: w, name: "operator"}
	w.operator.engine = w.newEngine(w.operator, batch)
	for i := range 3 {
		s := &slot{world: w, name: fmt.Sprint("worker-", i)}
		s.engine = w.newEngine(s, batch)
		w.slots = append(w.slots, s)
	}
	w.lossy = w.rng.IntN(5) == 0
	chosen := w.rng.Perm(len(simMappings))[:1+w.rng.IntN(3)]
	if w.retries = !w.lossy && w.rng.IntN(6) == 0; w.retries {
		chosen = []int{4} // entries of streams wait and are parked one by one
	}
	keys := 2
	if w.lossy {
		chosen, keys = chosen[:1], 1
	}
	for _, i := range chosen {
		m := &simMappings[i]
		n := 1 + w.rng.IntN(keys)
		for id := range n {
			w.addTruth(m, id+1)
		}
		if hasParent(m.Table) {
			w.addTruth(&simMappings[0], 1)
		}
	}
	return w
}

func (w *world) newEngine(s *slot, batch int) *Engine {
	cfg := Config{Job: "sim", Mappings: simMappings, Batch: batch, Interval: 100 * time.Millisecond, MaxParked: 1, Label: "sim"}
	if s != nil {
		cfg.Logger = slog.New(simLog{s})
	}
	e, err := New(&simConn{w, s}, simSink{s}, cfg)
	if err != nil {
		panic(err) // the mappings are ours
	}
	return e
}

func (w *world) addTruth(m *Mapping, id int) {
	key := fmt.Sprintf("%s%d", m.Keys[:len(m.Keys)-len("{id}")], id)
	if w.byKey[key] != nil {
		return
	}
	t := &truth{key: key, mapping: m, states: []state{{absent: true}}}
	switch n := w.rng.IntN(8); {
	case n < 3:
		t.bySets = true
	case n == 3 && m.Missing != Park: // that a key is gone can't be told from what comes in two ways
		t.bySets, t.mixed = true, true
	case n < 6 && m.Scan > 0:
		t.unmarked = true
	}
	w.truths = append(w.truths, t)
	w.byKey[key] = t
}

// run is one schedule: a time of faults, and then a time without, in which everything
// has to come to its end.
func (w *world) run() {
	w.elect(w.slots[0])
	steps := 20 + w.rng.IntN(60)
	if w.lossy {
		steps *= 2
	}
	for range steps {
		w.act()
		if w.failure != "" {
			break
		}
	}
	if w.failure == "" {
		w.drain()
	}
	for _, s := range append(w.slots, w.operator) {
		w.crash(s)
	}
}

// act does one thing by chance.
func (w *world) act() {
	w.freezeOne()
	ready := w.ready()
	n := w.rng.IntN(100)
	if w.lossy && n >= 15 && n < 31 && w.rng.IntN(6) > 0 {
		n = 99 // one term has to be at work for some time
	}
	switch {
	case n < 22:
		w.produce(w.truths[w.rng.IntN(len(w.truths))])
	case n < 26:
		w.elsewhere()
	case w.retries && n < 33:
		w.operate("log")
	case n < 27:
		w.electAnother()
	case n < 29 && len(w.late) > 0:
		w.runLate()
	case n < 30:
		w.endOne()
	case n < 31:
		w.sleep(time.Duration(1+w.rng.IntN(7)) * tick)
	case len(ready) == 0:
		w.sleep(tick)
		if len(w.ready()) == 0 && w.rng.IntN(3) == 0 {
			w.electAnother()
		}
	case n < 35:
		w.cut(ready[w.rng.IntN(len(ready))], errCut)
	case w.lossy && n < 55:
		for _, r := range ready {
			if r.writes && r.phase == 0 && r.what != "epoch" { // it comes late, perhaps after the one of the next pass
				w.cut(r, errCut)
				break
			}
		}
	case n < 36 && w.rng.IntN(4) == 0:
		r := ready[w.rng.IntN(len(ready))]
		if r.phase == 0 && len(r.keys) > 0 {
			r.writes = false
			w.cut(r, lockkeeper.NewReplyError("NOPERM not today"))
		}
	case n < 70:
		w.step(ready[w.rng.IntN(len(ready))])
	default: // to its end
		r := ready[w.rng.IntN(len(ready))]
		for r.phase < len(r.steps) && !(r.blocked != nil && r.blocked()) && slices.Contains(w.pending, r) {
			w.step(r)
		}
	}
}

// freezeOne now and then stops a process for a while, in the middle of what it does, and
// may give its work to another one. Its lock has expired then.
func (w *world) freezeOne() {
	if w.freeze--; w.freeze == 0 {
		w.frozen = nil
	}
	if w.frozen != nil || w.lossy || w.rng.IntN(30) > 0 {
		return
	}
	ready := w.ready()
	if len(ready) == 0 {
		return
	}
	w.frozen, w.freeze = ready[w.rng.IntN(len(ready))].slot, 5+w.rng.IntN(40)
	w.note(w.frozen.name, "stops for a while", nil)
	if w.rng.IntN(3) > 0 {
		w.electAnother()
	}
}

// ready returns the requests that can go on, in an order that does not depend on which
// goroutine was first.
func (w *world) ready() []*request {
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []*request
	for _, r := range w.pending {
		if (r.blocked == nil || !r.blocked()) && r.slot != w.frozen {
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(a, b *request) int {
		return cmp.Or(cmp.Compare(a.slot.name, b.slot.name), cmp.Compare(a.what, b.what))
	})
	return list
}

// tick is what time passes by. The pauses after the first failures end at a tick, whatever
// the engine's chance makes of them, so that a seed mostly gives the same schedule again.
const tick = 200 * time.Millisecond

func (w *world) sleep(d time.Duration) {
	w.note("-", "time passes", d)
	time.Sleep(d)
	synctest.Wait()
	w.redis.now += d.Microseconds()
}

func (w *world) runLate() {
	i := w.rng.IntN(len(w.late))
	r := w.late[i]
	w.late = slices.Delete(w.late, i, i+1)
	w.note(r.slot.name, "comes late: "+r.what, nil)
	r.slot.lateNow = true
	w.lateEpoch = w.lateEpoch || r.what == "epoch"
	r.steps[0]()
	r.slot.lateNow = false
}

func (w *world) electAnother() {
	for _, i := range w.rng.Perm(len(w.slots)) {
		if !w.slots[i].running && w.slots[i] != w.frozen {
			w.elect(w.slots[i])
			return
		}
	}
}

// endOne ends a process, by a crash or in order.
func (w *world) endOne() {
	s := w.slots[w.rng.IntN(len(w.slots))]
	switch {
	case !s.running:
	case w.rng.IntN(3) > 0:
		w.crash(s)
	default:
		w.note(s.name, "is asked to end", nil)
		s.stop()
		synctest.Wait()
	}
}

// elsewhere does something that is neither a worker's nor a producer's.
func (w *world) elsewhere() {
	table := w.truths[w.rng.IntN(len(w.truths))].mapping.Table
	switch w.rng.IntN(7) {
	case 0:
		w.note("-", "Redis restarts", nil)
		for _, r := range w.ready() {
			if len(r.keys) > 0 {
				w.cut(r, errCut)
			}
		}
		clear(w.redis.loaded)
	case 1, 2:
		if w.rng.IntN(3) == 0 {
			w.db.takes = !w.db.takes
		} else {
			w.db.broken[table] = !w.db.broken[table]
		}
		w.note("-", "broken tables", fmt.Sprint(w.db.broken, " refuses ", !w.db.takes))
	case 3:
		if w.db.locked == nil && w.rng.IntN(3) == 0 {
			w.db.epoch = max(0, w.db.epoch-2)
			w.note("-", "the database counts from a backup on", w.db.epoch)
			break
		}
		w.redis.now -= w.rng.Int64N(3_000_000)
		w.note("-", "the clock of Redis goes back", nil)
	default:
		w.operate(table)
	}
}

// operate starts something that an operator does; its requests take turns with others.
func (w *world) operate(table string) {
	if w.operator.running {
		return
	}
	ops := []func(ctx context.Context, e *Engine){
		func(ctx context.Context, e *Engine) {
			var list []Parked
			_ = e.EachParked(ctx, func(p Parked) bool {
				list = append(list, p)
				return true
			})
			w.listed = list
		},
		func(ctx context.Context, e *Engine) { _, _ = e.RetryParked(ctx, w.listed...) },
		func(ctx context.Context, e *Engine) { _, _ = e.Resync(ctx, table, nil) },
		func(ctx context.Context, e *Engine) { _, _ = e.Scan(ctx, table) },
		func(ctx context.Context, e *Engine) { _ = e.Pause(ctx, Pause{Table: table, Reason: "an operator"}) },
		func(ctx context.Context, e *Engine) { _ = e.Resume(ctx, table) },
		func(ctx context.Context, e *Engine) {
			_ = e.Pause(ctx, Pause{Reason: "an operator"})
			_ = e.Resume(ctx, "")
		},
		func(ctx context.Context, e *Engine) { _ = e.Now(ctx) },
		func(ctx context.Context, e *Engine) {
			status, _ := e.Status(ctx)
			_ = e.StepDown(ctx, status.Epoch)
		},
	}
	n := w.rng.IntN(len(ops) + 7)
	switch {
	case n == len(ops):
		w.drop()
		return
	case n > len(ops) || w.retries: // what takes two things in a row to do harm
		n %= 2
	}
	w.start(w.operator, func(ctx, _ context.Context) error {
		ops[n](ctx, w.operator.engine)
		return nil
	})
}

func (w *world) drop() {
	if len(w.listed) == 0 {
		return
	}
	p := w.listed[w.rng.IntN(len(w.listed))]
	if n, _ := w.admin.DropParked(context.Background(), p); n == 0 {
		return
	}
	t := w.byKey[p.Key]
	if _, marked := w.redis.hget(w.keys.Versions, p.Key); p.Entry == "" && !marked {
		t.dropped = len(t.states)
	}
	for _, e := range t.entries {
		e.wasDropped = e.wasDropped || e.id == p.Entry
	}
}

// produce writes something to a key.
func (w *world) produce(t *truth) {
	w.counter++
	n := strconv.Itoa(w.counter)
	switch w.rng.IntN(16) {
	case 0:
		n = "x"
	case 1:
		n = strconv.Itoa(refusedValue)
	case 2, 3, 4:
		w.write(t, "DEL")
		return
	case 5:
		if w.rng.IntN(2) == 0 {
			w.expire(t)
			return
		}
	}
	parent := [...]string{"1", "1", "2", "9"}[w.rng.IntN(4)]
	switch o := w.redis.keys[t.key]; {
	case w.rng.IntN(12) == 0 && t.mapping.Source != Streams: // it may take the last field or element, or change nothing
		switch t.mapping.source() {
		case Hashes:
			w.write(t, "HDEL", [...]string{"n", "name", "parent"}[w.rng.IntN(3)])
		case Sets:
			w.write(t, "SREM", w.anyMember(o))
		default:
			w.write(t, "EXPIRE", "1000")
		}
	case t.mapping.Table == "parent":
		w.write(t, "HSET", "name", "a"+n, "n", n)
	case t.mapping.Table == "child":
		w.write(t, "HSET", "n", n, "parent", parent)
	case t.mapping.Source == Strings:
		w.write(t, "SET", n)
	case t.mapping.Source == Sets && o.size() > 1 && w.rng.IntN(2) == 0:
		w.write(t, "SREM", w.anyMember(o))
	case t.mapping.Source == Sets:
		w.write(t, "SADD", n)
	case w.rng.IntN(2) == 0:
		w.write(t, "XADD", w.nextID(), "n", n)
	default:
		w.write(t, "XADD", w.nextID(), "n", n, "parent", parent)
	}
}

func (w *world) anyMember(o *object) string {
	if o == nil {
		return "1"
	}
	members := slices.Sorted(maps.Keys(o.set))
	return members[w.rng.IntN(len(members))]
}

// nextID returns the ID of an entry; three in a row have one time.
func (w *world) nextID() string { return fmt.Sprintf("%d-%d", w.counter/3, w.counter%3) }

// expire takes a key away without a word.
func (w *world) expire(t *truth) {
	if !w.redis.exists(t.key) {
		return
	}
	w.note("producer", "expires "+t.key, nil)
	delete(w.redis.keys, t.key)
	w.newState(t.key, false)
}

// markNotAtomic writes first, and marks later, or never if the producer ends between.
const markNotAtomic flaw = "a write and its mark are two steps"

// write runs a command with its mark, in one of the two ways.
func (w *world) write(t *truth, command string, args ...string) {
	switch {
	case w.flaw == markNotAtomic && w.rng.IntN(4) == 0:
		_, _ = w.redis.command(command, t.key, args...)
		w.newState(t.key, command == "DEL")
		w.note("producer", "writes and ends before the mark: "+command+" "+t.key, args)
		return
	case t.unmarked:
		w.note("producer", "without a mark: "+command+" "+t.key, args)
		_, _ = w.redis.command(command, t.key, args...)
		w.newState(t.key, false)
		return
	case !t.bySets || t.mixed && w.rng.IntN(2) == 0:
		p := &Producer{conn: &simConn{w, nil}, keys: w.keys}
		_, _ = p.Do(context.Background(), t.key, command, args...)
		return
	}
	w.note("producer", "MULTI "+command+" "+t.key, args)
	_, _ = w.redis.command(command, t.key, args...)
	set := w.keys.Changed
	if command == "DEL" {
		set = w.keys.Deleted
	}
	_, _ = w.redis.command("SADD", set, t.key)
	w.newState(t.key, command == "DEL")
}

// drain lets everything come to its end without faults.
func (w *world) drain() {
	w.finished, w.frozen = true, nil
	w.note("-", "THE END OF FAULTS", nil)
	clear(w.db.broken)
	w.resumeAll()
	scanned := false
	for range 5000 {
		ready := w.ready()
		switch {
		case w.failure != "":
			return
		case w.early != "":
			w.fail("%s", w.early)
		case len(w.late) > 0 && w.rng.IntN(3) == 0:
			w.runLate()
		case len(ready) > 0:
			w.step(ready[w.rng.IntN(len(ready))])
		case !w.led():
			w.electAnother()
		case len(w.late) > 0:
			w.runLate()
		case w.idle() && !scanned:
			_, _ = w.admin.Scan(context.Background(), "text")
			scanned = true
		case w.idle():
			w.checkEnd()
			return
		case w.isPaused():
			w.sleep(pausedRest + 5*tick)
			w.resumeAll() // an operator's command can have come late
		default:
			w.sleep(waitingRest + tick)
		}
	}
	w.fail("it does not come to an end")
}

func (w *world) resumeAll() {
	for _, table := range []string{"", "parent", "child", "text", "sets", "log"} {
		_ = w.admin.Resume(context.Background(), table)
	}
}

// isPaused reports whether something is paused that does not try again by itself.
func (w *world) isPaused() bool {
	if o := w.redis.keys[w.keys.Control]; o != nil {
		for field := range o.hash {
			if strings.HasPrefix(field, fieldPause) {
				return true
			}
		}
	}
	return false
}

// led reports whether the term that was elected last is at work.
func (w *world) led() bool {
	for _, s := range w.slots {
		if s.running && s.fence == w.fences {
			return true
		}
	}
	return false
}

// idle reports whether nothing is left to do.
func (w *world) idle() bool {
	k := w.keys
	for _, key := range append([]string{k.Dirty, k.Changed, k.Deleted}, w.admin.aside()...) {
		if w.redis.keys[key].size() > 0 {
			return false
		}
	}
	return !w.isPaused() && !w.operator.running
}

// A census counts what has happened in many schedules.
type census map[string]int

// counted are the events that a census knows, as the trace has them.
var counted = []string{
	"claims", "commits", "write is fenced", "logs: key parked", "logs: mapping paused; its changes are kept", "hold", "ack", "advance",
	"crashes", "stops for a while", "Redis restarts", "rewind", "time passes", "the database counts from a backup on",
	"logs: the database's epoch is behind; raised", "the clock of Redis goes back",
}

func (c census) add(w *world) {
	for _, e := range w.trace {
		switch {
		case slices.Contains(counted, e.what):
			c[e.what]++
		case strings.HasPrefix(e.what, "comes late"):
			c["comes late"]++
		case strings.Contains(e.what, " fails before step "):
			c["fails"]++
		}
		c["events"]++
	}
}

// simulate runs schedules with the seeds from first on, and returns the first that
// fails.
func simulate(t *testing.T, first uint64, n int, f flaw, seen census) *world {
	var failed *world
	const chunk = 500
	for ; n > 0 && failed == nil; n -= chunk {
		synctest.Test(t, func(*testing.T) {
			for range min(n, chunk) {
				w := newWorld(first, f)
				w.run()
				seen.add(w)
				first++
				if w.failure != "" {
					failed = w
					return
				}
			}
		})
	}
	return failed
}

func fromEnv(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}

// TestSimulation runs as many schedules as LOCKKEEPER_SIM_SCHEDULES says, from the seed
// LOCKKEEPER_SIM_SEED on. A schedule that fails says its seed, and what has happened.
func TestSimulation(t *testing.T) {
	n, seed := fromEnv("LOCKKEEPER_SIM_SCHEDULES", 4000), fromEnv("LOCKKEEPER_SIM_SEED", 1)
	if testing.Short() {
		n /= 10
	}
	seen := make(census)
	if w := simulate(t, uint64(seed), n, "", seen); w != nil {
		t.Fatalf("%s", w)
	}
	t.Logf("%d schedules: %v", n, seen)
	for _, what := range append(counted, "comes late", "fails") {
		if seen[what] == 0 && n >= 500 {
			t.Errorf("in no schedule: %s", what)
		}
	}
}
