package flush

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/internal/script"
	"github.com/lockkeeper/lockkeeper/sqlfence"
)

// Config says what an Engine flushes and how.
type Config struct {
	// Job names the job: its keys, its election, its row in the database. All
	// processes of a job use the same name. 1 to 200 bytes, no braces or spaces.
	Job string

	// Prefix is that of the keys on Redis, and must be the lock client's; "" is
	// lockkeeper.DefaultPrefix.
	Prefix string

	// Mappings say which keys become which rows; at least one.
	Mappings []Mapping

	// Batch is how many keys go into one transaction. 0 is 500; at most 5,000.
	Batch int

	// Interval is how long to rest when nothing is left to flush. 0 is a second.
	Interval time.Duration

	// Logger hears of terms, parked keys and errors. nil logs nothing.
	Logger *slog.Logger

	// Trace is called at steps of the engine, in its goroutine.
	Trace Trace
}

// A Trace is called at steps of an engine. Each function may be nil, and holds up
// the engine while it runs.
type Trace struct {
	Began func(epoch int64)  // a term began: the job is claimed
	Read  func(keys int)     // a batch was read and is about to be written
	Wrote func(Stats)        // a batch was written and acknowledged
	Ended func(reason error) // the term is over
}

// Stats count what a batch or a pass did.
type Stats struct {
	Keys    int `json:"keys"`    // marks that were read
	Upserts int `json:"upserts"` // rows that were set
	Deletes int `json:"deletes"` // rows that were deleted
	Parked  int `json:"parked"`  // keys that can't be flushed
	Missing int `json:"missing"` // keys that had gone, and whose rows were kept
	Changed int `json:"changed"` // keys that changed again meanwhile, and stay marked
}

// Add counts o as well.
func (s *Stats) Add(o Stats) {
	s.Keys += o.Keys
	s.Upserts += o.Upserts
	s.Deletes += o.Deletes
	s.Parked += o.Parked
	s.Missing += o.Missing
	s.Changed += o.Changed
}

// An Engine flushes one job. It is safe for concurrent use, but for Run, of which
// there is one at a time.
type Engine struct {
	conn    lockkeeper.Conn
	sink    Sink
	cfg     Config
	keys    Keys
	routes  []route
	dialect script.Dialect
}

// New makes an engine that reads from conn and writes to sink. It sends nothing. A
// config that can't be right is an error, with everything that is wrong.
func New(conn lockkeeper.Conn, sink Sink, cfg Config) (*Engine, error) {
	if conn == nil || sink == nil {
		return nil, errors.New("flush: nil Conn or Sink")
	}
	if cfg.Batch == 0 {
		cfg.Batch = 500
	}
	if cfg.Interval == 0 {
		cfg.Interval = time.Second
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	errs := []error{checkJob(cfg.Job)}
	if cfg.Batch < 1 || cfg.Batch > 5000 {
		errs = append(errs, fmt.Errorf("flush: batch of %d: 1 to 5000", cfg.Batch))
	}
	if cfg.Interval < 0 {
		errs = append(errs, fmt.Errorf("flush: interval %s: it can't be negative", cfg.Interval))
	}
	if len(cfg.Mappings) == 0 {
		errs = append(errs, errors.New("flush: no mappings"))
	}
	e := &Engine{conn: conn, sink: sink, cfg: cfg, keys: KeysOf(cfg.Prefix, cfg.Job)}
	for i := range cfg.Mappings {
		r, err := newRoute(&cfg.Mappings[i])
		errs = append(errs, err)
		e.routes = append(e.routes, r)
	}
	errs = append(errs, checkTables(cfg.Mappings))
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return e, nil
}

// checkTables refuses two mappings into one table: a row of both would be the one's or
// the other's by chance.
func checkTables(mappings []Mapping) error {
	var errs []error
	used := make(map[string]string)
	for _, m := range mappings {
		table := strings.ToLower(m.Table)
		if other, taken := used[table]; taken {
			errs = append(errs, fmt.Errorf("flush: mapping of %q: the table %s is already that of %q", m.Keys, m.Table, other))
		}
		used[table] = m.Keys
	}
	return errors.Join(errs...)
}

// LockName returns the name of a job's election. Its key shares the cluster slot of
// the job's other keys.
func LockName(job string) string { return "flush:{" + job + "}" }

// Run stands by and flushes whenever this process is elected, until ctx ends; then
// the batch on its way is finished, what was written is acknowledged, and leadership
// is given up. A process whose database can't be reached or is not ready does not
// stand for election. Run returns ctx's error, or one that waiting can't mend.
func (e *Engine) Run(ctx context.Context, locks *lockkeeper.Client, opts ...lockkeeper.Option) error {
	election := locks.Election(LockName(e.cfg.Job), opts...)
	for failures := 0; ; failures++ {
		led := false
		err := e.sink.Check(ctx)
		if err == nil {
			err = election.Run(ctx, func(ctx context.Context, lease *lockkeeper.Lease) error {
				led, failures = true, 0
				return e.Lead(ctx, lease)
			})
		} else {
			e.cfg.Logger.Warn("does not stand for election: the database is not ready", "job", e.cfg.Job, "error", err)
		}
		if ctx.Err() == nil && !led && lockIsHopeless(err) { // no error of the database is that
			return err
		}
		pause := backoff(failures)
		if isRefusal(err) {
			pause = refusedRest
		}
		if err := rest(ctx, pause); err != nil {
			return err
		}
	}
}

// refusedRest is how long a process leaves the job to others after Redis has refused
// what it asked.
const refusedRest = 5 * time.Second

// lockIsHopeless reports whether the lock itself can't be had, so that standing by is
// no use.
func lockIsHopeless(err error) bool {
	return errors.Is(err, lockkeeper.ErrClosed) || errors.Is(err, lockkeeper.ErrInvalid) ||
		errors.Is(err, lockkeeper.ErrUnavailable)
}

// Lead flushes under a lease until ctx ends, or the database refuses this term. It
// is what Run does while it is elected.
func (e *Engine) Lead(ctx context.Context, lease *lockkeeper.Lease) error {
	// A batch is finished when ctx ends, but never beyond the lease.
	work, cancel := lease.Bind(context.WithoutCancel(ctx))
	defer cancel()
	session, err := e.Begin(work, lease)
	if err != nil {
		e.cfg.Logger.Warn("elected, but the job could not be claimed", "job", e.cfg.Job, "error", err)
		return err
	}
	err = session.run(ctx, work)
	if e.cfg.Trace.Ended != nil {
		e.cfg.Trace.Ended(err)
	}
	e.cfg.Logger.Info("term ended", "job", e.cfg.Job, "epoch", session.term.Epoch(), "error", err)
	if ctx.Err() != nil && !errors.Is(err, sqlfence.ErrFenced) {
		return nil
	}
	return err
}

// rest sleeps, or returns ctx's error.
func rest(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// backoff is how long to rest after failures in a row: from 0.2 s, doubled, to 30 s.
func backoff(failures int) time.Duration {
	return min(200*time.Millisecond<<min(failures, 16), 30*time.Second)
}
