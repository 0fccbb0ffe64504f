package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"modernc.org/sqlite" // and its driver, by the name "sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/lockkeeper/lockkeeper/sqlfence"
)

// sqliteOptions are set on every connection.
//
//   - _txlock=immediate: a transaction takes the write lock when it begins. A deferred
//     one that reads first fails when it has to take it later, and no timeout helps.
//   - journal_mode(WAL): who reads holds up nobody who writes.
//   - synchronous(FULL): a commit is on the disk when it is acknowledged. With NORMAL a
//     power loss can take the last commits back, whose marks on Redis are gone by then:
//     these changes would be lost.
//   - busy_timeout: how long to wait for another process's transaction.
//   - _error_rc=1: errors without the text of an earlier one.
const sqliteOptions = "_txlock=immediate&_error_rc=1&_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)" +
	"&_pragma=synchronous(FULL)&_pragma=foreign_keys(1)"

func sqliteFile(path string) (Database, error) {
	if absolute, ok := strings.CutPrefix(path, "//"); ok {
		if !strings.HasPrefix(absolute, "/") {
			return Database{}, fmt.Errorf("%w: sqlite:// is followed by an absolute path: sqlite:///var/lib/app.db, or sqlite:app.db", ErrURL)
		}
		path = absolute
	}
	switch {
	case path == "":
		return Database{}, fmt.Errorf("%w: no file: write sqlite:PATH", ErrURL)
	case strings.HasPrefix(path, ":memory:"):
		return Database{}, fmt.Errorf("%w: a database in memory is lost with the process; write sqlite:PATH", ErrURL)
	case strings.ContainsAny(path, "?\x00"):
		return Database{}, fmt.Errorf("%w: options after ? are not supported: every option that matters is set", ErrURL)
	case strings.HasSuffix(path, "/"):
		return Database{}, fmt.Errorf("%w: %s is a folder, not a file", ErrURL, path)
	}
	return Database{kind: sqlfence.SQLite, path: path}, nil
}

func (d Database) prepareSQLite() (*sql.DB, error) {
	path, err := filepath.Abs(d.path)
	if err != nil {
		return nil, fmt.Errorf("database %s: %w", d, err)
	}
	name := url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: sqliteOptions}
	db, err := sql.Open("sqlite", name.String())
	if err != nil {
		return nil, fmt.Errorf("database %s: %w", d, err)
	}
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	return db, nil
}

func (d Database) openSQLite(ctx context.Context) (*sql.DB, error) {
	db, err := d.prepareSQLite()
	if err != nil {
		return nil, err
	}
	if err := d.checkFolder(); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	if err := d.connect(ctx, db); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// checkFolder says in words what SQLite calls "unable to open database file". It does
// not open the file itself: closing it again would end the locks that this process has
// on it.
func (d Database) checkFolder() error {
	folder := filepath.Dir(d.path)
	info, err := os.Stat(folder)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("database %s: the folder %s does not exist: create it", d, folder)
	case err != nil:
		return fmt.Errorf("database %s: %w", d, err)
	case !info.IsDir():
		return fmt.Errorf("database %s: %s is not a folder", d, folder)
	}
	if info, err := os.Stat(d.path); err == nil && info.IsDir() {
		return fmt.Errorf("database %s: this is a folder, not a file", d)
	}
	probe, err := os.CreateTemp(folder, ".lockkeeper-probe-*")
	if err != nil {
		return fmt.Errorf("database %s: the folder can't be written, and SQLite keeps files of its own beside the database: %w", d, err)
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}

// connect makes the first connection. When several processes do that with a new file,
// all but one can be told that it is busy, in spite of the timeout.
func (d Database) connect(ctx context.Context, db *sql.DB) error {
	for {
		var mode string
		err := db.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&mode)
		switch {
		case err == nil && mode == "wal":
			return nil
		case err == nil:
			return fmt.Errorf("database %s: SQLite can't use its write-ahead log here (it says %q): is this a network file system?", d, mode)
		case !isBusy(err):
			return fmt.Errorf("database %s: %w", d, err)
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("database %s: %w: %w", d, context.Cause(ctx), err)
		}
	}
}

// isBusy reports whether another connection was in the way.
func isBusy(err error) bool {
	var e *sqlite.Error
	return errors.As(err, &e) && e.Code()&0xff == sqlite3.SQLITE_BUSY
}

// ErrReplaced is returned by a guard when the database's file is not there any more, or
// another one has taken its place.
var ErrReplaced = errors.New("the file was deleted or replaced while it was open; what was written to the old one is lost with it")

// Guard returns a check for flush.SQL.Guard: that the file at the path is still the one
// that the connections of db have open. Where it is not, they are let go, and the next
// use of db opens what is there now. The check is for one goroutine at a time. It is nil
// for a database that is no file.
func (d Database) Guard(db *sql.DB) func() error {
	if d.kind != sqlfence.SQLite {
		return nil
	}
	opened, _ := os.Stat(d.path) // nil is no file at all
	return func() error {
		now, err := os.Stat(d.path)
		if err == nil && opened != nil && os.SameFile(opened, now) {
			return nil
		}
		opened = now
		db.SetMaxIdleConns(0)
		db.SetMaxIdleConns(conns)
		return fmt.Errorf("database %s: %w", d, ErrReplaced)
	}
}
