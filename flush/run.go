package flush

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/internal/script"
	"github.com/lockkeeper/lockkeeper/sqlfence"
)

// LockName returns the name of a job's election. Its key shares the cluster slot of
// the job's other keys.
func LockName(job string) string { return "flush:{" + job + "}" }

const (
	// refusedRest is how long a process leaves the job to others after Redis has refused
	// what it asked, or after it was asked to step down.
	refusedRest = 5 * time.Second

	// writeMost bounds one transaction.
	writeMost = 30 * time.Second

	// finishMost is how long the batch on its way may take when the process is to end.
	finishMost = 10 * time.Second

	// evalMost bounds one request to Redis.
	evalMost = 5 * time.Second

	// pausedRest is when a mapping is tried again that was paused because of its table; it
	// is doubled from time to time, up to mostPausedRest.
	pausedRest     = 5 * time.Second
	mostPausedRest = time.Minute

	// waitingRest is how long rows at least wait for those that they refer to.
	waitingRest = time.Second

	// controlRest is how long an active process that rests may not see what an operator
	// asks for.
	controlRest = time.Second
)

// Run stands by and flushes whenever this process is elected, until ctx ends; then
// the batch on its way is finished, what was written is acknowledged, and leadership
// is given up. A process whose database can't be reached or is not ready does not
// stand for election. Run returns ctx's error, or one that waiting can't mend.
func (e *Engine) Run(ctx context.Context, locks *lockkeeper.Client, opts ...lockkeeper.Option) error {
	stop := e.reportAlways(ctx)
	defer stop()
	election := locks.Election(LockName(e.cfg.Job), opts...)
	for failures := 0; ; failures++ {
		led := false
		err := e.check(ctx)
		if err == nil {
			err = e.stand(ctx, election, func(ctx context.Context, lease *lockkeeper.Lease) error {
				led, failures = true, 0
				return e.Lead(ctx, lease)
			})
		} else if ctx.Err() == nil {
			e.cfg.Logger.Warn("does not stand for election", "job", e.cfg.Job, "error", err)
		}
		if ctx.Err() == nil && !led && lockIsHopeless(err) { // no error of the database is that
			return err
		}
		pause := backoff(failures)
		if isRefusal(err) || errors.Is(err, ErrSteppedDown) {
			pause = refusedRest
		}
		if err := rest(ctx, pause); err != nil {
			return err
		}
	}
}

// stand stands for election until this process has led, or while it does not lead its
// database can't be reached any more.
func (e *Engine) stand(ctx context.Context, election *lockkeeper.Election, lead func(context.Context, *lockkeeper.Lease) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var leads atomic.Bool
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		for rest(ctx, checkEvery) == nil {
			if leads.Load() {
				continue
			}
			if err := e.check(ctx); err != nil && !leads.Load() {
				cancel(err)
			}
		}
	}()
	err := election.Run(ctx, func(ctx context.Context, lease *lockkeeper.Lease) error {
		leads.Store(true)
		defer leads.Store(false)
		return lead(ctx, lease)
	})
	cancel(nil)
	<-watched
	return err
}

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
	defer finishSoon(ctx, work, cancel)()
	session, err := e.Begin(work, lease)
	if err != nil {
		level := slog.LevelWarn
		if isRefusal(err) {
			level = slog.LevelError
		}
		e.cfg.Logger.Log(ctx, level, "elected, but the job could not be claimed", "job", e.cfg.Job, "error", err)
		e.self.passed(err)
		return err
	}
	e.self.lead(session.Epoch())
	defer e.self.lead(0)
	scanning := e.scanBeside(ctx)
	err = session.run(ctx, work)
	scanning.stop()
	if e.cfg.Trace.Ended != nil {
		e.cfg.Trace.Ended(err)
	}
	asked := ctx.Err() != nil && !errors.Is(err, sqlfence.ErrFenced) || errors.Is(err, ErrSteppedDown)
	level := slog.LevelInfo
	switch {
	case isRefusal(err):
		level = slog.LevelError // it will be so again, until somebody mends it
	case !asked:
		level = slog.LevelWarn
	}
	e.cfg.Logger.Log(ctx, level, "term ended", "job", e.cfg.Job, "epoch", session.term.Epoch(), "error", err)
	if asked && !errors.Is(err, ErrSteppedDown) {
		return nil
	}
	return err
}

