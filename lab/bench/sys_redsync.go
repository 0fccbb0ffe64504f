package main

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncgoredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	redsyncrueidis "github.com/go-redsync/redsync/v4/redis/rueidis"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidiscompat"
)

func redsyncSystems() []system {
	tuned := []redsync.Option{redsync.WithRetryDelay(time.Millisecond), redsync.WithFailFast(true), redsync.WithTries(math.MaxInt32)}
	return []system{
		{
			name: "redsync", kind: peer, raw: "raw-goredis",
			setting: "its defaults (32 tries, 50 to 250 ms apart; called again after that), go-redis",
			sends:   []string{"set"}, keys: oneKey("%s"), open: openRedsyncOnGoRedis(),
		},
		{
			name: "redsync-tuned", kind: peer, raw: "raw-goredis",
			setting: "WithRetryDelay(1ms), WithFailFast, tries without end, go-redis",
			sends:   []string{"set"}, keys: oneKey("%s"), open: openRedsyncOnGoRedis(tuned...),
		},
		{
			name: "redsync-rueidis", kind: peer, raw: "raw-rueidis",
			setting: "as redsync-tuned, on its rueidis pool",
			sends:   []string{"set"}, keys: oneKey("%s"), open: openRedsyncOnRueidis(tuned...),
		},
	}
}

func openRedsyncOnGoRedis(options ...redsync.Option) func(addr string, ttl time.Duration) (session, error) {
	return func(addr string, ttl time.Duration) (session, error) {
		rdb := redis.NewClient(&redis.Options{Addr: addr})
		return &redsyncSession{
			rs:      redsync.New(redsyncgoredis.NewPool(rdb)),
			options: append([]redsync.Option{redsync.WithExpiry(ttl)}, options...),
			done:    func() { _ = rdb.Close() },
		}, nil
	}
}

func openRedsyncOnRueidis(options ...redsync.Option) func(addr string, ttl time.Duration) (session, error) {
	return func(addr string, ttl time.Duration) (session, error) {
		client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}})
		if err != nil {
			return nil, err
		}
		return &redsyncSession{
			rs:      redsync.New(redsyncrueidis.NewPool(rueidiscompat.NewAdapter(client))),
			options: append([]redsync.Option{redsync.WithExpiry(ttl)}, options...),
			done:    client.Close,
		}, nil
	}
}

type redsyncSession struct {
	rs      *redsync.Redsync
	options []redsync.Option
	done    func()
}

func (s *redsyncSession) close() { s.done() }
func (s *redsyncSession) mutex(name string) mutex {
	return redsyncMutex{s.rs.NewMutex(name, s.options...)}
}

type redsyncMutex struct{ m *redsync.Mutex }

func (m redsyncMutex) lock(ctx context.Context) error {
	for {
		err := m.m.LockContext(ctx)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case !taken(err):
			return err
		}
	}
}

func (m redsyncMutex) try(ctx context.Context) error {
	err := m.m.TryLockContext(ctx)
	if taken(err) {
		return errHeld
	}
	return err
}

// taken says whether redsync has found the lock held, and given up.
func taken(err error) bool {
	_, found := errors.AsType[*redsync.ErrTaken](err)
	return found || errors.Is(err, redsync.ErrFailed)
}

func (m redsyncMutex) unlock(ctx context.Context) error {
	ok, err := m.m.UnlockContext(ctx)
	if err == nil && !ok {
		return errNotHeld
	}
	return err
}

func (m redsyncMutex) renew(ctx context.Context) error {
	ok, err := m.m.ExtendContext(ctx)
	if err == nil && !ok {
		return errNotHeld
	}
	return err
}
