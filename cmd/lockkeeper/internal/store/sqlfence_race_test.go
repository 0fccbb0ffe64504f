package store_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	osexec "os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/store"
	"github.com/lockkeeper/lockkeeper/sqlfence"
)

func after(ms int) <-chan time.Time { return time.After(time.Duration(ms) * time.Millisecond) }

// pause is what a stopped process, a slow network or a garbage collection is: some
// time at a bad moment.
func pause() {
	if rand.IntN(2) == 0 {
		time.Sleep(time.Duration(rand.IntN(4000)) * time.Microsecond)
	}
}

// badHold is a hold of the worst lock there is: it is held by many at a time, and its
// fences are duplicates and go backwards.
func badHold() *hold {
	h := newHold(lockkeeper.Fence(1 + rand.IntN(5)))
	h.held = rand.IntN(4) > 0
	return h
}

func readCounter(ctx context.Context, db *sql.DB) (n int, err error) {
	err = db.QueryRowContext(ctx, "SELECT n FROM counter").Scan(&n)
	return n, err
}

func setCounter(ctx context.Context, tx *sql.Tx, n int) error {
	_, err := tx.ExecContext(ctx, fmt.Sprintf("UPDATE counter SET n = %d", n))
	return err
}

// A counting adds one to the counter, once or a few times, by reading and writing it.
// It returns how often it was told that it did.
type counting func(ctx context.Context, db *sql.DB, s *sqlfence.Store, h *hold) (int, error)

// claimFirst is how it is meant to be done.
func claimFirst(ctx context.Context, db *sql.DB, s *sqlfence.Store, h *hold) (done int, err error) {
	c, err := s.Claim(ctx, "r", h)
	if err != nil {
		return 0, err
	}
	for range 1 + rand.IntN(3) {
		pause()
		n, err := readCounter(ctx, db)
		if err != nil {
			return done, err
		}
		pause()
		err = c.Write(ctx, func(ctx context.Context, tx *sql.Tx) error { return setCounter(ctx, tx, n+1) })
		if err != nil {
			return done, err
		}
		done++
	}
	return done, nil
}

// claimLate reads before it claims.
func claimLate(ctx context.Context, db *sql.DB, s *sqlfence.Store, h *hold) (int, error) {
	n, err := readCounter(ctx, db)
	if err != nil {
		return 0, err
	}
	pause()
	c, err := s.Claim(ctx, "r", h)
	if err != nil {
		return 0, err
	}
	err = c.Write(ctx, func(ctx context.Context, tx *sql.Tx) error { return setCounter(ctx, tx, n+1) })
	return oneIf(err), err
}

// unchecked claims and never checks.
func unchecked(ctx context.Context, db *sql.DB, s *sqlfence.Store, h *hold) (int, error) {
	if _, err := s.Claim(ctx, "r", h); err != nil {
		return 0, err
	}
	n, err := readCounter(ctx, db)
	if err != nil {
		return 0, err
	}
	pause()
	_, err = db.ExecContext(ctx, fmt.Sprintf("UPDATE counter SET n = %d", n+1))
	return oneIf(err), err
}

// comparing is what most advice says: at each write compare the fence with the largest
// seen. Its fences are perfect: they only grow.
func comparing(ctx context.Context, db *sql.DB, s *sqlfence.Store, _ *hold) (int, error) {
	fence := growing.Add(1)
	n, err := readCounter(ctx, db)
	if err != nil {
		return 0, err
	}
	pause()
	res, err := db.ExecContext(ctx, fmt.Sprintf("UPDATE counter SET n = %d, fence = %d WHERE fence <= %d", n+1, fence, fence))
	if err != nil {
		return 0, err
	}
	changed, err := res.RowsAffected()
	return int(changed), err
}

var growing atomic.Int64

func oneIf(err error) int {
	if err != nil {
		return 0
	}
	return 1
}

// counter makes the fences and the counter.
func (p place) counter(t *testing.T) *sql.DB {
	t.Helper()
	db := p.open(t)
	p.fences(t, db)
	exec(t, db, "CREATE TABLE counter (n BIGINT NOT NULL, fence BIGINT NOT NULL)")
	exec(t, db, "INSERT INTO counter VALUES (0, 0)")
	return db
}

