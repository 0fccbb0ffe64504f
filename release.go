package lockkeeper

import (
	"context"
	"errors"
	"fmt"
	"strconv"
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
//
// Where other calls of this client wait for the lock, the next of them has it when
// Release returns, without a word to the server; now and then, and when other
// processes wait, it is theirs.
func (l *Lease) Release(ctx context.Context) error {
	trace := l.lock.c.cfg.Trace
	if trace == nil || trace.Release == nil {
		_, err := l.release(ctx)
		return err
	}
	start := time.Now()
	passed, err := l.release(ctx)
	trace.Release(ReleaseTrace{Lease: l, Passed: passed, Took: time.Since(start), Err: err})
	return err
}

func (l *Lease) release(ctx context.Context) (passed bool, err error) {
	c := l.lock.c
	now := c.clock.now()
	if err = l.errAt(now); err == nil {
		err = l.finish(errReleased)
	}
	h := l.hold
	c.mu.Lock()
	if l.released {
		c.mu.Unlock()
		if errors.Is(err, ErrLost) {
			return false, err
		}
		return false, nil
	}
	l.released = true
	c.pending++ // Close waits for it
	defer c.done()
	if end := h.core.Lease.End(); end != core.NotEnded && end != core.Withdrawn {
		if err == errReleased { // it has ended in the meantime
			err = l.lostError(end)
			l.err = err
		}
		// Belief ends before the key does: free it for the others if it is there.
		c.undoes(h.lock, h.core.Owner, h.core.Loose, h.core.Used())
		c.mu.Unlock()
		return false, err
	}
	if h.line == nil || c.closed {
		c.keeper.Drop(&h.core.Lease)
		c.mu.Unlock()
		return false, h.giveBack(ctx, l, now, nil)
	}
	ln := h.line
	next, again := ln.core.Done(now)
	if next != nil {
		c.give(h, next.Call.(*call), now)
		c.mu.Unlock()
		return true, nil
	}
	c.keeper.Drop(&h.core.Lease)
	var q *question
	if again {
		asked := ln.question(now, false, h.core.Lease.Until())
		q = &asked
	}
	c.mu.Unlock()
	return false, h.giveBack(ctx, l, now, q)
}

// giveBack does what the release machine says. The first request may carry a question,
// which is for the next turn of this process.
func (h *hold) giveBack(ctx context.Context, l *Lease, now core.Instant, q *question) error {
	c := h.lock.c
	defer h.gone()
	machine := core.NewRelease(h.core.Lease.Until())
	step := machine.Start(now)
	var last error
	for first := true; ; first = false {
		switch step.Do {
		case core.Send:
			if !first {
				q = nil
			}
			deleted, err := h.send(ctx, q, step.Until, first)
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

// send sends one release. The line learns what came of the first.
func (h *hold) send(ctx context.Context, q *question, bound core.Instant, first bool) (deleted bool, err error) {
	c := h.lock.c
	args := []string{h.core.Owner, digits(h.core.Used()), "", "", "", "", "", ""}
	n := 2
	if q != nil {
		bound = min(bound, q.Bound)
		copy(args[2:], []string{q.Owner, q.lock.ttl, q.lock.label, strconv.FormatInt(q.notAfter, 10), q.lock.placeOf(q.hears, true)})
		if n = 7; q.Since != 0 {
			args[7], n = strconv.FormatInt(q.Since, 10), 8
		}
	}
	reply, err := c.run(ctx, releaseScript, bound, h.lock.keys[:], args[:n])
	now := c.clock.now()
	var r core.Reply
	var held *HeldError
	v, _ := reply.([]any)
	rerr := err
	switch {
	case err != nil:
		r = troubled(err)
	case q != nil && len(v) > 1: // given up, and we wait again or have it again
		deleted = true
		r, held, rerr = q.read(reply)
	default:
		r.Answer = core.Late // no place was made
		if deleted, _, err = readRelease(reply); err != nil {
			r.Answer = core.NoAnswer
		}
	}
	if first && h.line != nil {
		c.mu.Lock()
		if err != nil {
			c.giving[h.core.Owner] = struct{}{}
		}
		h.line.gave(now, h, q, r, held, rerr)
		c.mu.Unlock()
	}
	return deleted, err
}

// gave takes in what came of the first request that released a hold.
func (ln *line) gave(now core.Instant, h *hold, q *question, r core.Reply, held *HeldError, err error) {
	var asked core.Question
	if q != nil {
		asked = q.Question
	}
	move := ln.core.Gave(now, h.core.Owner, asked, r)
	ln.hears(asked.Owner, held, err)
	ln.carry(now, move)
}

// gone ends a release: what requests of the hold's owner may still do, which nobody has
// answered, is taken back.
func (h *hold) gone() {
	c := h.lock.c
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.giving, h.core.Owner)
	if h.core.Loose.Count > 0 {
		c.undoes(h.lock, h.core.Owner, h.core.Loose, h.core.Used())
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

// taken takes in that the server says, before the release, that the lock is not ours.
func (l *Lease) taken() error {
	c := l.lock.c
	now := c.clock.now()
	c.mu.Lock()
	end := c.keeper.Taken(&l.hold.core.Lease)
	c.mu.Unlock()
	if end != core.Withdrawn { // released meanwhile
		l.hold.lose(end, now)
	}
	return l.Err()
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
	bound := l.hold.core.Lease.Bound(c.clock.now())
	c.mu.Unlock()
	keys := []string{l.lock.keys[0], l.lock.keys[1]}
	reply, err := c.run(ctx, raiseScript, min(bound, c.deadlineOf(ctx)), keys, []string{l.hold.core.Owner, seen.String()})
	if err != nil {
		return unavailable(op, l.lock.name, err)
	}
	fence := number(reply)
	switch {
	case reply == int64(0):
		return l.taken()
	case fence <= 0 || Fence(fence) <= seen:
		return unavailable(op, l.lock.name, unexpected(reply))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if l.err != nil { // it was given back meanwhile
		l.hold.core.Raise(uint64(fence), false)
		return l.err
	}
	l.hold.core.Raise(uint64(fence), true)
	l.fence.Store(l.hold.core.Fence())
	return nil
}
