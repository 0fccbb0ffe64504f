package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper"
)

// A nemesis does harm to a round: faults that come at random times, and several at a
// time.
type nemesis struct {
	*round
	rng     *rand.Rand
	serving sync.Mutex // held by the fault that has the server in hand
	setting sync.Mutex // held by the fault that has its settings in hand
	faults  sync.WaitGroup

	mu  sync.Mutex
	err error // what was not to be: a server that does not start again
}

func newNemesis(r *round) *nemesis {
	return &nemesis{round: r, rng: rand.New(rand.NewPCG(r.Seed, 0))}
}

// meanBetween is the mean time from one fault to the next.
const meanBetween = 600 * time.Millisecond

// An action is a fault on its way: what it is, how exactly, and what it does. It undoes
// itself when it has lasted, or when its context ends, and reports whether there was any
// harm. The zero value is none.
type action struct {
	kind string
	how  string
	run  func(ctx context.Context) bool
}

// A menace is a kind of fault. It picks its victim, takes that in hand, and says what
// it is going to do; nothing, if the victim is in another's hands.
type menace struct {
	weight int
	loses  bool // it makes the server forget
	plan   func(n *nemesis) action
}

var menaces = []menace{
	{weight: 4, plan: (*nemesis).killWorker},
	{weight: 8, plan: (*nemesis).stopWorker},
	{weight: 2, plan: (*nemesis).replaceWorker},
	{weight: 2, plan: (*nemesis).killConnections},
	{weight: 2, plan: (*nemesis).killSubscriptions},
	{weight: 2, plan: (*nemesis).floodSubscriptions},
	{weight: 3, plan: (*nemesis).cut},
	{weight: 4, plan: (*nemesis).hole},
	{weight: 4, plan: (*nemesis).loseReplies},
	{weight: 4, plan: (*nemesis).delay},
	{weight: 10, plan: (*nemesis).slowThenBroken},
	{weight: 2, plan: (*nemesis).refuse},
	{weight: 2, plan: (*nemesis).limitConnections},
	{weight: 2, plan: (*nemesis).flushScripts},
	{weight: 2, plan: (*nemesis).busyScript},
	{weight: 2, plan: (*nemesis).pauseClients},
	{weight: 2, plan: (*nemesis).pauseWrites},
	{weight: 3, plan: (*nemesis).stopServer},
	{weight: 3, plan: (*nemesis).restartServer},
	{weight: 2, plan: (*nemesis).slowRestart},
	{weight: 2, plan: (*nemesis).fillMemory},
	{weight: 2, plan: (*nemesis).failDisk},
	{weight: 2, plan: (*nemesis).makeReplica},
	{weight: 2, plan: (*nemesis).makeSilentReplica},
	{weight: 2, plan: (*nemesis).denyScripts},
	{weight: 2, plan: (*nemesis).denyCommand},
	{weight: 2, plan: (*nemesis).denyChannels},
	{weight: 2, plan: (*nemesis).deleteUser},
	{weight: 2, plan: (*nemesis).counterAhead},
	{weight: 3, plan: (*nemesis).clockBack},
	{weight: 10, loses: true, plan: (*nemesis).flushAll},
	{weight: 10, loses: true, plan: (*nemesis).emptyRestart},
	{weight: 10, loses: true, plan: (*nemesis).loseLastWrites},
	{weight: 10, loses: true, plan: (*nemesis).evict},
	{weight: 10, loses: true, plan: (*nemesis).clockForward},
	{weight: 8, loses: true, plan: (*nemesis).deleteLock},
	{weight: 8, loses: true, plan: (*nemesis).overwriteLock},
	{weight: 8, loses: true, plan: (*nemesis).renameLock},
}

// pick returns a kind of fault, by the weights.
func (n *nemesis) pick() menace {
	total := 0
	for _, m := range menaces {
		if n.Lossy || !m.loses {
			total += m.weight
		}
	}
	at := n.rng.IntN(total)
	for _, m := range menaces {
		if m.loses && !n.Lossy {
			continue
		}
		if at -= m.weight; at < 0 {
			return m
		}
	}
	panic("not reached: the weights add up")
}

// strike does harm until ctx ends, and then heals everything. It returns when the last
// fault is over.
func (n *nemesis) strike(ctx context.Context) error {
	for {
		pause(ctx, exponential(n.rng, meanBetween))
		if ctx.Err() != nil {
			return n.heal()
		}
		n.launch(ctx, n.pick().plan(n))
	}
}

