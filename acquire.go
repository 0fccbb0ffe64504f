package lockkeeper

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/core"
)

// A call is one acquisition: of Try, which has nothing more than this, or of Acquire,
// which waits in a line of its process.
type call struct {
	lock *Lock
	body bool // for a body of Do, which releases by itself when the client closes

	// Guarded by the client's mutex until it is ready.
	waiter core.Waiter
	ready  chan struct{} // gets one when lease or err is set; nil while nobody looks
	lease  *Lease
	err    error
	turn   Lease // what lease points to: one allocation for both

	// Of the request that the caller sends itself.
	held *HeldError
	last error // there was no usable answer
}

// An opening is a call with what the first call of a line needs.
type opening struct {
	call
	line line
	hold hold
}

// manner is how a lock is acquired.
type manner struct {
	wait bool
	body bool
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
	defer l.c.done()
	trace := l.c.cfg.Trace
	if trace == nil {
		return l.obtain(ctx, how)
	}
	start := time.Now()
	lease, err := l.obtain(ctx, how)
	if lease != nil {
		lease.traceGrant()
	}
	if trace.Acquire != nil {
		trace.Acquire(AcquireTrace{Name: l.name, Wait: how.wait, Took: time.Since(start), Lease: lease, Err: err})
	}
	return lease, err
}

func (l *Lock) obtain(ctx context.Context, how manner) (*Lease, error) {
	if how.wait {
		return l.await(ctx, how.body)
	}
	return l.try(ctx, how.body)
}

// try does what the machine of a try says.
func (l *Lock) try(ctx context.Context, body bool) (*Lease, error) {
	c := l.c
	o := &opening{call: call{lock: l, body: body}}
	machine := core.NewTry(l.kind.Terms)
	now := c.clock.about()
	for {
		q := question{lock: l, Question: core.Question{Owner: c.newOwner(), Kind: l.kind, Sent: now}}
		q.Bound = min(machine.Bound(now), c.deadlineOf(ctx))
		q.notAfter = c.serverTime(q.Bound)
		r := o.answer(&q, q.send(ctx, false))
		now = c.clock.now()
		do, undo := machine.Replied(now, q.Sent, r)
		if undo {
			c.undo(l, q.Owner, q.loose(r.Answer))
		}
		switch do {
		case core.Ask:
			continue
		case core.Fail:
			if c.isClosed() {
				return nil, ErrClosed
			}
			return nil, l.failure(ended(ctx), o.held, o.last)
		}
		if !c.take(o, &q, r.Grant, now) {
			c.undo(l, q.Owner, core.Loose{})
			return nil, ErrClosed
		}
		return o.lease, nil
	}
}

// take gives a hold that was got without waiting to its call. Calls that come later
// may stand in line behind it, if nobody of this process does so already. It returns
// false when the client was closed meanwhile.
func (c *Client) take(o *opening, q *question, g core.Grant, now core.Instant) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	o.hold.core = core.NewHold(q.Owner, q.Kind, q.Sent, g)
	if _, busy := c.lines[q.lock.keys[0]]; busy {
		o.hold.start(nil, q.lock)
	} else {
		o.line.open(q.lock)
		o.line.core.Take(now, o.hold.core)
		o.hold.start(&o.line, q.lock)
	}
	c.give(&o.hold, &o.call, now)
	return true
}

// await waits in the line of the lock's key. The first call of a line sends its first
// request itself, which saves the switches to another goroutine and back; then the
// keeper takes over.
func (l *Lock) await(ctx context.Context, body bool) (*Lease, error) {
	c := l.c
	now := c.clock.about()
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil, ErrClosed
	}
	ln := c.lines[l.keys[0]]
	var a *call
	if ln == nil {
		o := &opening{call: call{lock: l, body: body}}
		a, ln = &o.call, &o.line
		ln.open(l)
		ln.spare = &o.hold
	} else {
		a = &call{lock: l, body: body, ready: make(chan struct{}, 1)}
		if n := ln.core.Len(); n >= c.cfg.MaxQueue {
			held := ln.holder(now)
			c.mu.Unlock()
			return nil, full(held, l.name, n)
		}
	}
	a.waiter = core.Waiter{Call: a, Kind: l.kind}
	if !ln.core.Come(now, &a.waiter).Ask {
		c.listen()
		c.mu.Unlock()
		return a.wait(ctx, ln)
	}
	q := ln.question(now, true, c.deadlineOf(ctx))
	c.mu.Unlock()
	a.ask(ctx, ln, &q)
	c.mu.Lock()
	if a.lease != nil || a.err != nil {
		c.mu.Unlock()
		return a.lease, a.err
	}
	a.ready = make(chan struct{}, 1)
	c.listen()
	c.mu.Unlock()
	return a.wait(ctx, ln)
}

// ask sends a line's request and feeds its answer to the machine.
func (a *call) ask(ctx context.Context, ln *line, q *question) {
	c := a.lock.c
	r := a.answer(q, q.send(ctx, true))
	now := c.clock.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	ln.replied(now, q, r, a.held, a.last)
}

// wait waits until the line has served the call, or ctx has ended.
func (a *call) wait(ctx context.Context, ln *line) (*Lease, error) {
	c := a.lock.c
	if trace := c.cfg.Trace; trace != nil && trace.Wait != nil {
		trace.Wait(WaitTrace{Name: a.lock.name})
	}
	select {
	case <-a.ready:
		return a.lease, a.err
	case <-ctx.Done():
	}
	c.mu.Lock()
	now := c.clock.now()
	held, last := ln.holder(now), ln.trouble(now)
	move, left := ln.core.Leave(&a.waiter)
	if left {
		ln.carry(now, move)
	}
	c.mu.Unlock()
	switch {
	case left:
		return nil, a.lock.failure(ended(ctx), held, last)
	case a.err != nil:
		return nil, a.err
	}
	// It came in the same moment, and is handed on.
	c.follow(func() { _ = a.lease.Release(ctx) })
	return nil, a.lock.failure(ended(ctx), nil, nil)
}

// failure returns why there is no lock. cause is why the wait ended, if it was not
// for an answer; held and last are what the server said last.
func (l *Lock) failure(cause error, held *HeldError, last error) error {
	switch {
	case last != nil && cause != nil:
		return unavailable("acquire", l.name, fmt.Errorf("%w: %w", cause, last))
	case last != nil:
		return unavailable("acquire", l.name, last)
	case held != nil:
		h := *held
		if h.Err == nil {
			h.Err = cause
		}
		return &h
	}
	return unavailable("acquire", l.name, cause)
}

// open makes an empty line for a lock's key.
func (ln *line) open(l *Lock) {
	ln.lock = l
	ln.core = core.NewLine(l.c.newOwner, rand.Float64())
	ln.core.Of = ln
	l.c.lines[l.keys[0]] = ln
}
