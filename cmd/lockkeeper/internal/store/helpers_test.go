package store_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/redis/go-redis/v9/logging"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/store"
	"github.com/lockkeeper/lockkeeper/internal/sqltest"
	"github.com/lockkeeper/lockkeeper/sqlfence"
)

// TestMain lets the test binary be another process that works on a database, too.
func TestMain(m *testing.M) {
	for name, run := range map[string]func(url string) error{countIn: countInProcess, stopIn: stopInProcess} {
		if url := os.Getenv(name); url != "" {
			if err := run(url); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
	logging.Disable() // go-redis complains on standard error when a server is gone, as it should be
	os.Exit(m.Run())
}

// What another process is told to do, and where.
const (
	countIn = "STORE_TEST_COUNT_IN"
	stopIn  = "STORE_TEST_STOP_IN"
)

func newFile(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "test.db")
}

// open opens a file with the settings of the product.
func open(t *testing.T, path string) *sql.DB {
	t.Helper()
	return place{sqlfence.SQLite, "sqlite:" + path, false}.open(t)
}

// A place is a database of one test.
type place struct {
	kind  sqlfence.Dialect
	url   string
	plain bool // not opened by package store: without its settings
}

// Every test of the fence runs on all of kinds, the races also on the variants: other ways
// to open and to set up a server, which must make no difference.
var (
	kinds    = []string{"SQLite", "PostgreSQL", "MariaDB"}
	variants = []string{"PostgreSQL behind a pooler", "PostgreSQL with REPEATABLE READ", "MariaDB with REPEATABLE READ"}
)

// on runs a test on each of the databases that are named.
func on(t *testing.T, names []string, f func(t *testing.T, p place)) {
	t.Helper()
	for _, name := range names {
		t.Run(name, func(t *testing.T) { f(t, newPlace(t, name)) })
	}
}

// newPlace makes a database with nothing in it.
func newPlace(t *testing.T, name string) place {
	t.Helper()
	switch name {
	case "SQLite":
		return place{kind: sqlfence.SQLite, url: "sqlite:" + newFile(t)}
	case "PostgreSQL":
		return place{kind: sqlfence.Postgres, url: sqltest.Shared(t, sqltest.Postgres).NewDatabase(t)}
	case "MariaDB":
		return place{kind: sqlfence.MariaDB, url: sqltest.Shared(t, sqltest.MariaDB).NewDatabase(t)}
	case "PostgreSQL behind a pooler":
		p := newPlace(t, "PostgreSQL")
		p.url += "&pooler=true"
		return p
	case "PostgreSQL with REPEATABLE READ":
		p := newPlace(t, "PostgreSQL")
		u, _ := url.Parse(p.url)
		exec(t, p.open(t), "ALTER DATABASE "+u.Path[1:]+" SET default_transaction_isolation = 'repeatable read'")
		return p
	case "MariaDB with REPEATABLE READ":
		p := newPlace(t, "MariaDB")
		p.plain = true
		return p
	}
	t.Fatalf("no place %q", name)
	return place{}
}

// open opens the database, each time with connections of its own.
func (p place) open(t *testing.T) *sql.DB {
	t.Helper()
	var db *sql.DB
	var err error
	kind := p.kind
	if p.plain {
		u, _ := url.Parse(p.url)
		db, err = sql.Open("mysql", fmt.Sprintf("%s@tcp(%s)%s", u.User, u.Host, u.Path))
	} else {
		db, kind, err = store.Open(t.Context(), p.url)
	}
	if err != nil {
		t.Fatal(err)
	}
	if kind != p.kind {
		t.Fatalf("this is %s", kind)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// fences returns a store of fences in a database, with its table.
func (p place) fences(t *testing.T, db *sql.DB) *sqlfence.Store {
	t.Helper()
	s, err := sqlfence.New(db, p.kind)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

func exec(t *testing.T, db *sql.DB, query string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

// one returns the one value of a query.
func one[T any](t *testing.T, db *sql.DB, query string, args ...any) T {
	t.Helper()
	var v T
	if err := db.QueryRowContext(t.Context(), query, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return v
}

// A hold is a sqlfence.Holder without a lock.
type hold struct {
	fence  lockkeeper.Fence
	owner  string
	held   bool
	raised int
}

func newHold(fence lockkeeper.Fence) *hold {
	return &hold{fence: fence, owner: rand.Text(), held: true}
}

func (h *hold) Fence() lockkeeper.Fence { return h.fence }
func (h *hold) Owner() string           { return h.owner }

func (h *hold) RaiseFence(_ context.Context, seen lockkeeper.Fence) error {
	if !h.held {
		return lockkeeper.ErrLost
	}
	h.raised++
	h.fence = seen + 1
	return nil
}

func claim(t *testing.T, s *sqlfence.Store, h sqlfence.Holder) *sqlfence.Claim {
	t.Helper()
	c, err := s.Claim(t.Context(), "r", h)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
