package flush

import (
	"context"
	"fmt"
	"slices"

	"github.com/lockkeeper/lockkeeper/flush/internal/dialect"
)

// rows looks for rows whose key is not there.
func (v *verifier) rows(ctx context.Context, progress func(share float64)) error {
	var after []any
	for {
		keys, err := v.sink.tables.Keys(ctx, v.sink.db, v.sink.routes[v.route.rank].table, after, chunkSize)
		if err != nil {
			return fmt.Errorf("flush: table %s: %w", v.route.Table, err)
		}
		if len(keys) == 0 {
			progress(1)
			return v.deleteOrphans(ctx)
		}
		after = keys[len(keys)-1]
		v.found.Rows += len(keys)
		if err := v.orphans(ctx, keys); err != nil {
			return err
		}
		// How many rows there are is not known before; most have a key.
		progress(0.5 + 0.5*min(0.99, float64(v.found.Rows)/float64(max(1, v.found.Keys))))
	}
}

// orphans notes the rows of these primary keys whose keys on Redis are not there.
func (v *verifier) orphans(ctx context.Context, keys [][]any) error {
	var rows []Row
	for _, key := range keys {
		if slices.ContainsFunc(key, isUnreadable) {
			v.found.Orphans++ // no key of ours can have this row
			v.note(Difference{Key: fmt.Sprint(key), Table: v.route.Table, Redis: "no key", Database: "a row"})
			continue
		}
		rows = append(rows, Row{Key: key, mark: mark{key: v.route.nameOf(key)}})
	}
	for range 2 { // a key that was deleted after its row was read: its row has gone too, now or soon
		var err error
		if rows, err = v.withoutKey(ctx, rows); err != nil {
			return err
		}
		if rows, err = v.withRow(ctx, rows); err != nil {
			return err
		}
	}
	for i := range rows {
		name := rows[i].mark.key
		v.found.Orphans++
		v.note(Difference{Key: name, Table: v.route.Table, Redis: "no key", Database: "a row"})
		if r, _ := v.Engine.route(name); r == v.route { // otherwise its delete would be that of another row
			v.gone = append(v.gone, name)
		}
	}
	return nil
}

// withoutKey returns the rows whose keys are neither there nor marked.
func (v *verifier) withoutKey(ctx context.Context, rows []Row) ([]Row, error) {
	names := make([]string, len(rows))
	for i := range rows {
		names[i] = rows[i].mark.key
	}
	states, err := v.states(ctx, names)
	i := -1
	return slices.DeleteFunc(rows, func(Row) bool { i++; return err == nil && (states[i].there || states[i].marked) }), err
}

// withRow returns the rows that are in the database.
func (v *verifier) withRow(ctx context.Context, rows []Row) ([]Row, error) {
	have, err := v.sink.read(ctx, v.route, rows)
	i := -1
	return slices.DeleteFunc(rows, func(Row) bool { i++; return err == nil && len(have[i]) == 0 }), err
}

func isUnreadable(v any) bool {
	_, is := v.(dialect.Unreadable)
	return is
}

// deleteOrphans marks rows without a key as deleted, if that is wanted, and if they are
// not too many.
func (v *verifier) deleteOrphans(ctx context.Context) error {
	if v.o.Deletes == 0 || len(v.gone) == 0 {
		return nil
	}
	if float64(len(v.gone)) > v.o.Deletes*float64(v.found.Rows) {
		v.found.TooMany = true
		return nil
	}
	for chunk := range slices.Chunk(v.gone, chunkSize) {
		n, err := v.touchAll(ctx, v.route.Table, chunk, "D")
		v.found.Deleted += n
		if err != nil {
			return err
		}
	}
	return nil
}
