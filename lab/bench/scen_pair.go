package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"
)

// untilWaiting is what a waiter needs to come to its wait.
const untilWaiting = 300 * time.Millisecond

func pairScenarios(s settings) []scenario {
	columns := []column{
		{"past", "past expiry ms", 1}, {"past max", "the latest", 1}, {"taken over", "taken over", 0}, {"of", "of", 0},
		{"after kill", "kill to locked ms", 0},
	}
	crash := func(name, title string, systems []string, keys int, tries func(sys system) int) scenario {
		return scenario{
			name: name, title: title, reps: 1, main: "past", systems: systems, columns: columns,
			cell: func(ctx context.Context, b *bench, sys system) (sample, error) {
				return b.crash(ctx, sys, s, keys, tries(sys))
			},
		}
	}
	title := fmt.Sprintf("the holder is killed (TTL %s), one waiter in another process", s.pairTTL)
	return []scenario{
		crash("S6", title, nil, 0, func(sys system) int {
			if sys.kind == ours {
				return s.crashes
			}
			return s.crashesOf
		}),
		crash("S6keys", fmt.Sprintf("%s, beside %s other keys with a TTL", title, number(float64(s.otherKeys), 0)),
			[]string{"raw-rueidis", "redsync-tuned", "redislock-tuned", "rueidislock-tuned", "lockkeeper-rueidis", "lockkeeper-goredis"},
			s.otherKeys, func(system) int { return s.crashesOf }),
		{
			name:  "S7",
			title: fmt.Sprintf("the holder is stopped for %s (TTL %s), then continued; a waiter in another process", 2*s.pairTTL, s.pairTTL),
			reps:  1, main: "told",
			systems: []string{"redsync", "redislock", "rueidislock-tuned", "lockkeeper-rueidis", "lockkeeper-goredis"},
			capable: func(sys system) bool { return sys.kind != rawLoop }, // the raw loops tell nothing
			columns: []column{
				{"told", "SIGCONT to told ms", 2}, {"alive", "asks after SIGCONT that said held", 0},
				{"taken over", "stop to waiter locked ms", 0}, {"unlock error", "late unlock tells (share)", 2},
				{"still held", "waiter still holds then (share)", 2},
			},
			cell: func(ctx context.Context, b *bench, sys system) (sample, error) { return b.pauses(ctx, sys, s) },
		},
	}
}

// A pair is a holder and a waiter of one lock, and what happened to them, on the
// monotonic clock.
type pair struct {
	name    string
	killed  int64
	expiry  int64
	stopped int64
	resumed int64
	locked  int64 // by the waiter; 0 is not in time
	watched watchResult
	two     bool // at the end, when another client had got the lock, the waiter still believed in it
}

// inPairs runs f for each of n pairs with a lock of its own, a few at a time.
func (b *bench) inPairs(ctx context.Context, sys system, set settings, n, atOnce int, s *server,
	f func(ctx context.Context, i int, p *pair, holder, waiter *process) error) ([]*pair, error) {
	pairs, failures := make([]*pair, n), make([]error, n)
	for first := 0; first < n; first += atOnce {
		var running sync.WaitGroup
		for i := first; i < min(first+atOnce, n); i++ {
			pairs[i] = &pair{name: fmt.Sprintf("bench:%d", i)}
			running.Go(func() { failures[i] = b.inPair(ctx, sys, set, i, pairs[i], s, f) })
		}
		running.Wait()
	}
	return pairs, errors.Join(failures...)
}

// inPair starts a holder and a waiter, and runs f when one has the lock and the other
// waits for it.
func (b *bench) inPair(ctx context.Context, sys system, set settings, i int, p *pair, s *server,
	f func(ctx context.Context, i int, p *pair, holder, waiter *process) error) error {
	ctx, cancel := context.WithTimeout(ctx, set.patience+3*set.pairTTL+setUpWithin)
	defer cancel()
	j := job{Kind: "holder", System: sys.name, Addr: s.addr, TTL: set.pairTTL, Name: p.name}
	holder, err := b.launch.startWorker(j)
	if err != nil {
		return err
	}
	defer holder.kill()
	if err := holder.receive(ctx, "held", nil); err != nil {
		return err
	}
	j.Kind = "waiter"
	waiter, err := b.launch.startWorker(j)
	if err != nil {
		return err
	}
	defer waiter.kill()
	if err := waiter.receive(ctx, "ready", nil); err != nil {
		return err
	}
	if err := waiter.send("go", nil); err != nil {
		return err
	}
	time.Sleep(untilWaiting)
	return f(ctx, i, p, holder, waiter)
}

