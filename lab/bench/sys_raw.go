package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

// pollEvery is how often the raw loops ask for a lock that is held.
const pollEvery = time.Millisecond

// flushDelay is what the tuned settings of rueidis wait to send more at once.
const flushDelay = 20 * time.Microsecond

func rawSystems() []system {
	return []system{
		{
			name: "raw-goredis", kind: rawLoop, setting: "SET NX PX and compare-and-delete; polls every 1 ms",
			sends: []string{"set"}, keys: oneKey("%s"),
			open: func(addr string, ttl time.Duration) (session, error) {
				return &rawGoRedis{redis.NewClient(&redis.Options{Addr: addr}), redis.NewScript(compareAndDelete), ttl}, nil
			},
		},
		{
			name: "raw-rueidis", kind: rawLoop, setting: "the same; contexts that can't end, which is the faster",
			sends: []string{"set"}, keys: oneKey("%s"), open: openRawRueidis(rueidis.ClientOption{}),
		},
		{
			name: "raw-rueidis-tuned", kind: rawLoop, setting: "the same on one connection, 20 µs flush delay",
			sends: []string{"set"}, keys: oneKey("%s"), open: openRawRueidis(tunedRueidis()),
		},
	}
}

func tunedRueidis() rueidis.ClientOption {
	return rueidis.ClientOption{DisableCache: true, PipelineMultiplex: -1, MaxFlushDelay: flushDelay}
}

// at returns the options for a server.
func at(addr string, options rueidis.ClientOption) rueidis.ClientOption {
	options.InitAddress = []string{addr}
	return options
}

// compareAndDelete is the release that every description of a Redis lock has.
const compareAndDelete = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end`

var errNotHeld = errors.New("not held any more")

// pollUntil calls try until it succeeds.
func pollUntil(ctx context.Context, try func(ctx context.Context) error) error {
	for {
		if err := try(ctx); !errors.Is(err, errHeld) {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		time.Sleep(pollEvery)
	}
}

// token is what a raw hold has as its value: unlike all others, and cheap.
func token(n uint64) string { return strconv.FormatUint(n, 36) }

type rawGoRedis struct {
	rdb    *redis.Client
	script *redis.Script
	ttl    time.Duration
}

func (s *rawGoRedis) close()                  { _ = s.rdb.Close() }
func (s *rawGoRedis) mutex(name string) mutex { return &rawGoRedisMutex{s, name, rand.Uint64()} }

type rawGoRedisMutex struct {
	s    *rawGoRedis
	name string
	n    uint64
}

func (m *rawGoRedisMutex) lock(ctx context.Context) error { return pollUntil(ctx, m.try) }

func (m *rawGoRedisMutex) try(context.Context) error {
	m.n++
	err := m.s.rdb.SetArgs(context.Background(), m.name, token(m.n), redis.SetArgs{Mode: "NX", TTL: m.s.ttl}).Err()
	if errors.Is(err, redis.Nil) {
		return errHeld
	}
	return err
}

func (m *rawGoRedisMutex) unlock(context.Context) error {
	deleted, err := m.s.script.Run(context.Background(), m.s.rdb, []string{m.name}, token(m.n)).Int64()
	if err == nil && deleted == 0 {
		return errNotHeld
	}
	return err
}

type rawRueidis struct {
	client rueidis.Client
	script *rueidis.Lua
	ttl    time.Duration
}

func openRawRueidis(options rueidis.ClientOption) func(addr string, ttl time.Duration) (session, error) {
	return func(addr string, ttl time.Duration) (session, error) {
		client, err := rueidis.NewClient(at(addr, options))
		if err != nil {
			return nil, err
		}
		return &rawRueidis{client, rueidis.NewLuaScript(compareAndDelete), ttl}, nil
	}
}

func (s *rawRueidis) close()                  { s.client.Close() }
func (s *rawRueidis) mutex(name string) mutex { return &rawRueidisMutex{s, name, rand.Uint64()} }

type rawRueidisMutex struct {
	s    *rawRueidis
	name string
	n    uint64
}

func (m *rawRueidisMutex) lock(ctx context.Context) error { return pollUntil(ctx, m.try) }

func (m *rawRueidisMutex) try(context.Context) error {
	m.n++
	set := m.s.client.B().Set().Key(m.name).Value(token(m.n)).Nx().PxMilliseconds(m.s.ttl.Milliseconds()).Build()
	err := m.s.client.Do(context.Background(), set).Error()
	if rueidis.IsRedisNil(err) {
		return errHeld
	}
	return err
}

func (m *rawRueidisMutex) unlock(context.Context) error {
	deleted, err := m.s.script.Exec(context.Background(), m.s.client, []string{m.name}, []string{token(m.n)}).AsInt64()
	if err == nil && deleted == 0 {
		return errNotHeld
	}
	return err
}
