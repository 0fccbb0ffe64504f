package sqlfence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"

	"github.com/lockkeeper/lockkeeper"
)

// ErrFenced is returned when the database has seen a newer claim: this holder must
// not write any more. The error is a *FencedError.
var ErrFenced = errors.New("sqlfence: fenced: a newer claim is in the database")

// ErrNoTable is returned when the table lockkeeper_fence is not there; see Migrate.
var ErrNoTable = errors.New("the table lockkeeper_fence is not there: is the database migrated?")

// A FencedError says who was refused, and who stands in the database. It matches
// [ErrFenced].
type FencedError struct {
	Resource string
	Fence    lockkeeper.Fence // of the refused
	Owner    string
	Current  Row // what the database has, as far as it could be read
}

func (e *FencedError) Error() string {
	return fmt.Sprintf("sqlfence: fenced: %q is claimed with fence %s (epoch %d) by another, ours is %s",
		e.Resource, e.Current.Fence, e.Current.Epoch, e.Fence)
}

// Is matches ErrFenced.
func (e *FencedError) Is(target error) bool { return target == ErrFenced }

// A Row is a resource's row: its last claim. The zero value is no claim.
type Row struct {
	Fence     lockkeeper.Fence
	Owner     string
	Epoch     int64  // how many claims there were; the database's own count
	ClaimedAt string // the database's time, RFC 3339
}

// A Holder is the hold that a claim is made for; a *lockkeeper.Lease is one.
type Holder interface {
	Fence() lockkeeper.Fence
	Owner() string
	// RaiseFence gives the hold a fence above seen, or an error if the lock is
	// not held any more.
	RaiseFence(ctx context.Context, seen lockkeeper.Fence) error
}

// A Store is the fence table of one database. It is safe for concurrent use.
type Store struct {
	db  *sql.DB
	tx  *sql.TxOptions
	sql statements
}

// New makes a store on a database, which stays the caller's to close. It sends
// nothing.
func New(db *sql.DB, d Dialect) (*Store, error) {
	if db == nil {
		return nil, errors.New("sqlfence: nil database")
	}
	s, err := d.statements()
	if err != nil {
		return nil, err
	}
	return &Store{db: db, tx: d.txOptions(), sql: s}, nil
}

// Migration returns the SQL that Migrate runs, for whoever applies it by hand.
func (s *Store) Migration() string { return s.sql.migrate }

// Migrate makes the table lockkeeper_fence if it is not there. Running it again
// changes nothing; many may do it at the same time.
func (s *Store) Migrate(ctx context.Context) error {
	err := again(ctx, isCreated, func() error {
		_, err := s.db.ExecContext(ctx, s.sql.migrate)
		return err
	})
	if err != nil {
		return fmt.Errorf("sqlfence: create the table lockkeeper_fence: %w", err)
	}
	return nil
}

// Current returns the last claim of a resource; the zero Row when there is none.
func (s *Store) Current(ctx context.Context, resource string) (Row, error) {
	row, err := readRow(ctx, s.db, s.sql.read, resource)
	if err != nil && !errors.Is(err, errNoRow) {
		return Row{}, wrap("read the claim of", resource, err)
	}
	return row, nil
}

// queryer is a *sql.DB or a *sql.Tx.
type queryer interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// errNoRow is for a resource that has never been claimed.
var errNoRow = errors.New("the row is missing, or was a moment ago")

func readRow(ctx context.Context, q queryer, query, resource string) (Row, error) {
	var r Row
	var fence int64
	err := q.QueryRowContext(ctx, query, resource).Scan(&fence, &r.Owner, &r.Epoch, &r.ClaimedAt)
	if errors.Is(err, sql.ErrNoRows) {
		return Row{}, errNoRow
	}
	r.Fence = lockkeeper.Fence(fence)
	return r, err
}

// Claim makes the holder the only one whose writes to the resource the database
// accepts from now on. It must come before the first read of what will be written,
// and after each new hold. A claim made again for the same hold is the same claim.
//
// If the database has seen a fence that is not smaller, and the lock is still
// held, the counter behind the fences has been lost or rolled back: Claim raises
// the hold's fence and claims again. Otherwise the error matches ErrFenced. It
// blocks for the database, bounded by ctx, which should be the hold's.
func (s *Store) Claim(ctx context.Context, resource string, holder Holder) (*Claim, error) {
	if err := checkClaim(resource, holder); err != nil {
		return nil, err
	}
	for repaired := 0; ; repaired++ {
		claim, err := s.claimOnce(ctx, resource, holder.Fence(), holder.Owner())
		var fenced *FencedError
		if !errors.As(err, &fenced) || repaired == 3 {
			return claim, err
		}
		if err := holder.RaiseFence(ctx, fenced.Current.Fence); err != nil {
			return nil, errors.Join(fenced, err)
		}
	}
}

func checkClaim(resource string, holder Holder) error {
	switch {
	case holder == nil:
		return errors.New("sqlfence: nil holder")
	case resource == "" || len(resource) > 255:
		return fmt.Errorf("sqlfence: resource name of %d bytes: 1 to 255", len(resource))
	case !holder.Fence().Valid():
		return errors.New("sqlfence: the holder has no fence: fence 0 can't be claimed with")
	case holder.Fence() > math.MaxInt64:
		return fmt.Errorf("sqlfence: fence %s: databases count to %d", holder.Fence(), int64(math.MaxInt64))
	case holder.Owner() == "":
		return errors.New("sqlfence: the holder has no owner token")
	}
	return nil
}

