package flush

import (
	"context"
	"database/sql"
	"strings"
)

// sqlite is the dialect of SQLite. In a transaction of one process a prepared
// statement for each row is its fastest way.
type sqlite struct{}

var sqliteTypes = map[Type]string{
	Text: "TEXT", Bytes: "BLOB", Int64: "INTEGER", Float64: "REAL", Bool: "INTEGER", JSON: "TEXT",
}

func (sqlite) createTable(m *Mapping) string {
	var b strings.Builder
	b.WriteString("CREATE TABLE IF NOT EXISTS " + quoted(m.Table) + " (\n")
	for _, c := range m.Key {
		b.WriteString("  " + quoted(c.Name) + " " + sqliteTypes[c.Type] + " NOT NULL,\n")
	}
	for _, c := range m.Columns {
		b.WriteString("  " + quoted(c.Name) + " " + sqliteTypes[c.Type])
		if c.Required {
			b.WriteString(" NOT NULL")
		}
		b.WriteString(",\n")
	}
	b.WriteString("  " + quoted(VersionColumn) + " INTEGER NOT NULL,\n")
	b.WriteString("  PRIMARY KEY (" + strings.Join(names(m.Key), ", ") + ")\n) STRICT;\n")
	return b.String()
}

func (sqlite) probe(m *Mapping) string {
	return "SELECT " + strings.Join(allNames(m), ", ") + " FROM " + quoted(m.Table) + " LIMIT 0"
}

func (sqlite) apply(ctx context.Context, tx *sql.Tx, m *Mapping, rows []Row, version int64) error {
	upsert, err := tx.PrepareContext(ctx, sqliteUpsert(m))
	if err != nil {
		return err
	}
	defer func() { _ = upsert.Close() }()
	remove, err := tx.PrepareContext(ctx, sqliteDelete(m))
	if err != nil {
		return err
	}
	defer func() { _ = remove.Close() }()

	args := make([]any, 0, len(m.Key)+len(m.Columns)+1)
	for i := range rows {
		statement := upsert
		args = append(args[:0], rows[i].Key...)
		if rows[i].Delete {
			statement = remove
		} else {
			args = append(args, rows[i].Values...)
		}
		if _, err := statement.ExecContext(ctx, append(args, version)...); err != nil {
			return err
		}
	}
	return nil
}

func sqliteUpsert(m *Mapping) string {
	columns := allNames(m)
	var set []string
	for _, c := range columns[len(m.Key):] {
		set = append(set, c+" = excluded."+c)
	}
	table := quoted(m.Table)
	return "INSERT INTO " + table + " (" + strings.Join(columns, ", ") + ") VALUES (" +
		strings.TrimSuffix(strings.Repeat("?, ", len(columns)), ", ") + ")" +
		" ON CONFLICT (" + strings.Join(names(m.Key), ", ") + ") DO UPDATE SET " + strings.Join(set, ", ") +
		" WHERE " + table + "." + quoted(VersionColumn) + " < excluded." + quoted(VersionColumn)
}

func sqliteDelete(m *Mapping) string {
	return "DELETE FROM " + quoted(m.Table) + " WHERE " +
		strings.Join(names(m.Key), " = ? AND ") + " = ? AND " + quoted(VersionColumn) + " < ?"
}

// allNames returns every column of a mapping: key, columns, version.
func allNames(m *Mapping) []string {
	return append(append(names(m.Key), names(m.Columns)...), quoted(VersionColumn))
}

func names(columns []Column) []string {
	out := make([]string, len(columns))
	for i, c := range columns {
		out[i] = quoted(c.Name)
	}
	return out
}

// quoted quotes a name that checkName has let through.
func quoted(name string) string { return `"` + name + `"` }
