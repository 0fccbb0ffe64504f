package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/flush"
	"github.com/lockkeeper/lockkeeper/goredisconn"
	"github.com/lockkeeper/lockkeeper/internal/redistest"
)

// workerTTL is longer than a busy machine stands still.
const workerTTL = 3 * time.Second

// A worker is one process of a job, in this process: a lock client and an engine that
// runs.
type worker struct {
	t      *testing.T
	name   string
	locks  *lockkeeper.Client
	began  atomic.Int64 // the epoch of its last term
	terms  atomic.Int64
	cancel context.CancelFunc
	ended  chan error
}

// runWorker starts a worker on a sink. active counts those in a term.
func (w *world) runWorker(name string, sink flush.Sink, change func(*flush.Config)) *worker {
	w.t.Helper()
	log := slog.New(slog.NewTextHandler(w.t.Output(), nil)).With("worker", name)
	locks, err := lockkeeper.New(w.conn, lockkeeper.Config{TTL: workerTTL, Label: name, Logger: log})
	if err != nil {
		w.t.Fatal(err)
	}
	wk := &worker{t: w.t, name: name, locks: locks, ended: make(chan error, 1)}
	cfg := w.cfg
	cfg.Interval = 5 * time.Millisecond
	cfg.Logger = log
	cfg.Trace.Began = func(epoch int64) {
		wk.began.Store(epoch)
		wk.terms.Add(1)
	}
	if change != nil {
		change(&cfg)
	}
	engine, err := flush.New(w.conn, sink, cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	var ctx context.Context
	ctx, wk.cancel = context.WithCancel(context.Background())
	go func() { wk.ended <- engine.Run(ctx, locks) }()
	w.t.Cleanup(func() {
		wk.stop()
		if err := locks.Close(context.Background()); err != nil {
			w.t.Error(err)
		}
	})
	return wk
}

// stop ends the worker in good order. The second time it does nothing.
func (wk *worker) stop() {
	wk.t.Helper()
	wk.cancel()
	select {
	case err, open := <-wk.ended:
		if open && !errors.Is(err, context.Canceled) {
			wk.t.Errorf("%s ended with %v", wk.name, err)
		}
	case <-time.After(20 * time.Second):
		wk.t.Fatalf("%s does not end", wk.name)
	}
	select {
	case wk.ended <- context.Canceled: // for the next stop
	default:
	}
}

// runHeldUp starts a worker that stops between the reading and the writing of its first
// batch, until goOn is called.
func (w *world) runHeldUp(name string) (wk *worker, reading <-chan struct{}, goOn func()) {
	w.t.Helper()
	read, free := make(chan struct{}), make(chan struct{})
	var once, freeing sync.Once
	wk = w.runWorker(name, w.sink, func(cfg *flush.Config) {
		cfg.Trace.Read = func(int) {
			once.Do(func() { close(read); <-free })
		}
	})
	goOn = func() { freeing.Do(func() { close(free) }) }
	w.t.Cleanup(goOn) // before the worker is stopped
	return wk, read, goOn
}

// holder returns who holds the job's lock, or "".
func (w *world) holder(locks *lockkeeper.Client) string {
	w.t.Helper()
	s, err := locks.Inspect(w.t.Context(), flush.LockName(job))
	if err != nil {
		w.t.Fatal(err)
	}
	return s.Holder.Label
}

func (w *world) eventually(query, want string) {
	w.t.Helper()
	redistest.Until(w.t, query+" = "+want, func() bool { return dump(w.t, w.db, query) == want })
}

const sumOfScores = "SELECT count(*), coalesce(sum(score), 0) FROM player"

func TestRunActiveAndStandby(t *testing.T) {
	onDatabases(t, func(t *testing.T, w *world) {
		a := w.runWorker("a", w.sink, nil)
		redistest.Until(t, "a is active", func() bool { return a.began.Load() > 0 })
		b := w.runWorker("b", w.newSink(w.place.open(t)), nil)
		for i := range 50 {
			w.set(fmt.Sprintf("player:%d", i), "points", "1")
		}
		w.eventually(sumOfScores, "50 50")
		if h := w.holder(b.locks); h != "a" || b.terms.Load() != 0 {
			t.Errorf("%q holds the lock, b had %d terms", h, b.terms.Load())
		}

		a.stop()
		stopped := time.Now()
		redistest.Until(t, "b is active", func() bool { return b.began.Load() > 0 })
		if d := time.Since(stopped); d > workerTTL-time.Second {
			t.Errorf("b took over %s after a had stopped, not much before its TTL", d)
		}
		if a.began.Load() != 1 || b.began.Load() != 2 {
			t.Errorf("epochs %d and %d", a.began.Load(), b.began.Load())
		}
		for i := range 60 {
			w.set(fmt.Sprintf("player:%d", i), "points", "2")
		}
		w.eventually(sumOfScores, "60 120")
		b.stop()
		w.status(0, 0) // acknowledged as well
		if h := w.holder(b.locks); h != "" {
			t.Errorf("%q still holds the lock", h)
		}
	})
}

// TestRunFinishesTheBatch: a stop between reading and writing.
func TestRunFinishesTheBatch(t *testing.T) {
	w := newWorld(t, realRedis(t))
	w.set("player:1", "points", "1")
	a, reading, goOn := w.runHeldUp("a")
	<-reading
	a.cancel()
	<-after(50)
	goOn()
	a.stop()
	w.rows(allPlayers, "1 - 1")
	w.status(0, 0)
	if h := w.holder(a.locks); h != "" {
		t.Errorf("%q still holds the lock", h)
	}
}

func TestRunDatabaseNotReady(t *testing.T) {
	onDatabases(t, func(t *testing.T, w *world) {
		w.set("player:1", "points", "1")
		exec(t, w.db, "ALTER TABLE lockkeeper_fence RENAME TO away")
		blind := w.runWorker("blind", w.sink, nil)
		<-after(300)
		if h := w.holder(blind.locks); h != "" || blind.terms.Load() != 0 {
			t.Errorf("%q holds the lock without a database", h)
		}
		exec(t, w.db, "ALTER TABLE away RENAME TO lockkeeper_fence")
		redistest.Until(t, "it stands for election", func() bool { return blind.terms.Load() > 0 })
		w.eventually(allPlayers, "1 - 1")
	})
}

// TestRunDatabaseBreaks: a schema that changes during a term loses nothing. See also
// TestRunPausedTable, on all databases.
func TestRunDatabaseBreaks(t *testing.T) {
	w := newWorld(t, realRedis(t))
	a := w.runWorker("a", w.sink, nil)
	redistest.Until(t, "a is active", func() bool { return a.began.Load() > 0 })
	exec(t, w.db, "ALTER TABLE player RENAME TO away")
	w.set("player:1", "points", "1")
	<-after(300)
	w.status(1, 0)
	exec(t, w.db, "ALTER TABLE away RENAME TO player")
	w.eventually(allPlayers, "1 - 1")
}

// TestRunClaimFails: a worker that can't claim says so, and gives the others a chance.
func TestRunClaimFails(t *testing.T) {
	w := newWorld(t, realRedis(t))
	w.do("SET", w.keys().Epoch, "no number")
	var said sayings
	a := w.runWorker("a", w.sink, func(cfg *flush.Config) { cfg.Logger = slog.New(slog.NewTextHandler(&said, nil)) })
	redistest.Until(t, "a says what is wrong", func() bool { return said.contains(w.keys().Epoch) })
	w.do("DEL", w.keys().Epoch)
	w.set("player:1", "points", "1")
	w.eventually(allPlayers, "1 - 1")
	a.stop()
}

func TestRunRedisComesAndGoes(t *testing.T) {
	server := redistest.Start(t, redistest.Args("--appendonly", "yes", "--appendfsync", "always"))
	w := newWorld(t, client(t, server.Addr()))
	server.Kill()
	a := w.runWorker("a", w.sink, nil) // waits
	<-after(100)
	server.Restart()
	redistest.Until(t, "a is active", func() bool { return a.began.Load() > 0 })
	w.set("player:1", "points", "1")
	w.eventually(allPlayers, "1 - 1")
	w.set("player:2", "points", "2")
	server.Kill()
	server.Restart()
	until(t, func() error { return w.Set(t.Context(), "player:3", "points", "3") })
	w.eventually(allPlayers, "1 - 1;2 - 2;3 - 3")

	server.Kill()
	<-time.After(workerTTL + 100*time.Millisecond) // its lease is lost
	server.Restart()
	until(t, func() error { return w.Set(t.Context(), "player:1", "points", "4") })
	w.eventually(allPlayers, "1 - 4;2 - 2;3 - 3")
}

// until repeats what may fail for a while.
func until(t *testing.T, f func() error) {
	t.Helper()
	redistest.Until(t, "success", func() bool { return f() == nil })
}

// TestRunBroken: an operator breaks the lock of a worker that is between reading and
// writing; another takes over and writes first.
func TestRunBroken(t *testing.T) {
	onDatabases(t, func(t *testing.T, w *world) {
		w.set("player:1", "points", "1")
		a, reading, goOn := w.runHeldUp("a")
		<-reading
		b := w.runWorker("b", w.newSink(w.place.open(t)), nil)
		until(t, func() error {
			s, err := b.locks.Inspect(t.Context(), flush.LockName(job))
			if err != nil {
				return err
			}
			return b.locks.Break(t.Context(), flush.LockName(job), s.Holder.Fence)
		})
		w.set("player:1", "points", "2")
		w.eventually(allPlayers, "1 - 2")
		goOn()
		<-after(200)
		w.rows(allPlayers, "1 - 2")
		if a.terms.Load() != 1 || b.began.Load() != 2 {
			t.Errorf("a had %d terms, b's epoch is %d", a.terms.Load(), b.began.Load())
		}
		b.stop()
		redistest.Until(t, "a is active again", func() bool { return a.terms.Load() == 2 })
	})
}

func TestRunRefused(t *testing.T) {
	server := redistest.Start(t, redistest.Args("--requirepass", "secret"))
	w := newWorld(t, realRedis(t))
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() { _ = rdb.Close() }()
	w.conn = goredisconn.New(rdb)
	locks, err := lockkeeper.New(w.conn, lockkeeper.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = locks.Close(context.Background()) }()
	err = w.engine(w.conn, nil).Run(t.Context(), locks)
	var reply *lockkeeper.ReplyError
	// Redis 7 has another word for NOAUTH when a request has many arguments.
	if !errors.As(err, &reply) || reply.Code != "NOAUTH" && !strings.Contains(reply.Message, "unauthenticated") {
		t.Errorf("%v; want the server's refusal", err)
	}
}

// sayings collect a log.
type sayings struct {
	mu   sync.Mutex
	text []byte
}

func (s *sayings) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = append(s.text, p...)
	return len(p), nil
}

func (s *sayings) contains(want string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.Contains(s.text, []byte(want))
}
