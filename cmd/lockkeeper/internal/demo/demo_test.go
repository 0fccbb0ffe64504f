package demo_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/demo"
	"github.com/lockkeeper/lockkeeper/internal/redistest"
)

// The workers are this test binary, started again.
const workerEnv = "LOCKKEEPER_DEMO_TEST_WORKER"

func TestMain(m *testing.M) {
	if os.Getenv(workerEnv) == "" {
		os.Exit(m.Run())
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	if err := demo.RunWorker(context.Background(), os.Stdin, os.Stdout, log); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// syncBuffer is a screen that a test can read.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func options(t *testing.T, screen *syncBuffer) demo.Options {
	t.Helper()
	t.Setenv(workerEnv, "1")
	t.Setenv("TMPDIR", t.TempDir()) // --keep leaves its folder
	return demo.Options{
		Seconds:    3,
		Workers:    3,
		Rate:       300,
		TTL:        600 * time.Millisecond,
		Executable: os.Args[0],
		Screen:     screen,
		Width:      func() int { return 80 },
		Logger:     slog.New(slog.DiscardHandler),
	}
}

func run(t *testing.T, o demo.Options) *demo.Summary {
	t.Helper()
	s, err := demo.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if !s.OK {
		var b strings.Builder
		s.Print(&b)
		t.Fatalf("the demo failed:\n%s", b.String())
	}
	return s
}

func checkFaults(t *testing.T, s *demo.Summary, screen string) {
	t.Helper()
	var causes []string
	for _, takeover := range s.Takeovers {
		causes = append(causes, takeover.Cause)
		if takeover.GapMS <= 0 || takeover.From == takeover.To {
			t.Errorf("takeover %+v", takeover)
		}
	}
	if got := strings.Join(causes, " "); !strings.HasPrefix(got, "killed") || !strings.Contains(got, "stopped") {
		t.Errorf("takeovers: %s; want killed and stopped", got)
	}
	if s.Refused < 1 || s.Compared.Keys == 0 || s.Compared.Fields == 0 || s.Compared.Keys != s.Compared.Rows {
		t.Errorf("refused %d, compared %+v", s.Refused, s.Compared)
	}
	if s.Flushed.Upserts == 0 || s.Written.Sets == 0 || s.Written.Deletes == 0 {
		t.Errorf("written %+v, flushed %+v", s.Written, s.Flushed)
	}
	for _, want := range []string{"KILLED", "REFUSED", "took over from", "loss signal is switched off"} {
		if !strings.Contains(screen, want) {
			t.Errorf("the screen never said %q:\n%s", want, screen)
		}
	}
}

// A stopped worker must not hold up the others: it took the write lock of SQLite with
// it in one run of five, when it stopped itself.
func TestDemoTakesOverEveryTime(t *testing.T) {
	times := 3
	if testing.Short() {
		times = 1
	}
	for range times {
		screen := &syncBuffer{}
		s := run(t, options(t, screen))
		checkFaults(t, s, screen.String())
		if s.Redis != "embedded" {
			t.Errorf("redis %q", s.Redis)
		}
	}
}

func TestDemoOnARealServer(t *testing.T) {
	server := redistest.Start(t)
	server.Do(t, "SET", "somebody:else", "1")
	screen := &syncBuffer{}
	o := options(t, screen)
	o.Redis = &redis.Options{Addr: server.Addr()}
	o.Live, o.Color = true, true
	checkFaults(t, run(t, o), screen.String())
	if n := server.Do(t, "DBSIZE"); n != int64(1) {
		t.Errorf("%v keys are left, want the one that was there before: %v", n, server.Do(t, "KEYS", "*"))
	}
	if !strings.Contains(screen.String(), "\x1b[32m") {
		t.Error("no colours on a terminal that takes them")
	}
}

func TestDemoWithInput(t *testing.T) {
	dir := t.TempDir()
	input, db := filepath.Join(dir, "in.jsonl"), filepath.Join(dir, "out.db")
	var b strings.Builder
	for i := range 500 {
		line, _ := json.Marshal(map[string]any{
			"id": fmt.Sprintf("pkg:%d", i), "size": i, "name": fmt.Sprintf("näme \"%d\"\t'", i), "new": i%2 == 0, "none": nil,
		})
		b.Write(append(line, '\n'))
	}
	if err := os.WriteFile(input, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	screen := &syncBuffer{}
	o := options(t, screen)
	o.Input, o.DB, o.Keep = input, db, true
	s := run(t, o)
	checkFaults(t, s, screen.String())
	if s.Compared.Keys != 500 || s.Compared.Fields != 1500 {
		t.Errorf("compared %+v; want all 500 records with 3 fields", s.Compared)
	}
	if _, err := os.Stat(db); err != nil {
		t.Errorf("--keep: %v", err)
	}
	var text strings.Builder
	s.Print(&text)
	_, logs, told := strings.Cut(text.String(), "left        the database is "+db+"; the workers' logs are in ")
	if logs = strings.TrimSpace(logs); !told {
		t.Errorf("--keep does not say where:\n%s", text.String())
	} else if _, err := os.Stat(filepath.Join(logs, "worker-1.log")); err != nil {
		t.Error(err)
	} else {
		_ = os.RemoveAll(logs)
	}
	o.Input = ""
	if _, err := demo.Run(t.Context(), o); !errors.Is(err, demo.ErrUsage) {
		t.Errorf("a database with rows of another run: got %v; want ErrUsage", err)
	}
}

func TestDemoInterrupted(t *testing.T) {
	screen := &syncBuffer{}
	o := options(t, screen)
	o.Seconds = 60
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for !strings.Contains(screen.String(), "is active") && ctx.Err() == nil {
			time.Sleep(10 * time.Millisecond)
		}
		cancel()
	}()
	start := time.Now()
	s, err := demo.Run(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	wantNothingProved(t, s, "interrupted; nothing was proved")
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("it took %s to end", took)
	}
}

// wantNothingProved wants one failure, and no word of a comparison that was not made.
func wantNothingProved(t *testing.T, s *demo.Summary, failure string) {
	t.Helper()
	var b strings.Builder
	s.Print(&b)
	if s.OK || len(s.Failures) != 1 || s.Failures[0] != failure {
		t.Errorf("OK %t, failures %q; want only %q", s.OK, s.Failures, failure)
	}
	if text := b.String(); !strings.Contains(text, "not compared") || strings.Contains(text, "differences") {
		t.Errorf("the summary is\n%s", text)
	}
}

func TestDemoWithoutItsRedis(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for 10 s")
	}
	server := redistest.Start(t)
	screen := &syncBuffer{}
	o := options(t, screen)
	o.Seconds, o.Redis = 60, &redis.Options{Addr: server.Addr()}
	var gone time.Time
	killed := make(chan struct{})
	go func() {
		defer close(killed)
		for !strings.Contains(screen.String(), "is active") && t.Context().Err() == nil {
			time.Sleep(10 * time.Millisecond)
		}
		gone = time.Now()
		server.Kill()
	}()
	s, err := demo.Run(t.Context(), o)
	<-killed
	if err != nil {
		t.Fatal(err)
	}
	wantNothingProved(t, s, "Redis at "+server.Addr()+" has not answered for 10 s; nothing was proved")
	if took := time.Since(gone); took > 25*time.Second {
		t.Errorf("it ended %s after its Redis", took)
	}
	if !strings.Contains(screen.String(), "Redis at "+server.Addr()+" DOES NOT ANSWER, for ") {
		t.Errorf("the screen does not say so:\n%s", screen)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for name, change := range map[string]func(o *demo.Options){
		"two workers":  func(o *demo.Options) { o.Workers = 2 },
		"many workers": func(o *demo.Options) { o.Workers = 33 },
		"no rate":      func(o *demo.Options) { o.Rate = 0 },
		"short TTL":    func(o *demo.Options) { o.TTL = 100 * time.Millisecond },
		"odd TTL":      func(o *demo.Options) { o.TTL = 600*time.Millisecond + 1 },
		"short show":   func(o *demo.Options) { o.Seconds = 1 },
		"no input":     func(o *demo.Options) { o.Input = "does-not-exist.jsonl" },
		"negative":     func(o *demo.Options) { o.Seconds = -1 },
		"unending TTL": func(o *demo.Options) { o.TTL = time.Hour },
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t, &syncBuffer{})
			change(&o)
			if _, err := demo.Run(t.Context(), o); !errors.Is(err, demo.ErrUsage) {
				t.Errorf("got %v; want ErrUsage", err)
			}
		})
	}
}

func TestUnreachableRedis(t *testing.T) {
	server := redistest.Start(t)
	server.Kill()
	o := options(t, &syncBuffer{})
	o.Redis = &redis.Options{Addr: server.Addr(), MaxRetries: -1}
	if _, err := demo.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), server.Addr()) {
		t.Errorf("got %v; want an error that names the server", err)
	}
}
