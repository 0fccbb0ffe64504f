package flush

import (
	"context"

	"github.com/lockkeeper/lockkeeper/sqlfence"
)

// A Sink is a database that takes batches. NewSQL makes one; the engine's tests have
// another, in memory.
type Sink interface {
	// Check returns nil if the database can be reached and has what the mappings
	// need. A process whose database fails it does not stand for election.
	Check(ctx context.Context) error

	// Claim makes the holder the only one whose batches are taken from now on.
	Claim(ctx context.Context, job string, holder sqlfence.Holder) (Term, error)
}

// A Term is the time in which one holder may write.
type Term interface {
	// Epoch is the database's number of this term; it only grows.
	Epoch() int64

	// RaiseEpoch gives the term an epoch above seen.
	RaiseEpoch(ctx context.Context, seen int64) error

	// Write writes a batch in one transaction, whose last statement checks that the
	// term still stands; if it does not, nothing is written and the error matches
	// sqlfence.ErrFenced. Any other error leaves open what was written. The number
	// orders the batches of a term.
	Write(ctx context.Context, number int64, rows []Row) error
}

// A Row is the final state of one key in a batch: what to write, or to delete. A
// batch has each primary key of a table at most once.
type Row struct {
	Mapping *Mapping
	Key     []any // primary key, in the order of Mapping.Key
	Values  []any // in the order of Mapping.Columns; nil when Delete
	Delete  bool

	source string // the Redis key
	mark   string // its mark as it was read
}
