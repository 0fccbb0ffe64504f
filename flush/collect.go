package flush

import (
	"context"
	"fmt"
	"strings"

	"github.com/lockkeeper/lockkeeper/internal/script"
)

// mostBytes bounds the values that one request reads, and so the memory of a batch.
const mostBytes = 8 << 20

// A pending is a changed key whose value has to be read.
type pending struct {
	mark
	key []any
}

// collect reads the values behind the marks of a batch and makes rows of them. If there
// are too many bytes, some marks are taken out of the batch again.
func (e *Engine) collect(ctx context.Context, b *batch) error {
	paused := b.control.pausedTables()
	reads := make([][]pending, len(e.routes))
	for _, m := range b.marks {
		r, parts := e.route(m.key)
		if r == nil {
			b.parks = append(b.parks, parked{mark: m, Parked: Parked{Reason: "no mapping fits this key"}})
			continue
		}
		if paused[r.Table] {
			b.hold(e.keys.Held(r.Table), m)
			continue
		}
		key, bad := r.keyOf(m, parts)
		switch {
		case bad != nil:
			b.parks = append(b.parks, *bad)
		case m.isDelete():
			r.remove(m, key, b)
		default:
			reads[r.rank] = append(reads[r.rank], pending{m, key})
		}
	}
	left := mostBytes
	var late []mark
	for i, keys := range reads {
		unread, err := e.read(ctx, e.routes[i], keys, b, &left)
		if err != nil {
			return err
		}
		for _, p := range unread {
			late = append(late, p.mark)
		}
	}
	b.later += len(late)
	b.marks = without(b.marks, late)
	return nil
}

// route returns the first mapping that fits a key, with the key's parts, or nil. Keys of
// Lockkeeper are no data, unless a pattern names them.
func (e *Engine) route(key string) (*route, []string) {
	own := ""
	if strings.HasPrefix(strings.TrimPrefix(key, "{"), e.keys.prefix) {
		own = key[:strings.Index(key, e.keys.prefix)+len(e.keys.prefix)]
	}
	for _, r := range e.routes {
		if !strings.HasPrefix(r.pattern.literals[0], own) {
			continue
		}
		if parts, ok := r.pattern.match(key); ok {
			return r, parts
		}
	}
	return nil, nil
}

// read reads the values of keys of one mapping and adds them to the batch, until there
// are too many bytes. It returns the keys that it has not read.
func (e *Engine) read(ctx context.Context, r *route, keys []pending, b *batch, left *int) ([]pending, error) {
	if len(keys) == 0 || *left <= 0 {
		return keys, nil
	}
	values, err := e.values(ctx, r, keys, *left)
	if err != nil {
		return nil, err
	}
	for i, v := range values {
		*left -= size(v)
		r.take(keys[i], v, b)
	}
	if len(values) < len(keys) {
		*left = 0
	}
	return keys[len(values):], nil
}

// values asks for the values of keys; at least for the first, and at most for all.
func (e *Engine) values(ctx context.Context, r *route, keys []pending, most int) ([]any, error) {
	names := make([]string, 0, 1+len(keys))
	args := []string{r.kind, formatInt(int64(most))}
	run := readScript
	if r.source() == Streams {
		run = entriesScript
		names = append(names, e.keys.Cursors)
		args = []string{formatInt(mostEntries), formatInt(int64(most))}
	} else {
		args = append(args, r.fields()...)
	}
	for i := range keys {
		names = append(names, keys[i].mark.key)
	}
	return e.list(ctx, run, names, len(keys), args...)
}

// list runs a script that returns at least one value, and at most so many.
func (e *Engine) list(ctx context.Context, s *script.Script, keys []string, most int, args ...string) ([]any, error) {
	reply, err := e.eval(ctx, s, keys, args...)
	if err != nil {
		return nil, err
	}
	values, ok := reply.([]any)
	if !ok || len(values) == 0 || len(values) > most {
		return nil, unexpected(reply)
	}
	return values, nil
}

// size is about how many bytes a reply takes; the scripts count alike.
func size(reply any) int {
	switch v := reply.(type) {
	case string:
		return 16 + len(v)
	case []any:
		n := 0
		for i := range v {
			n += size(v[i])
		}
		return n
	}
	return 0
}

// take makes a row of one key's value, or parks or skips it.
func (r *route) take(p pending, reply any, b *batch) {
	values, ok := reply.([]any)
	if !ok {
		if kind, isOther := reply.(string); isOther {
			b.parks = append(b.parks, r.park(p.mark, "", "the key is a %s, not a %s", kind, r.kind))
			return
		}
		r.missing(p, b)
		return
	}
	if r.source() == Streams {
		r.takeEntries(p, values, b)
		return
	}
	row, err := r.row(p, values)
	if err != nil {
		b.parks = append(b.parks, r.park(p.mark, err.column, "%s", err.reason))
		return
	}
	b.rows = append(b.rows, row)
}

// missing deals with a key that was changed and is not there.
func (r *route) missing(p pending, b *batch) {
	switch {
	case r.source() == Streams || r.Missing == Delete:
		r.remove(p.mark, p.key, b)
	case r.Missing == Park:
		b.parks = append(b.parks, r.park(p.mark, "", "the key is gone, and nobody deleted it through a mark"))
	default:
		b.skips = append(b.skips, p.mark)
	}
}

// remove deletes the rows of a key. The rows of a stream stay; only how far it was read
// is forgotten.
func (r *route) remove(m mark, key []any, b *batch) {
	if r.source() == Streams {
		b.tails = append(b.tails, tail{mark: m, route: r})
		return
	}
	b.rows = append(b.rows, Row{Mapping: r.Mapping, Key: key, Delete: true, route: r, mark: m})
}

func (r *route) park(m mark, column, format string, args ...any) parked {
	return parked{mark: m, route: r, Parked: Parked{Table: r.Table, Column: column, Reason: fmt.Sprintf(format, args...)}}
}
