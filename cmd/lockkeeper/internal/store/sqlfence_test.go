package store_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/sqlfence"
)

func put(value string) func(context.Context, *sql.Tx) error {
	return func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO t (v) VALUES ('"+value+"')")
		return err
	}
}

// ledger makes the fences and the table t, which put writes.
func (p place) ledger(t *testing.T) (*sql.DB, *sqlfence.Store) {
	t.Helper()
	db := p.open(t)
	s := p.fences(t, db)
	exec(t, db, "CREATE TABLE t (id "+map[sqlfence.Dialect]string{
		sqlfence.SQLite:   "INTEGER PRIMARY KEY",
		sqlfence.Postgres: "bigserial PRIMARY KEY",
		sqlfence.MariaDB:  "BIGINT AUTO_INCREMENT PRIMARY KEY",
	}[p.kind]+", v VARCHAR(40) NOT NULL)")
	return db, s
}

func wantRows(t *testing.T, db *sql.DB, want string) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "SELECT v FROM t ORDER BY id")
	if err != nil {
		t.Fatal(err)
	}
	var values []string
	for rows.Next() {
		var v string
		if err := rows.Scan(&v); err != nil {
			t.Fatal(err)
		}
		values = append(values, v)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(values, " "); got != want {
		t.Errorf("the table has %q, want %q", got, want)
	}
}

func TestClaimAgainIsTheSameClaim(t *testing.T) {
	on(t, kinds, claimAgainIsTheSameClaim)
}

func claimAgainIsTheSameClaim(t *testing.T, p place) {
	db, s := p.ledger(t)
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
	on(t, kinds, newerClaimFencesTheOlder)
}

func newerClaimFencesTheOlder(t *testing.T, p place) {
	db, s := p.ledger(t)
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
	on(t, kinds, refusedClaim)
}

