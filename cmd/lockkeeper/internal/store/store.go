package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/lockkeeper/lockkeeper/sqlfence"
)

// ErrURL is returned for a URL that names no database that can be used.
var ErrURL = errors.New("database URL")

// A Database is a database that a URL names. The zero value is none.
type Database struct {
	path string // of the SQLite file
}

// Parse reads a URL. It touches nothing. Its errors match ErrURL.
func Parse(url string) (Database, error) {
	scheme, rest, found := strings.Cut(url, ":")
	if !found {
		if strings.HasSuffix(url, ".db") || strings.HasSuffix(url, ".sqlite") {
			return sqliteFile(url)
		}
		scheme = ""
	}
	switch strings.ToLower(scheme) {
	case "sqlite":
		return sqliteFile(rest)
	case "postgres", "postgresql":
		return Database{}, fmt.Errorf("%w: PostgreSQL comes later; use sqlite:PATH now", ErrURL)
	case "mysql", "mariadb":
		return Database{}, fmt.Errorf("%w: MySQL and MariaDB come later; use sqlite:PATH now", ErrURL)
	}
	if url == "" {
		return Database{}, fmt.Errorf("%w: empty; write sqlite:PATH", ErrURL)
	}
	// What it has is not repeated: it may be a password.
	return Database{}, fmt.Errorf("%w: unknown kind of database; write sqlite:PATH", ErrURL)
}

// Open opens the database that a URL names, and makes sure that it can be worked with.
// The caller closes it.
func Open(ctx context.Context, url string) (*sql.DB, sqlfence.Dialect, error) {
	d, err := Parse(url)
	if err != nil {
		return nil, 0, err
	}
	db, err := d.Open(ctx)
	if err != nil {
		return nil, 0, err
	}
	return db, d.Dialect(), nil
}

// Dialect returns the kind of the database.
func (d Database) Dialect() sqlfence.Dialect { return sqlfence.SQLite }

// String names the database to people, without a password.
func (d Database) String() string { return "sqlite:" + d.path }
