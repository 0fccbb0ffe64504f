package main

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/goredisconn"
	"github.com/lockkeeper/lockkeeper/rueidisconn"
)

// closeWithin bounds what closing a client may take.
const closeWithin = 2 * time.Second

func lockkeeperSystems() []system {
	keys := oneKey(lockkeeper.DefaultPrefix + "%s")
	return []system{
		{
			name: "lockkeeper-rueidis", kind: ours, raw: "raw-rueidis", setting: "defaults of both",
			keys: keys, open: openLockkeeperOnRueidis(rueidis.ClientOption{}),
		},
		{
			name: "lockkeeper-rueidis-tuned", kind: ours, raw: "raw-rueidis-tuned",
			setting: "one connection (PipelineMultiplex -1), MaxFlushDelay 20 µs, DisableCache",
			keys:    keys, open: openLockkeeperOnRueidis(tunedRueidis()),
		},
		{
			name: "lockkeeper-goredis", kind: ours, raw: "raw-goredis", setting: "defaults of both",
			keys: keys, open: func(addr string, ttl time.Duration) (session, error) {
				rdb := redis.NewClient(&redis.Options{Addr: addr})
				return newLockkeeper(goredisconn.New(rdb), ttl, func() { _ = rdb.Close() })
			},
		},
	}
}

func openLockkeeperOnRueidis(options rueidis.ClientOption) func(addr string, ttl time.Duration) (session, error) {
	return func(addr string, ttl time.Duration) (session, error) {
		client, err := rueidis.NewClient(at(addr, options))
		if err != nil {
			return nil, err
		}
		return newLockkeeper(rueidisconn.New(client), ttl, client.Close)
	}
}

func newLockkeeper(conn lockkeeper.Conn, ttl time.Duration, done func()) (session, error) {
	locks, err := lockkeeper.New(conn, lockkeeper.Config{TTL: ttl})
	if err != nil {
		done()
		return nil, err
	}
	return &lockkeeperSession{locks, done}, nil
}

type lockkeeperSession struct {
	locks *lockkeeper.Client
	done  func() // closes the Redis client
}

func (s *lockkeeperSession) close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
	defer cancel()
	_ = s.locks.Close(ctx) // what it could not release, its TTL frees
	s.done()
}

func (s *lockkeeperSession) mutex(name string) mutex {
	return &lockkeeperMutex{description: s.locks.Mutex(name)}
}

type lockkeeperMutex struct {
	description *lockkeeper.Lock
	lease       *lockkeeper.Lease
}

func (m *lockkeeperMutex) lock(ctx context.Context) (err error) {
	m.lease, err = m.description.Acquire(ctx)
	return err
}

func (m *lockkeeperMutex) try(ctx context.Context) (err error) {
	m.lease, err = m.description.Try(ctx)
	if errors.Is(err, lockkeeper.ErrHeld) {
		return errHeld
	}
	return err
}

func (m *lockkeeperMutex) unlock(ctx context.Context) error { return m.lease.Release(ctx) }

func (m *lockkeeperMutex) err() error { return m.lease.Err() }

func (m *lockkeeperMutex) boundContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return m.lease.Bind(ctx)
}

func (m *lockkeeperMutex) do(ctx context.Context, fn func(ctx context.Context)) error {
	return m.description.Do(ctx, func(ctx context.Context, _ *lockkeeper.Lease) error {
		fn(ctx)
		return nil
	})
}
