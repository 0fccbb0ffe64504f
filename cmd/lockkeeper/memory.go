package main

import (
	"context"
	"fmt"
	"strings"
	"time"
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
		m.app.log.Debug("can't ask Redis whether it keeps what it has", "redis", m.server.address, "error", root(err))
		return nil
	}
	m.done = true
	if settings["appendonly"] == "no" {
		m.app.log.Warn("Redis keeps no append-only file: if it crashes, changes that are not flushed are lost; set appendonly yes", "redis", m.server.address)
	}
	policy, limited := settings["maxmemory-policy"], settings["maxmemory"] != "0"
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

func (m *memoryCheck) settings(ctx context.Context) (map[string]string, error) {
	settings := make(map[string]string)
	for _, name := range []string{"maxmemory-policy", "maxmemory", "appendonly"} {
		found, err := m.server.rdb.ConfigGet(ctx, name).Result()
		if err != nil {
			return nil, err
		}
		settings[name] = found[name]
	}
	return settings, nil
}
