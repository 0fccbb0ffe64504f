package store_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/sqlfence"
)

func put(value string) func(context.Context, *sql.Tx) error {
	return func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO t VALUES (?)", value)
		return err
	}
}

// ledger makes a database with fences and the table t, which put writes.
func ledger(t *testing.T) (*sql.DB, *sqlfence.Store) {
	t.Helper()
	db := open(t, newFile(t))
	s := fences(t, db)
	exec(t, db, "CREATE TABLE t (v TEXT NOT NULL) STRICT")
	return db, s
}

func wantRows(t *testing.T, db *sql.DB, want string) {
	t.Helper()
	if got := one[string](t, db, "SELECT coalesce(group_concat(v, ' '), '') FROM (SELECT v FROM t ORDER BY rowid)"); got != want {
		t.Errorf("the table has %q, want %q", got, want)
	}
}

func TestClaimAgainIsTheSameClaim(t *testing.T) {
	db, s := ledger(t)
	h := newHold(10)
	first, second := claim(t, s, h), claim(t, s, h)
	if first.Epoch() != 1 || second.Epoch() != 1 || h.raised != 0 {
		t.Errorf("epochs %d and %d, raised %d times; want one claim", first.Epoch(), second.Epoch(), h.raised)
	}
	for _, c := range []*sqlfence.Claim{first, second, first} {
		if err := c.Write(t.Context(), put("x")); err != nil {
			t.Error(err)
		}
	}
	wantRows(t, db, "x x x")

	row, err := s.Current(t.Context(), "r")
	if err != nil || row.Fence != 10 || row.Owner != h.owner || row.Epoch != 1 || !strings.HasSuffix(row.ClaimedAt, "Z") {
		t.Errorf("Current: %+v, %v", row, err)
	}
	if row, err := s.Current(t.Context(), "other"); err != nil || row != (sqlfence.Row{}) {
		t.Errorf("Current of nothing: %+v, %v", row, err)
	}
	other, err := s.Claim(t.Context(), "other", newHold(1))
	if err != nil || other.Epoch() != 1 {
		t.Errorf("resources are not apart: %v", err)
	}
	if err := first.Write(t.Context(), put("x")); err != nil {
		t.Errorf("resources are not apart: %v", err)
	}
}

func TestNewerClaimFencesTheOlder(t *testing.T) {
	db, s := ledger(t)
	a, b := newHold(10), newHold(11)
	old := claim(t, s, a)
	if err := old.Write(t.Context(), put("a")); err != nil {
		t.Fatal(err)
	}
	current := claim(t, s, b)
	if current.Epoch() != 2 {
		t.Errorf("epoch %d", current.Epoch())
	}

	err := old.Write(t.Context(), put("stale"))
	wantFenced(t, err, a, b)
	wantFenced(t, old.RaiseEpoch(t.Context(), 100), a, b)
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := put("stale")(t.Context(), tx); err != nil {
		t.Fatal(err)
	}
	wantFenced(t, old.Check(t.Context(), tx), a, b)
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}

	wantRows(t, db, "a")
	if row, _ := s.Current(t.Context(), "r"); row.Epoch != 2 || old.Epoch() != 1 {
		t.Errorf("a refused claim changed the epoch: %+v, its own is %d", row, old.Epoch())
	}
	if err := current.Write(t.Context(), put("b")); err != nil {
		t.Error(err)
	}
	wantRows(t, db, "a b")
}

func wantFenced(t *testing.T, err error, ours, theirs *hold) {
	t.Helper()
	var fenced *sqlfence.FencedError
	if !errors.Is(err, sqlfence.ErrFenced) || !errors.As(err, &fenced) {
		t.Fatalf("%v; want ErrFenced", err)
	}
	if fenced.Fence != ours.fence || fenced.Owner != ours.owner || fenced.Resource != "r" ||
		fenced.Current.Fence != theirs.fence || fenced.Current.Owner != theirs.owner {
		t.Errorf("%+v; want the refused %+v and the current %+v", fenced, ours, theirs)
	}
}