// crash kills holders, each at another moment between two renewals.
func (b *bench) crash(ctx context.Context, sys system, set settings, otherKeys, n int) (sample, error) {
	got := newSample()
	err := b.withServer(ctx, func(s *server) error {
		if err := s.addKeys(ctx, otherKeys); err != nil {
			return err
		}
		pairs, err := b.inPairs(ctx, sys, set, n, set.atOnce, s,
			func(ctx context.Context, i int, p *pair, holder, waiter *process) error {
				time.Sleep(set.pairTTL / 3 * time.Duration(i) / time.Duration(n))
				p.killed = b.clock.now()
				holder.kill()
				var err error
				if p.expiry, err = s.expiry(ctx, b.clock, sys.keys(p.name)); err != nil {
					return err
				}
				return p.await(ctx, waiter, set.patience)
			})
		got.addCrashes(pairs)
		return err
	})
	return got, err
}

// await notes when the waiter has the lock, if it is in time.
func (p *pair) await(ctx context.Context, waiter *process, patience time.Duration) error {
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := waiter.receive(waiting, "locked", &p.locked)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return nil
	}
	return err
}

func (s *sample) addCrashes(pairs []*pair) {
	var past, after []float64
	for _, p := range pairs {
		if p.locked == 0 {
			s.note("some waiters did not get the lock in time")
			continue
		}
		past = append(past, float64(p.locked-p.expiry)/1e6)
		after = append(after, float64(p.locked-p.killed)/1e6)
		if p.locked < p.killed {
			s.Violations++
		}
	}
	s.set("of", float64(len(pairs)))
	s.set("taken over", float64(len(past)))
	s.set("past", median(past))
	s.set("past max", maximum(past))
	s.set("after kill", median(after))
}

// pauses stops holders for longer than their TTL, and lets them go on.
func (b *bench) pauses(ctx context.Context, sys system, set settings) (sample, error) {
	got := newSample()
	err := b.withServer(ctx, func(s *server) error {
		pairs, err := b.inPairs(ctx, sys, set, set.pauses, set.pauses, s,
			func(ctx context.Context, i int, p *pair, holder, waiter *process) error {
				time.Sleep(time.Duration(i) * untilWaiting) // a watching holder keeps a CPU busy
				if err := holder.send("watch", nil); err != nil {
					return err
				}
				if err := holder.receive(ctx, "watching", nil); err != nil {
					return err
				}
				time.Sleep(untilWaiting / 3)
				p.stopped = b.clock.now()
				if err := pauseProcess(ctx, holder.cmd.Process); err != nil {
					return err
				}
				if err := p.await(ctx, waiter, 2*set.pairTTL); err != nil {
					return err
				}
				time.Sleep(b.clock.until(p.stopped + 2*int64(set.pairTTL)))
				p.resumed = b.clock.now()
				if err := holder.cmd.Process.Signal(syscall.SIGCONT); err != nil {
					return err
				}
				if err := holder.receive(ctx, "result", &p.watched); err != nil || p.watched.StillHeld || p.locked == 0 {
					return err
				}
				if err := waiter.send("ask", nil); err != nil {
					return err
				}
				return waiter.receive(ctx, "believes", &p.two)
			})
		got.addPauses(pairs, sys)
		return err
	})
	return got, err
}

func (s *sample) addPauses(pairs []*pair, sys system) {
	var told, takenOver, unlockError, stillHeld []float64
	alive := int64(0)
	for _, p := range pairs {
		w := p.watched
		if w.ToldAt > p.resumed {
			told = append(told, float64(w.ToldAt-p.resumed)/1e6)
		}
		if p.locked != 0 {
			takenOver = append(takenOver, float64(p.locked-p.stopped)/1e6)
			stillHeld = append(stillHeld, truth(w.StillHeld))
			if p.two || p.locked < p.stopped {
				s.Violations++
			}
		}
		unlockError = append(unlockError, truth(w.UnlockError != ""))
		for _, g := range w.Gaps {
			if g.Until > p.resumed {
				alive += g.Alive
			}
		}
	}
	if sys.kind == ours {
		s.Violations += alive // the context is promised to have ended
	}
	s.noteTold(pairs)
	s.set("told", median(told))
	if len(pairs) > 0 && pairs[0].watched.By == contextTells {
		s.set("alive", float64(alive))
	}
	s.set("taken over", median(takenOver))
	s.set("unlock error", mean(unlockError))
	s.set("still held", mean(stillHeld))
}

// noteTold says in words how the first holder was told. That of others is the same but
// for names and numbers, except for what went wrong.
func (s *sample) noteTold(pairs []*pair) {
	for i, p := range pairs {
		w := p.watched
		switch {
		case w.ToldAt == 0:
			s.note(w.Note)
		case w.ToldAt < p.resumed:
			s.note("a hold was lost before the pause")
		case i == 0:
			s.note("told by " + w.By)
			s.note(w.Note)
		}
		if i == 0 && w.UnlockError != "" {
			s.note("unlock: " + w.UnlockError)
		}
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
