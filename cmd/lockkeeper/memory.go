package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// A memoryCheck looks once whether a Redis server keeps what it is given.
type memoryCheck struct {
	app    *app
	server *server
	allow  bool // that it evicts
	done   bool
}

// check returns an error if the server may evict changes that are not flushed. A server
// that does not answer is asked again by the next call; one that lets nobody ask is
// trusted.
func (m *memoryCheck) check(ctx context.Context) error {
	if m.done {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	settings, err := m.settings(ctx)
	if err != nil {
		var refusal redis.Error
		if errors.As(err, &refusal) {
			m.done = true
			m.app.log.Warn("Redis does not say whether it keeps what it has: see that maxmemory-policy is noeviction", "redis", m.server.address, "error", err)
		}
		return nil
	}
	m.done = true
	if settings["aof_enabled"] == "0" {
		m.app.log.Warn("Redis keeps no append-only file: if it crashes, changes that are not flushed are lost; set appendonly yes", "redis", m.server.address)
	}
	policy, limited := settings["maxmemory_policy"], settings["maxmemory"] != "0"
	switch {
	case strings.HasPrefix(policy, "volatile-") && limited:
		m.app.log.Warn("Redis may evict keys that have a TTL, flushed or not; set maxmemory-policy noeviction", "redis", m.server.address, "policy", policy)
	case !strings.HasPrefix(policy, "allkeys-"):
	case m.allow || !limited: // without a limit it does not come to that
		m.app.log.Warn("Redis may evict changes that are not flushed; set maxmemory-policy noeviction", "redis", m.server.address, "policy", policy)
	default:
		return unavailableError{fmt.Errorf("the Redis server at %s may evict changes that are not flushed (maxmemory-policy %s): "+
			"set maxmemory-policy noeviction, or say --allow-eviction", m.server.address, policy)}
	}
	return nil
}

// settings reads what INFO says. It does so also to those who may not read the
// configuration.
func (m *memoryCheck) settings(ctx context.Context) (map[string]string, error) {
	settings := make(map[string]string)
	for _, section := range []string{"memory", "persistence"} {
		text, err := m.server.rdb.Info(ctx, section).Result()
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(text) {
			if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
				settings[name] = value
			}
		}
	}
	return settings, nil
}
