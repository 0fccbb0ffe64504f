package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

func (n *nemesis) killWorker() action {
	return n.onWorker("worker killed", "", func(ctx context.Context, s *slot) { n.kill(ctx, s, 0) })
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
	return n.onWorker("worker stopped", lasts(d), func(ctx context.Context, s *slot) { n.freeze(ctx, s, d) })
}

func (n *nemesis) replaceWorker() action {
	closeFirst := n.rng.IntN(2) == 0
	return n.onWorker("worker ended and replaced", "", func(_ context.Context, s *slot) {
		n.fleet.end(s)
		n.refill(s, closeFirst)
	})
}

func (n *nemesis) killConnections() action {
	return n.command("connections killed by the server", "CLIENT", "KILL", "TYPE", "normal")
}

func (n *nemesis) killSubscriptions() action {
	return n.command("subscriptions killed by the server", "CLIENT", "KILL", "TYPE", "pubsub")
}

func (n *nemesis) flushScripts() action {
	return n.command("scripts flushed", "SCRIPT", "FLUSH")
}

func (n *nemesis) pauseClients() action {
	d := n.ttls(0.2, 2)
	mode := []string{"ALL", "WRITE"}[n.rng.IntN(2)]
	a := n.command("clients paused", "CLIENT", "PAUSE", strconv.FormatInt(d.Milliseconds(), 10), mode)
	return action{a.kind, mode + " " + lasts(d), func(ctx context.Context) {
		a.run(ctx)
		pause(ctx, d) // so that the fault's time is right; healing ends it
	}}
}

func (n *nemesis) cut() action {
	return n.onNetwork("connections cut", "", func(_ context.Context, s *slot) { s.proxy.CutAll() })
}

func (n *nemesis) hole() action {
	d := n.ttls(0.2, 3)
	return n.onNetwork("silent hole", lasts(d), func(ctx context.Context, s *slot) { n.swallow(ctx, s, d) })
}

func (n *nemesis) loseReplies() action {
	d := n.ttls(0.2, 2)
	return n.onNetwork("replies lost", lasts(d), func(ctx context.Context, s *slot) {
		s.proxy.SwallowReplies()
		pause(ctx, d)
		s.proxy.Heal()
	})
}

func (n *nemesis) delay() action {
	by, d := n.ttls(0.02, 0.6), n.ttls(0.5, 3)
	return n.onNetwork("delay", "of "+by.String()+" "+lasts(d), func(ctx context.Context, s *slot) {
		s.proxy.Delay(by)
		pause(ctx, d)
		s.proxy.Delay(0)
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
	return n.onNetwork("delay, and then the worst", fmt.Sprintf("%s, then %s", by, what), func(ctx context.Context, s *slot) {
		if !s.process.TryLock() {
			return
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
	return n.onNetwork("connections cut and refused", lasts(d), func(ctx context.Context, s *slot) {
		s.proxy.RefuseNew(true)
		s.proxy.CutAll()
		pause(ctx, d)
		s.proxy.Heal()
	})
}

func (n *nemesis) stopServer() action {
	d := n.ttls(0.2, 2)
	return n.onServer("server stopped", lasts(d), func(ctx context.Context) {
		stopProcess(n.server.cmd.Process)
		pause(ctx, d)
		resumeProcess(n.server.cmd.Process)
	})
}

func (n *nemesis) restartServer() action {
	return n.restart("server killed, back with its data", false)
}

func (n *nemesis) emptyRestart() action { return n.restart("server killed, back empty", true) }

func (n *nemesis) restart(kind string, empty bool) action {
	d := n.ttls(0, 1.5)
	return n.onServer(kind, "after "+d.String(), func(ctx context.Context) {
		n.server.kill()
		pause(ctx, d)
		if err := n.server.restart(context.WithoutCancel(ctx), empty); err != nil {
			n.fail(err)
		}
	})
}

func (n *nemesis) flushAll() action { return n.command("everything flushed", "FLUSHALL") }

// counterAhead moves the fence counters far ahead of the clock: fences grow by the counter
// alone then. When it is lost next, fences go back, and claims are refused until they are
// repaired.
func (n *nemesis) counterAhead() action {
	return action{"fence counters set ahead", "by a minute", func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		keys, _ := n.server.keys(ctx)
		for _, key := range keys {
			if strings.HasSuffix(key, fenceSuffix) {
				// A counter that is lost meanwhile must not be made anew, without a TTL.
				_, _ = n.server.do(ctx, "EVAL", "return redis.call('EXISTS', KEYS[1]) == 1 and redis.call('INCRBY', KEYS[1], ARGV[1])",
					"1", key, strconv.FormatInt(time.Minute.Microseconds(), 10))
			}
		}
	}}
}

// lasts says how long a fault lasts.
func lasts(d time.Duration) string { return fmt.Sprintf("for %s", d) }
