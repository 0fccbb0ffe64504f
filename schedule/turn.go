package schedule

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper"
)

// Outcome is how a run has ended.
type Outcome string

// The outcomes of runs.
const (
	OK       Outcome = "ok"      // Run returned nil
	Failed   Outcome = "failed"  // it returned an error, or panicked
	TimedOut Outcome = "timeout" // it was ended by Timeout or MaxHold
	Stopped  Outcome = "stopped" // its process was stopped before it was done
	Lost     Outcome = "lost"    // the lock was lost before it was done, or its process has died
	Hanging  Outcome = "hanging" // it had not returned after MaxHold; the job was given up
)

var (
	errTimeout    = errors.New("schedule: the timeout of the run has passed")
	errMaxHold    = errors.New("schedule: the run has had the job for as long as it may")
	errNoProgress = errors.New("schedule: the run does not return")
	errUntold     = errors.New("schedule: the end of a run could not be told")
	errGone       = errors.New("schedule: Run has ended its goroutine")
)

const (
	// mostClaims is how often a claim is asked for whose outcome is not known.
	mostClaims = 6

	// tellMost is how long a process tries to tell of a run's end, and finishMost is that
	// once it does not have the job any more.
	tellMost   = 30 * time.Second
	finishMost = 5 * time.Second

	// mostLost is after how many runs in a row that nobody has finished a leader's tick counts as
	// done: it may be what kills the processes.
	mostLost = 5

	// mostError is how much of an error is kept.
	mostError = 1000
)

// turn does what is due for who has the job, or waits for it. ctx ends when the process is to
// stop, bound with that or with the lease. ran is false if there was nothing to do after all.
func (r *runner) turn(ctx, bound context.Context, lease *lockkeeper.Lease) (ran bool, err error) {
	w, err := r.next(bound)
	if err != nil {
		return false, err
	}
	if !w.due(r.s.now()) {
		if r.Leader {
			err = r.rest(bound, w)
		}
		return false, err
	}
	if ran, err = r.claim(bound, lease, w); err != nil || !ran {
		if err == nil && r.Leader {
			err = rest(bound, raceRest)
		}
		return false, err
	}
	log := r.s.cfg.Logger.With("schedule", r.s.cfg.Name, "job", r.Name, "scheduled", w.scheduled, "fence", lease.Fence())
	log.Debug("run begins")
	began := time.Now()
	outcome, err := r.perform(ctx, bound, lease, w)
	if outcome == Hanging {
		log.Error("a run that was given up has returned", "took", time.Since(began), "error", err)
		return true, errNoProgress
	}
	if err != nil {
		log.Warn("run ended", "took", time.Since(began), "outcome", outcome, "error", err)
	} else {
		log.Info("run ended", "took", time.Since(began), "outcome", outcome)
	}
	return true, r.finish(bound, lease, w, outcome, err)
}

// claim begins a run on Redis. What is not known is asked again: a tick of which nobody knows
// whether it was claimed would be lost.
func (r *runner) claim(ctx context.Context, lease *lockkeeper.Lease, w work) (bool, error) {
	kind := "guarded"
	if r.Leader {
		kind = "leader"
	}
	for failures := 0; ; failures++ {
		reply, err := r.s.eval(ctx, claimScript, []string{r.keys.lock, r.keys.state, r.keys.runs},
			lease.Owner(), lease.Fence().String(), w.kind, strconv.FormatInt(w.number, 10), kind, millis(r.MinHold), millis(earlyMost),
			r.s.cfg.Label, strconv.Itoa(r.s.cfg.Runs), millis(stateLife), strconv.Itoa(mostLost))
		var refused *lockkeeper.ReplyError
		if err == nil {
			v, ok := reply.([]any)
			if !ok || len(v) == 0 {
				return false, unexpected(reply)
			}
			if v[0] == "lost" {
				return false, fmt.Errorf("schedule: job %q: %w: the key on the server is gone or somebody else's", r.Name, lockkeeper.ErrLost)
			}
			return v[0] == "run", nil
		}
		if errors.As(err, &refused) || failures+1 >= mostClaims || rest(ctx, backoff(failures)) != nil {
			return false, err
		}
	}
}

