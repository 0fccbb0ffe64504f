package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"
)

// A crowd is who wants the one lock.
type crowd struct {
	processes  int
	clients    int // in all, over the processes
	goroutines int // of each client
	per        string
	settle     time.Duration // the first has the lock alone for a while, and a line has to form
	length     time.Duration
}

func contendedScenarios(s settings) []scenario {
	one := crowd{processes: 1, clients: 1, goroutines: 64, per: "goroutine", settle: s.settle, length: s.oneProcess}
	many := crowd{processes: 8, clients: 8, goroutines: 4, per: "process", settle: s.settle, length: s.processes}
	shared := []column{
		{"requests", "requests/hand-off", 2}, {"per acquisition", "requests/acquisition", 2}, {"jain", "Jain", 3},
		{"max wait", "max wait ms", 1}, {"client", "client CPU µs/acq.", 1}, {"redis", "Redis CPU µs/acq.", 1},
		{failedKey, "failed", 0},
	}
	cell := func(c crowd) func(ctx context.Context, b *bench, sys system) (sample, error) {
		return func(ctx context.Context, b *bench, sys system) (sample, error) { return b.contend(ctx, sys, c) }
	}
	return []scenario{
		{
			name: "S3", title: "one lock, 64 goroutines of one process; a hand-off goes to another goroutine, Jain is over goroutines",
			reps: s.reps, main: "handoffs", ratio: true, cell: cell(one),
			columns: append([]column{{"handoffs", "hand-offs/s", 0}, {"acquisitions", "acquisitions/s", 0}}, shared...),
		},
		{
			name: "S4", title: "one lock, 8 processes of 4 goroutines; a hand-off goes to another process, Jain is over processes",
			reps: s.reps, main: "handoffs", ratio: true, cell: cell(many),
			columns: append([]column{
				{"handoffs", "process hand-offs/s", 0}, {"acquisitions", "acquisitions/s", 0},
				{"p50", "hand-off p50 µs", 1}, {"p99", "hand-off p99 µs", 0},
			}, shared...),
		},
		waitersScenario(s),
	}
}

// waitersScenario has the same figures for each number of waiters side by side.
func waitersScenario(s settings) scenario {
	key := func(figure string, n int) string { return fmt.Sprintf("%s %d", figure, n) }
	var columns []column
	for _, kind := range []column{{"requests", "requests/hand-off", 2}, {"handoffs", "hand-offs/s", 0}, {"max wait", "max wait ms", 0}} {
		for _, n := range s.waiters {
			columns = append(columns, column{key(kind.Key, n), fmt.Sprintf("%s, %d wait", kind.Title, n), kind.digits})
		}
	}
	return scenario{
		name: "S4w", title: "one lock, many waiting clients, each with its own connections, in 4 processes; a hand-off goes to another client",
		reps: 1, main: columns[len(s.waiters)-1].Key, columns: columns,
		systems: []string{"raw-goredis", "raw-rueidis", "redsync-rueidis", "redislock-tuned", "rueidislock", "rueidislock-tuned",
			"lockkeeper-rueidis", "lockkeeper-rueidis-tuned", "lockkeeper-goredis"},
		cell: func(ctx context.Context, b *bench, sys system) (sample, error) {
			all := newSample()
			var failures []error
			many := crowd{processes: 4, goroutines: 1, per: "client", settle: s.settle, length: s.waiting}
			for _, n := range s.waiters {
				many.clients = n + 1 // one has the lock, the others wait
				got, err := b.contend(ctx, sys, many)
				failures = append(failures, err)
				for _, figure := range []string{"requests", "handoffs", "max wait"} {
					if value, ok := got.Values[figure]; ok {
						all.Values[key(figure, n)] = value
					}
				}
				all.Violations += got.Violations
				for _, text := range got.Notes {
					all.note(fmt.Sprintf("%d wait: %s", n, text))
				}
			}
			return all, errors.Join(failures...)
		},
	}
}

// jobs divides the crowd among its processes.
func (c crowd) jobs(sys system, addr, shared string) []job {
	var jobs []job
	client := 0
	for p := range c.processes {
		clients := (c.clients - client) / (c.processes - p)
		j := job{
			Kind: "contend", System: sys.name, Addr: addr, TTL: lockTTL, Name: "bench",
			Clients: clients, Goroutines: c.goroutines, Per: c.per, Group: int64(p + 1),
			First: int64(client*c.goroutines + 1),
		}
		switch c.per {
		case "goroutine":
			j.Group = j.First
		case "client":
			j.Group = int64(client + 1)
		}
		if c.processes > 1 {
			j.Shared = shared
		}
		jobs = append(jobs, j)
		client += clients
	}
	return jobs
}

// beforeStart is what the workers need to hear when they are to begin.
const beforeStart = 50 * time.Millisecond

// contend measures one lock that many want.
func (b *bench) contend(ctx context.Context, sys system, c crowd) (sample, error) {
	got := newSample()
	err := b.withServer(ctx, func(s *server) error {
		shared := filepath.Join(b.dir, "guard")
		protected, err := mapGuard(shared)
		if err != nil {
			return err
		}
		return b.withWorkers(ctx, c.jobs(sys, s.addr, shared), func(workers []*process) error {
			ctx, cancel := context.WithTimeout(ctx, c.settle+c.length+setUpWithin)
			defer cancel()
			begin := b.clock.now() + int64(beforeStart)
			start := begin + int64(c.settle)
			w := window{begin, start, start + int64(c.length)}
			for _, worker := range workers {
				if err := worker.send("go", w); err != nil {
					return err
				}
			}
			time.Sleep(b.clock.until(w.Start))
			before, err := s.usage(ctx)
			if err != nil {
				return err
			}
			time.Sleep(b.clock.until(w.End))
			after, err := s.usage(ctx)
			if err != nil {
				return err
			}
			all := contendResult{Groups: map[int64]int64{}}
			var times histogram
			for _, worker := range workers {
				var r contendResult
				if err := worker.receive(ctx, "result", &r); err != nil {
					return err
				}
				all.add(r)
				times.addSparse(r.Times)
			}
			got.addContention(all, &times, c.length)
			got.addRequests(after.requests(before, sys), after.cpu-before.cpu, all)
			// Each process adds to the same counter, so a lost update shows in its sum.
			counted := all.Counted + protected.count
			got.Violations += max(counted-all.Inside, all.Inside-counted)
			return nil
		})
	})
	return got, err
}

func (s *sample) addContention(r contendResult, times *histogram, length time.Duration) {
	var shares []int64
	for _, n := range r.Groups {
		shares = append(shares, n)
	}
	s.set("handoffs", float64(r.Handoffs)/length.Seconds())
	s.set("acquisitions", float64(r.Entered)/length.Seconds())
	s.set("p50", times.quantile(0.50)/1000)
	s.set("p99", times.quantile(0.99)/1000)
	s.set("jain", jain(shares))
	s.set("max wait", float64(r.MaxWait)/1e6)
	s.set("client", micros(r.CPU)/float64(r.Entered))
	s.set(failedKey, float64(r.Failed))
	s.Violations += r.Violations
	s.note(r.Note)
}

func (s *sample) addRequests(requests float64, cpu time.Duration, r contendResult) {
	s.set("requests", requests/float64(r.Handoffs))
	s.set("per acquisition", requests/float64(r.Entered))
	s.set("redis", micros(cpu)/float64(r.Entered))
}
