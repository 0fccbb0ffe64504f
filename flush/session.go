package flush

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/lockkeeper/lockkeeper/sqlfence"
)

// A Session is one term of an engine: from its claim until another claims. It is
// used by one goroutine.
type Session struct {
	engine *Engine
	term   Term
	number int64 // of the last transaction

	paused  map[string]bool          // tables of mappings that are paused, as far as this session knows
	tries   map[string]int           // how often the row of a mark could not refer to what it refers to
	tally   map[string]*tally        // what this pass has met, by table
	retryAt map[string]time.Time     // when a mapping that this session has paused is tried again, by table
	retryIn map[string]time.Duration // how long it waited for that
	freed   time.Time                // when marks that wait were last brought back
	again   bool                     // there is more to do at once, after this pass
	failed  bool                     // the last pass failed
}

// A tally counts the keys of one mapping in a pass.
type tally struct{ keys, parked, waits int }

// Begin claims the job for a hold, before anything is read: in the database first,
// whose count is the epoch, and then on Redis, so that only this term acknowledges.
func (e *Engine) Begin(ctx context.Context, holder sqlfence.Holder) (*Session, error) {
	if err := e.claimDatabase(ctx); err != nil {
		return nil, err
	}
	term, err := e.sink.Claim(ctx, e.cfg.Job, holder)
	if err != nil {
		return nil, err
	}
	for {
		epoch := term.Epoch()
		stands, err := e.install(ctx, epoch)
		if err != nil {
			return nil, err
		}
		if stands == 0 {
			break
		}
		// Redis has seen one that is not smaller: the database was restored from a
		// backup, or is a new one.
		e.cfg.Logger.Warn("the database's epoch is behind; raised", "job", e.cfg.Job, "database", epoch, "redis", stands)
		if err := term.RaiseEpoch(ctx, stands); err != nil {
			return nil, err
		}
	}
	e.cfg.Logger.Info("term began", "job", e.cfg.Job, "epoch", term.Epoch())
	if e.cfg.Trace.Began != nil {
		e.cfg.Trace.Began(term.Epoch())
	}
	// Where a term's numbers begin is left to chance: after both the database and Redis
	// have forgotten the epoch, its versions must not meet those of an older term.
	number := rand.Int64N(1 << (epochShift - 1))
	return &Session{engine: e, term: term, number: number, tries: make(map[string]int), freed: time.Now(),
		retryAt: make(map[string]time.Time), retryIn: make(map[string]time.Duration)}, nil
}

// Epoch returns the session's epoch.
func (s *Session) Epoch() int64 { return s.term.Epoch() }

// install installs an epoch on Redis, or returns the one that stands in its way.
func (e *Engine) install(ctx context.Context, epoch int64) (int64, error) {
	reply, err := e.eval(ctx, epochScript, []string{e.keys.Epoch}, formatInt(epoch))
	if err != nil {
		return 0, err
	}
	if reply == int64(1) {
		return 0, nil
	}
	text, _ := reply.(string)
	stands, err := strconv.ParseInt(text, 10, 64)
	if err != nil || stands <= 0 {
		return 0, fmt.Errorf("flush: the key %s has %q, which is no epoch", e.keys.Epoch, text)
	}
	return stands, nil
}

// Pass flushes until no key is dirty, and says what it did. It returns at the first
// error. Errors that match sqlfence.ErrFenced or ErrSteppedDown end the session: the
// caller gives the lease up. ErrPaused says that an operator has paused the job. What was
// not flushed stays marked.
func (s *Session) Pass(ctx context.Context) (Stats, error) { return s.pass(ctx, ctx) }

// pass ends early, between two batches, when ctx does.
func (s *Session) pass(ctx, work context.Context) (Stats, error) {
	s.again = false
	if !s.failed { // what a pass that failed has met counts on: it is met again
		s.tally = make(map[string]*tally)
	}
	stats, err := s.batches(ctx, work)
	s.failed = err != nil && !errors.Is(err, ErrPaused)
	return stats, err
}

// batches reads and writes batches: while one is written, the next one is read.
func (s *Session) batches(ctx, work context.Context) (Stats, error) {
	var total Stats
	b, err := s.engine.load(work, nil)
	if err == nil {
		err = s.settle(work, b.page)
	}
	for err == nil && ctx.Err() == nil {
		if err = b.control.stops(s.term.Epoch()); err != nil || len(b.marks) == 0 {
			break
		}
		var ahead *reading
		if b.full {
			ahead = s.engine.loadAhead(work, b)
		}
		stats, failed := s.store(work, b)
		total.Add(stats)
		s.engine.self.stored(stats)
		if ahead == nil {
			return total, failed
		}
		b, err = ahead.wait()
		if err = errors.Join(failed, err); err == nil && len(b.marks) == 0 {
			// It may have looked behind marks that have moved up meanwhile.
			b, err = s.engine.load(work, nil)
		}
	}
	return total, err
}
