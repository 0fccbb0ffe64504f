package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockkeeper/lockkeeper/internal/redistest"
)

var update = flag.Bool("update", false, "write the golden files")

// asProgram makes the test binary the program.
const asProgram = "LOCKKEEPER_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return // not reached
	}
	os.Exit(m.Run())
}

// A result is what a run of the program left behind.
type result struct {
	code           int
	stdout, stderr string
}

// command prepares a run of the program. env has lines NAME=VALUE; none of the
// program's own variables is inherited.
func command(t *testing.T, env []string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	for _, line := range os.Environ() {
		if !strings.HasPrefix(line, "LOCKKEEPER_") {
			cmd.Env = append(cmd.Env, line)
		}
	}
	// The race detector would make every process end a second late.
	cmd.Env = append(append(cmd.Env, asProgram+"=1", "GORACE=atexit_sleep_ms=0"), env...)
	return cmd
}

func finished(t *testing.T, cmd *exec.Cmd) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// program runs the program.
func program(t *testing.T, args ...string) result {
	t.Helper()
	return finished(t, command(t, nil, args...))
}

func (r result) want(t *testing.T, code int, inStdout, inStderr string) {
	t.Helper()
	if r.code != code || !strings.Contains(r.stdout, inStdout) || !strings.Contains(r.stderr, inStderr) {
		t.Errorf("exit code %d, want %d\nstdout, want %q:\n%s\nstderr, want %q:\n%s", r.code, code, inStdout, r.stdout, inStderr, r.stderr)
	}
}

// A process is a run of the program that goes on.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	exited chan struct{}

	mu  sync.Mutex
	log bytes.Buffer // standard error
}

// start starts the program in the background, and kills it at the end of the test.
func start(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: command(t, env, args...), exited: make(chan struct{})}
	p.cmd.Stderr = p
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // its state says how it ended
		close(p.exited)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // unless it has ended
		<-p.exited
		if t.Failed() {
			t.Logf("standard error of %q:\n%s", args, p.stderr())
		}
	})
	return p
}

func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.Write(b)
}

func (p *process) stderr() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// says waits until the process has logged a text.
func (p *process) says(text string) {
	p.t.Helper()
	redistest.Until(p.t, "the process says "+text, func() bool {
		select {
		case <-p.exited:
			p.t.Fatalf("it has ended, and does not say %q", text)
		default:
		}
		return strings.Contains(p.stderr(), text)
	})
}

// signal sends a signal and returns the exit code that it leads to.
func (p *process) signal(sig syscall.Signal) int {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Fatal(err)
	}
	select {
	case <-p.exited:
	case <-time.After(20 * time.Second):
		p.t.Fatalf("it does not end after %v", sig)
	}
	return p.cmd.ProcessState.ExitCode()
}

// golden compares with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("got:\n%s\nwant, from %s (go test -update writes it):\n%s", got, path, want)
	}
}

// file writes a file and returns its path.
func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// playersFile writes a flush file and returns its path and that of its database.
func playersFile(t *testing.T) (path, database string) {
	t.Helper()
	database = filepath.Join(t.TempDir(), "players.db")
	return file(t, "players.yaml", `job: players
database: sqlite:`+database+`
interval: 10ms
ttl: 1500ms
mappings:
  - keys: "player:{id}"
    table: player
    create: true
    key: {id: int64}
    columns:
      name: text
      score: {type: int64, field: points}
`), database
}

// client is a client of a test server.
func client(t *testing.T, s *redistest.Server) *redis.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

func background(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}
