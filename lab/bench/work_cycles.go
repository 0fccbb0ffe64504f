package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// stuckAfter is when a lock call on a free lock counts as stuck and is cancelled.
const stuckAfter = 500 * time.Millisecond

// cyclesResult is what a worker tells of lock and unlock in turns.
type cyclesResult struct {
	Cycles     int64         `json:"cycles"`
	Stuck      int64         `json:"stuck"`
	Failed     int64         `json:"failed"`
	Violations int64         `json:"violations"`
	Note       string        `json:"note"` // the first error
	Elapsed    time.Duration `json:"elapsed"`
	CPU        time.Duration `json:"cpu"`
	Mallocs    uint64        `json:"mallocs"`
	Times      sparse        `json:"times"`
}

// turns are the times of two systems that did one cycle each in turns.
type turns struct {
	Times  sparse `json:"times"`
	Beside sparse `json:"beside"`
}

// workCycles takes free locks and gives them back, each goroutine its own; or tries
// locks that are held.
func workCycles(ctx context.Context, l *link, j job, sys system) error {
	c := newClock()
	lanes, done, err := openLanes(ctx, c, sys, j)
	if err != nil {
		return err
	}
	defer done()
	l.say("ready", nil)
	if err := l.hear(ctx, "go", nil); err != nil {
		return err
	}
	l.say("result", measureCycles(ctx, c, lanes, j.For))
	if j.Beside == "" {
		return nil
	}
	if err := l.hear(ctx, "compare", nil); err != nil {
		return err
	}
	other, err := systemNamed(j.Beside)
	if err != nil {
		return err
	}
	j.Name += ":beside"
	beside, done, err := openLanes(ctx, c, other, j)
	if err != nil {
		return err
	}
	defer done()
	l.say("compared", takeTurns(ctx, c, lanes[0], beside[0], j.For))
	return nil
}

// openLanes opens a client and warms up all lanes of a job.
func openLanes(ctx context.Context, c clock, sys system, j job) (lanes []*lane, done func(), err error) {
	s, err := sys.open(j.Addr, j.TTL)
	if err != nil {
		return nil, nil, err
	}
	for i := range j.Goroutines {
		lanes = append(lanes, newLane(ctx, s, c, fmt.Sprintf("%s:%d", j.Name, i), j))
	}
	if j.Try {
		if err := holdAll(ctx, sys, j); err != nil {
			return nil, nil, err
		}
	}
	watching(ctx, c, lanes, func() { inAll(lanes, (*lane).warmUp) })
	for _, l := range lanes {
		if l.result.Failed > 0 {
			return nil, nil, fmt.Errorf("warm-up: %s", l.result.Note)
		}
	}
	runtime.GC()
	return lanes, s.close, nil
}

// holdAll takes all locks as another client, who keeps them until the process ends.
func holdAll(ctx context.Context, sys system, j job) error {
	other, err := sys.open(j.Addr, j.TTL)
	if err != nil {
		return err
	}
	for i := range j.Goroutines {
		for k := range j.Keys {
			if err := lockFree(ctx, other.mutex(fmt.Sprintf("%s:%d:%d", j.Name, i, k))); err != nil {
				return err
			}
		}
	}
	return nil
}

func measureCycles(ctx context.Context, c clock, lanes []*lane, d time.Duration) (r cyclesResult) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu, start := cpuTime(false), c.now()
	end := start + int64(d)
	watching(ctx, c, lanes, func() {
		inAll(lanes, func(l *lane) { l.run(end) })
	})
	r.CPU, r.Elapsed = cpuTime(false)-cpu, time.Duration(c.now()-start)
	runtime.ReadMemStats(&after)
	r.Mallocs = after.Mallocs - before.Mallocs
	var times histogram
	for _, l := range lanes {
		times.merge(&l.times)
		r.Cycles += l.result.Cycles
		r.Stuck += l.result.Stuck
		r.Failed += l.result.Failed
		r.Violations += l.result.Violations + l.miscounted()
		if r.Note == "" {
			r.Note = l.result.Note
		}
	}
	r.Times = times.sparse()
	return r
}

