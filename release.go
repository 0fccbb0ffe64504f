package lockkeeper

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/core"
)

// errReleased is Err of a lease that was released.
var errReleased = fmt.Errorf("%w: the lease was released", ErrNotHeld)

// Release gives the lock back. The lease is over at once for this process, with
// its contexts; the work must have ended before. It blocks until the server has
// answered, through failures, but not beyond the lease's belief: then the key
// expires by itself within the margin, and the error matches ErrUnavailable.
// Cancelling ctx does not stop it, since a lock that is not released keeps others
// waiting; ctx only carries values.
//
// The error matches ErrLost if the lease was lost before. A second Release does
// nothing; it returns nil, or the loss.
func (l *Lease) Release(ctx context.Context) error {
	c := l.lock.c
	now := c.clock.now()
	err := l.errAt(now)
	if err == nil {
		err = l.finish(core.Withdrawn, errReleased)
	}
	c.mu.Lock()
	first := !l.released
	l.released = true
	lost := errors.Is(err, ErrLost)
	if first && lost {
		// Belief ends before the key does: free it for the others if it is there.
		c.start(func() { _, _, _ = l.lock.deleteOwned(c.ctx, l.mine, c.clock.now().Add(time.Second)) })
	}
	c.mu.Unlock()
	switch {
	case lost:
		return err
	case !first:
		return nil
	}
	return l.giveBack(ctx, now)
}

// giveBack does what the release machine says.
func (l *Lease) giveBack(ctx context.Context, now core.Instant) error {
	c := l.lock.c
	machine := core.NewRelease(l.core.Until())
	step := machine.Start(now)
	var last error
	for {
		switch step.Do {
		case core.Send:
			deleted, _, err := l.lock.deleteOwned(ctx, l.mine, step.Until)
			if err == nil {
				step = machine.Done(deleted)
				continue
			}
			last = err
			var reply *ReplyError
			if errors.As(err, &reply) && core.Classify(reply.Code, reply.Message) == core.Refused {
				return unavailable("release", l.lock.name, err)
			}
			step = machine.Failed(c.clock.now(), noEffect(err))
		case core.Sleep:
			_ = c.sleep(context.Background(), step.Until) // bounded by the belief
			step = machine.Resume(c.clock.now())
		case core.Freed:
			return nil
		case core.NotOur:
			return l.notOurs()
		default:
			return unavailable("release", l.lock.name, last)
		}
	}
}

// notOurs makes the lease one that was lost: what the server has just said.
func (l *Lease) notOurs() error {
	c := l.lock.c
	c.mu.Lock()
	defer c.mu.Unlock()
	l.err = l.lostError(core.Taken)
	return l.err
}

// maxRaise is what a fence may be raised above. The scripts' numbers are floats,
// exact up to 2^53: what is beyond must stay out of reach of the counter.
const maxRaise = Fence(1 << 52)

// RaiseFence gives the lease a fence above seen, in one round trip, if the lock is
// still ours: for a store that has seen a larger fence than ours, because the
// counter on the server was lost or rolled back. Later holds get larger ones still.
// It returns an error that matches ErrLost if the lock is not ours any more. A seen
// above 2^52 is none of ours and refused.
func (l *Lease) RaiseFence(ctx context.Context, seen Fence) error {
	if !seen.Valid() {
		return invalidf("fence 0 is no fence")
	}
	if seen > maxRaise {
		return invalidf("fence %s: no fence is above %s", seen, maxRaise)
	}
	if err := l.Err(); err != nil {
		return err
	}
	const op = "raise the fence of"
	if err := notStarted(ctx); err != nil {
		return unavailable(op, l.lock.name, err)
	}
	c := l.lock.c
	c.mu.Lock()
	bound := l.core.Bound(c.clock.now())
	c.mu.Unlock()
	keys := []string{l.lock.keys[0], l.lock.keys[1]}
	reply, err := c.run(ctx, raiseScript, min(bound, c.deadlineOf(ctx)), keys, []string{l.mine, seen.String()})
	if err != nil {
		return unavailable(op, l.lock.name, err)
	}
	fence := number(reply)
	switch {
	case reply == int64(0):
		return l.finish(core.Taken, l.lostError(core.Taken))
	case fence <= 0:
		return unavailable(op, l.lock.name, unexpected(reply))
	}
	l.raise(uint64(fence))
	return nil
}

// raise takes in a new fence, unless a call beside this one got a larger one.
func (l *Lease) raise(fence uint64) {
	for {
		now := l.fence.Load()
		if fence <= now || l.fence.CompareAndSwap(now, fence) {
			return
		}
	}
}