func refusedClaim(t *testing.T, p place) {
	db, s := p.ledger(t)
	for _, fence := range []lockkeeper.Fence{10, 7, 1} { // a duplicate, and going backwards
		exec(t, db, "DELETE FROM lockkeeper_fence")
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
	on(t, kinds, refusedClaimGivesUp)
}

func refusedClaimGivesUp(t *testing.T, p place) {
	_, s := p.ledger(t)
	claim(t, s, newHold(10))
	h := stuck{newHold(3)}
	if _, err := s.Claim(t.Context(), "r", h); !errors.Is(err, sqlfence.ErrFenced) || h.raised != 3 {
		t.Errorf("%v after %d attempts", err, h.raised)
	}
}

func TestClaimRefusesBadInput(t *testing.T) {
	on(t, kinds, claimRefusesBadInput)
}

func claimRefusesBadInput(t *testing.T, p place) {
	_, s := p.ledger(t)
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
	on(t, kinds, raiseEpoch)
}

func raiseEpoch(t *testing.T, p place) {
	_, s := p.ledger(t)
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

// schema describes what is in an SQLite file.
func schema(t *testing.T, db *sql.DB) string {
	t.Helper()
	return place{kind: sqlfence.SQLite}.schema(t, db)
}

// schema describes the tables of a database.
func (p place) schema(t *testing.T, db *sql.DB) string {
	t.Helper()
	query := "SELECT type, name, coalesce(sql, ''), '', '' FROM sqlite_schema ORDER BY name"
	if p.kind != sqlfence.SQLite {
		current := map[sqlfence.Dialect]string{sqlfence.Postgres: "current_schema()", sqlfence.MariaDB: "database()"}[p.kind]
		query = `SELECT table_name, column_name, data_type, is_nullable, coalesce(collation_name, '')
			FROM information_schema.columns WHERE table_schema = ` + current + ` ORDER BY table_name, ordinal_position`
	}
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for rows.Next() {
		var of [5]string
		if err := rows.Scan(&of[0], &of[1], &of[2], &of[3], &of[4]); err != nil {
			t.Fatal(err)
		}
		b.WriteString(strings.Join(of[:], " ") + "\n")
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestMigrationPrintedIsApplied(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			here, there := newPlace(t, kind), newPlace(t, kind)
			applied, printed := here.open(t), there.open(t)
			s := here.fences(t, applied)
			exec(t, printed, s.Migration())
			before := here.schema(t, applied)
			if p := there.schema(t, printed); before != p || !strings.Contains(p, "lockkeeper_fence") {
				t.Errorf("applied:\n%s\nprinted:\n%s", before, p)
			}
			claim(t, s, newHold(5))
			here.fences(t, applied) // again
			exec(t, printed, s.Migration())
			if here.schema(t, applied) != before || there.schema(t, printed) != before {
				t.Error("running it again changed the schema")
			}
			if row, err := s.Current(t.Context(), "r"); err != nil || row.Fence != 5 {
				t.Errorf("running it again changed the rows: %+v, %v", row, err)
			}
		})
	}
}

// TestMigrateTogether: PostgreSQL's IF NOT EXISTS fails when two make a table at once.
func TestMigrateTogether(t *testing.T) {
	on(t, kinds, func(t *testing.T, p place) {
		var stores []*sqlfence.Store
		for range 8 {
			s, err := sqlfence.New(p.open(t), p.kind)
			if err != nil {
				t.Fatal(err)
			}
			stores = append(stores, s)
		}
		for range 10 {
			var wg sync.WaitGroup
			for _, s := range stores {
				wg.Go(func() {
					if err := s.Migrate(context.Background()); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			exec(t, p.open(t), "DROP TABLE lockkeeper_fence")
		}
	})
}

// TestNamesAreApart: names that some collations take for equal are different resources.
func TestNamesAreApart(t *testing.T) {
	on(t, kinds, func(t *testing.T, p place) {
		_, s := p.ledger(t)
		for i, name := range []string{"r", "R", "r ", " r", "ŕ", "r\t", "ß", "ss", strings.Repeat("ü", 127)} {
			h := newHold(lockkeeper.Fence(100 - i)) // would be refused by an earlier one
			c, err := s.Claim(t.Context(), name, h)
			if err != nil || c.Epoch() != 1 || h.raised != 0 {
				t.Errorf("%q is another's: raised %d times, %v", name, h.raised, err)
			}
			if row, err := s.Current(t.Context(), name); err != nil || row.Owner != h.owner {
				t.Errorf("%q: %+v, %v", name, row, err)
			}
		}
	})
}

// TestClaimedAt: the time is the database's, and can be read.
func TestClaimedAt(t *testing.T) {
	on(t, append(variants, kinds...), func(t *testing.T, p place) {
		_, s := p.ledger(t)
		claim(t, s, newHold(1))
		row, err := s.Current(t.Context(), "r")
		if err != nil {
			t.Fatal(err)
		}
		at, err := time.Parse(time.RFC3339Nano, row.ClaimedAt)
		if err != nil || time.Since(at).Abs() > time.Minute || !strings.HasSuffix(row.ClaimedAt, "Z") {
			t.Errorf("claimed at %q, %v", row.ClaimedAt, err)
		}
	})
}

func TestTableIsMissing(t *testing.T) {
	on(t, kinds, tableIsMissing)
}

func tableIsMissing(t *testing.T, p place) {
	s, err := sqlfence.New(p.open(t), p.kind)
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
	on(t, kinds, writeRollsBack)
}

func writeRollsBack(t *testing.T, p place) {
	db, s := p.ledger(t)
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

// TestClaimWaitsForTheWriter: a claim that comes while a write transaction is about to
// commit is made after it, and what was written stands.
func TestClaimWaitsForTheWriter(t *testing.T) {
	on(t, append(variants, kinds...), func(t *testing.T, p place) {
		db, s := p.ledger(t)
		old := claim(t, s, newHold(1))
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback() }() // committed in the good case
		if err := errors.Join(put("a")(t.Context(), tx), old.Check(t.Context(), tx)); err != nil {
			t.Fatal(err)
		}
		claimed := make(chan error, 1)
		other := p.fences(t, p.open(t))
		go func() {
			_, err := other.Claim(context.Background(), "r", newHold(2))
			claimed <- err
		}()
		p.untilWaiting(t, db)
		select {
		case err := <-claimed:
			t.Errorf("claimed during a write: %v", err)
		case <-after(50):
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		if err := <-claimed; err != nil {
			t.Error(err)
		}
		if err := old.Write(t.Context(), put("stale")); !errors.Is(err, sqlfence.ErrFenced) {
			t.Error(err)
		}
		wantRows(t, db, "a")
	})
}

// untilWaiting waits until a session of a server waits for a lock. With SQLite that can't
// be seen from outside.
func (p place) untilWaiting(t *testing.T, db *sql.DB) {
	t.Helper()
	query, ok := map[sqlfence.Dialect]string{
		sqlfence.Postgres: "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()",
		sqlfence.MariaDB:  "SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'INNODB_ROW_LOCK_CURRENT_WAITS'",
	}[p.kind]
	for deadline := time.Now().Add(20 * time.Second); ok && one[int](t, db, query) == 0; {
		if time.Now().After(deadline) {
			t.Fatal("nobody waits for a lock")
		}
		<-after(5)
	}
}

// TestCheckSeesWhatItHasWaitedFor: a claim is in the middle of its transaction when an old
// worker's check comes. The check has to wait, and then to see what became of the claim.
func TestCheckSeesWhatItHasWaitedFor(t *testing.T) {
	on(t, append(variants, kinds[1:]...), func(t *testing.T, p place) {
		db, s := p.ledger(t)
		for _, commits := range []bool{true, false} {
			exec(t, db, "DELETE FROM lockkeeper_fence")
			old := claim(t, s, newHold(1))
			claiming, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := claiming.ExecContext(t.Context(), "UPDATE lockkeeper_fence SET fence = 2, owner = 'new'"); err != nil {
				t.Fatal(err)
			}
			written := make(chan error, 1)
			go func() {
				written <- old.Write(context.Background(), func(ctx context.Context, tx *sql.Tx) error {
					var n int // a snapshot that is older than the claim, where there are any
					return errors.Join(tx.QueryRowContext(ctx, "SELECT count(*) FROM lockkeeper_fence WHERE fence = 1").Scan(&n),
						put("x")(ctx, tx))
				})
			}()
			p.untilWaiting(t, db)
			end, want := claiming.Rollback, "x"
			if commits {
				end, want = claiming.Commit, ""
			}
			if err := end(); err != nil {
				t.Fatal(err)
			}
			err = <-written
			var fenced *sqlfence.FencedError
			if errors.As(err, &fenced) != commits || commits && fenced.Current.Owner != "new" || !commits && err != nil {
				t.Errorf("commits %v: %v", commits, err)
			}
			wantRows(t, db, want)
		}
	})
}

// TestClaimDuringAWrite: where writers do not keep each other out, a claim goes through
// in the middle of a write transaction, and that one is refused at its end.
func TestClaimDuringAWrite(t *testing.T) {
	on(t, append(variants, kinds[1:]...), func(t *testing.T, p place) {
		db, s := p.ledger(t)
		old := claim(t, s, newHold(1))
		err := old.Write(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
			if err := put("stale")(ctx, tx); err != nil {
				return err
			}
			claim(t, s, newHold(2))
			return nil
		})
		if !errors.Is(err, sqlfence.ErrFenced) {
			t.Error(err)
		}
		wantRows(t, db, "")
	})
}

// TestManyClaimsAtOnce lets many make the row of a new resource, and claim it, at once. The
// largest fence wins, although the row may appear between its two looks at it. On InnoDB
// there are deadlocks when the row is made first, in the same transaction.
func TestManyClaimsAtOnce(t *testing.T) {
	on(t, append(variants, kinds...), func(t *testing.T, p place) {
		var stores []*sqlfence.Store
		for range 12 {
			stores = append(stores, p.fences(t, p.open(t)))
		}
		deadlocks := p.deadlocks(t)
		for round := range 20 {
			resource := fmt.Sprint("r", round)
			var wg sync.WaitGroup
			for i, s := range stores {
				wg.Go(func() {
					h := newHold(lockkeeper.Fence(1 + i))
					h.held = false
					if _, err := s.Claim(context.Background(), resource, h); err != nil && !errors.Is(err, sqlfence.ErrFenced) {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if row, err := stores[0].Current(t.Context(), resource); err != nil || row.Fence != lockkeeper.Fence(len(stores)) {
				t.Errorf("%+v, %v; want the claim with the largest fence", row, err)
			}
		}
		if n := p.deadlocks(t) - deadlocks; n != 0 {
			t.Errorf("%d deadlocks", n)
		}
	})
}

// deadlocks returns how many a server has had; 0 where it does not say.
func (p place) deadlocks(t *testing.T) int {
	t.Helper()
	db := p.open(t)
	switch p.kind {
	case sqlfence.Postgres:
		return one[int](t, db, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
	case sqlfence.MariaDB:
		return one[int](t, db, "SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'INNODB_DEADLOCKS'")
	}
	return 0
}

// TestRealLease: a *lockkeeper.Lease is a holder, and its repair works with the store.
var _ sqlfence.Holder = (*lockkeeper.Lease)(nil)
