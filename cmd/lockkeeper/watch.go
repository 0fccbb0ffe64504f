package main

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper"
)

// tellEvery is how often it is said that Redis still does not answer.
const tellEvery = 5 * time.Second

// A watchedConn is a Conn that says when Redis stops answering and when it answers
// again. Who waits for a lock waits through that in silence.
type watchedConn struct {
	lockkeeper.Conn
	log     *slog.Logger
	address string

	mu     sync.Mutex
	since  time.Time // of the first request that failed; zero while requests succeed
	told   time.Time // when that was last said
	failed time.Time // when the server last refused one because of its state
}

func (c *watchedConn) EvalSha(ctx context.Context, sha string, keys, args []string) (any, error) {
	reply, err := c.Conn.EvalSha(ctx, sha, keys, args)
	c.heard(err)
	return reply, err
}

func (c *watchedConn) Eval(ctx context.Context, src string, keys, args []string) (any, error) {
	reply, err := c.Conn.Eval(ctx, src, keys, args)
	c.heard(err)
	return reply, err
}

// heard takes in the outcome of a request.
func (c *watchedConn) heard(err error) {
	if errors.Is(err, context.Canceled) {
		return // that was us
	}
	down := err != nil
	var reply *lockkeeper.ReplyError
	if errors.As(err, &reply) {
		down = serverTrouble(reply.Code)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if down && reply != nil {
		c.failed = now
	}
	switch {
	case !down && now.Sub(c.failed) < tellEvery: // it takes some requests and refuses others
	case !down && !c.since.IsZero():
		c.log.Info("Redis answers again", "redis", c.address, "after", now.Sub(c.since).Round(time.Millisecond))
		c.since, c.told = time.Time{}, time.Time{}
	case down && now.Sub(c.told) >= tellEvery:
		if c.since.IsZero() {
			c.since = now
		}
		c.told = now
		c.log.Warn("Redis gives no usable answer; waiting for it", "redis", c.address, "error", root(err))
	}
}

// serverTrouble reports whether an error of the server is about the state that it is in,
// which the lock waits out.
func serverTrouble(code string) bool {
	switch code {
	case "LOADING", "MASTERDOWN", "READONLY", "BUSY", "OOM", "MISCONF", "NOREPLICAS", "CLUSTERDOWN":
		return true
	}
	return false
}