// blows are what befalls those who wait when nobody comes after them: with others who
// take the lock and give it back, a waiter that nobody would wake is woken all the same.
var blows = []func(n *nemesis) action{
	(*nemesis).killWorker, (*nemesis).killWorker, (*nemesis).killSubscriptions, (*nemesis).cut, (*nemesis).restartServer,
}

// lastBlow does some harm at once, and then heals everything.
func (n *nemesis) lastBlow(ctx context.Context) error {
	for range 3 {
		n.launch(ctx, blows[n.rng.IntN(len(blows))](n))
	}
	return n.heal()
}

// launch begins a fault.
func (n *nemesis) launch(ctx context.Context, a action) {
	if a.run == nil {
		return
	}
	n.faults.Go(func() {
		from := monotonic()
		if !a.run(ctx) {
			return
		}
		n.journal.write(event{What: fault, At: from, Until: monotonic(), Kind: a.kind, Text: a.how})
	})
}

// heal waits for the last fault, and makes sure that nothing is broken any more. A command that a fault has sent to a
// server that was stopped may still run, and break the connection of this one.
func (n *nemesis) heal() error {
	ctx, cancel := context.WithTimeout(context.Background(), startWithin)
	defer cancel()
	n.faults.Wait()
	n.fleet.heal()
	if n.err != nil {
		return n.err
	}
	for answers := 0; answers < 3; {
		err := n.mend(ctx)
		if err == nil {
			answers++
		}
		if ctx.Err() != nil {
			return fmt.Errorf("heal: %w", err)
		}
	}
	return nil
}

func (n *nemesis) fail(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.err == nil {
		n.err = err
	}
}

// ttls returns a random time, between two multiples of the TTL of one of the locks.
func (n *nemesis) ttls(least, most float64) time.Duration {
	ttl := n.Locks[n.rng.IntN(len(n.Locks))].TTL
	return time.Duration((least + (most-least)*n.rng.Float64()) * float64(ttl)).Round(time.Millisecond)
}

// slot picks a victim: mostly who holds a lock, because that is where harm does most,
// else any worker.
func (n *nemesis) slot() *slot {
	if n.rng.Float64() < 0.6 {
		if s := n.holder(n.Locks[n.rng.IntN(len(n.Locks))].Name); s != nil {
			return s
		}
	}
	return n.fleet.slots[n.rng.IntN(len(n.fleet.slots))]
}

// holder returns the worker that holds a lock, going by the label in the key's value;
// nil if nobody does, or the server does not answer.
func (n *nemesis) holder(name string) *slot {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	reply, err := n.server.do(ctx, "GET", lockkeeper.DefaultPrefix+name)
	value, ok := reply.(string)
	if err != nil || !ok {
		return nil
	}
	for _, s := range n.fleet.slots {
		if strings.Contains(value, s.label()) {
			return s
		}
	}
	return nil
}

// onWorker is a fault of a process.
func (n *nemesis) onWorker(kind, how string, run func(ctx context.Context, s *slot) bool) action {
	s := n.slot()
	if !s.process.TryLock() {
		return action{}
	}
	return action{kind, strings.TrimSpace(how + " of " + s.current.name), func(ctx context.Context) bool {
		defer s.process.Unlock()
		return run(ctx, s)
	}}
}

// onNetwork is a fault of the connections of one worker.
func (n *nemesis) onNetwork(kind, how string, run func(ctx context.Context, s *slot) bool) action {
	s := n.slot()
	if !s.network.TryLock() {
		return action{}
	}
	return action{kind, strings.TrimSpace(how + " of worker " + strconv.Itoa(s.index+1)), func(ctx context.Context) bool {
		defer s.network.Unlock()
		return run(ctx, s)
	}}
}

// onServer is a fault of the server as a process.
func (n *nemesis) onServer(kind, how string, run func(ctx context.Context) bool) action {
	if !n.serving.TryLock() {
		return action{}
	}
	return action{kind, how, func(ctx context.Context) bool {
		defer n.serving.Unlock()
		// It does not run if it did not start again, and that ends the round.
		return n.server.cmd != nil && run(ctx)
	}}
}

// command is a fault that is a command to the server. One that gets no answer, because
// the server is down or stopped, is none.
func (n *nemesis) command(kind string, args ...string) action {
	return action{kind, "", func(ctx context.Context) bool { return n.tell(ctx, args...) }}
}

// tell makes the server do something, and reports whether it did.
func (n *nemesis) tell(ctx context.Context, args ...string) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, err := n.server.do(ctx, args...)
	return err == nil
}
