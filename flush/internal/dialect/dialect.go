package dialect

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"

	"github.com/lockkeeper/lockkeeper/flush/internal/value"
	"github.com/lockkeeper/lockkeeper/sqlfence"
)

// VersionColumn is the column that every mapped table has besides: which batch has
// written the row last. It is a BIGINT NOT NULL.
const VersionColumn = "lockkeeper_version"

// A Table is one table that rows are written to. It must not be changed once a DB has
// seen it.
type Table struct {
	Name    string
	Key     []Column // the whole primary key, in its order
	Columns []Column // the others that are set

	// Parent is how many of the first Key columns name the Redis key, whose rows are
	// replaced together: len(Key) where a key is one row.
	Parent int
}

// A Column is one column and what it holds. Key columns are NOT NULL in any case.
type Column struct {
	Name    string
	Type    value.Type
	NotNull bool
}

// A Queryer is a *sql.DB, a *sql.Tx or a *sql.Conn.
type Queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// A DB is what is said to one kind of database. It is safe for concurrent use.
type DB struct {
	server server

	mu    sync.Mutex
	plans map[*Table]*plan
}

// A server is what differs between the kinds of databases.
type server interface {
	quote(name string) string
	columnType(t value.Type, inKey bool) string
	tableEnd() string // from the parenthesis that closes the columns
	check(t *Table) error

	upsert(ctx context.Context, tx *sql.Tx, p *plan, rows [][]any, version int64) error
	remove(ctx context.Context, tx *sql.Tx, p *plan, parents [][]any, except int64) error
	read(ctx context.Context, q Queryer, p *plan, parents [][]any, take func(*sql.Rows) error) error
	keys(ctx context.Context, q Queryer, p *plan, after []any, limit int) (*sql.Rows, error)

	inspect(ctx context.Context, q Queryer, p *plan) (*found, error)
	sameName(a, b string) bool // of columns
	classify(err error, code string) Class
}

// New returns what is said to a kind of database.
func New(d sqlfence.Dialect) (*DB, error) {
	db := &DB{plans: make(map[*Table]*plan)}
	switch d {
	case sqlfence.SQLite:
		db.server = sqlite{}
	case sqlfence.Postgres:
		db.server = postgres{}
	case sqlfence.MySQL:
		db.server = mysql{}
	case sqlfence.MariaDB:
		db.server = mysql{mariadb: true}
	default:
		return nil, fmt.Errorf("flush: unknown database %s", d)
	}
	return db, nil
}

// Upsert sets rows: of each its key values, then its column values, as Convert gives
// them, nil for NULL. They are sorted and distinct by key. It sets exactly these
// columns and the version; other columns of a row that is there stay, and so do they
// after an error, as long as the transaction is rolled back then.
//
// It does not look at the version that stands there: the fence in the same
// transaction has to keep out whoever is older.
func (db *DB) Upsert(ctx context.Context, tx *sql.Tx, t *Table, rows [][]any, version int64) error {
	p, err := db.plan(t)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if len(row) != len(p.columns) {
			return fmt.Errorf("flush: table %q: a row of %d values, not %d", t.Name, len(row), len(p.columns))
		}
	}
	if len(rows) == 0 {
		return nil
	}
	if err := db.server.upsert(ctx, tx, p, rows, version); err != nil {
		return fmt.Errorf("set rows of the table %q: %w", t.Name, err)
	}
	return nil
}

// Remove deletes the rows whose first key columns are one of parents, and whose
// version is not except; with 0 it deletes all of them. The parents are sorted,
// distinct, and all of one length.
func (db *DB) Remove(ctx context.Context, tx *sql.Tx, t *Table, parents [][]any, except int64) error {
	p, err := db.plan(t)
	if err != nil {
		return err
	}
	if err := p.checkParents(parents); err != nil || len(parents) == 0 {
		return err
	}
	if err := db.server.remove(ctx, tx, p, parents, except); err != nil {
		return fmt.Errorf("delete rows of the table %q: %w", t.Name, err)
	}
	return nil
}

// checkParents wants them to fit the key.
func (p *plan) checkParents(parents [][]any) error {
	for _, parent := range parents {
		if len(parent) == 0 || len(parent) > len(p.table.Key) || len(parent) != len(parents[0]) {
			return fmt.Errorf("flush: table %q: a key of %d values beside one of %d, for %d key columns",
				p.table.Name, len(parent), len(parents[0]), len(p.table.Key))
		}
	}
	return nil
}

// errValue is an argument that no column of its type has: a mistake of the caller.
var errValue = errors.New("a value that its column's type does not have")
