package main

import (
	"context"
	"errors"
	"io"
	"os"
	"runtime"
	"time"
)

// setUpWithin bounds what a worker takes to be ready, and to answer after its work.
const setUpWithin = 30 * time.Second

// bench is the coordinator: it starts servers and workers, and looks at the server at
// the right moments.
type bench struct {
	launch   *launcher
	clock    clock
	dir      string // for the files of the cell that runs
	progress io.Writer
}

// withServer runs f with a new redis-server, empty and with its counters at zero.
func (b *bench) withServer(ctx context.Context, f func(s *server) error) (err error) {
	if b.dir, err = os.MkdirTemp("", "lockkeeper-bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	s, err := startServer(ctx, b.launch, b.dir)
	if err != nil {
		return err
	}
	defer s.stop()
	return f(s)
}

// withWorkers starts a worker for each job and runs f when all are ready. It returns
// when they have ended.
func (b *bench) withWorkers(ctx context.Context, jobs []job, f func(workers []*process) error) (err error) {
	var workers []*process
	defer func() {
		for _, w := range workers {
			w.finish()
		}
		for _, w := range workers {
			if stopErr := w.stop(); err == nil {
				err = stopErr
			}
		}
	}()
	for _, j := range jobs {
		w, err := b.launch.startWorker(j)
		if err != nil {
			return err
		}
		workers = append(workers, w)
	}
	starting, cancel := context.WithTimeout(ctx, setUpWithin)
	defer cancel()
	for _, w := range workers {
		if err := w.receive(starting, "ready", nil); err != nil {
			return err
		}
	}
	return f(workers)
}

// A load compares what all programs use of the machine with what this one and its
// children do.
type load struct {
	start     time.Time
	busy, own time.Duration
	err       error
}

func newLoad() load {
	busy, err := busyTime()
	return load{time.Now(), busy, cpuTime(false) + cpuTime(true), err}
}

// others returns the per cent of the cores that others have used since newLoad. The
// children must have ended. It is never negative, although the kernel counts in ticks.
func (l load) others() float64 {
	now := newLoad()
	if l.err != nil || now.err != nil {
		return 0
	}
	used := (now.busy - l.busy) - (now.own - l.own)
	whole := now.start.Sub(l.start) * time.Duration(runtime.NumCPU())
	return max(0, 100*float64(used)/float64(whole))
}
