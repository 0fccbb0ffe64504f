package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"

	"github.com/lockkeeper/lockkeeper/sqlfence"
)

// ErrURL is returned for a URL that names no database that can be used.
var ErrURL = errors.New("database URL")

// conns is how many connections a process has. It writes on one at a time, the others
// are for who reads meanwhile.
const conns = 4

// firstConnect bounds how long Open waits for a database to answer.
const firstConnect = 15 * time.Second

// limits are what a session of a server is held to, so that a stopped client does not keep
// its locks.
type limits struct {
	idle      time.Duration // in a transaction, and on MySQL outside of one as well
	lock      time.Duration // waiting for a lock
	statement time.Duration // running; MySQL has no such limit
}

// A Database is a database that a URL names. The zero value is none.
type Database struct {
	kind   sqlfence.Dialect
	path   string // of the SQLite file
	server server // of the others
	limits limits
}

// forms are how URLs are written, for who has written another.
const forms = "sqlite:PATH, postgres://USER@HOST/DATABASE, mysql://USER@HOST/DATABASE or mariadb://USER@HOST/DATABASE"

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
		return parseServer(sqlfence.Postgres, url)
	case "mysql":
		return parseServer(sqlfence.MySQL, url)
	case "mariadb":
		return parseServer(sqlfence.MariaDB, url)
	}
	if url == "" {
		return Database{}, fmt.Errorf("%w: empty; write %s", ErrURL, forms)
	}
	// What it has is not repeated: it may be a password.
	return Database{}, fmt.Errorf("%w: unknown kind of database; write %s", ErrURL, forms)
}

// Open opens the database that a URL names, and makes sure that it can be worked with.
// The caller closes it.
func Open(ctx context.Context, url string) (*sql.DB, sqlfence.Dialect, error) {
	d, err := Parse(url)
	if err != nil {
		return nil, 0, err
	}
	return d.Open(ctx)
}

// Open connects to the database, makes sure that it can be worked with, and tells which
// it is: MySQL or MariaDB whatever the URL says. An SQLite file is created if need be.
// It takes 15 seconds at most. The caller closes it.
func (d Database) Open(ctx context.Context) (*sql.DB, sqlfence.Dialect, error) {
	ctx, cancel := context.WithTimeout(ctx, firstConnect)
	defer cancel()
	db, kind, err := d.open(ctx)
	if err != nil {
		return nil, 0, err
	}
	return db, kind, nil
}

func (d Database) open(ctx context.Context) (*sql.DB, sqlfence.Dialect, error) {
	switch d.kind {
	case sqlfence.SQLite:
		db, err := d.openSQLite(ctx)
		return db, d.kind, err
	case sqlfence.Postgres:
		db, err := d.openPostgres(ctx)
		return db, d.kind, err
	case sqlfence.MySQL, sqlfence.MariaDB:
		return d.openMySQL(ctx)
	}
	return nil, 0, fmt.Errorf("%w: empty", ErrURL)
}

// Prepare returns the database without touching it: it is opened by its first use. It is
// for what does not need the database, such as printing a migration.
func (d Database) Prepare() (*sql.DB, error) {
	switch d.kind {
	case sqlfence.SQLite:
		return d.prepareSQLite()
	case sqlfence.Postgres:
		return d.preparePostgres()
	case sqlfence.MySQL, sqlfence.MariaDB:
		return d.prepareMySQL(d.kind)
	}
	return nil, fmt.Errorf("%w: empty", ErrURL)
}

// Kind returns what the URL says: Open may find MariaDB where it says MySQL, and the other
// way round. It is 0 for the zero value.
func (d Database) Kind() sqlfence.Dialect { return d.kind }

// WithPassword returns the database with another password than the URL's, such as one of
// the environment. It changes nothing for SQLite.
func (d Database) WithPassword(password string) Database {
	if d.kind != sqlfence.SQLite {
		d.server.password = password
	}
	return d
}

// LogValue is what a log shows.
func (d Database) LogValue() slog.Value { return slog.StringValue(d.String()) }

// String names the database to people, without a password.
func (d Database) String() string {
	if d.kind == sqlfence.SQLite || d.kind == 0 {
		return "sqlite:" + d.path
	}
	return d.server.String()
}

// ErrorCode returns what the database calls an error: the SQLSTATE of PostgreSQL such as
// "23505", the number of MySQL and MariaDB such as "1062", the primary result code of
// SQLite such as "19". It returns "" for an error that is not the database's, such as one
// of the network.
func ErrorCode(err error) string {
	var (
		ofPostgres *pgconn.PgError
		ofMySQL    *mysql.MySQLError
		ofSQLite   *sqlite.Error
	)
	switch {
	case errors.As(err, &ofPostgres):
		return ofPostgres.Code
	case errors.As(err, &ofMySQL):
		return strconv.Itoa(int(ofMySQL.Number))
	case errors.As(err, &ofSQLite):
		return strconv.Itoa(ofSQLite.Code() & 0xff)
	}
	return ""
}
