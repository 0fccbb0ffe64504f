package sqlfence

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// attempts is how often a step is tried that met others in the database.
const attempts = 10

// again runs a step until it fails for a reason that does not go away by itself, such as
// a deadlock, for a few times. The step must be one that may be made twice.
func again(ctx context.Context, passing func(error) bool, step func() error) error {
	for n := 1; ; n++ {
		err := step()
		if err == nil || n == attempts || ctx.Err() != nil || !passing(err) {
			return err
		}
		select {
		case <-time.After(rand.N(time.Duration(n) * 5 * time.Millisecond)):
		case <-ctx.Done():
			return err
		}
	}
}

// isPassing reports whether a claim can be tried again: its row was not there, or the
// database has ended the transaction for the sake of another, with a deadlock, a conflict,
// or a lock that did not come in time.
func isPassing(err error) bool {
	// Serialization failure, deadlock, lock not available.
	return errors.Is(err, errNoRow) || hasState(err, "40001", "40P01", "55P03") ||
		// Deadlock, lock wait timeout, and "record has changed since last read".
		hasNumber(err, "1213", "1205", "1020")
}

// isCreated reports whether somebody else has made the table at the same time, which
// PostgreSQL does not hide behind IF NOT EXISTS.
func isCreated(err error) bool { return hasState(err, "23505", "42P07", "42710") }

// hasState looks for a SQLSTATE, as the drivers of PostgreSQL have it.
func hasState(err error, states ...string) bool {
	var coded interface{ SQLState() string }
	return errors.As(err, &coded) && slices.Contains(states, coded.SQLState())
}

// hasNumber looks for an error number of MySQL. Its driver has it in a field of a type
// that this package does not import, but also in the text, as "Error 1213 (40001): ...".
func hasNumber(err error, numbers ...string) bool {
	text := err.Error()
	return slices.ContainsFunc(numbers, func(number string) bool {
		return strings.Contains(text, "Error "+number+" (") || strings.Contains(text, "Error "+number+":")
	})
}
