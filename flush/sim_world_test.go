package flush

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing/synctest"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/sqlfence"
)

// The simulator runs the engine's own code, sessions with their passes and rests, on a
// Redis and a database in memory. Whatever a worker asks of them is a request that waits
// until the scheduler lets it take its next step, and the scheduler is the only one that
// changes the world. Between any two steps it may do something else: let another worker
// go on, write as a producer, lose a request or its reply, run it late, end a worker for
// good, elect another one, restart Redis. It knows what was written, and so what is right.

// A world is one schedule.
type world struct {
	rng   *rand.Rand
	seed  uint64
	flaw  flaw
	redis *fakeRedis
	db    *simDB
	keys  Keys
	slots []*slot
	admin *Engine // whose requests run at once

	lateEpoch bool   // an epoch has been installed late, which ends a term
	early     string // which term has ended that should not
	operator  *slot
	frozen    *slot // it takes no step
	freeze    int   // for how long

	mu      sync.Mutex
	pending []*request
	trace   []event

	late     []*request // they run when their worker has given up on them
	truths   []*truth
	byKey    map[string]*truth
	marks    map[string]int  // key and version: the state that the version stands for
	done     map[string]bool // key and version: committed
	touched  map[string]bool // key and version: nobody has changed the key
	listed   []Parked        // what an operator has read, and may act on later
	fences   uint64
	counter  int // for values that differ
	ticks    int
	retries  bool // operators mostly try parked keys again
	lossy    bool // few keys, and many requests are lost, or come late
	failure  string
	finished bool // no more faults
}

// An event is a line of the trace.
type event struct {
	who, what string
	detail    any
}

func (w *world) note(who, what string, detail any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trace = append(w.trace, event{who, what, detail})
}

// fail says what is wrong; the first is kept.
func (w *world) fail(format string, args ...any) {
	if w.failure == "" {
		w.failure = fmt.Sprintf(format, args...)
		w.note("ORACLE", w.failure, nil)
	}
}

