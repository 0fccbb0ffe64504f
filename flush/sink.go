package flush

import (
	"context"
	"fmt"

	"github.com/lockkeeper/lockkeeper/sqlfence"
)

// A Sink is a database that takes batches. NewSQL makes one; the engine's tests have
// another, in memory.
type Sink interface {
	// Check returns nil if the database can be reached and claimed. A process whose
	// database fails it does not stand for election.
	Check(ctx context.Context) error

	// Claim makes the holder the only one whose batches are taken from now on.
	Claim(ctx context.Context, job string, holder sqlfence.Holder) (Term, error)

	// Class says what an error of Term.Write means for the rows of the batch.
	Class(err error) Class
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

// A Class is what an error of the database means for the rows of a batch.
type Class int

// The classes. An error that matches sqlfence.ErrFenced has none.
const (
	Transient    Class = iota // the same rows again, later: a broken connection, a deadlock, a full disk
	BadRow                    // one of the rows can't be written: find it, and park it
	BadReference              // one of the rows refers to a row that is not there, perhaps not yet
	BadSchema                 // no row of the table can be written until somebody changes the table
)

// A TableError says which mapping's table an error of Term.Write is about.
type TableError struct {
	Table string
	Err   error
}

func (e *TableError) Error() string { return fmt.Sprintf("table %s: %s", e.Table, e.Err) }

// Unwrap returns the error of the database.
func (e *TableError) Unwrap() error { return e.Err }

// A Row is what is to become of one key, or of one entry of a stream. A batch has each
// primary key of a table at most once.
type Row struct {
	Mapping *Mapping
	Key     []any // values of the key's parts, in the order of Mapping.Key
	Delete  bool  // delete all rows of the key

	// Values are the row of a key that is one row, in the order of Mapping.Columns; nil
	// when Delete.
	Values []any

	// Children are the rows of a set, list or sorted set: all that there are from now
	// on; of a stream, one entry, which is added. Each has what tells it apart first,
	// and then the other columns in the order of Mapping.Columns.
	Children [][]any

	route *route
	mark  mark   // as it was read
	entry string // ID of the stream's entry
}

// name returns what the row is known by among those that are parked.
func (r *Row) name() string { return parkedName(r.mark.key, r.entry) }

// A coder is a Sink that knows the database's own code of an error.
type coder interface{ Code(err error) string }

func errorCode(s Sink, err error) string {
	if c, ok := s.(coder); ok {
		return c.Code(err)
	}
	return ""
}
