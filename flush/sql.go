package flush

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/lockkeeper/lockkeeper/sqlfence"
)

// SQL is a Sink on a database/sql database. It is safe for concurrent use.
type SQL struct {
	db       *sql.DB
	fence    *sqlfence.Store
	dialect  dialect
	mappings []Mapping
	guard    func() error
}

var _ Sink = (*SQL)(nil)

// A dialect is what differs between databases.
type dialect interface {
	// createTable returns the statement that makes a mapping's table if it is not
	// there.
	createTable(m *Mapping) string

	// probe returns a query that fails if the table or a column is not there.
	probe(m *Mapping) string

	// apply writes rows of one mapping, each with this version. It returns a
	// *newerRowError if the table has a newer one where a row is to be set.
	apply(ctx context.Context, tx *sql.Tx, m *Mapping, rows []Row, version int64) error
}

// NewSQL makes a sink. The database stays the caller's to close; see
// sqlfence.SQLite for how to open it. It sends nothing.
func NewSQL(db *sql.DB, d sqlfence.Dialect, mappings []Mapping) (*SQL, error) {
	fence, err := sqlfence.New(db, d)
	if err != nil {
		return nil, err
	}
	var errs []error
	for i := range mappings {
		errs = append(errs, mappings[i].Check())
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return &SQL{db: db, fence: fence, dialect: sqlite{}, mappings: mappings}, nil
}

// Guard installs a check that is made after every commit, before its marks are taken
// away: that what was written to is still the database that others find. Its error
// leaves the marks. Call it before the sink is used.
func (s *SQL) Guard(check func() error) { s.guard = check }

// Migration returns the SQL that Migrate runs.
func (s *SQL) Migration() string {
	text := s.fence.Migration()
	for i := range s.mappings {
		if s.mappings[i].Create {
			text += s.dialect.createTable(&s.mappings[i])
		}
	}
	return text
}

// Migrate makes the fence's table, and the tables of the mappings that say Create,
// where they are not there. It changes no table that is.
func (s *SQL) Migrate(ctx context.Context) error {
	if err := s.fence.Migrate(ctx); err != nil {
		return err
	}
	for i := range s.mappings {
		m := &s.mappings[i]
		if !m.Create {
			continue
		}
		if _, err := s.db.ExecContext(ctx, s.dialect.createTable(m)); err != nil {
			return fmt.Errorf("flush: create the table %s: %w", m.Table, err)
		}
	}
	return nil
}

// Check returns nil if the fence's table and every mapped column are there.
func (s *SQL) Check(ctx context.Context) error {
	if _, err := s.fence.Current(ctx, "check"); err != nil {
		return fmt.Errorf("flush: the database is not ready; apply the migration: %w", err)
	}
	for i := range s.mappings {
		m := &s.mappings[i]
		if _, err := s.db.ExecContext(ctx, s.dialect.probe(m)); err != nil {
			return fmt.Errorf("flush: table %s does not fit its mapping: %w", m.Table, err)
		}
	}
	return nil
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

// term is the Term of a SQL sink.
type term struct {
	*sqlfence.Claim
	sink *SQL
}

// epochShift is where the epoch begins in a row's version; below it is the number of
// the batch.
const epochShift = 40

// Write implements Term.
func (t *term) Write(ctx context.Context, number int64, rows []Row) error {
	version := t.Epoch()<<epochShift | number
	err := t.Claim.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		for _, group := range byMapping(rows) {
			err := t.sink.dialect.apply(ctx, tx, group[0].Mapping, group, version)
			var newer *newerRowError
			if errors.As(err, &newer) {
				if err := t.Check(ctx, tx); err != nil {
					return err // a newer term has written the row, as it should
				}
			}
			if err != nil {
				return fmt.Errorf("table %s: %w", group[0].Mapping.Table, err)
			}
		}
		return nil
	})
	if err == nil && t.sink.guard != nil {
		err = t.sink.guard()
	}
	return err
}

// A newerRowError is the error for a row that has a later version than this term's, and
// was left as it is. If the term stands all the same, the epoch was lost: what is to be
// flushed must not be taken for written.
type newerRowError struct {
	key   []any
	epoch int64
}

func (e *newerRowError) Error() string {
	return fmt.Sprintf("the row with the key %v is of a later epoch than this one, %d: the table lockkeeper_fence was lost or rolled back; "+
		"set epoch there to the largest %s >> %d", e.key, e.epoch, VersionColumn, epochShift)
}

// byMapping cuts a batch, which is sorted by mapping, into one group for each.
func byMapping(rows []Row) [][]Row {
	var groups [][]Row
	for start, i := 0, 1; i <= len(rows); i++ {
		if i == len(rows) || rows[i].Mapping != rows[start].Mapping {
			groups = append(groups, rows[start:i])
			start = i
		}
	}
	return groups
}
