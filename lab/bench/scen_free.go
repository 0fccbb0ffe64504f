package main

import (
	"context"
	"fmt"
	"time"
)

func freeScenarios(s settings) []scenario {
	columns := func(title string) []column {
		return []column{
			{"p50", "p50 µs", 1}, {"p99", "p99 µs", 1}, {"rate", title, 0},
			{"requests", "requests/cycle", 2}, {"allocs", "allocations/cycle", 1},
			{"client", "client CPU µs/cycle", 1}, {"redis", "Redis CPU µs/cycle", 1},
			{"stuck", "stuck", 0}, {failedKey, "failed", 0},
		}
	}
	free := func(name, title, main string, j job) scenario {
		return scenario{
			name: name, title: title, reps: s.reps, main: main, ratio: j.Goroutines > 1, columns: columns("cycles/s"),
			cell: func(ctx context.Context, b *bench, sys system) (sample, error) { return b.cycles(ctx, sys, j) },
		}
	}
	s2 := func(goroutines int) scenario {
		return free(fmt.Sprintf("S2-%d", goroutines), fmt.Sprintf("free locks, %d goroutines, each with a lock of its own", goroutines),
			"rate", job{Goroutines: goroutines, Keys: 1, For: s.throughput})
	}
	return []scenario{
		free("S1", "a free lock taken and given back by one goroutine, distinct keys", "p50",
			job{Goroutines: 1, Keys: 64, For: s.free}),
		free("S1try", "a failed try of a lock that another client holds, one goroutine", "p50",
			job{Goroutines: 1, Keys: 64, For: s.free, Try: true}),
		s2(64), s2(512),
	}
}

// tryTTL is for locks that are held, and not renewed, for as long as a cell lasts.
const tryTTL = time.Minute

// cycles measures locks that nobody waits for.
func (b *bench) cycles(ctx context.Context, sys system, j job) (sample, error) {
	got := newSample()
	err := b.withServer(ctx, func(s *server) error {
		j.Kind, j.System, j.Addr, j.TTL, j.Name = "cycles", sys.name, s.addr, lockTTL, "bench"
		if j.Try {
			j.TTL = tryTTL
		}
		if j.Goroutines == 1 {
			j.Beside = sys.raw
		}
		return b.withWorkers(ctx, []job{j}, func(workers []*process) error {
			ctx, cancel := context.WithTimeout(ctx, 2*j.For+setUpWithin)
			defer cancel()
			before, err := s.usage(ctx)
			if err != nil {
				return err
			}
			var r cyclesResult
			if err := workers[0].send("go", nil); err != nil {
				return err
			}
			if err := workers[0].receive(ctx, "result", &r); err != nil {
				return err
			}
			after, err := s.usage(ctx)
			if err != nil {
				return err
			}
			got.addCycles(r)
			got.addServer(after.requests(before, sys), after.cpu-before.cpu, r)
			if j.Beside == "" {
				return nil
			}
			return got.compare(ctx, workers[0])
		})
	})
	return got, err
}

func (s *sample) addCycles(r cyclesResult) {
	var times histogram
	times.addSparse(r.Times)
	n := float64(r.Cycles)
	s.set("p50", times.quantile(0.50)/1000)
	s.set("p99", times.quantile(0.99)/1000)
	s.set("rate", n/r.Elapsed.Seconds())
	s.set("allocs", float64(r.Mallocs)/n)
	s.set("client", micros(r.CPU)/n)
	s.set("stuck", float64(r.Stuck))
	s.set(failedKey, float64(r.Failed))
	s.Violations = r.Violations
	s.note(r.Note)
}

func (s *sample) addServer(requests float64, cpu time.Duration, r cyclesResult) {
	s.set("requests", requests/float64(r.Cycles))
	s.set("redis", micros(cpu)/float64(r.Cycles))
}

// compare has the worker take turns with the raw loop. That is the ratio to read: that
// of two cells holds what the machine did to one and not to the other.
func (s *sample) compare(ctx context.Context, worker *process) error {
	if err := worker.send("compare", nil); err != nil {
		return err
	}
	var t turns
	if err := worker.receive(ctx, "compared", &t); err != nil {
		return err
	}
	var own, beside histogram
	own.addSparse(t.Times)
	beside.addSparse(t.Beside)
	s.set(ratioKey, own.quantile(0.5)/beside.quantile(0.5))
	return nil
}