func (w *world) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %s\n", w.seed, w.failure)
	for _, e := range w.trace {
		fmt.Fprintf(&b, "  %-9s %s", e.who, e.what)
		if e.detail != nil {
			fmt.Fprintf(&b, " %v", e.detail)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// A slot is a process: an engine, and the term that it has, if it has one.
type slot struct {
	world    *world
	name     string
	engine   *Engine
	running  bool
	crashed  bool
	last     bool               // it has begun after the time of faults
	stop     context.CancelFunc // asks it to end after its batch
	kill     context.CancelFunc
	fence    uint64
	epoch    int64
	reads    map[string]int  // key: the state that was read last
	paged    map[string]bool // key and version that was read: whether operators let it be written
	refusals map[string]int  // name of a row: how often it was refused because of a reference
	lateNow  bool            // what runs now comes late, and its worker may know other things by now
}

// A request is one call of a worker, and how far it is.
type request struct {
	slot  *slot
	what  string
	keys  []string
	args  []string
	phase int

	steps   []func() bool // each returns true if the request has come to its end
	blocked func() bool   // nil: never
	undo    func()        // takes back what is not committed; nil: nothing
	writes  bool          // it may run late

	reply any
	err   error
	ready chan struct{}
}

var (
	errCut     = errors.New("connection lost")
	errCrashed = errors.New("this process is gone")
)

// submit waits until the scheduler has taken a request to its end.
func (w *world) submit(r *request) {
	w.mu.Lock()
	if r.slot.crashed {
		w.mu.Unlock()
		r.err = errCrashed
		return
	}
	r.ready = make(chan struct{})
	w.pending = append(w.pending, r)
	w.mu.Unlock()
	<-r.ready
}

// step takes a request one step further.
func (w *world) step(r *request) {
	done := r.steps[r.phase]()
	r.phase++
	if done || r.phase == len(r.steps) {
		w.release(r)
	}
}

// release gives a request's reply to its worker, and waits until the worker has come to
// its next one.
func (w *world) release(r *request) {
	w.mu.Lock()
	w.pending = slices.DeleteFunc(w.pending, func(other *request) bool { return other == r })
	w.mu.Unlock()
	close(r.ready)
	synctest.Wait()
}

// simConn is a worker's connection to Redis. A nil slot is a producer's or an operator's.
type simConn struct {
	world *world
	slot  *slot
}

func (c *simConn) EvalSha(_ context.Context, sha string, keys, args []string) (any, error) {
	s := scriptsBySHA[sha]
	if s == nil {
		return nil, lockkeeper.NewReplyError("ERR the simulator has no script " + sha)
	}
	return c.call(s, keys, args, func() (any, error) { return c.world.redis.evalSha(sha, keys, args) })
}

func (c *simConn) Eval(_ context.Context, source string, keys, args []string) (any, error) {
	for _, s := range scriptsBySHA {
		if s.source == source {
			return c.call(s, keys, args, func() (any, error) { return c.world.redis.eval(source, keys, args) })
		}
	}
	return nil, lockkeeper.NewReplyError("ERR the simulator has no such script")
}

func (c *simConn) Listen(context.Context, string, func(), func(string)) error { return errCut }

func (c *simConn) call(s *scripted, keys, args []string, run func() (any, error)) (any, error) {
	w := c.world
	if c.slot == nil {
		return w.execute(nil, s.name, keys, args, run)
	}
	r := &request{slot: c.slot, what: s.name, keys: keys, args: args, writes: writers[s.name]}
	r.steps = []func() bool{
		func() bool {
			r.reply, r.err = w.execute(c.slot, s.name, keys, args, run)
			return false
		},
		func() bool { return true },
	}
	w.submit(r)
	return r.reply, r.err
}

// writers are the scripts that can do harm when they run late.
var writers = map[string]bool{
	"ack": true, "advance": true, "hold": true, "unhold": true, "control": true, "intake": true, "touch": true, "epoch": true,
}

// execute runs a script, and looks at what it has done.
func (w *world) execute(s *slot, name string, keys, args []string, run func() (any, error)) (any, error) {
	r := w.redis
	r.now += w.rng.Int64N(3)
	before := w.snapshot()
	if s != nil && name == "intake" && w.flaw == intakeNotAtomic {
		return w.intakeInTwo(s, keys)
	}
	reply, err := run()
	who := "-"
	if s != nil {
		who = s.name
	}
	w.note(who, name, detail{keys, args, reply, err})
	if err != nil {
		return reply, err
	}
	if name == "mark" {
		w.newState(keys[0], args[0] == opDelete)
	}
	for _, mark := range w.newMarks(before) {
		w.touched[mark] = name == "touch"
	}
	switch name {
	case "page":
		names, versions := reply.([]any)[5].([]any), reply.([]any)[6].([]any)
		for i := range names {
			version, _ := versions[i].(string)
			if version == "" && w.flaw == "" {
				w.fail("%s has a mark without a version, and nobody makes such", names[i])
			}
			mark := names[i].(string) + " " + version
			c := parseControl(reply.([]any)[4])
			may := c["pause"] == "" && c["step-down"] != formatInt(s.epoch) && c["pause:"+w.byKey[names[i].(string)].mapping.Table] == ""
			// If it was read before, it may be in the batch that is being written.
			if _, before := s.paged[mark]; !before || args[0] == "0" || may {
				s.paged[mark] = may
			}
		}
	case "read", "entries":
		reply = w.shorten(reply.([]any))
		if name == "entries" {
			keys = keys[1:]
		}
		for i := range reply.([]any) {
			s.reads[keys[i]] = len(w.byKey[keys[i]].states) - 1
		}
	case "ack":
		w.checkAck(s, before, args, reply)
	case "hold":
		w.checkHold(s, before, keys[3])
	}
	w.checkCursors(before, name)
	return reply, nil
}

// shorten takes values off the end, as if there were too many bytes.
func (w *world) shorten(values []any) []any {
	if len(values) > 1 && !w.finished && w.rng.IntN(6) == 0 {
		return values[:1+w.rng.IntN(len(values)-1)]
	}
	return values
}

// A detail is what a script was called with and has answered.
type detail struct {
	keys, args []string
	reply      any
	err        error
}

func (d detail) String() string {
	short := make([]string, len(d.keys))
	for i, key := range d.keys {
		short[i] = strings.TrimPrefix(key, "lockkeeper:flush:{sim}:")
	}
	return fmt.Sprintf("%q %q -> %v %v", short, d.args, d.reply, d.err)
}

// A shot is what the oracles want to know from before a script.
type shot struct {
	versions map[string]string
	cursors  map[string]string
	aside    map[string]map[string]float64
}

func (w *world) snapshot() shot {
	s := shot{aside: make(map[string]map[string]float64)}
	if o := w.redis.keys[w.keys.Versions]; o != nil {
		s.versions = maps.Clone(o.hash)
	}
	if o := w.redis.keys[w.keys.Cursors]; o != nil {
		s.cursors = maps.Clone(o.hash)
	}
	for _, set := range w.admin.aside() {
		if o := w.redis.keys[set]; o != nil {
			s.aside[set] = maps.Clone(o.zset)
		}
	}
	return s
}

// newMarks notes which state of its key a new version stands for, and returns the new
// ones.
func (w *world) newMarks(before shot) []string {
	o := w.redis.keys[w.keys.Versions]
	if o == nil {
		return nil
	}
	var marks []string
	for key, version := range o.hash {
		if mark := key + " " + version; before.versions[key] != version {
			w.marks[mark] = len(w.byKey[key].states) - 1
			delete(w.done, mark)
			marks = append(marks, mark)
		}
	}
	return marks
}

// intakeNotAtomic takes keys out of a set first, and marks them in another step.
const intakeNotAtomic flaw = "the intake takes keys out and marks them in two steps"

func (w *world) intakeInTwo(s *slot, keys []string) (any, error) {
	popped := map[string][]string{}
	for _, set := range keys[3:] {
		popped[set] = w.redis.spop(set, 1000)
	}
	w.note(s.name, "intake, first half", popped)
	later := &request{slot: s, what: "intake, second half"}
	later.steps = []func() bool{func() bool {
		if s.crashed {
			return true
		}
		for set, members := range popped {
			for _, m := range members {
				_, _ = w.redis.command("SADD", set, m)
			}
		}
		before := w.snapshot()
		_, _ = intakeModel(w.redis, keys, []string{"1000"})
		w.newMarks(before)
		return true
	}}
	w.late = append(w.late, later)
	return int64(0), nil
}

// A simHolder is a hold of the lock.
type simHolder struct {
	slot  *slot
	fence uint64
}

func (h simHolder) Fence() lockkeeper.Fence { return lockkeeper.Fence(h.fence) }
func (h simHolder) Owner() string           { return fmt.Sprintf("%s-%d", h.slot.name, h.fence) }
func (h simHolder) RaiseFence(context.Context, lockkeeper.Fence) error {
	return errors.New("the lock is not held any more")
}

var _ sqlfence.Holder = simHolder{}

// elect starts a term in a slot that has none. The terms of other slots go on: they have
// not heard of it yet.
func (w *world) elect(s *slot) {
	w.fences++
	s.fence = w.fences
	w.note(s.name, "elected", s.fence)
	w.start(s, func(ctx, work context.Context) error {
		session, err := s.engine.Begin(work, simHolder{s, s.fence})
		if err == nil {
			err = session.run(ctx, work)
		}
		return err
	})
}

// start runs something in a process.
func (w *world) start(s *slot, f func(ctx, work context.Context) error) {
	s.running, s.crashed, s.last = true, false, w.finished && s != w.operator
	s.reads, s.paged, s.refusals = make(map[string]int), make(map[string]bool), make(map[string]int)
	work, kill := context.WithCancel(context.Background())
	ctx, stop := context.WithCancel(work)
	s.stop, s.kill = stop, kill
	go func() {
		err := f(ctx, work)
		w.note(s.name, "ended", err)
		w.mu.Lock()
		defer w.mu.Unlock()
		s.running = false
		if s.last && err != nil && !s.crashed && !w.lateEpoch && !errors.Is(err, ErrSteppedDown) {
			w.early = fmt.Sprintf("%s has ended by itself: %v", s.name, err)
		}
	}()
	synctest.Wait()
}

// crash ends a process for good: what it has sent may or may not be done.
func (w *world) crash(s *slot) {
	if !s.running {
		return
	}
	w.note(s.name, "crashes", nil)
	w.mu.Lock()
	s.crashed = true
	mine := w.pending
	w.pending = nil
	for _, r := range mine {
		if r.slot != s {
			w.pending = append(w.pending, r)
		}
	}
	w.mu.Unlock()
	for _, r := range mine {
		if r.slot != s {
			continue
		}
		w.abandon(r)
		r.reply, r.err = nil, errCrashed
		close(r.ready)
	}
	s.kill()
	synctest.Wait()
}

// abandon leaves a request that nobody waits for to itself: it may run later.
func (w *world) abandon(r *request) {
	if r.undo != nil {
		r.undo()
	}
	if r.writes && r.phase == 0 && w.rng.IntN(2) == 0 {
		late := *r
		w.late = append(w.late, &late)
		w.note(r.slot.name, "is on its way: "+r.what, nil)
	}
}

// cut ends a request with an error, whatever has become of it.
func (w *world) cut(r *request, err error) {
	w.note(r.slot.name, fmt.Sprintf("%s fails before step %d", r.what, r.phase), err)
	w.abandon(r)
	r.reply, r.err = nil, err
	w.release(r)
}

// simLog puts what the engine logs into the trace.
type simLog struct{ slot *slot }

func (l simLog) Enabled(context.Context, slog.Level) bool { return true }
func (l simLog) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l simLog) WithGroup(string) slog.Handler            { return l }

func (l simLog) Handle(_ context.Context, r slog.Record) error {
	var attrs []any
	r.Attrs(func(a slog.Attr) bool {
		if err, ok := a.Value.Any().(error); ok && strings.Contains(err.Error(), "unexpected") {
			l.slot.world.fail("the engine says: %v", err)
		}
		if a.Key != "job" && a.Key != "pause" {
			attrs = append(attrs, a)
		}
		return true
	})
	l.slot.world.note(l.slot.name, "logs: "+r.Message, attrs)
	return nil
}
