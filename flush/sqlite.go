package flush

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
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

// probe names each column with its table: SQLite takes a quoted name that is no column
// for a text.
func (sqlite) probe(m *Mapping) string {
	table := quoted(m.Table)
	return "SELECT " + table + "." + strings.Join(allNames(m), ", "+table+".") + " FROM " + table + " LIMIT 0"
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
		args = append(args[:0], rows[i].Key...)
		if rows[i].Delete {
			if _, err := remove.ExecContext(ctx, append(args, version)...); err != nil {
				return fmt.Errorf("delete the row with the key %v: %w", rows[i].Key, err)
			}
			continue
		}
		result, err := upsert.ExecContext(ctx, append(append(args, rows[i].Values...), version)...)
		if err != nil {
			return fmt.Errorf("set the row with the key %v: %w", rows[i].Key, err)
		}
		if n, err := result.RowsAffected(); err != nil || n == 0 {
			return errors.Join(err, &newerRowError{rows[i].Key, version >> epochShift})
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
		" WHERE coalesce(" + table + "." + quoted(VersionColumn) + ", 0) < excluded." + quoted(VersionColumn)
}

func sqliteDelete(m *Mapping) string {
	return "DELETE FROM " + quoted(m.Table) + " WHERE " +
		strings.Join(names(m.Key), " = ? AND ") + " = ? AND coalesce(" + quoted(VersionColumn) + ", 0) < ?"
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
