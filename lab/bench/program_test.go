package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/redistest"
)

// TestMain lets the program of the tests be its own worker, as the command is.
func TestMain(m *testing.M) {
	if os.Getenv(workerEnv) != "" {
		runWorker()
		return
	}
	// Or each worker sleeps for a second at its end under the race detector.
	os.Setenv("GORACE", os.Getenv("GORACE")+" atexit_sleep_ms=0")
	os.Exit(m.Run())
}

// tinySettings are enough to see that everything runs.
func tinySettings() settings {
	return settings{
		reps: 1, free: 50 * time.Millisecond, throughput: 50 * time.Millisecond,
		settle: 20 * time.Millisecond, oneProcess: 50 * time.Millisecond, processes: 100 * time.Millisecond,
		waiting: 100 * time.Millisecond, waiters: []int{3},
		leases: 100, holdTTL: 2 * time.Second, hold: time.Second,
		pairTTL: time.Second, crashes: 1, crashesOf: 1, atOnce: 1, otherKeys: 10, patience: 1500 * time.Millisecond, pauses: 1,
		stall: 30 * time.Millisecond, stuckAfter: 500 * time.Millisecond,
	}
}

// TestProgram measures everything, for so short a time that the figures mean nothing.
func TestProgram(t *testing.T) {
	if testing.Short() {
		t.Skip("starts some hundred processes")
	}
	if err := supported(); err != nil {
		t.Skipf("optional: %v", err)
	}
	redistest.Start(t) // which skips, or fails, when there is no redis-server
	oneOfEach := []string{"raw-goredis", "raw-rueidis", "redsync-rueidis", "redislock-tuned", "rueidislock", "lockkeeper-rueidis", "lockkeeper-goredis"}
	for _, part := range []struct {
		run     string
		systems []string
	}{
		{"S1,S3,S8", nil},
		{"S1try,S2-64,S4,S4w", oneOfEach},
		{"S5,S6,S7", []string{"redsync", "rueidislock-tuned", "lockkeeper-rueidis"}},
	} {
		t.Run(part.run, func(t *testing.T) {
			t.Parallel() // one of them mostly waits
			launch := newLauncher()
			defer launch.close()
			b := &bench{launch: launch, clock: newClock(), progress: t.Output()}
			r, err := measureAll(t.Context(), b, options{scenarios: list(part.run), systems: part.systems, settings: tinySettings()})
			if err != nil {
				t.Fatal(err)
			}
			for _, tab := range r.Tables {
				checkTable(t, tab)
			}
			var text strings.Builder
			if err := r.markdown(&text); err != nil {
				t.Error(err)
			}
			if err := r.asJSON(&strings.Builder{}); err != nil {
				t.Error(err)
			}
			if t.Failed() {
				t.Log(text.String())
			}
		})
	}
}

// checkTable wants a figure for every system, or a word on why there is none.
func checkTable(t *testing.T, tab *table) {
	for _, r := range tab.Rows {
		for _, s := range r.Samples {
			if s.Error != "" {
				t.Errorf("%s %s: %s", tab.Name, r.System, s.Error)
			}
			if _, ok := s.Values[tab.Main]; !ok && len(s.Notes) == 0 {
				t.Errorf("%s %s: nothing was measured", tab.Name, r.System)
			}
		}
		if r.Violations > 0 {
			t.Errorf("%s %s: %d violations", tab.Name, r.System, r.Violations)
		}
	}
}

// free is a lock that excludes nobody.
type free struct{}

func (free) lock(context.Context) error   { return nil }
func (free) try(context.Context) error    { return nil }
func (free) unlock(context.Context) error { return nil }

func TestViolationsAreSeen(t *testing.T) {
	// Memory that is shared between processes is none that the race detector watches.
	path := filepath.Join(t.TempDir(), "guard")
	protected, err := mapGuard(path)
	if err != nil {
		t.Skipf("optional: %v", err)
	}
	c := newClock()
	var all []*contender
	for i := range int64(8) {
		all = append(all, &contender{clock: c, guard: protected, mutex: free{}, who: i + 1, group: i + 1})
	}
	now := c.now()
	r, err := contend(t.Context(), c, window{now, now, now + int64(200*time.Millisecond)}, all)
	if err != nil {
		t.Fatal(err)
	}
	if r.Violations == 0 {
		t.Errorf("none of %d entries without a lock was seen", r.Inside)
	}
	same, err := mapGuard(path)
	if err != nil || same.count != protected.count || same.count == 0 {
		t.Errorf("another map of the file has the count %d, not %d (%v)", same.count, protected.count, err)
	}
}