// finishSoon ends work some time after ctx has ended. What it returns ends work and waits
// for that.
func finishSoon(ctx, work context.Context, cancel context.CancelFunc) (end func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-ctx.Done():
			_ = rest(work, finishMost)
			cancel()
		case <-work.Done():
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// run makes passes until ctx ends, or the lease behind work is lost, or the database
// refuses the term, or Redis refuses what this process asks, which another one may be
// allowed. Everything else is tried again for ever: marks wait, nothing is lost.
func (s *Session) run(ctx, work context.Context) error {
	e := s.engine
	var troubled time.Time // when the failures in a row began
	for failures := 0; ; {
		pause := e.cfg.Interval
		began := time.Now()
		_, err := s.pass(ctx, work)
		e.self.passed(err)
		switch {
		case err == nil || errors.Is(err, ErrPaused):
			failures, troubled = 0, time.Time{}
			if err == nil && s.again {
				pause = 0
			}
		case errors.Is(err, sqlfence.ErrFenced), errors.Is(err, ErrSteppedDown), isRefusal(err):
			return err
		case work.Err() != nil:
			return context.Cause(work)
		default:
			if failures == 0 {
				troubled = began
			}
			pause = backoff(failures)
			failures++
			e.cfg.Logger.Warn("batch not flushed; trying again", "job", e.cfg.Job, "pause", pause, "error", err)
			if time.Since(troubled) >= giveWay && e.self.standbyIsReady() {
				return ErrSteppedDown
			}
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := s.rest(ctx, pause); err != nil {
			return err
		}
	}
}

// settle does what is due between two passes: it brings marks back that were put aside.
func (s *Session) settle(ctx context.Context, p *page) error {
	e := s.engine
	if p.aside[0] > 0 && time.Since(s.freed) >= waitingRest {
		if err := e.unhold(ctx, e.keys.Waiting); err != nil {
			return err
		}
		s.freed, s.again = time.Now(), true
	}
	s.paused = make(map[string]bool)
	for _, pause := range p.control.pauses() {
		s.paused[pause.Table] = true
		at, known := s.retryAt[pause.Table]
		switch {
		case !pause.Retries:
		case !known: // an earlier term has paused it
			s.retryLater(pause.Table)
		case time.Now().After(at):
			delete(s.retryAt, pause.Table)
			e.cfg.Logger.Info("mapping that was paused is tried again", "job", e.cfg.Job, "table", pause.Table)
			if err := e.Resume(ctx, pause.Table); err != nil {
				return err
			}
			s.again = true
		}
	}
	for i, r := range e.routes {
		if p.aside[1+i] == 0 || s.paused[r.Table] {
			continue
		}
		if err := e.unhold(ctx, e.keys.Held(r.Table)); err != nil {
			return err
		}
		s.again = true
	}
	return nil
}

// rest waits for the next pass, and looks meanwhile whether an operator wants something.
func (s *Session) rest(ctx context.Context, d time.Duration) error {
	var before string
	for end := time.Now().Add(d); ; {
		left := time.Until(end)
		if left <= controlRest {
			return rest(ctx, max(0, left))
		}
		now, err := s.engine.wanted(ctx)
		switch {
		case err != nil: // the pass will meet it
		case before == "":
			before = now
		case now != before:
			return nil
		}
		if err := rest(ctx, controlRest); err != nil {
			return err
		}
	}
}

// wanted returns what is different after an operator has asked for something.
func (e *Engine) wanted(ctx context.Context) (string, error) {
	reply, err := e.eval(ctx, pickScript, []string{e.keys.Control}, "get", fieldNow, fieldStepDown)
	if err != nil {
		return "", err
	}
	v, ok := reply.([]any)
	if !ok || len(v) != 2 {
		return "", unexpected(reply)
	}
	now, _ := v[0].(string)
	stepDown, _ := v[1].(string)
	return "now " + now + " step-down " + stepDown, nil
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

// backoff is how long to rest after failures in a row: from 0.2 s, doubled, to 30 s, and
// up to a quarter less, so that many processes do not come at once.
func backoff(failures int) time.Duration {
	most := min(200*time.Millisecond<<min(failures, 16), 30*time.Second)
	return most - rand.N(most/4)
}

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
