package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"

	"modernc.org/sqlite" // and its driver, by the name "sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/sqlfence"
)

// ledgerOptions are those of the binary (see its package store), but for two: the
// database outlives the death of processes and not that of the machine, for which it
// need not wait for the disk, and who is stopped in a transaction should not hold the
// others up for the whole of five seconds.
const ledgerOptions = "_txlock=immediate&_error_rc=1&_pragma=busy_timeout(2000)&_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)"

// A ledger is the database with a counter for each lock, and the log of what was added.
type ledger struct {
	db     *sql.DB
	fences *sqlfence.Store
}

// ledgerTables has no constraint that would refuse a lost update: the oracle is to see
// it.
const ledgerTables = `
CREATE TABLE counter (name TEXT NOT NULL PRIMARY KEY, value INTEGER NOT NULL) STRICT;
CREATE TABLE log (
  entry INTEGER PRIMARY KEY AUTOINCREMENT,
  name  TEXT NOT NULL,
  base  INTEGER NOT NULL, -- what the holder had read
  value INTEGER NOT NULL, -- what it made of it
  fence INTEGER NOT NULL,
  epoch INTEGER NOT NULL,
  who   TEXT NOT NULL
) STRICT;`

func openLedger(path string) (*ledger, error) {
	name := url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: ledgerOptions}
	db, err := sql.Open("sqlite", name.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(4)
	db.SetMaxIdleConns(4)
	fences, err := sqlfence.New(db, sqlfence.SQLite)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &ledger{db, fences}, nil
}

// createLedger makes a new database.
func createLedger(ctx context.Context, path string, locks []lockSpec) error {
	l, err := openLedger(path)
	if err != nil {
		return err
	}
	defer l.close()
	if err := l.fences.Migrate(ctx); err != nil {
		return err
	}
	if _, err := l.db.ExecContext(ctx, ledgerTables); err != nil {
		return err
	}
	for _, lock := range locks {
		if _, err := l.db.ExecContext(ctx, "INSERT INTO counter VALUES (?, 0)", lock.Name); err != nil {
			return err
		}
	}
	return nil
}

func (l *ledger) close() { _ = l.db.Close() } // what is committed is there

func (l *ledger) claim(ctx context.Context, name string, lease *lockkeeper.Lease) (*sqlfence.Claim, error) {
	return l.fences.Claim(ctx, name, lease)
}

// add reads the counter, thinks, and writes one more under the claim. It returns what
// it has written.
func (l *ledger) add(ctx context.Context, claim *sqlfence.Claim, name, who string, think func()) (int64, error) {
	var base int64
	if err := l.db.QueryRowContext(ctx, "SELECT value FROM counter WHERE name = ?", name).Scan(&base); err != nil {
		return 0, err
	}
	think()
	return base + 1, claim.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "UPDATE counter SET value = ? WHERE name = ?", base+1, name); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO log (name, base, value, fence, epoch, who) VALUES (?, ?, ?, ?, ?, ?)",
			name, base, base+1, int64(claim.Fence()), claim.Epoch(), who)
		return err
	})
}

// An entry is a line of the log.
type entry struct {
	Name        string
	Base, Value int64
	Fence       uint64
	Epoch       int64
	Who         string
}

// read returns the counters, and the log in the order of the commits.
func (l *ledger) read(ctx context.Context) (map[string]int64, []entry, error) {
	counters := make(map[string]int64)
	rows, err := l.db.QueryContext(ctx, "SELECT name, value FROM counter")
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		var value int64
		if err := rows.Scan(&name, &value); err != nil {
			return nil, nil, err
		}
		counters[name] = value
	}
	if err := rows.Err(); err != nil {
		return nil, nil, err
	}
	entries, err := l.log(ctx)
	return counters, entries, err
}

func (l *ledger) log(ctx context.Context) ([]entry, error) {
	rows, err := l.db.QueryContext(ctx, "SELECT name, base, value, fence, epoch, who FROM log ORDER BY entry")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var entries []entry
	for rows.Next() {
		var e entry
		if err := rows.Scan(&e.Name, &e.Base, &e.Value, &e.Fence, &e.Epoch, &e.Who); err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, rows.Err()
}

// entry names one addition.
func (w *worker) entry(call int64, i int) string { return fmt.Sprintf("%s/%d/%d", w.Name, call, i) }

// refusedByDatabase writes down why the counter was not written. That is no fault of
// the lock, unless it is of a kind that nobody knows.
func (c *call) refusedByDatabase(ctx context.Context, err error) {
	var e *sqlite.Error
	switch {
	case errors.Is(err, sqlfence.ErrFenced):
		c.note(event{What: fenced})
	case ctx.Err() != nil: // in whatever way the driver says that
	case kindOf(err) == kindLost, kindOf(err) == kindUnavailable, kindOf(err) == kindClosed: // of a fence that was to be raised
	case errors.As(err, &e) && e.Code()&0xff == sqlite3.SQLITE_BUSY:
		c.note(event{What: dbBusy})
	default:
		c.odd("the database: %v", err)
	}
}
