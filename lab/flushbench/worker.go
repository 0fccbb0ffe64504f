package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/pprof"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/flush"
	"github.com/lockkeeper/lockkeeper/goredisconn"
	"github.com/lockkeeper/lockkeeper/lab/flushbench/rig"
	"github.com/lockkeeper/lockkeeper/sqlfence"
)

// asWorker makes this program a worker.
const asWorker = "LOCKKEEPER_FLUSHBENCH_WORKER"

// What a worker can be told to do.
const (
	doFlush = "flush" // what is dirty, to the end
	doRows  = "rows"  // the same rows one by one, each in a transaction of its own
	doBulk  = "bulk"  // the same rows in the quickest way that the database has
)

// An order is the first line that a worker hears. It says when it is ready, begins with
// the next line, and says what it took.
type order struct {
	Do      string           `json:"do"`
	Kind    sqlfence.Dialect `json:"kind"`
	URL     string           `json:"url"`
	Redis   string           `json:"redis"`
	Rows    int              `json:"rows"`
	Edition int              `json:"edition"`
	Batch   int              `json:"batch"`
	Within  time.Duration    `json:"within"`  // rows: it ends after this, however many it has
	Profile string           `json:"profile"` // file for a CPU profile; "" is none
}

// A result is what a worker says.
type result struct {
	Error string        `json:"error,omitempty"`
	Rows  int           `json:"rows"`
	Took  time.Duration `json:"took"`
	CPU   time.Duration `json:"cpu"`
	Peak  int64         `json:"peak"` // bytes of memory
}

// errUnheard is for a coordinator that is gone.
var errUnheard = errors.New("the coordinator has gone")

// work is the whole of a worker.
func work(ctx context.Context) error {
	lines := make(chan []byte)
	go func() { // ends with the process
		defer close(lines)
		rig.ReadLines(os.Stdin, func(line []byte) { lines <- append([]byte(nil), line...) })
	}()
	line, ok := <-lines
	if !ok {
		return errUnheard
	}
	w := &worker{heard: lines, say: json.NewEncoder(os.Stdout)}
	if err := json.Unmarshal(line, &w.order); err != nil {
		return err
	}
	err := w.run(ctx)
	if err != nil && !errors.Is(err, errUnheard) {
		_ = w.say.Encode(result{Error: err.Error()}) // nobody hears it any more
	}
	return err
}

type worker struct {
	order
	heard   <-chan []byte
	say     *json.Encoder
	profile *os.File
	started time.Time
	cpu     time.Duration
}

func (w *worker) run(ctx context.Context) error {
	db, err := rig.Open(w.Kind, w.URL)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }() // what is committed stays
	switch w.Do {
	case doFlush:
		return w.flush(ctx, db)
	case doRows:
		return w.rowByRow(ctx, db)
	case doBulk:
		return w.bulk(ctx, db)
	}
	return fmt.Errorf("no work %q", w.Do)
}

// begin says that all is ready, and starts the clock when it is told to.
func (w *worker) begin() error {
	if err := w.say.Encode("ready"); err != nil {
		return err
	}
	if _, ok := <-w.heard; !ok {
		return errUnheard
	}
	if w.Profile != "" {
		f, err := os.Create(w.Profile)
		if err != nil {
			return err
		}
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		w.profile = f
	}
	w.started, w.cpu = time.Now(), rig.OwnCPU()
	return nil
}

// end stops the clock and says what it took. It returns when the coordinator has read
// its own clocks: with the connections, processes of the server would end.
func (w *worker) end(rows int) error {
	r := result{Rows: rows, Took: time.Since(w.started), CPU: rig.OwnCPU() - w.cpu, Peak: rig.PeakMemory()}
	if w.profile != nil {
		pprof.StopCPUProfile()
		if err := w.profile.Close(); err != nil {
			return err
		}
	}
	if err := w.say.Encode(r); err != nil {
		return err
	}
	for range w.heard { // until it is closed
	}
	return nil
}

// flush runs an engine as lockkeeper flush run does, election and fence included.
func (w *worker) flush(ctx context.Context, db *sql.DB) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	rdb := redis.NewClient(&redis.Options{Addr: w.Redis})
	defer func() { _ = rdb.Close() }() // nothing is on its way any more
	conn := goredisconn.New(rdb)
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	sink, err := flush.NewSQL(db, w.Kind, players())
	if err != nil {
		return err
	}
	sink.Codes(rig.ErrorCode)
	flushed := make(chan struct{})
	rows := 0
	engine, err := flush.New(conn, sink, flush.Config{
		Job: job, Mappings: players(), Batch: w.Batch, Logger: log,
		Trace: flush.Trace{Wrote: func(s flush.Stats) {
			if rows += s.Upserts; rows == w.Rows {
				close(flushed)
			}
		}},
	})
	if err != nil {
		return err
	}
	locks, err := lockkeeper.New(conn, lockkeeper.Config{Logger: log})
	if err != nil {
		return err
	}
	if err := errors.Join(rdb.Ping(ctx).Err(), db.PingContext(ctx)); err != nil {
		return err
	}
	if err := w.begin(); err != nil {
		return err
	}
	ran := make(chan error, 1)
	go func() { ran <- engine.Run(ctx, locks) }()
	select {
	case <-flushed:
		err = w.end(rows)
	case err = <-ran:
		return err
	}
	cancel()
	<-ran
	return errors.Join(err, locks.Close(context.WithoutCancel(ctx)))
}
