package lockkeeper

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/core"
)

// An acquisition is the shell of core.Acquire: one call of Try or Acquire.
type acquisition struct {
	lock    *Lock
	machine core.Acquire
	own     line       // the local line, if this call begins it
	place   *place     // there, once it waits
	listens bool       // it has waited for the subscription
	asked   bool       // the last request had our channel
	direct  question   // the request before there is a place
	unsure  []question // that may have taken the lock, still to be undone

	lease *Lease // what was granted
	held  *HeldError
	err   error // of the last request, when there was no usable answer
}

// A manner is how a lock is acquired.
type manner struct {
	wait bool
	body bool // for a body of Do, which releases by itself when the client closes
}

func (l *Lock) acquire(ctx context.Context, how manner) (*Lease, error) {
	if l.err != nil {
		return nil, l.err
	}
	if l.maxWait > 0 && how.wait {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, l.maxWait)
		defer cancel()
	}
	if err := notStarted(ctx); err != nil {
		return nil, unavailable("acquire", l.name, err)
	}
	if !l.c.enter() {
		return nil, ErrClosed
	}
	defer l.c.calls.Done()
	a := acquisition{lock: l, machine: core.NewAcquire(l.terms, how.wait, rand.Float64())}
	lease, err := a.drive(ctx, how)
	a.undoUnsure()
	if how.wait {
		a.leave(lease != nil)
	}
	return lease, err
}

// drive does what the machine says until it is done.
func (a *acquisition) drive(ctx context.Context, how manner) (*Lease, error) {
	c := a.lock.c
	if how.wait && !a.queue() {
		if err := a.park(ctx, core.Never); err != nil { // nobody overtakes in this process
			return nil, err
		}
	}
	now := c.clock.now()
	step := a.machine.Start(now)
	for {
		switch step.Do {
		case core.Ask:
			step, now = a.ask(ctx, now, step.Until)
		case core.Park:
			if err := a.park(ctx, step.Until); err != nil {
				return nil, err
			}
			now = c.clock.now()
			step = a.machine.Resume(now)
		case core.Win:
			a.lease.body = how.body
			if !c.hold(a.lease, now) {
				c.undo(a.lock, &question{mine: a.lease.mine, bound: now})
				return nil, ErrClosed
			}
			return a.lease, nil
		default:
			return nil, a.failure(ended(ctx))
		}
	}
}

// ask sends one request, with an owner of its own, and feeds the answer to the
// machine. It returns the next step, and when the answer came.
func (a *acquisition) ask(ctx context.Context, sent, bound core.Instant) (core.Step, core.Instant) {
	c := a.lock.c
	q := &a.direct
	if a.place != nil {
		q = new(question) // its request may outlive this call
	}
	*q = question{mine: valueMark + newToken() + ":", sent: sent, bound: min(bound, c.deadlineOf(ctx))}
	q.notAfter = c.serverTime(q.bound)
	if a.place != nil {
		q.channel = c.wakeChannel(a.lock.keys[0])
		a.asked = q.channel != ""
	}
	var r core.Reply
	if a.place == nil {
		r = a.answer(q, a.lock.send(ctx, q))
	} else {
		r = a.sendAside(ctx, q)
	}
	r.Sent, r.Deaf = q.sent, q.channel == ""
	now := c.clock.now()
	step := a.machine.Replied(now, r)
	answered := r.Answer != core.NoAnswer && r.Answer != core.Cancelled
	if step.Undo {
		if answered {
			q.notAfter = longAgo // it has run, and does not run again
		}
		gone := func(old question) bool { return old.bound.Add(2*a.lock.terms.TTL) <= q.sent } // by its TTL
		a.unsure = append(slices.DeleteFunc(a.unsure, gone), *q)
	}
	if answered {
		a.undoUnsure()
	}
	return step, now
}

// longAgo is a time of every server that is over, in microseconds; 0 is none.
const longAgo = 1

