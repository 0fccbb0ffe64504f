package main

import (
	"context"
	"errors"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

func redislockSystems() []system {
	return []system{
		{
			name: "redislock", kind: peer, raw: "raw-goredis",
			setting: "LinearBackoff(100ms), as in its documentation; its default does not wait at all",
			keys:    oneKey("%s"), open: openRedislock(100 * time.Millisecond),
		},
		{
			name: "redislock-tuned", kind: peer, raw: "raw-goredis", setting: "LinearBackoff(1ms)",
			keys: oneKey("%s"), open: openRedislock(time.Millisecond),
		},
	}
}

func openRedislock(backoff time.Duration) func(addr string, ttl time.Duration) (session, error) {
	return func(addr string, ttl time.Duration) (session, error) {
		rdb := redis.NewClient(&redis.Options{Addr: addr})
		waiting := &redislock.Options{RetryStrategy: redislock.LinearBackoff(backoff)}
		return &redislockSession{rdb, redislock.New(rdb), ttl, waiting}, nil
	}
}

type redislockSession struct {
	rdb     *redis.Client
	client  *redislock.Client
	ttl     time.Duration
	waiting *redislock.Options
}

func (s *redislockSession) close()                  { _ = s.rdb.Close() }
func (s *redislockSession) mutex(name string) mutex { return &redislockMutex{s: s, name: name} }

type redislockMutex struct {
	s    *redislockSession
	name string
	held *redislock.Lock
}

// lock calls Obtain again when that gives up: without a deadline it waits for one
// TTL.
func (m *redislockMutex) lock(ctx context.Context) error {
	for {
		err := m.obtain(ctx, m.s.waiting)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case !errors.Is(err, errHeld) && !errors.Is(err, context.DeadlineExceeded):
			return err
		}
	}
}

func (m *redislockMutex) try(ctx context.Context) error { return m.obtain(ctx, nil) }

func (m *redislockMutex) obtain(ctx context.Context, options *redislock.Options) error {
	held, err := m.s.client.Obtain(ctx, m.name, m.s.ttl, options)
	if errors.Is(err, redislock.ErrNotObtained) {
		return errHeld
	}
	if err == nil {
		m.held = held
	}
	return err
}

func (m *redislockMutex) unlock(ctx context.Context) error { return m.held.Release(ctx) }
func (m *redislockMutex) renew(ctx context.Context) error  { return m.held.Refresh(ctx, m.s.ttl, nil) }