func TestGuard(t *testing.T) {
	g := &guard{}
	if e := g.enter(1, 1); !e.alone || e.handoff {
		t.Errorf("the first who comes in: %+v", e)
	}
	if e := g.enter(2, 2); e.alone || !e.handoff {
		t.Errorf("a second who comes in: %+v", e)
	}
	if !g.leave(1, 7) || g.leave(2, 8) {
		t.Error("the second was not inside by right")
	}
	if e := g.enter(3, 2); !e.alone || e.handoff || e.left != 8 {
		t.Errorf("one of the same group: %+v", e)
	}
	if g.count != 3 {
		t.Errorf("counted %d", g.count)
	}
}

// TestWireCommands watches that no system sends by itself what its scripts call, since
// that is how the two are told apart in the server's counters.
func TestWireCommands(t *testing.T) {
	for _, sys := range systems() {
		t.Run(sys.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			commands := monitor(t, server.Addr())
			useContended(t, sys, server.Addr())
			server.Do(t, "ECHO", "the end")
			seen := map[string]bool{}
			for command := range commands {
				if command == "sent echo" {
					break
				}
				seen[command] = true
			}
			for command := range seen {
				where, name, _ := strings.Cut(command, " ")
				if sent := where == "sent"; sent != sys.onTheWire(name) && name != "info" {
					t.Errorf("%s is %s, but counts as the other", name, where)
				}
			}
			if !seen["sent evalsha"] {
				t.Errorf("no script among %v", seen)
			}
		})
	}
}

// useContended has two clients of a system want the same lock, and keeps it beyond its
// renewal. What other libraries make of a slow machine is only logged: what they have
// sent until then counts.
func useContended(t *testing.T, sys system, addr string) {
	complain := t.Errorf
	if sys.kind != ours {
		complain = t.Logf
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var mutexes []mutex
	for range 2 {
		s, err := sys.open(addr, renewedTTL)
		if err != nil {
			t.Fatal(err)
		}
		defer s.close()
		mutexes = append(mutexes, s.mutex("wire"))
	}
	if err := lockFree(ctx, mutexes[0]); err != nil {
		t.Fatal(err)
	}
	if err := mutexes[1].try(ctx); err == nil {
		t.Error("two have the lock")
	} else if err != errHeld {
		complain("try of a held lock: %v", err)
	}
	had := make(chan error, 1)
	go func() { had <- mutexes[1].lock(ctx) }()
	if r, ok := mutexes[0].(renewer); ok {
		if err := r.renew(ctx); err != nil {
			complain("renew: %v", err)
		}
	} else if sys.kind != rawLoop {
		time.Sleep(renewedTTL * 2 / 3) // they renew by themselves
	}
	if err := mutexes[0].unlock(ctx); err != nil {
		complain("unlock: %v", err)
	}
	if err := <-had; err != nil {
		complain("the second did not get the lock: %v", err)
	} else if err := mutexes[1].unlock(ctx); err != nil {
		complain("unlock: %v", err)
	}
}

// renewedTTL is short, so that a renewal comes soon.
const renewedTTL = 900 * time.Millisecond

// monitor returns what the server executes: "sent" or "called" by a script, and the
// command's name in lower case.
func monitor(t *testing.T, addr string) <-chan string {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := fmt.Fprint(conn, "MONITOR\r\n"); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(conn)
	lines.Buffer(nil, 1<<20)
	if !lines.Scan() || lines.Text() != "+OK" {
		t.Fatalf("MONITOR: %q, %v", lines.Text(), lines.Err())
	}
	commands := make(chan string, 100_000) // more than a test makes
	go func() {                            // ends with the connection
		defer close(commands)
		for lines.Scan() {
			// +1700000000.123456 [0 127.0.0.1:1234] "set" "key", or [0 lua].
			_, rest, _ := strings.Cut(lines.Text(), "[")
			from, rest, _ := strings.Cut(rest, "] \"")
			name, _, _ := strings.Cut(rest, "\"")
			where := "sent"
			if strings.HasSuffix(from, " lua") {
				where = "called"
			}
			commands <- where + " " + strings.ToLower(name)
		}
	}()
	return commands
}
