package dialect

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/lockkeeper/lockkeeper/flush/internal/value"
)

// An Unreadable is a value in the database that its column's type does not have: an
// other program has written it, or the column is of another type. It equals nothing
// that Convert returns. As a part of a key it can be given to the methods of DB.
type Unreadable struct {
	Text string // for people

	raw any // a string, a number or a time
}

// String shows the value as what it is.
func (u Unreadable) String() string { return u.Text + " (unreadable)" }

// Read returns the rows whose first key columns are one of parents, ordered by
// value.Compare of their keys: of each the key values, then the column values, as
// value.Type.FromDB gives them, or an Unreadable. The parents are distinct and all of
// one length.
func (db *DB) Read(ctx context.Context, q Queryer, t *Table, parents [][]any) ([][]any, error) {
	p, err := db.plan(t)
	if err != nil {
		return nil, err
	}
	if err := p.checkParents(parents); err != nil || len(parents) == 0 {
		return nil, err
	}
	var out [][]any
	err = db.server.read(ctx, q, p, parents, func(rows *sql.Rows) error {
		row, err := scan(rows, p.columns, len(t.Key))
		out = append(out, row)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the table %q: %w", t.Name, err)
	}
	key := len(t.Key)
	slices.SortStableFunc(out, func(a, b []any) int { return slices.CompareFunc(a[:key], b[:key], value.Compare) })
	return out, nil
}

// Keys returns up to limit parents, the distinct first t.Parent key values of the
// rows, that come after one, or the first ones if after is nil. They are in the
// database's own order, which need not be that of value.Compare: it serves to walk
// through the table with the last one as the next after.
func (db *DB) Keys(ctx context.Context, q Queryer, t *Table, after []any, limit int) ([][]any, error) {
	p, err := db.plan(t)
	switch {
	case err != nil:
		return nil, err
	case len(after) != 0 && len(after) != t.Parent:
		return nil, fmt.Errorf("flush: table %q: keys after %d values, not %d", t.Name, len(after), t.Parent)
	case limit < 1:
		return nil, errors.New("flush: a limit below 1")
	}
	rows, err := db.server.keys(ctx, q, p, after, limit)
	if err != nil {
		return nil, fmt.Errorf("read the keys of the table %q: %w", t.Name, err)
	}
	var out [][]any
	err = each(rows, func(rows *sql.Rows) error {
		row, err := scan(rows, p.columns[:t.Parent], t.Parent)
		out = append(out, row)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the keys of the table %q: %w", t.Name, err)
	}
	return out, nil
}

// query calls take for each row.
func query(ctx context.Context, q Queryer, take func(*sql.Rows) error, text string, args ...any) error {
	rows, err := q.QueryContext(ctx, text, args...)
	if err != nil {
		return err
	}
	return each(rows, take)
}

func each(rows *sql.Rows, take func(*sql.Rows) error) error {
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := take(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// scan returns the values of a row, the first of which are of the key.
func scan(rows *sql.Rows, columns []Column, key int) ([]any, error) {
	row := make([]any, len(columns))
	into := make([]any, len(columns))
	for i := range row {
		into[i] = &row[i]
	}
	if err := rows.Scan(into...); err != nil {
		return nil, err
	}
	for i, v := range row {
		row[i] = readable(columns[i].Type, v, i < key)
	}
	return row, nil
}

func readable(t value.Type, v any, inKey bool) any {
	raw := v
	if b, ok := v.([]byte); ok && t.Kind != value.Bytes {
		raw = string(b)
	}
	got, err := t.FromDB(v)
	text, isText := raw.(string)
	// Another spelling in a key is another row where the database compares texts: with
	// the usual one the row would not be found again.
	if err == nil && !(inKey && isText && text != value.Spell(got)) {
		return got
	}
	return Unreadable{Text: value.Show(raw), raw: raw}
}
