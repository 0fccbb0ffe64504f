package main

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of taking locks that are all free.
const (
	takersAtOnce = 64
	takeWithin   = 2 * time.Second // then the call counts as stuck
)

// holdResult is what a worker tells of many locks that it held for a while.
type holdResult struct {
	TakenPerSecond float64       `json:"taken_per_second"`
	Stuck          int64         `json:"stuck"` // lock calls that were cancelled
	CPU            time.Duration `json:"cpu"`
	Goroutines     int           `json:"goroutines"` // the worker's own are not counted
	Resident       int64         `json:"resident"`
	Lost           int64         `json:"lost"`
	Violations     int64         `json:"violations"` // lost, and the holder was not told
	Note           string        `json:"note"`       // the first error
}

// workHold takes many locks, says ready, keeps them for the time between go and the
// result, and looks afterwards whether another client can take one.
func workHold(ctx context.Context, l *link, j job, sys system) error {
	idle := runtime.NumGoroutine()
	s, err := sys.open(j.Addr, j.TTL)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	holds := make([]*hold, j.Keys)
	for i := range holds {
		name := fmt.Sprintf("%s:%d", j.Name, i)
		holds[i] = &hold{name: name, mutex: s.mutex(name)}
	}
	start := time.Now()
	var r holdResult
	inParallel(holds, func(h *hold) { h.take(ctx, j.TTL) })
	r.TakenPerSecond = float64(len(holds)) / time.Since(start).Seconds()
	runtime.GC()
	l.say("ready", nil)
	if err := l.hear(ctx, "go", nil); err != nil {
		return err
	}
	cpu := cpuTime(false)
	time.Sleep(j.For)
	r.CPU = cpuTime(false) - cpu
	l.say("held", nil) // the coordinator looks at the server now
	r.Goroutines = runtime.NumGoroutine() - idle
	if r.Resident, err = residentBytes(); err != nil {
		return err
	}
	if err := l.hear(ctx, "probe", nil); err != nil {
		return err
	}
	if err := probe(ctx, sys, j, holds, &r); err != nil {
		return err
	}
	l.say("result", r)
	return nil
}

// probe tries all locks as another client. One that it gets was lost.
func probe(ctx context.Context, sys system, j job, holds []*hold, r *holdResult) error {
	other, err := sys.open(j.Addr, j.TTL)
	if err != nil {
		return err
	}
	var lost, violations atomic.Int64
	inParallel(holds, func(h *hold) {
		if h.stuck {
			return
		}
		free := other.mutex(h.name).try(ctx) == nil
		told := h.believed() != nil
		if free || told {
			lost.Add(1)
		}
		if free && !told {
			violations.Add(1)
		}
	})
	r.Lost, r.Violations = lost.Load(), violations.Load()
	for _, h := range holds {
		if h.stuck {
			r.Stuck++
		}
		if err := h.failure.Load(); err != nil && r.Note == "" {
			r.Note = (*err).Error()
		}
	}
	return nil
}

func inParallel(holds []*hold, f func(h *hold)) {
	work := make(chan *hold)
	var wg sync.WaitGroup
	for range takersAtOnce {
		wg.Go(func() {
			for h := range work {
				f(h)
			}
		})
	}
	for _, h := range holds {
		work <- h
	}
	close(work)
	wg.Wait()
}
