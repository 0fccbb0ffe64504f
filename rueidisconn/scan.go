package rueidisconn

import (
	"context"
	"errors"
	"iter"
)

// Scan implements lockkeeper.Scanner: over the server, or every primary of a
// cluster, one after the other. The first error ends it.
func (c *Conn) Scan(ctx context.Context, match string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		servers, err := c.servers(ctx)
		if err != nil {
			yield("", err)
			return
		}
		for _, server := range servers {
			if !server.scan(ctx, match, yield) {
				return
			}
		}
	}
}

// servers returns a Conn for each primary.
func (c *Conn) servers(ctx context.Context) ([]*Conn, error) {
	nodes := c.client.Nodes()
	if len(nodes) == 1 {
		return []*Conn{c}, nil
	}
	var servers []*Conn
	for _, node := range nodes {
		server := New(node)
		role, err := server.do(ctx, node.B().Arbitrary("ROLE").Build())
		if err != nil {
			return nil, err
		}
		if parts, _ := role.([]any); len(parts) > 0 && parts[0] == "master" {
			servers = append(servers, server)
		}
	}
	return servers, nil
}

// scan yields the keys of one server. It reports whether the next one is wanted.
func (c *Conn) scan(ctx context.Context, match string, yield func(string, error) bool) bool {
	for cursor := "0"; ; {
		// The builder's own Scan is marked as read-only, and would be retried.
		cmd := c.client.B().Arbitrary("SCAN").Args(cursor, "MATCH", match, "COUNT", "512").Build()
		reply, err := c.do(ctx, cmd)
		if err != nil {
			yield("", err)
			return false
		}
		next, keys, ok := page(reply)
		if !ok {
			yield("", errors.New("rueidisconn: SCAN: not a page of keys"))
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
