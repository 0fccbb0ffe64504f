package main

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/stdlib"

	"github.com/lockkeeper/lockkeeper/flush"
	"github.com/lockkeeper/lockkeeper/sqlfence"
)

// The lower bounds are the database's own: the rows are in memory, and nothing is
// checked, fenced or acknowledged.

// width is how many columns a row has: the key, the fields and the version.
const width = 1 + len(fields) + 1

// row returns a row as the engine hands it to the database: the version last.
func row(kind sqlfence.Dialect, i, edition int) []any {
	v := values(i, edition)
	args := make([]any, 0, width)
	args = append(args, int64(first+i))
	for j := range v {
		args = append(args, v[j])
	}
	if kind == sqlfence.MariaDB {
		args[6] = strings.NewReplacer("T", " ", "Z", "").Replace(v[5]) // a DATETIME
	}
	return append(args, int64(0))
}

func (w *worker) rows() [][]any {
	rows := make([][]any, w.Rows)
	for i := range rows {
		rows[i] = row(w.Kind, i, w.Edition)
	}
	return rows
}

func columns() string {
	return "id, " + strings.Join(fields[:], ", ") + ", " + flush.VersionColumn
}

// insert is a statement for n rows, which sets those that are there.
func insert(kind sqlfence.Dialect, n int) string {
	places := make([]string, width)
	for i := range places {
		places[i] = "?"
		if kind == sqlfence.Postgres {
			places[i] = fmt.Sprintf("$%d", i+1)
		}
	}
	values := strings.TrimSuffix(strings.Repeat("("+strings.Join(places, ", ")+"), ", n), ", ")
	text := "INSERT INTO " + table + " (" + columns() + ") VALUES " + values
	set := make([]string, 0, width)
	for _, name := range append(fields[:len(fields):len(fields)], flush.VersionColumn) {
		if kind == sqlfence.MariaDB {
			set = append(set, name+" = VALUES("+name+")")
		} else {
			set = append(set, name+" = excluded."+name)
		}
	}
	if kind == sqlfence.MariaDB {
		return text + " ON DUPLICATE KEY UPDATE " + strings.Join(set, ", ")
	}
	return text + " ON CONFLICT (id) DO UPDATE SET " + strings.Join(set, ", ")
}

// rowByRow is what an application does that writes through.
func (w *worker) rowByRow(ctx context.Context, db *sql.DB) error {
	rows := w.rows()
	one, err := db.PrepareContext(ctx, insert(w.Kind, 1))
	if err != nil {
		return err
	}
	defer func() { _ = one.Close() }() // with the connection at the latest
	if err := w.begin(); err != nil {
		return err
	}
	n := 0
	for ; n < len(rows) && time.Since(w.started) < w.Within; n++ {
		if _, err := one.ExecContext(ctx, rows[n]...); err != nil {
			return err
		}
	}
	return w.end(n)
}

// bulk is how a database is filled.
func (w *worker) bulk(ctx context.Context, db *sql.DB) error {
	rows := w.rows()
	if err := db.PingContext(ctx); err != nil {
		return err
	}
	if err := w.begin(); err != nil {
		return err
	}
	var err error
	switch w.Kind {
	case sqlfence.Postgres:
		err = copyRows(ctx, db, rows)
	case sqlfence.MariaDB:
		// About the fastest for this server: statements of 500 rows, and 50,000 rows in
		// a transaction.
		err = insertRows(ctx, db, rows, insert(w.Kind, 500), 500, 50_000)
	default:
		err = insertPrepared(ctx, db, rows, insert(w.Kind, 1))
	}
	if err != nil {
		return err
	}
	return w.end(len(rows))
}

// copyRows is COPY in PostgreSQL's text format, in one transaction. No value here needs
// an escape.
func copyRows(ctx context.Context, db *sql.DB, rows [][]any) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // back to the pool
	r, pipe := io.Pipe()
	go func() { // ends with the reader
		var b []byte
		for _, row := range rows {
			for i, v := range row {
				if i > 0 {
					b = append(b, '\t')
				}
				b = fmt.Append(b, v)
			}
			if b = append(b, '\n'); len(b) > 60<<10 {
				if _, err := pipe.Write(b); err != nil {
					return
				}
				b = b[:0]
			}
		}
		_, err := pipe.Write(b)
		_ = pipe.CloseWithError(err) // nil is the end
	}()
	return conn.Raw(func(c any) error {
		_, err := c.(*stdlib.Conn).Conn().PgConn().CopyFrom(ctx, r, "COPY "+table+" ("+columns()+") FROM STDIN")
		_ = r.Close() // for the writer, if COPY has failed
		return err
	})
}

// insertRows sends statements of many rows.
func insertRows(ctx context.Context, db *sql.DB, rows [][]any, text string, each, inTx int) error {
	for len(rows) > 0 {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		for done := 0; done < inTx && len(rows) > 0; done += each {
			n := min(each, len(rows))
			if n < each {
				text = insert(sqlfence.MariaDB, n)
			}
			args := make([]any, 0, n*width)
			for _, row := range rows[:n] {
				args = append(args, row...)
			}
			if _, err := tx.ExecContext(ctx, text, args...); err != nil {
				_ = tx.Rollback() // the first error says it
				return err
			}
			rows = rows[n:]
		}
		if err := tx.Commit(); err != nil {
			return err
		}
	}
	return nil
}

// insertPrepared runs one prepared statement in one transaction.
func insertPrepared(ctx context.Context, db *sql.DB, rows [][]any, text string) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after the commit it does nothing
	one, err := tx.PrepareContext(ctx, text)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if _, err := one.ExecContext(ctx, row...); err != nil {
			return err
		}
	}
	return tx.Commit()
}
