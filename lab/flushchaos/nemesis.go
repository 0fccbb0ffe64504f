package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/flush"
	"github.com/lockkeeper/lockkeeper/internal/redistest"
	"github.com/lockkeeper/lockkeeper/lab/flushbench/rig"
)

// every is how often a fault of each sort begins.
const every = 2 * time.Second

// A nemesis makes the faults of one sort: those of processes, or those of servers and
// connections. Its seed says which, though not at which moment of the workers.
type nemesis struct {
	fleet  *fleet
	redis  *rig.Redis
	engine *flush.Engine
	rng    *rand.Rand
	say    func(format string, args ...any)

	mu       *sync.Mutex // guards count
	count    map[string]int
	accepted []string // what should have been refused
}

// A fault does its harm, and takes it back.
type fault struct {
	name string
	run  func(n *nemesis, ctx context.Context) error
}

var ofProcesses = []fault{
	{"worker frozen before a write", func(n *nemesis, ctx context.Context) error { return n.freeze(ctx, freezeWrite, refusedDB) }},
	{"worker frozen before an acknowledgement", func(n *nemesis, ctx context.Context) error { return n.freeze(ctx, freezeAck, refusedAck) }},
	{"active worker killed", (*nemesis).killActive},
	{"worker killed", func(n *nemesis, _ context.Context) error { return n.fleet.replace(n.any(), n.rng.IntN(2) == 0) }},
	{"active worker stopped", (*nemesis).stopActive},
	{"asked to step down", (*nemesis).stepDown},
}

var ofConnections = []fault{
	{"connections to Redis cut", func(n *nemesis, _ context.Context) error { n.anyOrActive().redis.CutAll(); return nil }},
	{"replies of Redis lost", (*nemesis).loseRedis},
	{"Redis slow", (*nemesis).slowRedis},
	{"Redis killed", (*nemesis).restartRedis},
	{"scripts flushed", func(n *nemesis, ctx context.Context) error {
		_, err := n.redis.Do(ctx, "SCRIPT", "FLUSH")
		return err
	}},
	// Of one table only: it would mend what was lost before.
	{"keys of a table marked again", func(n *nemesis, ctx context.Context) error {
		_, err := n.engine.Resync(ctx, "chaos_string", nil)
		return err
	}},
}

// ofServers need a database that is a server.
var ofServers = []fault{
	{"database killed", (*nemesis).restartDatabase},
	{"connections to the database cut", func(n *nemesis, _ context.Context) error { n.anyOrActive().db.CutAll(); return nil }},
	{"replies of the database lost", (*nemesis).loseDatabase},
	{"database slow", (*nemesis).slowDatabase},
	{"database killed", (*nemesis).restartDatabase},
}

// run makes one fault after the other until ctx ends, all of them once before any
// comes again. A fault that has begun is brought to its end.
func (n *nemesis) run(ctx context.Context, faults []fault) error {
	order := append([]fault(nil), faults...)
	for round := 0; ; round++ {
		if round > 0 { // those that have to be there come first in the first round
			n.rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		}
		for _, f := range order {
			start := time.Now()
			n.say("%s", f.name)
			if err := f.run(n, context.WithoutCancel(ctx)); err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
			n.mu.Lock()
			n.count[f.name]++
			n.mu.Unlock()
			if pause(ctx, time.Until(start.Add(every))) != nil {
				return nil
			}
		}
	}
}

func (n *nemesis) any() *slot { return n.fleet.slots[n.rng.IntN(len(n.fleet.slots))] }

// anyOrActive is mostly the active one: with the others less can go wrong.
func (n *nemesis) anyOrActive() *slot {
	if s, _, _ := n.fleet.current(); s != nil && n.rng.IntN(4) > 0 {
		return s
	}
	return n.any()
}

func (n *nemesis) span(least, most time.Duration) time.Duration { return least + n.upTo(most-least) }

func (n *nemesis) upTo(most time.Duration) time.Duration {
	return time.Duration(n.rng.Int64N(int64(most)))
}

func (n *nemesis) killActive(ctx context.Context) error {
	s, _ := n.fleet.await(ctx, 0, 5*time.Second)
	if s == nil {
		s = n.any()
	}
	_ = pause(ctx, n.upTo(200*time.Millisecond)) // ctx does not end
	return n.fleet.replace(s, n.rng.IntN(3) > 0)
}