// undoUnsure takes back, in the background, what may have happened. While nobody
// answers, a waiter keeps that for later: the undos would get no answer either, and
// would be many.
func (a *acquisition) undoUnsure() {
	for _, q := range a.unsure {
		a.lock.c.undo(a.lock, &q)
	}
	a.unsure = nil
}

// A question is one acquire request.
type question struct {
	mine     string // how the lock's value begins if it is granted: mark and owner
	channel  string
	notAfter int64
	sent     core.Instant
	bound    core.Instant
}

// A response is what came back for a question.
type response struct {
	reply any
	err   error
}

func (l *Lock) send(ctx context.Context, q *question) response {
	args := []string{q.mine, l.ttl, l.label, strconv.FormatInt(q.notAfter, 10), q.channel}
	reply, err := l.c.run(ctx, acquireScript, q.bound, l.keys[:], args)
	return response{reply, err}
}

// sendAside sends the request from a goroutine of its own, so that a waiter whose
// context ends returns at once and not when the request does. The first request of
// an Acquire, and that of Try, is not worth the two switches that this costs.
func (a *acquisition) sendAside(ctx context.Context, q *question) core.Reply {
	c := a.lock.c
	f := flight{answered: make(chan response, 1)}
	if !c.follow(func() { f.fly(ctx, a.lock, q) }) {
		return core.Reply{Answer: core.Cancelled, NoEffect: true}
	}
	select {
	case r := <-f.answered:
		if !a.isCutShort(ctx, r.err) {
			return a.answer(q, r)
		}
	case <-ctx.Done():
	case <-c.closing:
	}
	f.left.Store(true)
	if out := c.clock.now().Sub(q.sent); out >= longOut {
		a.err = fmt.Errorf("no answer for %s", out)
	}
	return core.Reply{Answer: core.Cancelled}
}

// longOut is how long a request has to be out before that says something about
// Redis, and not only that the caller's wait has ended meanwhile.
const longOut = 500 * time.Millisecond

// isCutShort reports whether a request had no answer because the caller's wait has
// ended. Then ctx has ended too: it may do so a moment after the request's deadline,
// which is the same.
func (a *acquisition) isCutShort(ctx context.Context, err error) bool {
	var reply *ReplyError
	if err == nil || errors.As(err, &reply) {
		return false
	}
	if c := a.lock.c; c.clock.now() >= c.deadlineOf(ctx) {
		<-ctx.Done()
	}
	return ctx.Err() != nil
}

// A flight is a request whose caller may leave.
type flight struct {
	answered chan response
	left     atomic.Bool // the caller has, and has begun to undo it
}

// fly sends the request. The undo of a caller that has left may have overtaken it,
// and found nothing: what is granted then is taken back here.
func (f *flight) fly(ctx context.Context, l *Lock, q *question) {
	r := l.send(context.WithoutCancel(ctx), q)
	f.answered <- r
	if f.left.Load() && r.err == nil && isGrant(r.reply) {
		l.c.undo(l, q)
	}
}

// isGrant reports whether a reply of acquire.lua says that the lock was taken.
func isGrant(reply any) bool {
	v, isArray := reply.([]any)
	return !isArray || len(v) == 2 && v[0] != "late"
}

// answer reads the response to a question, see lua/acquire.lua.
func (a *acquisition) answer(q *question, r response) core.Reply {
	a.err = r.err
	if r.err != nil {
		return a.trouble(r.err)
	}
	switch v := r.reply.(type) {
	case string:
		n := number(v)
		return a.granted(q, Fence(n), n)
	case []any:
		switch {
		case len(v) == 4 && v[0] == "held":
			return a.heldBy(q, v)
		case len(v) == 2 && v[0] == "late":
			a.err = errLate
			a.lock.c.sample(q.sent, number(v[1]))
			return core.Reply{Answer: core.Late}
		case len(v) == 2:
			return a.granted(q, Fence(number(v[0])), number(v[1]))
		}
	}
	a.err = unexpected(r.reply)
	return core.Reply{Answer: core.Rejected}
}

var errLate = errors.New("the server ran the request too late: it is slow, or its clock has jumped")