// race lets workers count, each with connections of its own, and returns how many
// additions succeeded, how many were refused, and what the counter says.
func (p place) race(t *testing.T, add counting) (succeeded, refused, counter int) {
	t.Helper()
	db := p.counter(t)
	var good, bad atomic.Int64
	var wg sync.WaitGroup
	for range 6 {
		own := p.open(t)
		s := p.fences(t, own)
		wg.Go(func() {
			for range 25 {
				n, err := add(context.Background(), own, s, badHold())
				good.Add(int64(n))
				switch {
				case errors.Is(err, sqlfence.ErrFenced):
					bad.Add(1)
				case err != nil:
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	return int(good.Load()), int(bad.Load()), one[int](t, db, "SELECT n FROM counter")
}

func TestNoLostUpdate(t *testing.T) {
	on(t, append(variants, kinds...), noLostUpdate)
}

func noLostUpdate(t *testing.T, p place) {
	succeeded, refused, counter := p.race(t, claimFirst)
	t.Logf("%d succeeded, %d refused", succeeded, refused)
	if counter != succeeded {
		t.Errorf("%d additions succeeded, and the counter says %d", succeeded, counter)
	}
	if refused == 0 || succeeded == 0 {
		t.Errorf("%d succeeded, %d refused: the test has tested nothing", succeeded, refused)
	}
}

// TestLostUpdateIsSeen plants what the package exists against: the test above must be
// able to fail.
func TestLostUpdateIsSeen(t *testing.T) {
	for name, add := range map[string]counting{"read before the claim": claimLate, "no check": unchecked, "compare at the write": comparing} {
		on(t, kinds, func(t *testing.T, p place) {
			t.Log(name)
			succeeded, _, counter := p.race(t, add)
			t.Logf("%d succeeded, the counter says %d", succeeded, counter)
			if counter >= succeeded {
				t.Errorf("%d additions succeeded, and the counter says %d: nothing was lost", succeeded, counter)
			}
		})
	}
}

// TestStaleWorker is the one schedule that matters most, step by step: the old worker
// has read, the new one claims, writes, and the old one wants to write.
func TestStaleWorker(t *testing.T) {
	on(t, append(variants, kinds...), func(t *testing.T, p place) {
		db, s := p.ledger(t)
		for _, fence := range []lockkeeper.Fence{11, 10, 3} { // of the new one; the old one has 10
			exec(t, db, "DELETE FROM lockkeeper_fence")
			old := claim(t, s, newHold(10))
			before := one[int](t, db, "SELECT count(*) FROM t")
			claim(t, s, newHold(fence)) // has written nothing yet: comparing at the write would let the old one through
			if err := old.Write(t.Context(), put("stale"+strconv.Itoa(before))); !errors.Is(err, sqlfence.ErrFenced) {
				t.Errorf("fence %d: %v", fence, err)
			}
			wantRows(t, db, "")
		}
	})
}

// countInProcess is the main function of TestProcesses' processes.
func countInProcess(url string) error {
	ctx := context.Background()
	db, dialect, err := store.Open(ctx, url)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	s, err := sqlfence.New(db, dialect)
	if err != nil {
		return err
	}
	total := 0
	for range 25 {
		n, err := claimFirst(ctx, db, s, badHold())
		total += n
		if err != nil && !errors.Is(err, sqlfence.ErrFenced) {
			return err
		}
	}
	_, err = fmt.Print(total)
	return err
}

func TestProcesses(t *testing.T) {
	on(t, kinds, func(t *testing.T, p place) {
		db := p.counter(t)
		var total atomic.Int64
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				cmd := osexec.Command(os.Args[0])
				cmd.Env = append(os.Environ(), countIn+"="+p.url, "GORACE=atexit_sleep_ms=0")
				var stderr bytes.Buffer
				cmd.Stderr = &stderr
				out, err := cmd.Output()
				n, notNumber := strconv.Atoi(strings.TrimSpace(string(out)))
				if err != nil || notNumber != nil {
					t.Errorf("%v: %s%s", err, out, stderr.String())
				}
				total.Add(int64(n))
			})
		}
		wg.Wait()
		if n := one[int](t, db, "SELECT n FROM counter"); n != int(total.Load()) || n == 0 {
			t.Errorf("the processes have added %d, the counter says %d", total.Load(), n)
		}
	})
}
