package flush

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/flush/internal/dialect"
	"github.com/lockkeeper/lockkeeper/sqlfence"
)

// SQL is a Sink on a database/sql database. It is safe for concurrent use.
type SQL struct {
	db     *sql.DB
	fence  *sqlfence.Store
	tables *dialect.DB
	routes []*route
	guard  func() error
	code   func(error) string
}

var _ Sink = (*SQL)(nil)

// NewSQL makes a sink. The database stays the caller's to close; see the constants of
// sqlfence.Dialect for how to open it. It sends nothing.
func NewSQL(db *sql.DB, d sqlfence.Dialect, mappings []Mapping) (*SQL, error) {
	fence, err := sqlfence.New(db, d)
	if err != nil {
		return nil, err
	}
	tables, err := dialect.New(d)
	if err != nil {
		return nil, err
	}
	s := &SQL{db: db, fence: fence, tables: tables, code: ErrorCode}
	var errs []error
	for i := range mappings {
		r, err := newRoute(&mappings[i], i)
		if err == nil {
			err = tables.Check(r.table)
		}
		errs = append(errs, err)
		s.routes = append(s.routes, r)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return s, nil
}

// Guard installs a check that is made after every commit, before its marks are taken
// away: that what was written to is still the database that others find. Its error
// leaves the marks. Call it before the sink is used. nil checks nothing.
func (s *SQL) Guard(check func() error) { s.guard = check }

// Codes installs how the database's own code is read from an error of its driver, for
// drivers that ErrorCode does not know: the SQLSTATE of PostgreSQL, the error number of
// MySQL and MariaDB, the primary result code of SQLite, in digits; "" for errors that
// the database has not made. Call it before the sink is used.
func (s *SQL) Codes(code func(error) string) { s.code = code }

// ErrorCode reads the code from errors that have a method SQLState, as those of
// PostgreSQL's drivers, or Code, as those of modernc.org/sqlite.
func ErrorCode(err error) string {
	var state interface{ SQLState() string }
	if errors.As(err, &state) {
		return state.SQLState()
	}
	var code interface{ Code() int }
	if errors.As(err, &code) {
		return formatInt(int64(code.Code() & 0xff))
	}
	return ""
}

// Migration returns the SQL that Migrate runs.
func (s *SQL) Migration() string {
	text := s.fence.Migration()
	for _, r := range s.routes {
		if r.Create {
			text += s.tables.CreateTable(r.table)
		}
	}
	return text
}

// Migrate makes the fence's table, and the tables of the mappings that say Create,
// where they are not there. It changes no table that is.
func (s *SQL) Migrate(ctx context.Context) error {
	// What is there is not made: a user that may write to it may not be one that may make it.
	if _, err := s.fence.Current(ctx, "check"); err != nil {
		if err := s.fence.Migrate(ctx); err != nil {
			return err
		}
	}
	for _, r := range s.routes {
		if !r.Create || s.tables.Probe(ctx, s.db, r.table) == nil {
			continue
		}
		if err := s.create(ctx, r); err != nil {
			return fmt.Errorf("flush: create the table %s: %w", r.Table, err)
		}
	}
	return nil
}

// create makes the table of a mapping. Where several processes do that at a time,
// PostgreSQL has all but one of them fail, in spite of IF NOT EXISTS.
func (s *SQL) create(ctx context.Context, r *route) error {
	var err error
	for range 10 {
		if _, err = s.db.ExecContext(ctx, s.tables.CreateTable(r.table)); err == nil || s.Class(err) == Transient {
			return err
		}
		if s.tables.Probe(ctx, s.db, r.table) == nil {
			return nil
		}
		if s.code(err) == "42501" {
			return err
		}
		if err := rest(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
	return err
}

// Check implements Sink: the database answers, and has the fence's table.
func (s *SQL) Check(ctx context.Context) error {
	_, err := s.fence.Current(ctx, "check")
	switch {
	case err == nil:
		return nil
	case errors.Is(err, sqlfence.ErrNoTable):
		return fmt.Errorf("flush: the database is not ready; apply the migration: %w", err)
	case s.Class(err) == BadSchema:
		return fmt.Errorf("flush: the database refuses; has its user SELECT, INSERT and UPDATE on lockkeeper_fence? %w", err)
	}
	return fmt.Errorf("flush: the database can't be reached: %w", err)
}

// CheckTables returns what is wrong with the tables of the mappings, joined, or nil: a
// table or a column that is not there, or a key that is not the mapping's.
func (s *SQL) CheckTables(ctx context.Context) error {
	var errs []error
	for _, r := range s.routes {
		if err := s.tables.Probe(ctx, s.db, r.table); err != nil {
			errs = append(errs, fmt.Errorf("flush: table %s does not fit its mapping: %w", r.Table, err))
		}
	}
	return errors.Join(errs...)
}

// Identity returns what tells this database from others. It is made when it is first
// asked for, is kept in the table lockkeeper_fence, and so comes back with a backup.
func (s *SQL) Identity(ctx context.Context) (string, error) {
	return s.fence.Identity(ctx)
}

// Current returns the last claim of a job.
func (s *SQL) Current(ctx context.Context, job string) (sqlfence.Row, error) {
	return s.fence.Current(ctx, resource(job))
}

// resource is the name of a job's row in the fence's table.
func resource(job string) string { return "flush:" + job }

// Claim implements Sink.
func (s *SQL) Claim(ctx context.Context, job string, holder sqlfence.Holder) (Term, error) {
	claim, err := s.fence.Claim(ctx, resource(job), holder)
	if err != nil {
		return nil, err
	}
	return &term{Claim: claim, sink: s}, nil
}

// Class implements Sink.
func (s *SQL) Class(err error) Class {
	switch s.tables.Classify(err, s.code) {
	case dialect.BadRow:
		return BadRow
	case dialect.BadReference:
		return BadReference
	case dialect.BadSchema:
		return BadSchema
	}
	return Transient
}

// Code returns the database's own code of an error, or "".
func (s *SQL) Code(err error) string { return s.code(err) }

// term is the Term of a SQL sink.
type term struct {
	*sqlfence.Claim
	sink *SQL
}

// epochShift is where the epoch begins in a row's version; below it is the number of
// the transaction.
const epochShift = 40

// Write implements Term.
func (t *term) Write(ctx context.Context, number int64, rows []Row) error {
	version := t.Epoch()<<epochShift | number
	err := t.Claim.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		for len(rows) > 0 {
			n := slices.IndexFunc(rows, func(r Row) bool { return r.route.rank != rows[0].route.rank })
			if n < 0 {
				n = len(rows)
			}
			if err := t.sink.apply(ctx, tx, rows[:n], version); err != nil {
				return &TableError{rows[0].Mapping.Table, err}
			}
			rows = rows[n:]
		}
		return nil
	})
	if err == nil && t.sink.guard != nil {
		err = t.sink.guard()
	}
	return err
}

// apply writes rows of one mapping, which are in the order of their keys. The rows of a
// set, list or sorted set that are not there any more are those that do not get this
// version.
func (s *SQL) apply(ctx context.Context, tx *sql.Tx, rows []Row, version int64) error {
	r := s.routes[rows[0].route.rank]
	var set, parents [][]any
	for i := range rows {
		row := &rows[i]
		switch {
		case row.Values != nil:
			set = append(set, slices.Concat(row.Key, row.Values))
		default:
			for _, child := range row.Children {
				set = append(set, slices.Concat(row.Key, child))
			}
		}
		if row.Delete || r.element != nil && r.source() != Streams {
			parents = append(parents, row.Key)
		}
	}
	if len(set) > 0 {
		if err := s.tables.Upsert(ctx, tx, r.table, set, version); err != nil {
			return err
		}
	}
	if len(parents) == 0 {
		return nil
	}
	except := version
	if r.element == nil {
		except = 0 // what is deleted was not set
	}
	return s.tables.Remove(ctx, tx, r.table, parents, except)
}
