package demo

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/store"
	"github.com/lockkeeper/lockkeeper/flush"
	"github.com/lockkeeper/lockkeeper/goredisconn"
	"github.com/lockkeeper/lockkeeper/sqlfence"
)

// An assignment is the first line on a worker's standard input. Each line after it is
// a command.
type assignment struct {
	Name    string        `json:"name"`
	Server  server        `json:"server"`
	DB      string        `json:"db"`
	Job     string        `json:"job"`
	Mapping flush.Mapping `json:"mapping"`
	TTL     time.Duration `json:"ttl"`
}

// Commands to a worker.
const (
	// cmdFreeze: wait between reading the next batch and writing it, so that the
	// parent can stop the process right there; and do not hear of the loss of the
	// lease. Stopped a moment later, it could hold SQLite's write lock, and
	// everybody else up.
	cmdFreeze = "freeze"
	// cmdGoOn: go on from there.
	cmdGoOn = "go on"
	// cmdNeverMind: do not freeze after all.
	cmdNeverMind = "never mind"
)

// An event is one line on a worker's standard output.
type event struct {
	Kind  string      `json:"kind"`
	Epoch int64       `json:"epoch,omitempty"`
	Stats flush.Stats `json:"stats,omitzero"`
	Error string      `json:"error,omitempty"`
}

// The kinds of events.
const (
	standsBy  = "stands by" // the process is up, or has lost and waits again
	active    = "active"    // it has claimed the job
	wrote     = "wrote"     // a batch is in the database and acknowledged
	freezing  = "freezing"  // it has read a batch and waits to be stopped
	refused   = "refused"   // the database refused its write
	endedTerm = "ended"     // it gave up or lost a term
)

// RunWorker is the whole of a worker process. It ends when ctx or in does.
func RunWorker(ctx context.Context, in io.Reader, out io.Writer, log *slog.Logger) error {
	lines := bufio.NewScanner(in)
	if !lines.Scan() {
		return errors.New("demo worker: no assignment")
	}
	var a assignment
	if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
		return fmt.Errorf("demo worker: assignment: %w", err)
	}
	w := &worker{assignment: a, log: log, out: json.NewEncoder(out), goOn: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // ends with the process: a read of standard input can't be interrupted
		defer cancel()
		for lines.Scan() {
			switch lines.Text() {
			case cmdFreeze:
				w.frozen.Store(true)
			case cmdGoOn:
				w.release()
			case cmdNeverMind:
				w.frozen.Store(false)
				w.release()
			}
		}
	}()
	return w.run(ctx)
}

type worker struct {
	assignment
	log    *slog.Logger
	goOn   chan struct{}
	frozen atomic.Bool // from the command to freeze to the refused write: deaf for losses

	mu  sync.Mutex
	out *json.Encoder
}

func (w *worker) tell(e event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.out.Encode(e) // without a reader there is nobody to tell
}

// run stands by and works until ctx ends.
func (w *worker) run(ctx context.Context) error {
	db, dialect, err := store.Open(ctx, "sqlite:"+w.DB)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	rdb := w.Server.client()
	defer func() { _ = rdb.Close() }()
	conn := goredisconn.New(rdb)
	engine, err := w.engine(ctx, conn, db, dialect)
	if err != nil {
		return err
	}
	locks, err := lockkeeper.New(conn, lockkeeper.Config{TTL: w.TTL, Label: w.Name, Logger: w.log})
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = locks.Close(closing) // what is left is freed by its TTL
	}()
	w.tell(event{Kind: standsBy})
	election := locks.Election(flush.LockName(w.Job))
	for ctx.Err() == nil {
		err := election.Run(ctx, func(ctx context.Context, lease *lockkeeper.Lease) error {
			return w.lead(ctx, engine, lease)
		})
		if err != nil && ctx.Err() == nil {
			w.log.Warn("term failed", "error", err)
			pause(ctx, 200*time.Millisecond)
		}
	}
	return nil
}

func (w *worker) engine(ctx context.Context, conn lockkeeper.Conn, db *sql.DB, dialect sqlfence.Dialect) (*flush.Engine, error) {
	mappings := []flush.Mapping{w.Mapping}
	sink, err := flush.NewSQL(db, dialect, mappings)
	if err != nil {
		return nil, err
	}
	return flush.New(conn, sink, flush.Config{
		Job:      w.Job,
		Mappings: mappings,
		Interval: 50 * time.Millisecond,
		Logger:   w.log,
		Trace: flush.Trace{
			Began: func(epoch int64) { w.tell(event{Kind: active, Epoch: epoch}) },
			Read:  func(int) { w.freezeIfTold(ctx) },
			Wrote: func(s flush.Stats) { w.tell(event{Kind: wrote, Stats: s}) },
		},
	})
}

// release lets the worker go on from where it waits, or comes to wait next.
func (w *worker) release() {
	select {
	case w.goOn <- struct{}{}:
	default:
	}
}

// freezeIfTold waits, right between the reading of a batch and its writing. The parent
// stops this process there, and lets it go on when it is too late.
func (w *worker) freezeIfTold(ctx context.Context) {
	if !w.frozen.Load() {
		return
	}
	select { // what is left of a command that came too late
	case <-w.goOn:
	default:
	}
	w.tell(event{Kind: freezing})
	select {
	case <-w.goOn:
	case <-ctx.Done():
	}
}

// lead is what flush.Engine.Lead does, but that the work's context passes a switch:
// a worker that is told to freeze does not hear that it has lost its lease, as if
// its clock lied, and goes on with what it was about to write.
func (w *worker) lead(ctx context.Context, engine *flush.Engine, lease *lockkeeper.Lease) error {
	work, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	stop := context.AfterFunc(ctx, func() {
		if !w.frozen.Load() {
			cancel(context.Cause(ctx))
		}
	})
	defer stop()
	session, err := engine.Begin(work, lease)
	if err != nil {
		return err
	}
	for ctx.Err() == nil || w.frozen.Load() {
		if _, err = session.Pass(work); err == nil {
			pause(ctx, 50*time.Millisecond)
			continue
		}
		if errors.Is(err, sqlfence.ErrFenced) {
			w.frozen.Store(false)
			w.tell(event{Kind: refused, Epoch: session.Epoch(), Error: err.Error()})
			break
		}
		if errors.Is(err, flush.ErrSteppedDown) {
			break
		}
		w.log.Warn("batch not flushed; trying again", "error", err)
		pause(ctx, 100*time.Millisecond)
	}
	w.tell(event{Kind: endedTerm, Epoch: session.Epoch(), Error: fmt.Sprint(context.Cause(ctx))})
	w.tell(event{Kind: standsBy})
	return err
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
