package sqltest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestMain lets the test binary be another process that starts a server and dies.
func TestMain(m *testing.M) {
	if kind := os.Getenv("SQLTEST_TEST_START"); kind != "" {
		n, _ := strconv.Atoi(kind)
		s, err := Run(context.Background(), Kind(n))
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(s.process.Pid, s.folder.path)
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		if os.Getenv("SQLTEST_TEST_PAUSE") != "" {
			fmt.Println(s.Pause())
		}
		select {}
	}
	os.Exit(m.Run())
}

func each(t *testing.T, f func(t *testing.T, kind Kind)) {
	for _, kind := range []Kind{Postgres, MariaDB} {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			f(t, kind)
		})
	}
}

func mustExec(t *testing.T, s *Server, database, statement string) {
	t.Helper()
	if err := s.Exec(t.Context(), database, statement); err != nil {
		t.Fatal(err)
	}
}

// until waits for a condition that another process makes true.
func until(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !cond(); {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not after %s", what, patience)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func gone(path string) func() bool {
	return func() bool {
		_, err := os.Stat(path)
		return errors.Is(err, os.ErrNotExist)
	}
}

func TestSharedHasDatabasesApart(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, kind Kind) {
		s := Shared(t, kind)
		if Shared(t, kind) != s || s.Kind() != kind {
			t.Error("another server")
		}
		var urls [4]string
		var wg sync.WaitGroup
		for i := range urls {
			wg.Go(func() { urls[i] = s.NewDatabase(t) })
		}
		wg.Wait()
		for i, url := range urls {
			name := url[strings.LastIndex(url, "/")+1:]
			name, _, _ = strings.Cut(name, "?")
			if url != s.URL(name) || !strings.Contains(url, "127.0.0.1:"+strconv.Itoa(s.Port())) {
				t.Errorf("URL %q", url)
			}
			mustExec(t, s, name, "CREATE TABLE t (n INTEGER)") // fails if two are the same
			if i > 0 && url == urls[0] {
				t.Errorf("twice the same database: %s", url)
			}
		}
		if err := s.Restart(); !errors.Is(err, ErrShared) {
			t.Errorf("a shared server was restarted: %v", err)
		}
		if err := s.Pause(); !errors.Is(err, ErrShared) {
			t.Errorf("a shared server was paused: %v", err)
		}
		if err := s.Close(); !errors.Is(err, ErrShared) {
			t.Errorf("a shared server was closed: %v", err)
		}
	})
}

func TestDatabaseOfATestGoes(t *testing.T) {
	t.Parallel()
	s := Shared(t, Postgres)
	var name string
	t.Run("inner", func(t *testing.T) {
		url := s.NewDatabase(t)
		name, _, _ = strings.Cut(url[strings.LastIndex(url, "/")+1:], "?")
		mustExec(t, s, name, "SELECT 1")
	})
	if err := s.Exec(t.Context(), name, "SELECT 1"); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("the database is still there: %v", err)
	}
}

func TestKillAndRestart(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, kind Kind) {
		s := Start(t, kind)
		s.NewDatabase(t)
		mustExec(t, s, "t1", "CREATE TABLE t (n INTEGER)")
		for n := range 2 {
			mustExec(t, s, "t1", fmt.Sprintf("INSERT INTO t VALUES (%d)", n))
			port := s.Port()
			s.Kill()
			s.Kill() // does nothing
			if s.accepts() {
				t.Error("a killed server accepts clients")
			}
			if err := s.Pause(); err == nil {
				t.Error("a killed server was paused")
			}
			if err := s.Restart(); err != nil {
				t.Fatal(err)
			}
			if s.Port() != port {
				t.Errorf("port %d, was %d", s.Port(), port)
			}
			// Fails unless there are exactly the rows that were committed.
			mustExec(t, s, "t1", fmt.Sprintf("CREATE TABLE check%d (n INTEGER NOT NULL)", n))
			mustExec(t, s, "t1", fmt.Sprintf("INSERT INTO check%d SELECT CASE WHEN count(*) = %d THEN 1 END FROM t", n, n+1))
		}
	})
}

// TestPause has a statement that runs, and asks another on a new connection.
func TestPause(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, kind Kind) {
		s := Start(t, kind)
		s.NewDatabase(t)
		busy := make(chan error, 1)
		go func() {
			busy <- s.Exec(context.Background(), "t1", map[Kind]string{Postgres: "SELECT pg_sleep(0.5)", MariaDB: "SELECT sleep(0.5)"}[kind])
		}()
		if kind == Postgres { // whose connections are processes
			before, _ := children(s.process.Pid)
			until(t, "the client is connected", func() bool {
				now, _ := children(s.process.Pid)
				return len(now) > len(before) || len(busy) > 0
			})
		}
		if err := s.Pause(); err != nil {
			t.Fatal(err)
		}
		asked := make(chan error, 1)
		go func() { asked <- s.Exec(context.Background(), "t1", "SELECT 1") }()
		select {
		case err := <-asked:
			t.Errorf("a paused server answers: %v", err)
		case <-time.After(300 * time.Millisecond):
		}
		pids, err := children(s.process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		for _, pid := range append(pids, s.process.Pid) {
			if got := state(pid); got != "T" && got != "Z" { // Z: has ended, and its stopped parent does not know
				t.Errorf("process %d is in the state %q", pid, got)
			}
		}
		if err := s.Continue(); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(<-asked, <-busy); err != nil {
			t.Errorf("after the pause: %v", err)
		}
		if err := s.Pause(); err != nil { // Close has to cope with it
			t.Fatal(err)
		}
	})
}

