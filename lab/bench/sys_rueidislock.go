package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

func rueidislockSystems() []system {
	return []system{
		{
			name: "rueidislock", kind: peer, raw: "raw-rueidis", setting: "its defaults (KeyMajority 2: three keys a lock)",
			keys: rueidislockKeys(3), open: openRueidislock(rueidislock.LockerOption{}),
		},
		{
			name: "rueidislock-tuned", kind: peer, raw: "raw-rueidis",
			setting: "its README's setting for one Redis: KeyMajority 1, NoLoopTracking",
			keys:    rueidislockKeys(1), open: openRueidislock(rueidislock.LockerOption{KeyMajority: 1, NoLoopTracking: true}),
		},
		{
			name: "rueidislock-loop", kind: peer, raw: "raw-rueidis", setting: "KeyMajority 1 without NoLoopTracking",
			keys: rueidislockKeys(1), open: openRueidislock(rueidislock.LockerOption{KeyMajority: 1}),
		},
	}
}

func rueidislockKeys(n int) func(name string) []string {
	return func(name string) (keys []string) {
		for i := range n {
			keys = append(keys, fmt.Sprintf("rueidislock:%d:%s", i, name))
		}
		return keys
	}
}

func openRueidislock(options rueidislock.LockerOption) func(addr string, ttl time.Duration) (session, error) {
	return func(addr string, ttl time.Duration) (session, error) {
		option := options
		option.ClientOption = rueidis.ClientOption{InitAddress: []string{addr}}
		option.KeyValidity = ttl // it renews at half of it
		locker, err := rueidislock.NewLocker(option)
		if err != nil {
			return nil, err
		}
		return rueidislockSession{locker}, nil
	}
}

type rueidislockSession struct{ locker rueidislock.Locker }

func (s rueidislockSession) close() { s.locker.Close() }
func (s rueidislockSession) mutex(name string) mutex {
	return &rueidislockMutex{locker: s.locker, name: name}
}

type rueidislockMutex struct {
	locker rueidislock.Locker
	name   string
	ctx    context.Context // of the hold
	cancel context.CancelFunc
}

func (m *rueidislockMutex) lock(ctx context.Context) (err error) {
	m.ctx, m.cancel, err = m.locker.WithContext(ctx, m.name)
	return err
}

func (m *rueidislockMutex) try(ctx context.Context) (err error) {
	m.ctx, m.cancel, err = m.locker.TryWithContext(ctx, m.name)
	if errors.Is(err, rueidislock.ErrNotLocked) {
		return errHeld
	}
	return err
}

// unlock returns no error, since the library has none to tell.
func (m *rueidislockMutex) unlock(context.Context) error {
	m.cancel()
	return nil
}

func (m *rueidislockMutex) err() error { return m.ctx.Err() }

func (m *rueidislockMutex) boundContext(context.Context) (context.Context, context.CancelFunc) {
	return m.ctx, func() {}
}
