package schedule

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockkeeper/lockkeeper"
)

// A runner is one job in the hands of this process.
type runner struct {
	Job
	s        *Scheduler
	keys     keys
	lock     *lockkeeper.Lock
	election *lockkeeper.Election
	wake     chan struct{} // somebody wants something of the job
	joined   bool          // Redis knows of the job; used by the goroutine of the job alone
}

func newRunner(s *Scheduler, j Job) *runner {
	name, label := lockName(s.cfg.Name, j.Name), lockkeeper.WithLabel(s.cfg.Label)
	return &runner{
		Job:      j,
		s:        s,
		keys:     keysOf(s.locks.Prefix(), s.cfg.Name, j.Name),
		lock:     s.locks.Mutex(name, label),
		election: s.locks.Election(name, label),
		wake:     make(chan struct{}, 1),
	}
}

func (r *runner) nudge() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

const (
	// resignAfter is how many failures in a row a leader may have before it lets another one try.
	resignAfter = 3

	// resignedRest is how long it leaves that to others.
	resignedRest = 5 * time.Second

	// raceRest is how long to leave a job alone of which another process has just been faster.
	raceRest = 100 * time.Millisecond
)

// run runs the job until ctx ends. It returns an error that waiting can't mend.
func (r *runner) run(ctx context.Context) error {
	step := r.guard
	if r.Leader {
		step = r.stand
	}
	for failures := 0; ctx.Err() == nil; {
		joined := r.joined
		err := step(ctx)
		switch {
		case err == nil:
			failures = 0
			continue
		case errors.Is(err, lockkeeper.ErrClosed), errors.Is(err, lockkeeper.ErrInvalid), !joined && isRefusal(err):
			return err
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, lockkeeper.ErrLost):
			r.log("lock lost", err)
		default:
			r.log("failed; trying again", err)
		}
		pause := resignedRest
		if !r.Leader {
			pause = min(pause, backoff(failures))
		}
		if rest(ctx, pause) != nil {
			return nil
		}
		failures++
	}
	return nil
}

func (r *runner) log(what string, err error) {
	r.s.cfg.Logger.Warn("job: "+what, "schedule", r.s.cfg.Name, "job", r.Name, "error", err)
}

// guard waits for what is due next, and does it if this process is the first.
func (r *runner) guard(ctx context.Context) error {
	w, err := r.next(ctx)
	if err != nil {
		return err
	}
	if !w.due(r.s.now()) {
		return r.rest(ctx, w)
	}
	lease, err := r.take(ctx, w)
	if lease == nil {
		if err == nil {
			err = rest(ctx, raceRest)
		}
		return err
	}
	bound, cancel := lease.Bind(ctx)
	ran, err := r.turn(ctx, bound, lease)
	cancel()
	if rerr := lease.Release(ctx); rerr != nil && !errors.Is(rerr, lockkeeper.ErrLost) {
		r.log("lock not released; its TTL frees it", rerr)
	}
	if err == nil && !ran {
		return rest(ctx, raceRest)
	}
	return err
}

// take takes the job's lock for what is due, or returns nil when that is due no more: another
// process has done it, or it is too late.
func (r *runner) take(ctx context.Context, w work) (*lockkeeper.Lease, error) {
	lease, err := r.lock.Try(ctx)
	if !errors.Is(err, lockkeeper.ErrHeld) {
		return lease, err
	}
	// Most processes find here that whoever has the lock is at just this tick.
	if w, err = r.next(ctx); err != nil || !w.due(r.s.now()) {
		return nil, err
	}
	if w.kind == tick && r.CatchUp == CatchUpNone {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, w.at.Add(lateMost).Sub(r.s.now()))
		defer cancel()
	}
	lease, err = r.lock.Acquire(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = nil // it is dropped
	}
	return lease, err
}

// stand stands for election, and runs what is due while this process leads.
func (r *runner) stand(ctx context.Context) error {
	if !r.joined { // before there is a leader: a tick that none has seen counts as missed
		if _, err := r.s.join(ctx, r); err != nil {
			return err
		}
	}
	return r.election.Run(ctx, func(bound context.Context, lease *lockkeeper.Lease) error {
		r.s.cfg.Logger.Info("leads a job", "schedule", r.s.cfg.Name, "job", r.Name, "fence", lease.Fence())
		return r.lead(ctx, bound, lease)
	})
}

// lead runs what is due until the term ends, or there is no progress.
func (r *runner) lead(ctx, bound context.Context, lease *lockkeeper.Lease) error {
	for failures := 0; bound.Err() == nil; {
		_, err := r.turn(ctx, bound, lease)
		switch {
		case err == nil:
			failures = 0
			continue
		case bound.Err() != nil:
		case errors.Is(err, errNoProgress), errors.Is(err, errUntold), failures+1 >= resignAfter:
			return fmt.Errorf("resigned as the leader: %w", err)
		}
		failures++
		if rest(bound, backoff(failures)) != nil {
			break
		}
	}
	return context.Cause(bound)
}

// next asks Redis how the job is, and decides what to do next.
func (r *runner) next(ctx context.Context) (work, error) {
	st, err := r.s.join(ctx, r)
	if err != nil {
		return work{}, err
	}
	return r.Job.next(st, r.s.now()), nil
}

// rest waits until something is due, or may have changed.
func (r *runner) rest(ctx context.Context, w work) error {
	d := lookEvery // also so that a wall clock that is set is seen
	if w.kind != "" {
		d = min(d, w.at.Sub(r.s.now()))
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.wake:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
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

// backoff is how long to rest after failures in a row: from 0.2 s, doubled, to 30 s, and up to a
// quarter less, so that many processes do not come at once.
func backoff(failures int) time.Duration {
	most := min(200*time.Millisecond<<min(failures, 16), 30*time.Second)
	return most - rand.N(most/4)
}
