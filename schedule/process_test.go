package schedule

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper"
)

// A process is one machine of a fleet: a client and a scheduler, with a connection of its own.
type process struct {
	t      testing.TB
	name   string
	conn   *fakeConn
	locks  *lockkeeper.Client
	s      *Scheduler
	cancel context.CancelFunc
	done   chan error
	dead   atomic.Bool
	death  chan struct{}
}

var errDead = errors.New("this process is dead")

// newProcess makes a process whose clock is ahead.
func newProcess(t testing.TB, server *fakeServer, name string, ahead time.Duration, jobs ...Job) *process {
	t.Helper()
	p := &process{t: t, name: name, done: make(chan error, 1), death: make(chan struct{})}
	p.conn = &fakeConn{server: server}
	alive := func(ctx context.Context, _ string) error {
		if p.dead.Load() { // nothing comes from it, and nothing comes to it
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}
	p.conn.before, p.conn.after = alive, alive
	p.conn.listening = func(ctx context.Context) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancel(ctx)
		go func() {
			select {
			case <-p.death:
			case <-ctx.Done():
			}
			cancel()
		}()
		return ctx, cancel
	}
	var err error
	if p.locks, err = lockkeeper.New(p.conn, lockkeeper.Config{}); err != nil {
		t.Fatal(err)
	}
	if p.s, err = New(p.locks, Config{Name: testSchedule, Label: name}, jobs...); err != nil {
		t.Fatal(err)
	}
	p.s.now = func() time.Time { return time.Now().Add(ahead) }
	return p
}

func (p *process) start() *process {
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	go func() { p.done <- p.s.Run(ctx) }()
	return p
}

func startProcess(t testing.TB, server *fakeServer, name string, ahead time.Duration, jobs ...Job) *process {
	t.Helper()
	return newProcess(t, server, name, ahead, jobs...).start()
}

// stop ends the process as SIGTERM does, and waits for it.
func (p *process) stop() {
	p.cancel()
	if err := <-p.done; !errors.Is(err, context.Canceled) {
		p.t.Errorf("%s: Run returned %v", p.name, err)
	}
	if err := p.locks.Close(context.Background()); err != nil {
		p.t.Errorf("%s: Close returned %v", p.name, err)
	}
}

// kill ends it as SIGKILL does. What is left of its goroutines reaches nobody.
func (p *process) kill() {
	p.dead.Store(true)
	close(p.death)
	p.cancel()
}

// bury waits for the goroutines of a killed process.
func (p *process) bury() {
	<-p.done
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = p.locks.Close(ctx)
}

// A logbook has the runs of a test.
type logbook struct {
	mu      sync.Mutex
	start   time.Time
	lines   []string
	active  map[string]int // runs of a job at a time
	overlap bool
}

func newLogbook() *logbook { return &logbook{start: time.Now(), active: make(map[string]int)} }

// job returns a job that takes some time and notes its runs as "+at NAME tick".
func (l *logbook) job(who string, j Job, takes time.Duration) Job {
	j.Run = func(ctx context.Context, t Tick) error {
		l.mu.Lock()
		kind := ""
		if t.Triggered {
			kind = "!"
		}
		l.lines = append(l.lines, fmt.Sprintf("%s %s%s@%s", who, kind, t.Scheduled.Sub(l.start).Round(time.Millisecond), time.Since(l.start).Round(100*time.Millisecond)))
		l.active[t.Job]++
		l.overlap = l.overlap || l.active[t.Job] > 1
		l.mu.Unlock()
		defer func() {
			l.mu.Lock()
			l.active[t.Job]--
			l.mu.Unlock()
		}()
		return rest(ctx, takes)
	}
	return j
}

// take returns what was noted since, and forgets it.
func (l *logbook) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := strings.Join(l.lines, ", ")
	l.lines = nil
	return text
}

func (l *logbook) want(t *testing.T, want string) {
	t.Helper()
	if got := l.take(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.overlap {
		t.Error("two runs of a job at a time")
	}
}

// history returns the outcomes of a job's runs, the first one first.
func history(t *testing.T, s *Scheduler, job string) string {
	t.Helper()
	runs, err := s.History(t.Context(), job, 1000)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, r := range runs {
		text := r.Who + " " + string(r.Outcome)
		if r.Error != "" {
			text += " (" + r.Error + ")"
		}
		list = append([]string{text}, list...)
	}
	return strings.Join(list, ", ")
}

// bubble runs a test in a bubble, whose time begins at a full day.
func bubble(t *testing.T, f func(t *testing.T, server *fakeServer, l *logbook)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := newFakeServer()
		f(t, server, newLogbook())
		server.checkTTLs(t)
	})
}

// aLog collects what is logged.
type aLog struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *aLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *aLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *aLog) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }
