package store_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/store"
)

func TestParse(t *testing.T) {
	good := map[string]string{
		"sqlite:players.db":         "sqlite:players.db",
		"sqlite:data/players":       "sqlite:data/players",
		"sqlite:/var/lib/app.db":    "sqlite:/var/lib/app.db",
		"sqlite:///var/lib/app.db":  "sqlite:/var/lib/app.db",
		"SQLite:players.db":         "sqlite:players.db",
		"players.db":                "sqlite:players.db",
		"./a b/players.sqlite":      "sqlite:./a b/players.sqlite",
		"sqlite:50%#1&mode=ro.data": "sqlite:50%#1&mode=ro.data",
	}
	for url, want := range good {
		d, err := store.Parse(url)
		if err != nil || d.String() != want {
			t.Errorf("Parse(%q) = %q, %v; want %q", url, d, err, want)
		}
	}
	bad := map[string]string{
		"":                                   "empty",
		"players":                            "unknown kind",
		"players.txt":                        "unknown kind",
		"oracle://u:secret@host/db":          "unknown kind",
		"sqlite:":                            "no file",
		"sqlite://players.db":                "absolute path",
		"sqlite::memory:":                    "lost with the process",
		"sqlite:players.db?synchronous=off":  "options after ?",
		"sqlite:folder/":                     "is a folder",
		"://u:secret@host":                   "unknown kind",
		"\x00://u:secret@host":               "unknown kind",
		"u:secret@tcp(host:3306)/db":         "unknown kind",
		"host=h user=u password=secret db=x": "unknown kind",
	}
	for url, want := range bad {
		_, err := store.Parse(url)
		if !errors.Is(err, store.ErrURL) || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%q): %v; want ErrURL with %q", url, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "sec") {
			t.Errorf("Parse(%q) repeats the password: %v", url, err)
		}
	}
}

// TestSettings asks every connection of a pool, since each has settings of its own.
func TestSettings(t *testing.T) {
	db := open(t, newFile(t))
	for range 4 {
		conn, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		for pragma, want := range map[string]string{
			"journal_mode": "wal",
			"synchronous":  "2", // FULL
			"busy_timeout": "5000",
			"foreign_keys": "1",
		} {
			var got string
			if err := conn.QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&got); err != nil || got != want {
				t.Errorf("%s: %q, %v; want %q", pragma, got, err, want)
			}
		}
	}
}

// TestImmediate makes sure that a transaction takes the write lock when it begins: two
// that read before they write, at the same time, would fail otherwise.
func TestImmediate(t *testing.T) {
	path := newFile(t)
	a, b := open(t, path), open(t, path)
	exec(t, a, "CREATE TABLE t (n INTEGER) STRICT")
	exec(t, b, "PRAGMA busy_timeout(1)") // of one connection
	b.SetMaxOpenConns(1)
	exec(t, b, "PRAGMA busy_timeout(1)")

	tx, err := a.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.BeginTx(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "SQLITE_BUSY") {
		t.Errorf("a second transaction began: %v", err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
}

func TestOpenNamesWithSpecialCharacters(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{"a b.db", "50%25.db", "a#b.db", "a&_txlock=deferred.db", "ü.db", "plain"} {
		db := open(t, filepath.Join(folder, name))
		exec(t, db, "CREATE TABLE t (n INTEGER) STRICT")
		if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
			t.Errorf("the file has another name: %v", err)
		}
	}
}

func TestOpenRelative(t *testing.T) {
	folder := t.TempDir()
	t.Chdir(folder)
	db, _, err := store.Open(t.Context(), "test.db")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	t.Chdir(t.TempDir())
	db.SetMaxIdleConns(0) // connect again, from elsewhere
	exec(t, db, "CREATE TABLE t (n INTEGER) STRICT")
	if one[int](t, db, "SELECT count(*) FROM sqlite_schema") != 1 {
		t.Error("another file")
	}
	if files, _ := filepath.Glob(filepath.Join(folder, "*probe*")); len(files) > 0 {
		t.Errorf("left behind: %v", files)
	}
}

func TestOpenFails(t *testing.T) {
	folder := t.TempDir()
	text := filepath.Join(folder, "text.db")
	if err := os.WriteFile(text, []byte(strings.Repeat("this is no database\n", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ path, want string }{
		{filepath.Join(folder, "none", "x.db"), "does not exist: create it"},
		{filepath.Join(text, "x.db"), "not a"},
		{folder, "this is a folder, not a file"},
		{text, "file is not a database"},
		{"/proc/x.db", "the folder can't be written"},
	}
	for _, tt := range tests {
		db, _, err := store.Open(t.Context(), "sqlite:"+tt.path)
		if err == nil {
			_ = db.Close()
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "sqlite:"+tt.path) {
			t.Errorf("Open(%s): %v; want %q with the path", tt.path, err, tt.want)
		}
		if errors.Is(err, store.ErrURL) {
			t.Errorf("Open(%s): matches ErrURL", tt.path)
		}
	}
}

// TestPrepareTouchesNothing: --print shows a migration and makes no file.
func TestPrepareTouchesNothing(t *testing.T) {
	path := newFile(t)
	d, err := store.Parse("sqlite:" + path)
	if err != nil {
		t.Fatal(err)
	}
	db, err := d.Prepare()
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file is there: %v", err)
	}
	if _, _, err := (store.Database{}).Open(t.Context()); !errors.Is(err, store.ErrURL) {
		t.Errorf("the zero database: %v", err)
	}
}

// TestOpenTogether opens new files by several at a time, who all want to bring the file
// into WAL mode.
func TestOpenTogether(t *testing.T) {
	for range 10 {
		path := newFile(t)
		var wg sync.WaitGroup
		for range 6 {
			wg.Go(func() {
				db, _, err := store.Open(context.Background(), "sqlite:"+path)
				if err != nil {
					t.Error(err)
					return
				}
				if err := db.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
}
