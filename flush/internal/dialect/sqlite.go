package dialect

import (
	"context"
	"database/sql"
	"strconv"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/flush/internal/value"
)

// sqlite writes with statements of some rows, prepared once in a transaction.
type sqlite struct{}

func (sqlite) quote(name string) string { return `"` + name + `"` }

func (sqlite) columnType(t value.Type, _ bool) string {
	switch t.Kind {
	case value.Bytes:
		return "BLOB"
	case value.Int64, value.Bool:
		return "INTEGER"
	case value.Float64:
		return "REAL"
	}
	return "TEXT"
}

func (sqlite) tableEnd() string { return ") STRICT;\n" }

func (sqlite) check(*Table) error { return nil }

// mostBound is how many arguments a statement has: with fewer the rows cost a call
// each, with many more the statement takes longer to prepare than it saves.
const mostBound, mostBytes = 200, 4 << 20

// argument is a value as it is stored. SQLite has no type for numbers beyond int64 and
// no exact ones; as texts they stay what they are.
func (sqlite) argument(v any) any {
	switch v := v.(type) {
	case time.Time:
		return v.UTC().Format("2006-01-02T15:04:05.000000Z")
	case uint64:
		return strconv.FormatUint(v, 10)
	case bool:
		if v {
			return int64(1)
		}
		return int64(0)
	case Unreadable:
		return v.raw
	}
	return v
}

func (s sqlite) arrange(args []any, item []any) []any {
	for _, v := range item {
		args = append(args, s.argument(v))
	}
	return args
}

func (s sqlite) upsert(ctx context.Context, tx *sql.Tx, p *plan, rows [][]any, version int64) error {
	stamp := any(version)
	return (&job{
		text: func(rows int) string {
			return p.text(textKey{what: "upsert", rows: rows}, func() string { return s.upsertText(p, rows) })
		},
		arrange: func(args []any, row []any) []any { return append(s.arrange(args, row), stamp) },
		most:    max(1, mostBound/p.width),
		bytes:   mostBytes,
	}).run(ctx, tx, rows)
}

func (s sqlite) upsertText(p *plan, rows int) string {
	version := s.quote(VersionColumn)
	return "INSERT INTO " + p.name + " (" + list(p.names) + ", " + version + ") VALUES " +
		repeated("("+repeated("?", p.width)+")", rows) +
		" ON CONFLICT (" + list(p.key(len(p.table.Key))) + ") DO UPDATE SET " +
		p.assignments(version, func(name string) string { return "excluded." + name })
}

func (s sqlite) remove(ctx context.Context, tx *sql.Tx, p *plan, parents [][]any, except int64) error {
	width := len(parents[0])
	j := &job{
		text: func(n int) string {
			return p.text(textKey{"remove", width, n, except != 0}, func() string { return s.removeText(p, width, n, except != 0) })
		},
		arrange: s.arrange,
		most:    mostParents,
		bytes:   mostBytes,
	}
	if except != 0 {
		j.tail = []any{except}
	}
	return j.run(ctx, tx, parents)
}

func (s sqlite) removeText(p *plan, width, parents int, except bool) string {
	text := "DELETE FROM " + p.name + " WHERE " + s.where(p, width, parents)
	if except {
		text += " AND " + p.name + "." + s.quote(VersionColumn) + " <> ?"
	}
	return text
}

func (sqlite) where(p *plan, width, parents int) string {
	if width == 1 {
		return p.names[0] + " IN (" + repeated("?", parents) + ")"
	}
	return "(" + list(p.key(width)) + ") IN (VALUES " + repeated("("+repeated("?", width)+")", parents) + ")"
}

func (s sqlite) read(ctx context.Context, q Queryer, p *plan, parents [][]any, take func(*sql.Rows) error) error {
	width := len(parents[0])
	return cut(parents, mostParents, mostBytes, func(parents [][]any) error {
		text := p.text(textKey{what: "read", width: width, rows: len(parents)}, func() string {
			return "SELECT " + s.qualified(p) + " FROM " + p.name + " WHERE " + s.where(p, width, len(parents))
		})
		var args []any
		for _, parent := range parents {
			args = s.arrange(args, parent)
		}
		return query(ctx, q, take, text, args...)
	})
}

// qualified names each column with its table: SQLite takes a quoted name that is no
// column for a text.
func (sqlite) qualified(p *plan) string { return p.name + "." + strings.Join(p.names, ", "+p.name+".") }

func (s sqlite) keys(ctx context.Context, q Queryer, p *plan, after []any, limit int) (*sql.Rows, error) {
	text := p.text(textKey{what: "keys", width: len(after)}, func() string { return s.keysText(p, len(after)) })
	return q.QueryContext(ctx, text, append(s.arrange(nil, after), limit)...)
}

func (sqlite) keysText(p *plan, after int) string {
	key := list(p.key(p.table.Parent))
	text := "SELECT DISTINCT " + key + " FROM " + p.name
	if after > 0 {
		text += " WHERE (" + key + ") > (" + repeated("?", after) + ")"
	}
	return text + " ORDER BY " + key + " LIMIT ?"
}

func (sqlite) sameName(a, b string) bool { return strings.EqualFold(a, b) }
