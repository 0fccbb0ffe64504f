package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

func holdScenarios(s settings) []scenario {
	hold := func(name, title string, systems []string, burning bool) scenario {
		return scenario{
			name: name, title: title, reps: 1, main: "client", systems: systems,
			capable: func(sys system) bool { return sys.kind != rawLoop }, // the raw loops renew nothing
			columns: []column{
				{"client", "client CPU s/min", 2}, {"redis", "Redis CPU s/min", 2}, {"requests", "requests/s", 0},
				{"goroutines", "goroutines", 0}, {"resident", "RSS MiB", 1}, {"lost", "leases lost", 0},
				{"stuck", "lock calls stuck at first", 0}, {"taken", "taken/s at first", 0},
			},
			cell: func(ctx context.Context, b *bench, sys system) (sample, error) { return b.hold(ctx, sys, s, burning) },
		}
	}
	title := fmt.Sprintf("holding %s locks of TTL %s for %s, renewed", number(float64(s.leases), 0), s.holdTTL, s.hold)
	return []scenario{
		hold("S5", title, s.holders, false),
		hold("S5busy", title+", beside a busy loop on every CPU", s.busy, true),
	}
}

// hold measures what many held locks cost.
func (b *bench) hold(ctx context.Context, sys system, set settings, burning bool) (sample, error) {
	got := newSample()
	err := b.withServer(ctx, func(s *server) (err error) {
		if burning {
			burner, err := b.launch.startWorker(job{Kind: "burn"})
			if err != nil {
				return err
			}
			defer burner.kill()
			if err := burner.receive(ctx, "ready", nil); err != nil {
				return err
			}
		}
		j := job{Kind: "hold", System: sys.name, Addr: s.addr, TTL: set.holdTTL, Name: "bench", Keys: set.leases, For: set.hold}
		return b.withWorkers(ctx, []job{j}, func(workers []*process) error {
			ctx, cancel := context.WithTimeout(ctx, set.hold+2*setUpWithin)
			defer cancel()
			return b.watchHolder(ctx, s, sys, workers[0], set.hold, &got)
		})
	})
	return got, err
}

func (b *bench) watchHolder(ctx context.Context, s *server, sys system, holder *process, length time.Duration, got *sample) error {
	before, err := s.usage(ctx)
	if err != nil {
		return err
	}
	if err := holder.send("go", nil); err != nil {
		return err
	}
	if err := holder.receive(ctx, "held", nil); err != nil {
		return err
	}
	after, err := s.usage(ctx)
	if err != nil {
		return err
	}
	if err := holder.send("probe", nil); err != nil {
		return err
	}
	var r holdResult
	if err := holder.receive(ctx, "result", &r); err != nil {
		return err
	}
	got.set("client", r.CPU.Seconds()/length.Minutes())
	got.set("redis", (after.cpu-before.cpu).Seconds()/length.Minutes())
	got.set("requests", after.requests(before, sys)/length.Seconds())
	got.set("goroutines", float64(r.Goroutines))
	got.set("resident", float64(r.Resident)/(1<<20))
	got.set("lost", float64(r.Lost))
	got.set("stuck", float64(r.Stuck))
	got.set("taken", r.TakenPerSecond)
	got.Violations = r.Violations
	got.note(r.Note)
	return nil
}

func stallScenarios(s settings) []scenario {
	var names []string
	for _, sys := range systems() {
		names = append(names, sys.name) // rueidislock-loop as well
	}
	return []scenario{{
		name: "S8", title: fmt.Sprintf("Redis stands still for %s while a free lock is asked for", s.stall),
		reps: s.reps, main: "late", systems: names,
		columns: []column{
			{"late", "end of the stall to locked ms", 2},
			{"stuck", fmt.Sprintf("stuck after %s (share)", s.stuckAfter), 2},
		},
		cell: func(ctx context.Context, b *bench, sys system) (sample, error) { return b.stall(ctx, sys, s) },
	}}
}

// stall stops the server, asks for a lock, and lets the server go on.
func (b *bench) stall(ctx context.Context, sys system, set settings) (sample, error) {
	got := newSample()
	err := b.withServer(ctx, func(s *server) error {
		j := job{Kind: "stall", System: sys.name, Addr: s.addr, TTL: lockTTL, Name: "bench", For: set.stuckAfter}
		return b.withWorkers(ctx, []job{j}, func(workers []*process) error {
			ctx, cancel := context.WithTimeout(ctx, set.stuckAfter+setUpWithin)
			defer cancel()
			if err := s.pause(ctx); err != nil {
				return err
			}
			sendErr := workers[0].send("go", nil)
			time.Sleep(set.stall)
			resumed := b.clock.now()
			if err := errors.Join(sendErr, s.resume()); err != nil {
				return err
			}
			var r stallResult
			if err := workers[0].receive(ctx, "result", &r); err != nil {
				return err
			}
			got.set("stuck", 1)
			if r.LockedAt != 0 {
				got.set("stuck", 0)
				got.set("late", float64(r.LockedAt-resumed)/1e6)
			}
			got.Violations = r.Violations
			got.note(r.Note)
			return nil
		})
	})
	return got, err
}
