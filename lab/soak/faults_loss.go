package main

import (
	"context"
	"os"
	"strconv"
	"time"

	"github.com/lockkeeper/lockkeeper"
)

// The faults by which the server loses what it has answered for.

func (n *nemesis) flushAll() action { return n.command("everything flushed", "FLUSHALL") }

func (n *nemesis) emptyRestart() action {
	return n.restart("server killed, back empty", func() ([]string, error) {
		return nil, os.RemoveAll(n.server.dataDir())
	})
}

// loseLastWrites cuts the end of the server's file off, as a crash of the machine does.
func (n *nemesis) loseLastWrites() action {
	most := 500 + n.rng.Int64N(50_000)
	return n.restart("server killed, back without its last writes", func() ([]string, error) {
		file, err := n.server.lastWrites()
		if err != nil {
			return nil, err
		}
		info, err := os.Stat(file)
		if err != nil {
			return nil, err
		}
		return nil, os.Truncate(file, info.Size()-min(most, info.Size()))
	})
}

// evict lets the server throw keys away, some or all.
func (n *nemesis) evict() action {
	policy := []string{"allkeys-random", "allkeys-lru", "volatile-ttl"}[n.rng.IntN(3)]
	return n.set("keys evicted", policy, 0.05, 0.4, config("maxmemory-policy", policy, "noeviction"), noRoom)
}

func (n *nemesis) clockForward() action {
	if n.server.clock == nil {
		return action{}
	}
	by := n.ttls(0.5, 3)
	return action{"server's clock set forward", "by " + by.String(), func(context.Context) bool { return n.server.clock.step(by) }}
}

func keyOf(lock lockSpec) string { return lockkeeper.DefaultPrefix + lock.Name }

// onLock is what a foreign client does to the key of a lock, if it is there.
func (n *nemesis) onLock(kind, script string, args ...string) action {
	key := keyOf(n.Locks[n.rng.IntN(len(n.Locks))])
	return action{kind, key, func(ctx context.Context) bool {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		script := "return redis.call('EXISTS', KEYS[1]) == 1 and redis.call(" + script + ")"
		for ctx.Err() == nil { // until somebody has it
			if reply, err := n.server.do(ctx, append([]string{"EVAL", script, "1", key}, args...)...); err != nil || reply != nil {
				return err == nil
			}
			pause(ctx, 5*time.Millisecond)
		}
		return false
	}}
}

func (n *nemesis) deleteLock() action { return n.onLock("lock deleted by hand", "'DEL', KEYS[1]") }

func (n *nemesis) overwriteLock() action {
	d := n.ttls(0.1, 1)
	return n.onLock("lock overwritten by a foreign client", "'SET', KEYS[1], 'foreign', 'PX', ARGV[1]", strconv.FormatInt(d.Milliseconds(), 10))
}

func (n *nemesis) renameLock() action {
	return n.onLock("lock renamed", "'RENAME', KEYS[1], KEYS[1] .. '-renamed'")
}