func TestRefusedClaim(t *testing.T) {
	for _, fence := range []lockkeeper.Fence{10, 7, 1} { // a duplicate, and going backwards
		_, s := ledger(t)
		claim(t, s, newHold(10))

		lost := newHold(fence)
		lost.held = false
		_, err := s.Claim(t.Context(), "r", lost)
		if !errors.Is(err, sqlfence.ErrFenced) || !errors.Is(err, lockkeeper.ErrLost) {
			t.Errorf("fence %d, not held: %v", fence, err)
		}

		held := newHold(fence)
		c := claim(t, s, held)
		if held.raised != 1 || c.Fence() != 11 || c.Epoch() != 2 {
			t.Errorf("fence %d, held: raised %d times to %d, epoch %d", fence, held.raised, c.Fence(), c.Epoch())
		}
		if err := c.Write(t.Context(), put("x")); err != nil {
			t.Errorf("fence %d: %v", fence, err)
		}
	}
}

// stuck says that it has raised its fence, and has not.
type stuck struct{ *hold }

func (h stuck) RaiseFence(context.Context, lockkeeper.Fence) error { h.raised++; return nil }

func TestRefusedClaimGivesUp(t *testing.T) {
	_, s := ledger(t)
	claim(t, s, newHold(10))
	h := stuck{newHold(3)}
	if _, err := s.Claim(t.Context(), "r", h); !errors.Is(err, sqlfence.ErrFenced) || h.raised != 3 {
		t.Errorf("%v after %d attempts", err, h.raised)
	}
}

