package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/flush"
	"github.com/lockkeeper/lockkeeper/goredisconn"
	"github.com/lockkeeper/lockkeeper/lab/flushbench/rig"
	"github.com/lockkeeper/lockkeeper/sqlfence"
)

// asWorker makes this program, or its test, a worker.
const asWorker = "LOCKKEEPER_FLUSHCHAOS_WORKER"

// ttl is that of the workers' lock.
const ttl = time.Second

// An assignment is the first line that a worker hears. Each line after it is a command.
type assignment struct {
	Name  string           `json:"name"`
	Redis string           `json:"redis"`
	Kind  sqlfence.Dialect `json:"kind"`
	URL   string           `json:"url"`
	Deaf  bool             `json:"deaf"`  // when it is frozen it does not hear of the loss of its lease
	Plant string           `json:"plant"` // a bug
}

// Commands to a deaf worker.
const (
	freezeWrite = "freeze before the next write"
	freezeAck   = "freeze before the next acknowledgement"
	goOn        = "go on"
	neverMind   = "never mind"
)

// An event is a line that a worker says.
type event struct {
	Kind  string      `json:"kind"`
	Epoch int64       `json:"epoch,omitempty"`
	Stats flush.Stats `json:"stats,omitzero"`
	Error string      `json:"error,omitempty"`
}

// The kinds of events.
const (
	began      = "began"       // it has claimed the job
	wrote      = "wrote"       // a batch is written and acknowledged
	freezing   = "freezing"    // it waits to be stopped
	refusedDB  = "refused"     // the database has refused a stale write
	refusedAck = "refused ack" // Redis has refused a stale acknowledgement
	ended      = "ended"       // its term is over
)

type worker struct {
	assignment
	log    *slog.Logger
	resume chan struct{}

	// What a freeze waits for; "" is nothing. From the command on until the stale write
	// is refused it is set, and the worker deaf.
	frozen atomic.Value

	engine *flush.Engine
	rdb    *redis.Client

	mu  sync.Mutex
	say *json.Encoder
}

func (w *worker) tell(e event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.say.Encode(e) // without a reader there is nobody to tell
}

// work is the whole of a worker. It ends when its input does.
func work(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := &worker{log: slog.New(slog.NewTextHandler(os.Stderr, nil)), resume: make(chan struct{}, 1), say: json.NewEncoder(os.Stdout)}
	w.frozen.Store("")
	assigned := make(chan error, 1)
	go func() { // ends with the process
		first := true
		rig.ReadLines(os.Stdin, func(line []byte) {
			if first {
				first = false
				assigned <- json.Unmarshal(line, &w.assignment)
				return
			}
			w.hear(line)
		})
		cancel()
	}()
	select {
	case err := <-assigned:
		if err != nil {
			return err
		}
	case <-ctx.Done():
		return errors.New("no assignment")
	}
	return w.run(ctx)
}

func (w *worker) hear(line []byte) {
	var command string
	_ = json.Unmarshal(line, &command) // what is no command is none
	switch command {
	case freezeWrite, freezeAck:
		w.frozen.Store(command)
	case neverMind:
		w.frozen.Store("")
		w.letGo()
	case goOn:
		w.letGo()
	}
}

func (w *worker) letGo() {
	select {
	case w.resume <- struct{}{}:
	default:
	}
}

func (w *worker) isFrozen() bool { return w.frozen.Load() != "" }

// freeze waits here if it was told to. The parent stops this process, and lets it go
// on when another is active.
func (w *worker) freeze(at string) {
	if w.frozen.Load() != at {
		return
	}
	select { // what is left of a command that came too late
	case <-w.resume:
	default:
	}
	w.tell(event{Kind: freezing})
	<-w.resume
}

func (w *worker) run(ctx context.Context) error {
	db, err := rig.Open(w.Kind, w.URL)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }() // what is committed stays
	w.rdb = redis.NewClient(&redis.Options{Addr: w.Redis})
	defer func() { _ = w.rdb.Close() }() // nothing is on its way any more
	conn := goredisconn.New(w.rdb)
	sink, err := flush.NewSQL(db, w.Kind, mappings())
	if err != nil {
		return err
	}
	sink.Codes(rig.ErrorCode)
	w.engine, err = flush.New(conn, &watched{sink, w}, w.config())
	if err != nil {
		return err
	}
	locks, err := lockkeeper.New(conn, lockkeeper.Config{TTL: ttl, Label: w.Name, Logger: w.log})
	if err != nil {
		return err
	}
	if w.Deaf {
		err = w.standDeaf(ctx, locks)
	} else {
		err = w.engine.Run(ctx, locks)
	}
	if ctx.Err() == nil {
		return fmt.Errorf("gave up: %w", err)
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_ = locks.Close(closing) // what is left is freed by its TTL
	return nil
}

func (w *worker) config() flush.Config {
	return flush.Config{
		Job: job, Mappings: mappings(), Batch: 100, Interval: 50 * time.Millisecond, MaxParked: 1, Label: w.Name, Logger: w.log,
		Trace: flush.Trace{
			Began: func(epoch int64) { w.tell(event{Kind: began, Epoch: epoch}) },
			Read:  func(int) { w.freeze(freezeWrite) },
			Wrote: func(s flush.Stats) { w.tell(event{Kind: wrote, Stats: s}) },
			Ended: func(error) { w.tell(event{Kind: ended}) },
		},
	}
}

// standDeaf stands for election as flush.Engine.Run does, but that its work's context
// passes a switch: while it is frozen it does not hear that it has lost its lease, as if
// its clock lied.
func (w *worker) standDeaf(ctx context.Context, locks *lockkeeper.Client) error {
	election := locks.Election(flush.LockName(job))
	for ctx.Err() == nil {
		err := election.Run(ctx, w.leadDeaf)
		if ctx.Err() == nil {
			w.log.Warn("term failed", "error", err)
			_ = pause(ctx, time.Second) // the loop sees it
		}
	}
	return ctx.Err()
}

func (w *worker) leadDeaf(ctx context.Context, lease *lockkeeper.Lease) error {
	work, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	stop := context.AfterFunc(ctx, func() {
		if !w.isFrozen() {
			cancel(context.Cause(ctx))
		}
	})
	defer stop()
	session, err := w.engine.Begin(work, lease)
	if err != nil {
		return err
	}
	for ctx.Err() == nil || w.isFrozen() {
		if _, err = session.Pass(work); err == nil {
			_ = pause(ctx, 50*time.Millisecond) // the loop sees it
			continue
		}
		if errors.Is(err, sqlfence.ErrFenced) {
			w.refused(session, err)
			break
		}
		w.log.Warn("batch not flushed; trying again", "error", err)
		if work.Err() != nil || errors.Is(err, flush.ErrSteppedDown) {
			break
		}
		_ = pause(ctx, 100*time.Millisecond)
	}
	w.tell(event{Kind: ended, Epoch: session.Epoch()})
	return err
}

func (w *worker) refused(session *flush.Session, err error) {
	w.frozen.Store("")
	kind := refusedAck
	var fenced *sqlfence.FencedError
	if errors.As(err, &fenced) {
		kind = refusedDB
	}
	w.tell(event{Kind: kind, Epoch: session.Epoch(), Error: err.Error()})
}