// perform runs the job, and says how that went. It returns when Run has returned.
func (r *runner) perform(ctx, bound context.Context, lease *lockkeeper.Lease, w work) (Outcome, error) {
	if bound.Err() != nil { // since it was claimed; this asks the clock of the lease
		err := context.Cause(bound)
		return outcomeOf(ctx, bound, err), err
	}
	work, cancel := r.limit(bound)
	defer cancel()
	var over <-chan time.Time // nil, for ever, if there is no limit
	if most := r.maxHold(); most > 0 {
		timer := time.NewTimer(most)
		defer timer.Stop()
		over = timer.C
	}
	done := make(chan error, 1)
	go r.call(work, Tick{Job: r.Name, Scheduled: w.scheduled, Triggered: w.kind == trigger, Lease: lease}, done)
	select {
	case err := <-done:
		return outcomeOf(ctx, work, err), err
	case <-over:
	}
	if err := r.finish(bound, lease, w, Hanging, errNoProgress); err != nil {
		r.log("the end of a run was not told", err)
	}
	r.log("a run hangs, and the job is given up", errNoProgress)
	if err := lease.Release(ctx); err != nil {
		r.log("lock not released; its TTL frees it", err)
	}
	return Hanging, <-done
}

// limit returns the context for a run.
func (r *runner) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	limit, why := r.Timeout, errTimeout
	if most := r.maxHold(); most > 0 {
		if end := most - min(most/10, time.Second); limit == 0 || end < limit {
			limit, why = end, errMaxHold
		}
	}
	if limit == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, limit, why)
}

// call calls Run. A panic is an error: it must not take the other jobs along, nor the next
// process that runs the tick.
func (r *runner) call(ctx context.Context, t Tick, done chan<- error) {
	err := errGone
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
			r.s.cfg.Logger.Error("a job has panicked", "schedule", r.s.cfg.Name, "job", r.Name, "panic", p, "stack", string(debug.Stack()))
		}
		done <- err
	}()
	err = r.Run(ctx, t)
}

// outcomeOf says how a run went that has returned err.
func outcomeOf(ctx, work context.Context, err error) Outcome {
	cause := context.Cause(work)
	switch {
	case err == nil:
		return OK
	case cause == nil:
		return Failed
	case errors.Is(cause, errTimeout), errors.Is(cause, errMaxHold):
		return TimedOut
	case ctx.Err() != nil:
		return Stopped
	}
	return Lost
}

// finish tells of a run's end, with some patience: a leader's tick is run again if nobody
// has heard of it. It does so although the process is to stop, and although the lock was lost: if nobody
// else has begun a run since, it stands.
func (r *runner) finish(bound context.Context, lease *lockkeeper.Lease, w work, outcome Outcome, problem error) error {
	ctx := context.WithoutCancel(bound)
	done := "1"
	if r.Leader && (outcome == Stopped || outcome == Lost) {
		done = "0"
	}
	over, ended := time.Now().Add(tellMost), false
	for failures := 0; ; failures++ {
		reply, err := r.s.eval(ctx, finishScript, []string{r.keys.state, r.keys.runs}, lease.Fence().String(), w.kind,
			strconv.FormatInt(w.number, 10), string(outcome), shorten(problem), done, strconv.Itoa(r.s.cfg.Runs), millis(stateLife))
		if err == nil {
			if reply != int64(1) {
				r.log("another run has begun before this one was told to have ended", problem)
			}
			return nil
		}
		if bound.Err() != nil && !ended {
			over, ended = time.Now().Add(finishMost), true
		}
		if isRefusal(err) || time.Now().After(over) {
			return fmt.Errorf("%w: %w", errUntold, err)
		}
		_ = rest(ctx, min(backoff(failures), time.Second)) // its context does not end
	}
}

// shorten returns what is kept of an error.
func shorten(err error) string {
	if err == nil {
		return ""
	}
	text := strings.ToValidUTF8(err.Error(), "\uFFFD")
	if len(text) > mostError {
		text = strings.ToValidUTF8(text[:mostError], "") + " ..."
	}
	return text
}
