package flush

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/internal/script"
	"github.com/lockkeeper/lockkeeper/sqlfence"
)

// A Session is one term of an engine: from its claim until another claims. It is
// used by one goroutine.
type Session struct {
	engine *Engine
	term   Term
	number int64 // of the last batch
}

// Begin claims the job for a hold, before anything is read: in the database first,
// whose count is the epoch, and then on Redis, so that only this term acknowledges.
func (e *Engine) Begin(ctx context.Context, holder sqlfence.Holder) (*Session, error) {
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
	return &Session{engine: e, term: term}, nil
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

// run makes passes until ctx ends, or the lease behind work is lost, or the database
// refuses the term, or Redis refuses what this process asks, which another one may be
// allowed. Everything else is tried again for ever: marks wait, nothing is lost.
func (s *Session) run(ctx, work context.Context) error {
	e := s.engine
	for failures := 0; ; {
		pause := e.cfg.Interval
		_, err := s.pass(ctx, work)
		switch {
		case err == nil:
			failures = 0
		case errors.Is(err, sqlfence.ErrFenced), isRefusal(err):
			return err
		case work.Err() != nil:
			return context.Cause(work)
		default:
			pause = backoff(failures)
			failures++
			e.cfg.Logger.Warn("batch not flushed; trying again", "job", e.cfg.Job, "pause", pause, "error", err)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := rest(ctx, pause); err != nil {
			return err
		}
	}
}

// Pass flushes until no key is dirty, and says what it did. It returns at the first
// error; an error that matches sqlfence.ErrFenced ends the session. What was not
// flushed stays marked.
func (s *Session) Pass(ctx context.Context) (Stats, error) { return s.pass(ctx, ctx) }

// pass ends early, between two batches, when ctx does.
func (s *Session) pass(ctx, work context.Context) (Stats, error) {
	var total Stats
	for ctx.Err() == nil {
		stats, err := s.step(work)
		total.Add(stats)
		if err != nil {
			return total, err
		}
		if stats.Keys < s.engine.cfg.Batch {
			return total, nil
		}
	}
	return total, nil
}

// step flushes one batch: marks, values, one transaction, acknowledgement. The order
// is what the guarantees rest on: a value is read after its mark, and the mark goes
// after the commit.
func (s *Session) step(ctx context.Context) (Stats, error) {
	e := s.engine
	marks, read, err := e.page(ctx)
	if err != nil || len(marks) == 0 {
		return Stats{}, err
	}
	b, err := e.collect(ctx, marks)
	if err != nil {
		return Stats{}, err
	}
	b.read = read
	order(b.rows, e.routes)
	rows := b.rows
	if e.cfg.Trace.Read != nil {
		e.cfg.Trace.Read(len(marks))
	}
	if len(rows) > 0 {
		s.number++
		if err := s.term.Write(ctx, s.number, rows); err != nil {
			return Stats{}, err
		}
	}
	stats := Stats{Keys: len(marks), Missing: len(b.skips)}
	for i := range rows {
		if rows[i].Delete {
			stats.Deletes++
		} else {
			stats.Upserts++
		}
	}
	if err := s.acknowledge(ctx, b, &stats); err != nil {
		return Stats{}, err
	}
	if e.cfg.Trace.Wrote != nil {
		e.cfg.Trace.Wrote(stats)
	}
	return stats, nil
}

// acknowledge takes the marks of a written batch away, as far as they are still what
// was read.
func (s *Session) acknowledge(ctx context.Context, b *batch, stats *Stats) error {
	e := s.engine
	args := make([]string, 0, 2+3*(len(b.rows)+len(b.skips)+len(b.parks)))
	args = append(args, formatInt(s.term.Epoch()), b.read)
	for i := range b.rows {
		args = append(args, b.rows[i].source, b.rows[i].mark, "")
	}
	for _, m := range b.skips {
		args = append(args, m.key, m.version, "")
	}
	for _, p := range b.parks {
		args = append(args, p.key, p.version, p.json())
		e.cfg.Logger.Warn("key parked", "job", e.cfg.Job, "key", p.key, "column", p.reason.Column, "reason", p.reason.Reason)
	}
	keys := []string{e.keys.Epoch, e.keys.Dirty, e.keys.Versions, e.keys.Parked}
	reply, err := e.eval(ctx, ackScript, keys, args...)
	if err != nil {
		return err
	}
	v, ok := reply.([]any)
	switch {
	case ok && len(v) == 2 && v[0] == "fenced":
		return fmt.Errorf("%w: Redis has epoch %v, ours is %d", sqlfence.ErrFenced, v[1], s.term.Epoch())
	case ok && len(v) == 3:
		stats.Parked, stats.Changed = int(number(v[1])), int(number(v[2]))
		return nil
	}
	return unexpected(reply)
}

// page reads the marks of the keys that have been dirty for longest, and the server's
// time.
func (e *Engine) page(ctx context.Context) (marks []mark, read string, err error) {
	reply, err := e.eval(ctx, pageScript, []string{e.keys.Dirty, e.keys.Versions}, strconv.Itoa(e.cfg.Batch))
	if err != nil {
		return nil, "", err
	}
	v, ok := reply.([]any)
	if !ok || len(v)%2 != 1 {
		return nil, "", unexpected(reply)
	}
	read, _ = v[0].(string)
	for i := 1; i < len(v); i += 2 {
		key, _ := v[i].(string)
		version, _ := v[i+1].(string)
		marks = append(marks, mark{key, version})
	}
	return marks, read, nil
}

// evalMost bounds one request to Redis.
const evalMost = 5 * time.Second

// eval runs a script and says what failed.
func (e *Engine) eval(ctx context.Context, s *script.Script, keys []string, args ...string) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, evalMost)
	defer cancel()
	reply, err := s.Run(ctx, e.conn, &e.dialect, keys, args)
	if err != nil {
		return nil, fmt.Errorf("flush: job %q: Redis: %w", e.cfg.Job, err)
	}
	return reply, nil
}

func unexpected(reply any) error {
	return fmt.Errorf("flush: unexpected reply from Redis: %v (%T)", reply, reply)
}

// isRefusal reports whether Redis has refused a request in a way that waiting can't mend.
func isRefusal(err error) bool {
	var reply *lockkeeper.ReplyError
	return errors.As(err, &reply) && !reply.Transient()
}

func formatInt(n int64) string { return strconv.FormatInt(n, 10) }

// number reads an integer that comes as one or in digits; 0 if it is neither.
func number(reply any) int64 {
	switch v := reply.(type) {
	case int64:
		return v
	case string:
		n, _ := strconv.ParseInt(v, 10, 64)
		return n
	}
	return 0
}

var _ sqlfence.Holder = (*lockkeeper.Lease)(nil)
