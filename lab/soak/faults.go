package main

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

func (n *nemesis) killWorker() action {
	return n.onWorker("worker killed", "", func(ctx context.Context, s *slot) bool {
		n.kill(ctx, s, 0)
		return true
	})
}

// kill, freeze and swallow are what befalls a worker. The caller has it in hand.
func (n *nemesis) kill(_ context.Context, s *slot, _ time.Duration) {
	n.fleet.kill(s)
	n.refill(s, false)
}

func (n *nemesis) freeze(ctx context.Context, s *slot, d time.Duration) {
	stopProcess(s.current.cmd.Process)
	pause(ctx, d)
	resumeProcess(s.current.cmd.Process)
}

func (n *nemesis) swallow(ctx context.Context, s *slot, d time.Duration) {
	s.proxy.Swallow()
	pause(ctx, d)
	s.proxy.Heal()
}

func (n *nemesis) refill(s *slot, closeFirst bool) {
	if err := n.fleet.fill(s, closeFirst); err != nil {
		n.fail(err)
	}
}

func (n *nemesis) stopWorker() action {
	d := n.ttls(0.2, 3)
	return n.onWorker("worker stopped", lasts(d), func(ctx context.Context, s *slot) bool {
		n.freeze(ctx, s, d)
		return true
	})
}

func (n *nemesis) replaceWorker() action {
	closeFirst := n.rng.IntN(2) == 0
	return n.onWorker("worker ended and replaced", "", func(_ context.Context, s *slot) bool {
		n.fleet.end(s)
		n.refill(s, closeFirst)
		return true
	})
}

func (n *nemesis) killConnections() action {
	return n.command("connections killed by the server", "CLIENT", "KILL", "TYPE", "normal", "USER", workerUser)
}

func (n *nemesis) killSubscriptions() action {
	return n.command("subscriptions killed by the server", "CLIENT", "KILL", "TYPE", "pubsub")
}

func (n *nemesis) flushScripts() action {
	return n.command("scripts flushed", "SCRIPT", "FLUSH")
}

func (n *nemesis) pauseClients() action { return n.clientPause("clients paused", "ALL") }
func (n *nemesis) pauseWrites() action  { return n.clientPause("writes paused", "WRITE") }

func (n *nemesis) clientPause(kind, mode string) action {
	d := n.ttls(0.2, 2)
	a := n.command(kind, "CLIENT", "PAUSE", strconv.FormatInt(d.Milliseconds(), 10), mode)
	return action{kind, lasts(d), func(ctx context.Context) bool {
		done := a.run(ctx)
		if done {
			pause(ctx, d) // so that the fault's time is right; healing ends it
		}
		return done
	}}
}

func (n *nemesis) cut() action {
	return n.onNetwork("connections cut", "", func(_ context.Context, s *slot) bool {
		s.proxy.CutAll()
		return true
	})
}

func (n *nemesis) hole() action {
	d := n.ttls(0.2, 3)
	return n.onNetwork("silent hole", lasts(d), func(ctx context.Context, s *slot) bool {
		n.swallow(ctx, s, d)
		return true
	})
}

func (n *nemesis) loseReplies() action {
	d := n.ttls(0.2, 2)
	return n.onNetwork("replies lost", lasts(d), func(ctx context.Context, s *slot) bool {
		s.proxy.SwallowReplies()
		pause(ctx, d)
		s.proxy.Heal()
		return true
	})
}

func (n *nemesis) delay() action {
	by, d := n.ttls(0.02, 0.6), n.ttls(0.5, 3)
	return n.onNetwork("delay", "of "+by.String()+" "+lasts(d), func(ctx context.Context, s *slot) bool {
		s.proxy.Delay(by)
		pause(ctx, d)
		s.proxy.Delay(0)
		return true
	})
}

// slowThenBroken makes a worker's network slow, lets it hold for long, and strikes when
// it does: when a grant or a renewal was answered late. Belief that is counted from the
// answer, and not from the request, is longer than the key lives then.
func (n *nemesis) slowThenBroken() action {
	by, after, d := n.ttls(0.15, 0.4), n.ttls(0, 1), n.ttls(1.2, 3)
	strike, what := n.freeze, "stopped "+lasts(d)
	switch n.rng.IntN(4) {
	case 0:
		strike, what = n.swallow, "in a silent hole "+lasts(d)
	case 1:
		strike, what = n.kill, "killed"
	}
	return n.onNetwork("delay, and then the worst", fmt.Sprintf("%s, then %s", by, what), func(ctx context.Context, s *slot) bool {
		if !s.process.TryLock() {
			return false
		}
		defer s.process.Unlock()
		defer s.proxy.Delay(0)
		s.proxy.Delay(by)
		s.current.tell(lingerLine)
		if n.awaitHolder(ctx, s) {
			pause(ctx, by+after) // it hears of its grant, and perhaps renews it
			strike(ctx, s, d)
		}
		s.current.tell(goOnLine)
		return true
	})
}

// awaitHolder waits until a worker holds a lock, but not for long.
func (n *nemesis) awaitHolder(ctx context.Context, s *slot) bool {
	for deadline := time.Now().Add(2 * time.Second); ctx.Err() == nil && time.Now().Before(deadline); {
		for _, lock := range n.Locks {
			if n.holder(lock.Name) == s {
				return true
			}
		}
		pause(ctx, 2*time.Millisecond)
	}
	return false
}

func (n *nemesis) refuse() action {
	d := n.ttls(0.2, 2)
	return n.onNetwork("connections cut and refused", lasts(d), func(ctx context.Context, s *slot) bool {
		s.proxy.RefuseNew(true)
		s.proxy.CutAll()
		pause(ctx, d)
		s.proxy.Heal()
		return true
	})
}

// lasts says how long a fault lasts.
func lasts(d time.Duration) string { return fmt.Sprintf("for %s", d) }
