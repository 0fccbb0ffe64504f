package dialect

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"

	"github.com/lockkeeper/lockkeeper/flush/internal/value"
)

// postgres sends a batch as one array for each column, in one statement. The arrays
// are texts, in PostgreSQL's own notation, and the statement says their types: so it
// is the same for every driver, and for poolers that know no prepared statements.
type postgres struct{}

func (postgres) quote(name string) string { return `"` + name + `"` }

// base is the type that values are sent as.
func (postgres) base(t value.Type) string {
	switch t.Kind {
	case value.Bytes:
		return "bytea"
	case value.Int64:
		return "bigint"
	case value.Uint64, value.Decimal:
		return "numeric"
	case value.Float64:
		return "double precision"
	case value.Bool:
		return "boolean"
	case value.Timestamp:
		return "timestamptz"
	case value.Date:
		return "date"
	case value.UUID:
		return "uuid"
	case value.JSON:
		return "json"
	}
	return "text"
}

// columnType has keys sorted by their bytes: quicker, and no change of the system's
// collation can break their index.
func (s postgres) columnType(t value.Type, inKey bool) string {
	switch {
	case t.Kind == value.Text && inKey:
		return `text COLLATE "C"`
	case t.Kind == value.Uint64:
		return "numeric(20,0)"
	case t.Kind == value.Decimal:
		return fmt.Sprintf("numeric(%d,%d)", t.Precision, t.Scale)
	}
	return s.base(t)
}

func (postgres) tableEnd() string { return ");\n" }

func (postgres) check(*Table) error { return nil }

// mostArrays bounds the bytes of the values in one statement. PostgreSQL takes a
// gigabyte, and both sides hold them several times.
const mostArrays = 8 << 20

func (s postgres) upsertText(p *plan) string {
	names := list(p.names)
	version := s.quote(VersionColumn)
	return "INSERT INTO " + p.name + " (" + names + ", " + version + ")\n" +
		"SELECT " + names + ", $" + strconv.Itoa(p.width) + "::bigint FROM " + s.unnest(p, len(p.columns)) + "\n" +
		"ON CONFLICT (" + list(p.key(len(p.table.Key))) + ") DO UPDATE SET " +
		p.assignments(version, func(name string) string { return "EXCLUDED." + name })
}

// unnest makes rows of the arrays of the first columns.
func (s postgres) unnest(p *plan, width int) string {
	arrays := make([]string, width)
	for i := range arrays {
		arrays[i] = "$" + strconv.Itoa(i+1) + "::" + s.base(p.columns[i].Type) + "[]"
	}
	return "unnest(" + list(arrays) + ") AS u(" + list(p.names[:width]) + ")"
}

func (s postgres) upsert(ctx context.Context, tx *sql.Tx, p *plan, rows [][]any, version int64) error {
	text := p.text(textKey{what: "upsert"}, func() string { return s.upsertText(p) })
	return cut(rows, len(rows), mostArrays, func(rows [][]any) error {
		args, err := arrays(p.columns, rows)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, text, append(args, version)...)
		return err
	})
}

func (s postgres) remove(ctx context.Context, tx *sql.Tx, p *plan, parents [][]any, except int64) error {
	width := len(parents[0])
	text := p.text(textKey{what: "remove", width: width, flag: except != 0}, func() string { return s.removeText(p, width, except != 0) })
	return cut(parents, len(parents), mostArrays, func(parents [][]any) error {
		args, err := arrays(p.columns[:width], parents)
		if err != nil {
			return err
		}
		if except != 0 {
			args = append(args, except)
		}
		_, err = tx.ExecContext(ctx, text, args...)
		return err
	})
}

// removeText has = ANY for one column: the planner then never reads the whole table,
// as it may for a join with a table that it has no statistics of.
func (s postgres) removeText(p *plan, width int, except bool) string {
	text := "DELETE FROM " + p.name
	if width > 1 {
		text += " USING " + s.unnest(p, width)
	}
	text += " WHERE " + s.equal(p, width)
	if except {
		text += " AND " + p.name + "." + s.quote(VersionColumn) + " <> $" + strconv.Itoa(width+1) + "::bigint"
	}
	return text
}

func (s postgres) equal(p *plan, width int) string {
	if width == 1 {
		return p.name + "." + p.names[0] + " = ANY ($1::" + s.base(p.columns[0].Type) + "[])"
	}
	terms := make([]string, width)
	for i, name := range p.key(width) {
		terms[i] = p.name + "." + name + " = u." + name
	}
	return strings.Join(terms, " AND ")
}

func (s postgres) read(ctx context.Context, q Queryer, p *plan, parents [][]any, take func(*sql.Rows) error) error {
	width := len(parents[0])
	text := p.text(textKey{what: "read", width: width}, func() string { return s.readText(p, width) })
	return cut(parents, len(parents), mostArrays, func(parents [][]any) error {
		args, err := arrays(p.columns[:width], parents)
		if err != nil {
			return err
		}
		return query(ctx, q, take, text, args...)
	})
}

func (s postgres) readText(p *plan, width int) string {
	text := "SELECT " + p.name + "." + strings.Join(p.names, ", "+p.name+".") + " FROM " + p.name
	if width > 1 {
		text += ", " + s.unnest(p, width)
	}
	return text + " WHERE " + s.equal(p, width)
}

func (s postgres) keys(ctx context.Context, q Queryer, p *plan, after []any, limit int) (*sql.Rows, error) {
	text := p.text(textKey{what: "keys", width: len(after)}, func() string { return s.keysText(p, len(after)) })
	args := make([]any, 0, len(after)+1)
	for i, v := range after {
		b, err := appendBare(nil, p.columns[i].Type.Kind, v)
		if err != nil {
			return nil, err
		}
		args = append(args, string(b))
	}
	return q.QueryContext(ctx, text, append(args, limit)...)
}

func (s postgres) keysText(p *plan, after int) string {
	key := list(p.key(p.table.Parent))
	text := "SELECT DISTINCT " + key + " FROM " + p.name
	if after > 0 {
		values := make([]string, after)
		for i := range values {
			values[i] = "$" + strconv.Itoa(i+1) + "::" + s.base(p.columns[i].Type)
		}
		text += " WHERE (" + key + ") > (" + list(values) + ")"
	}
	return text + " ORDER BY " + key + " LIMIT $" + strconv.Itoa(after+1) + "::bigint"
}

func (postgres) sameName(a, b string) bool { return a == b }