func (a *acquisition) granted(q *question, fence Fence, server int64) core.Reply {
	a.lock.c.sample(q.sent, server)
	if !fence.Valid() {
		a.err = errors.New("the server granted the lock without a fence")
		return core.Reply{Answer: core.Rejected}
	}
	a.err = errLateGrant
	a.lease = a.lock.newLease(q, fence)
	return core.Reply{Answer: core.Granted}
}

var errLateGrant = errors.New("the grant came too late to be relied on")

func (a *acquisition) heldBy(q *question, v []any) core.Reply {
	value, _ := v[1].(string)
	left := time.Duration(number(v[2])) * time.Millisecond
	a.lock.c.sample(q.sent, number(v[3]))
	a.held = &HeldError{Name: a.lock.name, Holder: parseHolder(value), Left: left}
	return core.Reply{Answer: core.Held, Left: left}
}

func (a *acquisition) trouble(err error) core.Reply {
	var reply *ReplyError
	if !errors.As(err, &reply) {
		return core.Reply{Answer: core.NoAnswer}
	}
	answer := core.Rejected
	if core.Classify(reply.Code, reply.Message) == core.Transient {
		answer = core.Trouble
	}
	return core.Reply{Answer: answer, NoEffect: core.NoEffect(reply.Code, reply.Message)}
}

// failure returns why there is no lock. cause is why the wait ended, if it was not
// for an answer.
func (a *acquisition) failure(cause error) error {
	a.hearsay()
	switch {
	case a.lock.c.isClosed():
		return ErrClosed
	case a.err != nil && cause != nil:
		return unavailable("acquire", a.lock.name, fmt.Errorf("%w: %w", cause, a.err))
	case a.err != nil:
		return unavailable("acquire", a.lock.name, a.err)
	case a.held != nil:
		held := *a.held
		held.Err = cause
		return &held
	}
	return unavailable("acquire", a.lock.name, cause)
}

// newLease makes the lease that a question was granted.
func (l *Lock) newLease(q *question, fence Fence) *Lease {
	lease := &Lease{lock: l, mine: q.mine}
	lease.fence.Store(uint64(fence))
	lease.core = core.NewLease(lease, l.terms, q.sent, l.maxHold)
	return lease
}

// undo takes back, in the background, an acquisition that may have happened.
func (c *Client) undo(l *Lock, q *question) {
	machine := core.NewUndo(q.notAfter, q.bound, l.terms.TTL)
	c.follow(func() {
		step := machine.Start(c.clock.now())
		for step.Do == core.Send || step.Do == core.Sleep {
			if step.Do == core.Sleep {
				if c.sleep(c.ctx, step.Until) != nil {
					return // closed; the TTL frees what is left
				}
				step = machine.Resume(c.clock.now())
				continue
			}
			step = c.undoOnce(l, q.mine, &machine, step.Until)
		}
	})
}

func (c *Client) undoOnce(l *Lock, mine string, machine *core.Undo, bound core.Instant) core.GiveBack {
	sent := c.clock.now()
	deleted, server, err := l.deleteOwned(c.ctx, mine, bound)
	now := c.clock.now()
	if c.isClosed() {
		machine.Hurry()
	}
	if err != nil {
		return machine.Failed(now)
	}
	c.sample(sent, server)
	return machine.Done(now, deleted, server)
}

// deleteOwned deletes the lock's key if its value begins with mine. If it did not,
// it returns the server's time.
func (l *Lock) deleteOwned(ctx context.Context, mine string, bound core.Instant) (deleted bool, server int64, err error) {
	reply, err := l.c.run(ctx, releaseScript, bound, l.releaseKeys[:], []string{mine})
	if err != nil {
		return false, 0, err
	}
	switch v := reply.(type) {
	case int64:
		return v == 1, 0, nil
	case []any:
		if len(v) == 1 {
			return false, number(v[0]), nil
		}
	}
	return false, 0, unexpected(reply)
}

// sleep waits until i, or returns the context's error.
func (c *Client) sleep(ctx context.Context, i core.Instant) error {
	timer := time.NewTimer(c.clock.until(i))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
