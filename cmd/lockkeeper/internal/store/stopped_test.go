package store_test

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	osexec "os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/store"
	"github.com/lockkeeper/lockkeeper/sqlfence"
)

// How the process that will be stopped works.
const (
	stopChecked = "STORE_TEST_STOP_CHECKED" // it is stopped between the check and the commit
	stopIdle    = "STORE_TEST_STOP_IDLE"    // how long its sessions may be idle in a transaction
)

// stopInProcess claims, writes, and waits for a line before it commits; meanwhile it is
// stopped. It prints what became of its transaction.
func stopInProcess(url string) error {
	ctx := context.Background()
	d, err := store.Parse(url)
	if err != nil {
		return err
	}
	idle, err := time.ParseDuration(os.Getenv(stopIdle))
	if err != nil {
		return err
	}
	db, kind, err := d.WithLimits(idle, 5*time.Second).Open(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	s, err := sqlfence.New(db, kind)
	if err != nil {
		return err
	}
	c, err := s.Claim(ctx, "r", newHold(1))
	if err != nil {
		return err
	}
	wait := func() error {
		fmt.Println("ready")
		_, err := bufio.NewReader(os.Stdin).ReadString('\n')
		return err
	}
	checked := os.Getenv(stopChecked) != ""
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "UPDATE counter SET n = 100"); err != nil {
		return err
	}
	if !checked {
		err = wait()
	}
	err = errors.Join(err, c.Check(ctx, tx))
	if checked {
		err = errors.Join(err, wait())
	}
	if err == nil {
		err = tx.Commit()
	}
	fmt.Printf("%q\n", fmt.Sprint(err))
	return nil
}

// A stopped is a worker in another process that stands still inside of a transaction.
type stopped struct {
	cmd    *osexec.Cmd
	stdin  io.Writer
	stdout *bufio.Reader
}

func startStopped(t *testing.T, p place, env ...string) *stopped {
	t.Helper()
	w := &stopped{cmd: osexec.Command(os.Args[0])}
	w.cmd.Env = append(append(os.Environ(), stopIn+"="+p.url, "GORACE=atexit_sleep_ms=0"), env...)
	w.cmd.Stderr = os.Stderr
	stdin, err1 := w.cmd.StdinPipe()
	stdout, err2 := w.cmd.StdoutPipe()
	if err := errors.Join(err1, err2, w.cmd.Start()); err != nil {
		t.Fatal(err)
	}
	w.stdin, w.stdout = stdin, bufio.NewReader(stdout)
	t.Cleanup(func() {
		_ = w.cmd.Process.Kill() // it has ended in the good case
		_ = w.cmd.Wait()
	})
	if line, err := w.stdout.ReadString('\n'); line != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
	// It does nothing any more before it gets a line, so that it does not matter when
	// exactly the signal has its effect.
	if err := w.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	return w
}

// finish lets the worker go on, and returns what became of its transaction.
func (w *stopped) finish(t *testing.T) string {
	t.Helper()
	if err := w.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w.stdin, "go on\n"); err != nil {
		t.Fatal(err)
	}
	line, err := w.stdout.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// add is the next worker's first write to what the stopped one has locked.
func add(ctx context.Context, c *sqlfence.Claim) error {
	return c.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE counter SET n = n + 1")
		return err
	})
}

// TestStoppedWorker: a worker is stopped inside of a transaction, with locks on rows. The
// database ends its session, and the next worker claims and writes.
func TestStoppedWorker(t *testing.T) {
	on(t, []string{"PostgreSQL", "MariaDB"}, func(t *testing.T, p place) {
		for name, checked := range map[string]string{"before its check": "", "after its check": "1"} {
			t.Run(name, func(t *testing.T) {
				db := p.counter(t)
				defer exec(t, db, "DROP TABLE counter")
				exec(t, db, "DELETE FROM lockkeeper_fence")
				old := startStopped(t, p, stopIdle+"=1s", stopChecked+"="+checked)

				c := claim(t, p.fences(t, p.open(t)), newHold(2))
				if err := add(t.Context(), c); err != nil {
					t.Errorf("the next worker can't write: %v", err)
				}
				if result := old.finish(t); result == `"<nil>"` {
					t.Error("the old worker has committed")
				} else {
					t.Log("the old worker: ", result)
				}
				if n := one[int](t, db, "SELECT n FROM counter"); n != 1 {
					t.Errorf("the counter is %d, want 1", n)
				}
			})
		}
	})
}

// TestStoppedWorkerWithoutLimits shows what the limits are for: without them the stopped
// worker keeps the next one from writing, for as long as it is stopped.
func TestStoppedWorkerWithoutLimits(t *testing.T) {
	on(t, []string{"PostgreSQL", "MariaDB"}, func(t *testing.T, p place) {
		db := p.counter(t)
		old := startStopped(t, p, stopIdle+"=1h", stopChecked+"=")
		d, err := store.Parse(p.url)
		if err != nil {
			t.Fatal(err)
		}
		impatient, kind, err := d.WithLimits(time.Hour, time.Second).Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = impatient.Close() }()
		s, err := sqlfence.New(impatient, kind)
		if err != nil {
			t.Fatal(err)
		}
		c := claim(t, s, newHold(2)) // the stopped one has not taken the lock of the fence's row
		want := map[sqlfence.Dialect]string{sqlfence.Postgres: "55P03", sqlfence.MariaDB: "1205"}[kind]
		if err := add(t.Context(), c); store.ErrorCode(err) != want {
			t.Errorf("the next worker's write: %v; want %s", err, want)
		}
		if result := old.finish(t); !strings.Contains(result, "fenced") {
			t.Errorf("the old worker: %s", result)
		}
		if err := add(t.Context(), c); err != nil || one[int](t, db, "SELECT n FROM counter") != 1 {
			t.Errorf("after that: %v", err)
		}
	})
}

// TestClaimOutlastsLockTimeouts: a claim whose wait for the row's lock has ended with an
// error is made again, while its context lasts.
func TestClaimOutlastsLockTimeouts(t *testing.T) {
	on(t, []string{"PostgreSQL", "MariaDB"}, func(t *testing.T, p place) {
		db, s := p.ledger(t)
		claim(t, s, newHold(1))
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback() }() // it has ended in the good case
		if _, err := tx.ExecContext(t.Context(), "UPDATE lockkeeper_fence SET epoch = epoch"); err != nil {
			t.Fatal(err)
		}
		d, err := store.Parse(p.url)
		if err != nil {
			t.Fatal(err)
		}
		impatient, kind, err := d.WithLimits(time.Minute, time.Second).Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = impatient.Close() }()
		waiting, err := sqlfence.New(impatient, kind)
		if err != nil {
			t.Fatal(err)
		}
		claimed := make(chan error, 1)
		go func() {
			_, err := waiting.Claim(context.Background(), "r", newHold(2))
			claimed <- err
		}()
		select {
		case err := <-claimed:
			t.Fatalf("claimed under another's lock: %v", err)
		case <-after(1500): // more than one lock timeout
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		if err := <-claimed; err != nil {
			t.Error(err)
		}
	})
}
