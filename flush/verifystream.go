package flush

import (
	"context"
	"fmt"
	"slices"
)

// compareStreams looks for entries of streams that are not in the database.
func (v *verifier) compareStreams(ctx context.Context, keys []string) error {
	for _, key := range keys {
		if err := v.compareStream(ctx, key); err != nil {
			return err
		}
	}
	return nil
}

// compareStream compares the entries of one stream, and looks again at what differs:
// entries can come between the looks at the mark, at the stream and at the database.
func (v *verifier) compareStream(ctx context.Context, key string) error {
	_, parts := v.Engine.route(key)
	id, bad := v.route.keyOf(mark{key: key}, parts)
	if bad != nil {
		v.unreadable = append(v.unreadable, *bad)
		return v.tellUnreadable(ctx)
	}
	var first string
	var list []Difference
	for range looks {
		var err error
		if first, list, err = v.readStream(ctx, pending{mark{key: key}, id}); err != nil {
			return err
		}
		if first == "" {
			v.found.Same++
			return nil
		}
		// A mark that was made after the look at the stream is the reason.
		states, err := v.states(ctx, []string{key})
		if err != nil || !states[0].there {
			return err
		}
		if states[0].marked {
			v.found.Pending++
			return nil
		}
	}
	v.found.Differ++
	v.note(list...)
	return v.repairStream(ctx, key, first)
}

// readStream returns the first entry that is not in the database as it should be, and
// where entries differ.
func (v *verifier) readStream(ctx context.Context, p pending) (first string, list []Difference, err error) {
	for before := ""; ; {
		keys := []string{v.keys.Cursors, p.mark.key}
		values, err := v.list(ctx, entriesScript, keys, 1, formatInt(mostEntries), formatInt(mostBytes), before)
		if err != nil {
			return "", nil, err
		}
		reply, ok := values[0].([]any)
		if !ok { // it was deleted, and what was in it stays in the database
			return first, list, nil
		}
		b := &batch{page: &page{}}
		v.route.takeEntries(p, reply, b)
		differs, more, err := v.compareEntries(ctx, b.rows)
		if err != nil {
			return "", nil, err
		}
		if first == "" {
			first = differs
		}
		list = append(list, more[:min(len(more), v.o.Differences)]...)
		if before = b.tails[0].last; !b.tails[0].more {
			return first, list, nil
		}
	}
}

// compareEntries returns the first entry that is not in the database as it should be, and
// where entries differ.
func (v *verifier) compareEntries(ctx context.Context, rows []Row) (first string, all []Difference, err error) {
	if len(rows) == 0 {
		return "", nil, nil
	}
	parents := make([][]any, len(rows))
	for i := range rows {
		parents[i] = slices.Concat(rows[i].Key, rows[i].Children[0][:1])
	}
	have, err := v.sink.tables.Read(ctx, v.sink.db, v.sink.routes[v.route.rank].table, parents)
	if err != nil {
		return "", nil, fmt.Errorf("flush: table %s: %w", v.route.Table, err)
	}
	byID := make(map[string][][]any, len(have))
	for _, row := range have {
		byID[v.route.childID(row[len(v.route.key):])] = [][]any{row}
	}
	for i := range rows {
		list := v.route.compareRow(&rows[i], byID[v.route.childID(rows[i].Children[0])])
		all = append(all, list...)
		if len(list) > 0 && first == "" {
			first = rows[i].entry
		}
	}
	return first, all, nil
}

// repairStream has a stream read again from an entry on.
func (v *verifier) repairStream(ctx context.Context, key, from string) error {
	if !v.o.Repair {
		return nil
	}
	if _, err := v.eval(ctx, rewindScript, []string{v.keys.Cursors}, key, justBefore(from)); err != nil {
		return err
	}
	n, err := v.touchAll(ctx, v.route.Table, []string{key}, "U")
	v.found.Repaired += n
	return err
}