// stopActive stops a worker for longer than its lease, wherever it is.
func (n *nemesis) stopActive(ctx context.Context) error {
	s, _ := n.fleet.await(ctx, 0, 5*time.Second)
	if s == nil {
		s = n.any()
	}
	_ = pause(ctx, n.upTo(200*time.Millisecond)) // ctx does not end
	s.child.Stop()
	_ = pause(ctx, n.span(ttl*3/2, 3*ttl))
	s.child.Resume()
	return nil
}

// freeze stops a worker that does not hear of its loss at one of the two places where
// that matters, and lets it go on when another one is active and has written. It tries
// some times, as a batch may have no rows, or be written in parts, or have streams only.
func (n *nemesis) freeze(ctx context.Context, where, want string) error {
	for range 3 {
		if s, epoch := n.deafActive(ctx); s != nil && n.freezeOne(ctx, s, epoch, where, want) {
			return nil
		}
	}
	return nil
}

// freezeOne reports whether what had to be refused was.
func (n *nemesis) freezeOne(ctx context.Context, s *slot, epoch int64, where, want string) bool {
	for len(s.said) > 0 {
		<-s.said
	}
	s.child.Tell(where)
	if s.says(ctx, 3*time.Second, freezing) == "" {
		s.child.Tell(neverMind)
		return false
	}
	s.child.Stop()
	next, _ := n.fleet.await(ctx, epoch, 15*time.Second)
	if next != nil {
		_ = pause(ctx, n.span(200*time.Millisecond, time.Second)) // ctx does not end
	}
	s.child.Resume()
	s.child.Tell(goOn)
	said := s.says(ctx, 10*time.Second, refusedDB, refusedAck, wrote)
	s.child.Tell(neverMind)
	if said == wrote && next != nil {
		n.accepted = append(n.accepted, fmt.Sprintf("not refused: worker %d was told to %s, and went on with its batch of epoch %d after another one's claim", s.index+1, where, epoch))
	}
	return said == want
}

// deafActive waits for an active worker that can be frozen, and kills those that can't.
func (n *nemesis) deafActive(ctx context.Context) (*slot, int64) {
	for range 4 {
		s, epoch := n.fleet.await(ctx, 0, 5*time.Second)
		switch {
		case s == nil:
		case s.deaf:
			return s, epoch
		default:
			if err := n.fleet.replace(s, true); err != nil {
				return nil, 0
			}
		}
	}
	return nil, 0
}

func (n *nemesis) stepDown(ctx context.Context) error {
	_, epoch := n.fleet.await(ctx, 0, 5*time.Second)
	_ = n.engine.StepDown(ctx, epoch) // Redis may be down, and that is as good a test
	return nil
}

func (n *nemesis) loseRedis(ctx context.Context) error { return n.lose(ctx, n.anyOrActive().redis) }

func (n *nemesis) slowRedis(ctx context.Context) error { return n.slow(ctx, n.anyOrActive().redis) }

func (n *nemesis) loseDatabase(ctx context.Context) error { return n.lose(ctx, n.anyOrActive().db) }

func (n *nemesis) slowDatabase(ctx context.Context) error { return n.slow(ctx, n.anyOrActive().db) }

// lose keeps the replies on a way from a worker for some time.
func (n *nemesis) lose(ctx context.Context, way *redistest.Proxy) error {
	way.SwallowReplies()
	_ = pause(ctx, n.span(300*time.Millisecond, 2*time.Second)) // ctx does not end
	way.Heal()
	return nil
}

// slow makes a way slow for some time.
func (n *nemesis) slow(ctx context.Context, way *redistest.Proxy) error {
	way.Delay(n.span(20*time.Millisecond, 300*time.Millisecond))
	_ = pause(ctx, n.span(time.Second, 2*time.Second)) // ctx does not end
	way.Delay(0)
	return nil
}

func (n *nemesis) restartRedis(ctx context.Context) error {
	n.redis.Kill()
	_ = pause(ctx, n.upTo(time.Second)) // ctx does not end
	return n.redis.Start(ctx)
}

func (n *nemesis) restartDatabase(ctx context.Context) error {
	n.fleet.db.Server.Kill()
	_ = pause(ctx, n.upTo(time.Second)) // ctx does not end
	return n.fleet.db.Server.Restart()
}