// takeTurns lets two systems do one cycle each in turns, so that a disturbance of the
// machine strikes both.
func takeTurns(ctx context.Context, c clock, own, beside *lane, d time.Duration) turns {
	own.times, beside.times = histogram{}, histogram{}
	watching(ctx, c, []*lane{own, beside}, func() {
		now := c.now()
		for k, end := 0, now+int64(d); now < end; k = (k + 1) % len(own.mutexes) {
			now = beside.timed(k, own.timed(k, now))
		}
	})
	return turns{own.times.sparse(), beside.times.sparse()}
}

// watching runs f while calls that are stuck are cancelled.
func watching(ctx context.Context, c clock, lanes []*lane, f func()) {
	ctx, cancel := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { cancelStuck(ctx, c, lanes) })
	f()
	cancel()
	watch.Wait()
}

func inAll(lanes []*lane, f func(l *lane)) {
	var wg sync.WaitGroup
	for _, l := range lanes {
		wg.Go(func() { f(l) })
	}
	wg.Wait()
}

// cancelStuck ends lock calls that take too long, until ctx ends.
func cancelStuck(ctx context.Context, c clock, lanes []*lane) {
	tick := time.NewTicker(stuckAfter / 10)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, l := range lanes {
			if since := l.since.Load(); since != 0 && c.now()-since > int64(stuckAfter) {
				(*l.cancel.Load())()
			}
		}
	}
}

// A lane is one goroutine with locks of its own. Its context can be cancelled and has
// no deadline, as a caller's usually is.
type lane struct {
	parent  context.Context
	clock   clock
	mutexes []mutex
	guards  []guard
	try     bool

	since  atomic.Int64 // when the lock call began that is in progress, or 0
	ctx    context.Context
	cancel atomic.Pointer[context.CancelFunc]

	inside int64 // how often it had a lock
	times  histogram
	result cyclesResult
}

func newLane(ctx context.Context, s session, c clock, name string, j job) *lane {
	l := &lane{parent: ctx, clock: c, try: j.Try, guards: make([]guard, j.Keys)}
	for k := range j.Keys {
		l.mutexes = append(l.mutexes, s.mutex(fmt.Sprintf("%s:%d", name, k)))
	}
	l.renewContext()
	return l
}

func (l *lane) renewContext() {
	ctx, cancel := context.WithCancel(l.parent)
	l.ctx = ctx
	l.cancel.Store(&cancel)
}

// warmUp connects, loads the scripts and fills pools.
func (l *lane) warmUp() {
	for range 3 {
		for k := range l.mutexes {
			l.timed(k, l.clock.now())
		}
	}
	l.times, l.result.Cycles = histogram{}, 0
}

// run does cycles until the end, on one lock after the other.
func (l *lane) run(end int64) {
	now := l.clock.now()
	for k := 0; now < end; k = (k + 1) % len(l.mutexes) {
		now = l.timed(k, now)
	}
}

// timed does one cycle that begins now, and returns when it has ended.
func (l *lane) timed(k int, start int64) (now int64) {
	l.since.Store(start)
	ok := l.cycle(k)
	l.since.Store(0)
	now = l.clock.now()
	if ok {
		l.result.Cycles++
		l.times.add(now - start)
	}
	return now
}

// cycle reports whether all went as it should.
func (l *lane) cycle(k int) bool {
	m := l.mutexes[k]
	if l.try {
		switch err := m.try(l.ctx); {
		case errors.Is(err, errHeld):
			return true
		case err == nil:
			l.result.Violations++
			return l.check(m.unlock(l.ctx))
		default:
			return l.check(err)
		}
	}
	if !l.check(m.lock(l.ctx)) {
		return false
	}
	l.since.Store(0)
	l.inside++
	alone := l.guards[k].enter(1, 1).alone
	if !l.guards[k].leave(1, 0) || !alone {
		l.result.Violations++
	}
	return l.check(m.unlock(l.ctx))
}

// miscounted returns by how much what the locks protect is wrong.
func (l *lane) miscounted() int64 {
	counted := int64(0)
	for i := range l.guards {
		counted += l.guards[i].count
	}
	return max(counted-l.inside, l.inside-counted)
}

// check counts an error, as stuck if it is what cancelStuck did.
func (l *lane) check(err error) bool {
	switch {
	case err == nil:
		return true
	case l.ctx.Err() != nil:
		l.result.Stuck++
		l.renewContext()
	default:
		l.result.Failed++
	}
	if l.result.Note == "" {
		l.result.Note = err.Error()
	}
	return false
}
