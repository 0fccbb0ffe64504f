package goredisconn

import (
	"context"
	"errors"
	"iter"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Scan implements lockkeeper.Scanner: over the server, every master of a cluster,
// or every shard of a ring, one after the other. The first error ends it.
func (c *Conn) Scan(ctx context.Context, match string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		servers, err := c.servers(ctx)
		if err != nil {
			yield("", failure(ctx, err))
			return
		}
		for _, server := range servers {
			if !server.scan(ctx, match, yield) {
				return
			}
		}
	}
}

// servers returns a Conn for each server that has keys of its own.
func (c *Conn) servers(ctx context.Context) ([]*Conn, error) {
	var each func(context.Context, func(context.Context, *redis.Client) error) error
	switch rdb := c.rdb.(type) {
	case *redis.ClusterClient:
		each = rdb.ForEachMaster
	case *redis.Ring:
		each = rdb.ForEachShard
	default:
		return []*Conn{c}, nil
	}
	var mu sync.Mutex
	var servers []*Conn
	err := orLeave(ctx, func() error {
		return each(ctx, func(_ context.Context, rdb *redis.Client) error {
			mu.Lock()
			defer mu.Unlock()
			servers = append(servers, &Conn{rdb: rdb, leave: true})
			return nil
		})
	})
	if err != nil {
		return nil, err // and servers may still grow
	}
	return servers, nil
}

// scan yields the keys of one server. It reports whether the next one is wanted.
func (c *Conn) scan(ctx context.Context, match string, yield func(string, error) bool) bool {
	for cursor := "0"; ; {
		r := &request{Cmd: redis.NewCmd(ctx, "scan", cursor, "match", match, "count", 512)}
		reply, err := c.do(ctx, r)
		if err != nil {
			yield("", err)
			return false
		}
		next, keys, ok := page(reply)
		if !ok {
			yield("", errors.New("goredisconn: SCAN: not a page of keys"))
			return false
		}
		for _, key := range keys {
			if key, ok := key.(string); ok && !yield(key, nil) {
				return false
			}
		}
		if cursor = next; cursor == "0" {
			return true
		}
	}
}

// page takes the reply of SCAN apart.
func page(reply any) (cursor string, keys []any, ok bool) {
	parts, _ := reply.([]any)
	if len(parts) != 2 {
		return "", nil, false
	}
	cursor, ok = parts[0].(string)
	if !ok {
		return "", nil, false
	}
	keys, ok = parts[1].([]any)
	return cursor, keys, ok
}
