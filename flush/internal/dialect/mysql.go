package dialect

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/flush/internal/value"
)

// mysql is MySQL and MariaDB, on InnoDB: statements of many rows.
type mysql struct{ mariadb bool }

func (mysql) quote(name string) string { return "`" + name + "`" }

// mostPlaceholders and mostPacket bound one statement. The servers take 65,535
// placeholders, but about 1,000 are the fastest; max_allowed_packet is 16 MiB where
// nobody has changed it, and arguments that are put into the text can grow to twice
// their length. One row can have more.
const mostPlaceholders, mostPacket = 900, 4 << 20

// mostIndex is how many bytes an index of InnoDB can have.
const mostIndex = 3072

// binary is the collation that compares bytes, and does not ignore spaces at the end:
// with any other one two Redis keys could be one row.
func (s mysql) binary() string {
	if s.mariadb {
		return "utf8mb4_nopad_bin"
	}
	return "utf8mb4_0900_bin"
}

func (s mysql) columnType(t value.Type, inKey bool) string {
	text, collate := "LONGTEXT", " CHARACTER SET utf8mb4 COLLATE "+s.binary()
	if inKey {
		text = fmt.Sprintf("VARCHAR(%d)", value.MaxKeyChars)
	}
	switch t.Kind {
	case value.Bytes:
		if inKey {
			return fmt.Sprintf("VARBINARY(%d)", value.MaxKeyBytes)
		}
		return "LONGBLOB"
	case value.Int64:
		return "BIGINT"
	case value.Uint64:
		return "BIGINT UNSIGNED"
	case value.Decimal:
		return fmt.Sprintf("DECIMAL(%d,%d)", t.Precision, t.Scale)
	case value.Float64:
		return "DOUBLE"
	case value.Bool:
		return "BOOLEAN"
	case value.Timestamp:
		return "DATETIME(6)"
	case value.Date:
		return "DATE"
	case value.UUID:
		return "CHAR(36) CHARACTER SET ascii COLLATE ascii_bin"
	}
	return text + collate
}

func (mysql) tableEnd() string { return ") ENGINE=InnoDB;\n" }

func (mysql) check(t *Table) error {
	bytes := 0
	for _, c := range t.Key {
		switch c.Type.Kind {
		case value.Text:
			bytes += 4 * value.MaxKeyChars
		case value.Bytes:
			bytes += value.MaxKeyBytes
		case value.UUID:
			bytes += 36
		case value.Date:
			bytes += 3
		default:
			bytes += 8
		}
	}
	if bytes > mostIndex {
		return fmt.Errorf("a key of up to %d bytes: an index holds %d, which is three texts", bytes, mostIndex)
	}
	return nil
}

// argument is a value as the driver is given it. DATETIME has no time zone and is
// always UTC here; given as a text, no setting of the driver or session moves it.
func (mysql) argument(v any) any {
	switch v := v.(type) {
	case time.Time:
		return v.UTC().Format("2006-01-02 15:04:05.000000")
	case Unreadable:
		return v.raw
	}
	return v
}

func (s mysql) arrange(args []any, item []any) []any {
	for _, v := range item {
		args = append(args, s.argument(v))
	}
	return args
}

func (s mysql) upsert(ctx context.Context, tx *sql.Tx, p *plan, rows [][]any, version int64) error {
	stamp := any(version)
	return (&job{
		text: func(rows int) string {
			return p.text(textKey{what: "upsert", rows: rows}, func() string { return s.upsertText(p, rows) })
		},
		arrange: func(args []any, row []any) []any { return append(s.arrange(args, row), stamp) },
		most:    max(1, mostPlaceholders/p.width),
		bytes:   mostPacket,
	}).run(ctx, tx, rows)
}

func (s mysql) upsertText(p *plan, rows int) string {
	version := s.quote(VersionColumn)
	set, alias := func(name string) string { return "VALUES(" + name + ")" }, ""
	if !s.mariadb {
		// VALUES() is on its way out of MySQL, and MariaDB has no alias for rows.
		set, alias = func(name string) string { return "lockkeeper_new." + name }, " AS lockkeeper_new"
	}
	return "INSERT INTO " + p.name + " (" + list(p.names) + ", " + version + ") VALUES " +
		repeated("("+repeated("?", p.width)+")", rows) + alias +
		" ON DUPLICATE KEY UPDATE " + p.assignments(version, set)
}

func (s mysql) remove(ctx context.Context, tx *sql.Tx, p *plan, parents [][]any, except int64) error {
	width := len(parents[0])
	j := &job{
		text: func(n int) string {
			return p.text(textKey{"remove", width, n, except != 0}, func() string { return s.removeText(p, width, n, except != 0) })
		},
		arrange: s.arrange,
		most:    mostParents,
		bytes:   mostPacket,
	}
	if except != 0 {
		j.tail = []any{except}
	}
	return j.run(ctx, tx, parents)
}

// mostParents bounds the alternatives in one condition. From 1,000 on MariaDB makes a
// subquery of them.
const mostParents = 100

func (s mysql) removeText(p *plan, width, parents int, except bool) string {
	text := "DELETE FROM " + p.name + " WHERE " + s.where(p, width, parents)
	if except {
		text += " AND " + s.quote(VersionColumn) + " <> ?"
	}
	return text
}

// where writes the alternatives out: for rows in parentheses, as in (a, b) IN (...),
// MariaDB does not use the index.
func (s mysql) where(p *plan, width, parents int) string {
	if width == 1 {
		return p.names[0] + " IN (" + repeated("?", parents) + ")"
	}
	one := "(" + strings.Join(p.key(width), " = ? AND ") + " = ?)"
	return "(" + strings.Repeat(one+" OR ", parents-1) + one + ")"
}

func (s mysql) read(ctx context.Context, q Queryer, p *plan, parents [][]any, take func(*sql.Rows) error) error {
	width := len(parents[0])
	return cut(parents, mostParents, mostPacket, func(parents [][]any) error {
		text := p.text(textKey{what: "read", width: width, rows: len(parents)}, func() string {
			return "SELECT " + list(p.names) + " FROM " + p.name + " WHERE " + s.where(p, width, len(parents))
		})
		var args []any
		for _, parent := range parents {
			args = s.arrange(args, parent)
		}
		return query(ctx, q, take, text, args...)
	})
}

func (s mysql) keys(ctx context.Context, q Queryer, p *plan, after []any, limit int) (*sql.Rows, error) {
	text := p.text(textKey{what: "keys", width: len(after)}, func() string { return s.keysText(p, len(after)) })
	var args []any
	for i := range after {
		args = s.arrange(args, after[:i+1])
	}
	return q.QueryContext(ctx, text, append(args, limit)...)
}

// keysText compares column by column: for rows in parentheses the index is not used.
func (s mysql) keysText(p *plan, after int) string {
	key := p.key(p.table.Parent)
	text := "SELECT DISTINCT " + list(key) + " FROM " + p.name
	for i := range after {
		word := " OR "
		if i == 0 {
			word = " WHERE "
		}
		text += word + "("
		for _, same := range key[:i] {
			text += same + " = ? AND "
		}
		text += key[i] + " > ?)"
	}
	return text + " ORDER BY " + list(key) + " LIMIT ?"
}

func (mysql) sameName(a, b string) bool { return strings.EqualFold(a, b) }
