package store_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/redis/go-redis/v9/logging"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/store"
	"github.com/lockkeeper/lockkeeper/sqlfence"
)

// TestMain lets the test binary be another process that works on a database, too.
func TestMain(m *testing.M) {
	if path := os.Getenv("STORE_TEST_COUNT_IN"); path != "" {
		if err := countInProcess(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	logging.Disable() // go-redis complains on standard error when a server is gone, as it should be
	os.Exit(m.Run())
}

func newFile(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "test.db")
}

// open opens a file with the settings of the product.
func open(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, dialect, err := store.Open(t.Context(), "sqlite:"+path)
	if err != nil {
		t.Fatal(err)
	}
	if dialect != sqlfence.SQLite {
		t.Fatalf("dialect %d", dialect)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// fences returns a store of fences in a file, with its table.
func fences(t *testing.T, db *sql.DB) *sqlfence.Store {
	t.Helper()
	s, err := sqlfence.New(db, sqlfence.SQLite)
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