func TestCloseLeavesNothing(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, kind Kind) {
		for name, before := range map[string]func(*Server){"running": func(*Server) {}, "killed": (*Server).Kill} {
			s, err := Run(t.Context(), kind, Durable())
			if err != nil {
				giveUp(t, err)
			}
			segment := segment(s)
			before(s)
			if err := errors.Join(s.Close(), s.Close()); err != nil {
				t.Error(err)
			}
			if !gone(s.folder.path)() || s.accepts() {
				t.Errorf("%s: left behind", name)
			}
			if kind == Postgres && segment == "" || segment != "" && hasSegment(segment) {
				t.Errorf("%s: the shared memory segment %q is left behind", name, segment)
			}
		}
	})
}

// segment returns the shared memory segment of a PostgreSQL server.
func segment(s *Server) string {
	b, _ := os.ReadFile(filepath.Join(s.data(), "postmaster.pid"))
	lines := strings.Split(string(b), "\n")
	if len(lines) < 7 {
		return ""
	}
	return strings.Fields(lines[6])[1]
}

func hasSegment(id string) bool {
	out, _ := exec.Command("ipcs", "-m", "-i", id).CombinedOutput()
	return strings.Contains(string(out), "shmid=")
}

// TestDiesWithItsProcess kills a process that has a server.
func TestDiesWithItsProcess(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, kind Kind) {
		if _, err := find(kind); err != nil {
			giveUp(t, err)
		}
		for _, pause := range []string{"", "1"} {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), "SQLTEST_TEST_START="+strconv.Itoa(int(kind)), "SQLTEST_TEST_PAUSE="+pause)
			cmd.Stderr = os.Stderr
			stdin, err1 := cmd.StdinPipe()
			stdout, err2 := cmd.StdoutPipe()
			if err := errors.Join(err1, err2, cmd.Start()); err != nil {
				t.Fatal(err)
			}
			var pid int
			var path string
			if _, err := fmt.Fscanln(stdout, &pid, &path); err != nil {
				t.Fatal(err)
			}
			pids, err := children(pid)
			if err != nil || !alive(pid) {
				t.Fatalf("process %d: %v", pid, err)
			}
			if pause != "" {
				fmt.Fprintln(stdin)
				var paused string
				if _, err := fmt.Fscanln(stdout, &paused); err != nil || paused != "<nil>" {
					t.Fatalf("pause: %s, %v", paused, err)
				}
			}
			_ = cmd.Process.Kill() // fails if it has ended by itself
			_ = cmd.Wait()         // says that it was killed
			until(t, "the folder is gone", gone(path))
			for _, pid := range append(pids, pid) {
				until(t, "the processes are gone", func() bool { return !alive(pid) })
			}
		}
	})
}

// TestPortTaken: Run goes on to another port; a restart can't.
func TestPortTaken(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, kind Kind) {
		s := Start(t, kind)
		s.Kill()
		l, err := net.Listen("tcp", s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		if err := s.Restart(); err == nil || !strings.Contains(s.tail(), s.engine.taken()) {
			t.Errorf("restart on a port that is taken: %v; the log:\n%s", err, s.tail())
		}
	})
}

func TestNotInstalled(t *testing.T) {
	t.Setenv("LOCKKEEPER_POSTGRES_BIN", "/nowhere")
	t.Setenv("LOCKKEEPER_MARIADBD", "/nowhere/mariadbd")
	for _, kind := range []Kind{Postgres, MariaDB} {
		if _, err := Run(t.Context(), kind); !errors.Is(err, ErrNotInstalled) {
			t.Errorf("%s: %v", kind, err)
		}
	}
	if _, err := Run(t.Context(), 0); err == nil {
		t.Error("the zero kind has a server")
	}
}

func TestBadArguments(t *testing.T) {
	t.Parallel()
	for kind, arg := range map[Kind][]string{Postgres: {"-c", "no_such_setting=1"}, MariaDB: {"--no-such-option"}} {
		s, err := Run(t.Context(), kind, Args(arg...))
		switch {
		case errors.Is(err, ErrNotInstalled):
			giveUp(t, err)
		case err == nil:
			t.Error(errors.Join(errors.New("started all the same"), s.Close()))
		case !strings.Contains(strings.ReplaceAll(err.Error(), "-", "_"), "no_such"):
			t.Errorf("%s: %v; want what the server says", kind, err)
		}
	}
}
