package flush

import (
	"context"
	"fmt"
	"slices"
)

// compareStreams looks for entries of streams that are not in the database.
func (v *verifier) compareStreams(ctx context.Context, keys []string) error {
	states, err := v.states(ctx, keys)
	if err != nil {
		return err
	}
	for i, key := range keys {
		if states[i].marked {
			v.found.Pending++
			continue
		}
		if err := v.compareStream(ctx, key); err != nil {
			return err
		}
	}
	return nil
}

// compareStream compares the entries of one stream.
func (v *verifier) compareStream(ctx context.Context, key string) error {
	_, parts := v.Engine.route(key)
	id, bad := v.route.keyOf(mark{key: key}, parts)
	if bad != nil {
		v.found.Unreadable++
		return nil
	}
	p := pending{mark{key: key}, id}
	first := "" // entry that differs
	for before := ""; ; {
		keys := []string{v.keys.Cursors, key}
		values, err := v.list(ctx, entriesScript, keys, 1, formatInt(mostEntries), formatInt(mostBytes), before)
		if err != nil {
			return err
		}
		reply, ok := values[0].([]any)
		if !ok { // it was deleted, and what was in it stays in the database
			break
		}
		b := &batch{page: &page{}}
		v.route.takeEntries(p, reply, b)
		differs, err := v.compareEntries(ctx, b.rows)
		if err != nil {
			return err
		}
		if first == "" {
			first = differs
		}
		if before = b.tails[0].last; !b.tails[0].more {
			break
		}
	}
	if first == "" {
		v.found.Same++
		return nil
	}
	v.found.Differ++
	return v.repairStream(ctx, key, first)
}

// compareEntries returns the first entry that is not in the database as it should be.
func (v *verifier) compareEntries(ctx context.Context, rows []Row) (string, error) {
	if len(rows) == 0 {
		return "", nil
	}
	parents := make([][]any, len(rows))
	for i := range rows {
		parents[i] = slices.Concat(rows[i].Key, rows[i].Children[0][:1])
	}
	have, err := v.sink.tables.Read(ctx, v.sink.db, v.sink.routes[v.route.rank].table, parents)
	if err != nil {
		return "", fmt.Errorf("flush: table %s: %w", v.route.Table, err)
	}
	byID := make(map[string][][]any, len(have))
	for _, row := range have {
		byID[v.route.childID(row[len(v.route.key):])] = [][]any{row}
	}
	first := ""
	for i := range rows {
		list := v.route.compareRow(&rows[i], byID[v.route.childID(rows[i].Children[0])])
		v.note(list...)
		if len(list) > 0 && first == "" {
			first = rows[i].entry
		}
	}
	return first, nil
}

// repairStream has a stream read again from an entry on.
func (v *verifier) repairStream(ctx context.Context, key, from string) error {
	if !v.o.Repair {
		return nil
	}
	if _, err := v.eval(ctx, rewindScript, []string{v.keys.Cursors}, key, justBefore(from)); err != nil {
		return err
	}
	n, err := v.touch(ctx, v.route.Table, []string{key}, []string{"U"})
	v.found.Repaired += n
	return err
}
