package main

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// window is when contenders begin, from when on they are measured, and when they end,
// on the monotonic clock.
type window struct {
	Begin int64 `json:"begin"`
	Start int64 `json:"start"`
	End   int64 `json:"end"`
}

// Contenders that still wait at the end are cancelled a moment later, when nobody is
// inside any more: a library may end a hold together with the context of its lock call.
const (
	waitersGrace = 50 * time.Millisecond
	returnWithin = 5 * time.Second // after they were cancelled
)

// contendResult is what a worker tells of its goroutines on one lock.
type contendResult struct {
	Groups     map[int64]int64 `json:"groups"` // acquisitions of each group
	Entered    int64           `json:"entered"`
	Inside     int64           `json:"inside"` // the same, with those before the start
	Handoffs   int64           `json:"handoffs"`
	Times      sparse          `json:"times"` // of hand-offs, from the unlock call on
	MaxWait    int64           `json:"max_wait"`
	CPU        time.Duration   `json:"cpu"`
	Failed     int64           `json:"failed"`
	Violations int64           `json:"violations"`
	Counted    int64           `json:"counted"` // by a guard of the worker's own
	Note       string          `json:"note"`    // the first error
}

func (r *contendResult) add(o contendResult) {
	for group, n := range o.Groups {
		r.Groups[group] += n
	}
	r.Entered += o.Entered
	r.Inside += o.Inside
	r.Handoffs += o.Handoffs
	r.MaxWait = max(r.MaxWait, o.MaxWait)
	r.CPU += o.CPU
	r.Failed += o.Failed
	r.Violations += o.Violations
	r.Counted += o.Counted
	if r.Note == "" {
		r.Note = o.Note
	}
}

// workContend lets goroutines of one or more clients take the same lock in turns.
func workContend(ctx context.Context, l *link, j job, sys system) error {
	protected := &guard{}
	if j.Shared != "" {
		var err error
		if protected, err = mapGuard(j.Shared); err != nil {
			return err
		}
	}
	c := newClock()
	all, err := contenders(ctx, c, protected, j, sys)
	if err != nil {
		return err
	}
	l.say("ready", nil)
	var w window
	if err := l.hear(ctx, "go", &w); err != nil {
		return err
	}
	r, err := contend(ctx, c, w, all)
	if err != nil {
		return err
	}
	if j.Shared == "" {
		r.Counted = protected.count
	}
	l.say("result", r)
	return nil
}

// contenders opens the clients, and has each take a lock of its own once, so that it
// is connected and the server knows the scripts.
func contenders(ctx context.Context, c clock, protected *guard, j job, sys system) (all []*contender, err error) {
	number := j.First
	for client := range j.Clients {
		s, err := sys.open(j.Addr, j.TTL)
		if err != nil {
			return nil, err
		}
		own := s.mutex(fmt.Sprintf("%s:own:%d", j.Name, number))
		if err := lockFree(ctx, own); err != nil {
			return nil, fmt.Errorf("warm-up: %w", err)
		}
		if err := own.unlock(ctx); err != nil {
			return nil, fmt.Errorf("warm-up: %w", err)
		}
		for g := range j.Goroutines {
			group := j.Group
			switch j.Per {
			case "goroutine":
				group += int64(client*j.Goroutines + g)
			case "client":
				group += int64(client)
			}
			all = append(all, &contender{clock: c, guard: protected, mutex: s.mutex(j.Name), who: number, group: group})
			number++
		}
	}
	return all, nil
}

func contend(ctx context.Context, c clock, w window, all []*contender) (contendResult, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var running sync.WaitGroup
	for _, con := range all {
		running.Go(func() { con.run(ctx, w) })
	}
	time.Sleep(c.until(w.Start))
	cpu := cpuTime(false)
	time.Sleep(c.until(w.End))
	cpu = cpuTime(false) - cpu
	time.Sleep(waitersGrace)
	cancel()

	ended := make(chan struct{})
	go func() {
		running.Wait()
		close(ended)
	}()
	r := contendResult{Groups: map[int64]int64{}, CPU: cpu}
	select {
	case <-ended:
	case <-time.After(returnWithin):
		return r, fmt.Errorf("some of %d goroutines still wait %s after they were cancelled", len(all), returnWithin)
	}
	var times histogram
	for _, con := range all {
		con.result.Groups = map[int64]int64{con.group: con.result.Entered}
		r.add(con.result)
		times.merge(&con.times)
	}
	r.Times = times.sparse()
	return r, nil
}

// A contender is one goroutine that wants the lock again as soon as it has given it
// back.
type contender struct {
	clock  clock
	guard  *guard
	mutex  mutex
	who    int64
	group  int64
	times  histogram
	result contendResult
}

// tooManyErrors ends a contender that only fails.
const tooManyErrors = 1000

func (con *contender) run(ctx context.Context, w window) {
	time.Sleep(con.clock.until(w.Begin))
	for con.result.Failed < tooManyErrors {
		asked := con.clock.now()
		if asked >= w.End {
			return
		}
		err := con.mutex.lock(ctx)
		now := con.clock.now()
		if now >= w.Start {
			con.result.MaxWait = max(con.result.MaxWait, min(now, w.End)-asked)
		}
		switch {
		case err == nil && now < w.End:
			con.hold(now, now >= w.Start)
			con.failed(con.mutex.unlock(ctx))
		case err == nil:
			_ = con.mutex.unlock(ctx) // for the others, who wait for their end
			return
		case ctx.Err() != nil:
			return
		default:
			con.failed(err)
		}
	}
}

// workFor is how long a lock is held before the measurement: two who have it at the same
// time meet then. What is measured is the lock alone.
const workFor = 20 * time.Microsecond

// hold is what is done under the lock.
func (con *contender) hold(now int64, measured bool) {
	e := con.guard.enter(con.who, con.group)
	con.result.Inside++
	if measured {
		con.result.Entered++
		if e.handoff {
			con.result.Handoffs++
			con.times.add(now - e.left)
		}
	} else {
		for con.clock.now()-now < int64(workFor) {
		}
	}
	if !con.guard.leave(con.who, con.clock.now()) || !e.alone {
		con.result.Violations++
	}
}

func (con *contender) failed(err error) {
	if err == nil {
		return
	}
	con.result.Failed++
	if con.result.Note == "" {
		con.result.Note = err.Error()
	}
}
