package sqlfence

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

// stateError is as the errors of PostgreSQL's drivers are.
type stateError string

func (e stateError) Error() string    { return "ERROR: something (SQLSTATE " + string(e) + ")" }
func (e stateError) SQLState() string { return string(e) }

func TestPassing(t *testing.T) {
	for err, want := range map[error]bool{
		stateError("40001"): true, stateError("40P01"): true, stateError("55P03"): true,
		stateError("23505"): false, stateError("57014"): false, stateError(""): false,
		errors.New("Error 1213 (40001): Deadlock found when trying to get lock"): true,
		errors.New("Error 1205 (HY000): Lock wait timeout exceeded"):             true,
		errors.New("Error 1020 (HY000): Record has changed since last read"):     true,
		errors.New("Error 1205: Lock wait timeout exceeded"):                     true,
		errors.New("Error 12130 (HY000): another"):                               false,
		errors.New("Error 1062 (23000): Duplicate entry 'Error 1213'"):           false,
		errNoRow: true, context.Canceled: false, ErrFenced: false, &FencedError{}: false,
	} {
		if got := isPassing(fmt.Errorf("wrapped: %w", err)); got != want {
			t.Errorf("%v: %v, want %v", err, got, want)
		}
	}
}

func TestAgain(t *testing.T) {
	deadlock := stateError("40P01")
	for _, tt := range []struct {
		fails int // so often, then it succeeds
		with  error
		tries int
		want  error
	}{
		{0, nil, 1, nil},
		{1, deadlock, 2, nil},
		{attempts - 1, deadlock, attempts, nil},
		{attempts, deadlock, attempts, deadlock},
		{1, ErrFenced, 1, ErrFenced},
	} {
		tries := 0
		err := again(t.Context(), isPassing, func() error {
			if tries++; tries <= tt.fails {
				return tt.with
			}
			return nil
		})
		if !errors.Is(err, tt.want) || tries != tt.tries {
			t.Errorf("%d times %v: %v after %d tries; want %v after %d", tt.fails, tt.with, err, tries, tt.want, tt.tries)
		}
	}

	ctx, cancel := context.WithCancel(t.Context())
	tries := 0
	err := again(ctx, isPassing, func() error {
		if tries++; tries == 2 {
			cancel()
		}
		return deadlock
	})
	if !errors.Is(err, deadlock) || tries != 2 {
		t.Errorf("cancelled: %v after %d tries", err, tries)
	}
}

func TestDialects(t *testing.T) {
	for d, want := range map[Dialect]string{0: "Dialect(0)", SQLite: "SQLite", Postgres: "PostgreSQL", MySQL: "MySQL", MariaDB: "MariaDB", 5: "Dialect(5)"} {
		if d.String() != want {
			t.Errorf("%d is %q, want %q", int(d), d, want)
		}
		if _, err := d.statements(); (err == nil) != (d > 0 && d < 5) {
			t.Errorf("%s: %v", d, err)
		}
	}
	if SQLite != 1 {
		t.Error("the value of SQLite is part of the interface")
	}
}