// claimOnce claims without a repair. The row is made only where it is missing, and on its
// own: who inserts on InnoDB and finds the row there shares its lock with others who do the
// same, and none of them could go on to change it.
func (s *Store) claimOnce(ctx context.Context, resource string, fence lockkeeper.Fence, owner string) (*Claim, error) {
	c := &Claim{store: s, resource: resource, fence: fence, owner: owner}
	err := again(ctx, isPassing, func() error {
		err := c.install(ctx)
		if !errors.Is(err, errNoRow) {
			return err
		}
		if _, err := s.db.ExecContext(ctx, s.sql.insert, resource); err != nil {
			return err
		}
		return errNoRow // it is there now
	})
	if err != nil {
		return nil, wrap("claim", resource, err)
	}
	return c, nil
}

// inTx runs f in a transaction, and commits unless it fails.
func (s *Store) inTx(ctx context.Context, f func(tx *sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, s.tx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing; also when f panics
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// opWrite is the operation whose errors are mostly the caller's own.
const opWrite = "write under the claim of"

// wrap says what failed, unless the error says it itself.
func wrap(op, resource string, err error) error {
	var fenced *FencedError
	if errors.As(err, &fenced) {
		return err
	}
	if isMissing(err) && op != opWrite {
		return fmt.Errorf("sqlfence: %s %q: %w %w", op, resource, ErrNoTable, err)
	}
	return fmt.Errorf("sqlfence: %s %q: %w", op, resource, err)
}

// isMissing reports whether the table is not there, which every database says with the
// table's name.
func isMissing(err error) bool {
	text := err.Error()
	return strings.Contains(text, "lockkeeper_fence") &&
		(strings.Contains(text, "exist") || strings.Contains(text, "no such table"))
}

// A Claim is a hold's exclusive right to write to a resource, until a newer claim.
// It is safe for concurrent use.
type Claim struct {
	store    *Store
	resource string
	fence    lockkeeper.Fence
	owner    string
	epoch    atomic.Int64
}

// Fence returns the fence that was claimed with.
func (c *Claim) Fence() lockkeeper.Fence { return c.fence }

// Epoch returns the database's own number of this claim. It only grows, as long as
// the database keeps its data, whatever becomes of Redis.
func (c *Claim) Epoch() int64 { return c.epoch.Load() }

// install makes the claim's pair the row's. It fails with errNoRow where there was none.
func (c *Claim) install(ctx context.Context) error {
	s, f := c.store, int64(c.fence)
	return s.inTx(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, s.sql.claim, f, f, c.owner, c.resource, f, f, c.owner); err != nil {
			return err
		}
		row, err := readRow(ctx, tx, s.sql.read, c.resource)
		if err != nil {
			return err
		}
		c.epoch.Store(row.Epoch)
		err = c.stands(row)
		if err != nil && row.Fence < c.fence {
			return errNoRow // somebody has made it after the update, which would have taken it
		}
		return err
	})
}

// stands returns an error unless the row has exactly this claim's pair. Rows are read
// instead of counting what a statement has changed: drivers differ in what they count.
func (c *Claim) stands(row Row) error {
	if row.Fence != c.fence || row.Owner != c.owner {
		return &FencedError{Resource: c.resource, Fence: c.fence, Owner: c.owner, Current: row}
	}
	return nil
}

// Check returns an error that matches ErrFenced if a newer claim stands. It is the
// last statement of a write transaction: it locks the resource's row, so that no
// claim can come between it and the commit, and it holds up the next claimant for
// the shortest time when it is last. The transaction must be rolled back after any
// error.
func (c *Claim) Check(ctx context.Context, tx *sql.Tx) error {
	if err := c.check(ctx, tx); err != nil {
		return wrap("check the claim of", c.resource, err)
	}
	return nil
}

func (c *Claim) check(ctx context.Context, tx *sql.Tx) error {
	if touch := c.store.sql.touch; touch != "" {
		if _, err := tx.ExecContext(ctx, touch, c.resource, int64(c.fence), c.owner); err != nil {
			return err
		}
	}
	row, err := readRow(ctx, tx, c.store.sql.locked, c.resource)
	if err != nil && !errors.Is(err, errNoRow) {
		return err
	}
	return c.stands(row)
}

// Write runs f in one transaction with Check as its last statement, and commits. An
// error that is not ErrFenced leaves open whether it was committed, if it came from
// the commit: what is written must be such that writing it again does no harm.
func (c *Claim) Write(ctx context.Context, f func(ctx context.Context, tx *sql.Tx) error) error {
	if f == nil {
		return errors.New("sqlfence: nil function")
	}
	err := c.store.inTx(ctx, func(tx *sql.Tx) error {
		if err := f(ctx, tx); err != nil {
			return err
		}
		return c.Check(ctx, tx)
	})
	if err != nil {
		return wrap(opWrite, c.resource, err)
	}
	return nil
}

// RaiseEpoch gives the claim an epoch above seen, for a store beside the database
// that has seen a larger one, because the database was restored from a backup. It
// returns an error that matches ErrFenced if a newer claim stands.
func (c *Claim) RaiseEpoch(ctx context.Context, seen int64) error {
	var raised Row
	err := again(ctx, isPassing, func() error {
		return c.store.inTx(ctx, func(tx *sql.Tx) (err error) {
			if _, err := tx.ExecContext(ctx, c.store.sql.raise, seen, c.resource, int64(c.fence), c.owner); err != nil {
				return err
			}
			raised, err = readRow(ctx, tx, c.store.sql.read, c.resource)
			if err != nil && !errors.Is(err, errNoRow) {
				return err
			}
			return c.stands(raised)
		})
	})
	if err != nil {
		return wrap("raise the epoch of", c.resource, err)
	}
	c.epoch.Store(raised.Epoch)
	return nil
}