func TestClaimRefusesBadInput(t *testing.T) {
	_, s := ledger(t)
	noOwner := newHold(1)
	noOwner.owner = ""
	for name, try := range map[string]func() (*sqlfence.Claim, error){
		"nil holder":    func() (*sqlfence.Claim, error) { return s.Claim(t.Context(), "r", nil) },
		"no resource":   func() (*sqlfence.Claim, error) { return s.Claim(t.Context(), "", newHold(1)) },
		"long resource": func() (*sqlfence.Claim, error) { return s.Claim(t.Context(), strings.Repeat("x", 256), newHold(1)) },
		"no fence":      func() (*sqlfence.Claim, error) { return s.Claim(t.Context(), "r", newHold(0)) },
		"large fence":   func() (*sqlfence.Claim, error) { return s.Claim(t.Context(), "r", newHold(1<<63)) },
		"no owner":      func() (*sqlfence.Claim, error) { return s.Claim(t.Context(), "r", noOwner) },
	} {
		if _, err := try(); err == nil || errors.Is(err, sqlfence.ErrFenced) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := sqlfence.New(nil, sqlfence.SQLite); err == nil {
		t.Error("a nil database is accepted")
	}
	if _, err := sqlfence.New(new(sql.DB), 0); err == nil {
		t.Error("no dialect is accepted")
	}
	if err := claim(t, s, newHold(1)).Write(t.Context(), nil); err == nil {
		t.Error("a nil function is accepted")
	}
}

func TestRaiseEpoch(t *testing.T) {
	_, s := ledger(t)
	c := claim(t, s, newHold(1))
	for _, step := range []struct{ seen, want int64 }{{41, 42}, {10, 43}, {43, 44}} {
		if err := c.RaiseEpoch(t.Context(), step.seen); err != nil || c.Epoch() != step.want {
			t.Errorf("above %d: %d, %v; want %d", step.seen, c.Epoch(), err, step.want)
		}
	}
	if next := claim(t, s, newHold(2)); next.Epoch() != 45 {
		t.Errorf("the next claim has epoch %d", next.Epoch())
	}
}

func schema(t *testing.T, db *sql.DB) string {
	t.Helper()
	return one[string](t, db, "SELECT group_concat(type || ' ' || name || ' ' || coalesce(sql, ''), char(10)) FROM (SELECT * FROM sqlite_schema ORDER BY name)")
}

func TestMigrationPrintedIsApplied(t *testing.T) {
	applied, printed := open(t, newFile(t)), open(t, newFile(t))
	s := fences(t, applied)
	exec(t, printed, s.Migration())
	if a, p := schema(t, applied), schema(t, printed); a != p {
		t.Errorf("applied:\n%s\nprinted:\n%s", a, p)
	}
	before := schema(t, applied)
	claim(t, s, newHold(5))
	fences(t, applied) // again
	exec(t, printed, s.Migration())
	if schema(t, applied) != before || schema(t, printed) != before {
		t.Error("running it again changed the schema")
	}
	if row, err := s.Current(t.Context(), "r"); err != nil || row.Fence != 5 {
		t.Errorf("running it again changed the rows: %+v, %v", row, err)
	}
}

func TestTableIsMissing(t *testing.T) {
	s, err := sqlfence.New(open(t, newFile(t)), sqlfence.SQLite)
	if err != nil {
		t.Fatal(err)
	}
	_, current := s.Current(t.Context(), "r")
	_, claimed := s.Claim(t.Context(), "r", newHold(1))
	for _, err := range []error{current, claimed} {
		if err == nil || !strings.Contains(err.Error(), "lockkeeper_fence") || !strings.Contains(err.Error(), "migrat") {
			t.Errorf("%v; want an error that says to migrate", err)
		}
	}
}

func TestWriteRollsBack(t *testing.T) {
	db, s := ledger(t)
	c := claim(t, s, newHold(1))
	boom := errors.New("boom")

	err := c.Write(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		return errors.Join(put("failed")(ctx, tx), boom)
	})
	if !errors.Is(err, boom) || errors.Is(err, sqlfence.ErrFenced) {
		t.Errorf("%v", err)
	}

	func() {
		defer func() {
			if r := recover(); r != boom {
				t.Errorf("recovered %v", r)
			}
		}()
		_ = c.Write(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
			if err := put("panicked")(ctx, tx); err != nil {
				t.Error(err)
			}
			panic(boom)
		})
	}()

	ctx, cancel := context.WithCancel(t.Context())
	err = c.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		defer cancel()
		return put("cancelled")(ctx, tx)
	})
	if !errors.Is(err, context.Canceled) || errors.Is(err, sqlfence.ErrFenced) {
		t.Errorf("cancelled: %v", err)
	}

	wantRows(t, db, "")
	if err := c.Write(t.Context(), put("x")); err != nil {
		t.Errorf("the write lock was left behind: %v", err)
	}
	wantRows(t, db, "x")
}

// TestClaimWaitsForTheWriter: a claim that comes while a write transaction is open is
// made after it, and what was written stands.
func TestClaimWaitsForTheWriter(t *testing.T) {
	path := newFile(t)
	db := open(t, path)
	s, other := fences(t, db), fences(t, open(t, path))
	exec(t, db, "CREATE TABLE t (v TEXT NOT NULL) STRICT")
	old := claim(t, s, newHold(1))

	claimed := make(chan error, 1)
	err := old.Write(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		go func() {
			_, err := other.Claim(context.Background(), "r", newHold(2))
			claimed <- err
		}()
		select {
		case err := <-claimed:
			t.Errorf("claimed during a write: %v", err)
		case <-ctx.Done():
		case <-after(50):
		}
		return put("a")(ctx, tx)
	})
	if err != nil {
		t.Error(err)
	}
	if err := <-claimed; err != nil {
		t.Error(err)
	}
	if err := old.Write(t.Context(), put("stale")); !errors.Is(err, sqlfence.ErrFenced) {
		t.Error(err)
	}
	wantRows(t, db, "a")
}

// TestRealLease: a *lockkeeper.Lease is a holder, and its repair works with the store.
var _ sqlfence.Holder = (*lockkeeper.Lease)(nil)
