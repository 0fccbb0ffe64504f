package lockkeeper

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/core"
)

// A hold is the lock in the hands of this process. Its calls take turns with it, each
// with a Lease of its own. Guarded by the client's mutex.
type hold struct {
	core     *core.Hold
	line     *line  // nil if it is none's
	lock     *Lock  // whose key it is
	ttl      string // what renewals ask for, in ms
	turn     *Lease
	renewErr error // of the last renewal, if that failed
}

// start makes a hold of what the machine has got.
func (h *hold) start(ln *line, l *Lock) {
	h.line, h.lock, h.ttl = ln, l, l.ttl
	if ttl := h.core.Lease.Terms().TTL; ttl != l.kind.Terms.TTL { // what was asked for by a call that has left
		h.ttl = strconv.FormatInt(ttl.Milliseconds(), 10)
	}
	h.core.Lease.Holder = h
}

// give begins a turn: that of a call, which is told. c.mu must be held.
func (c *Client) give(h *hold, a *call, now core.Instant) {
	first := h.turn == nil
	l := &a.turn
	*l = Lease{lock: a.lock, hold: h, body: a.body, turn: h.core.Turns(), began: now}
	l.fence.Store(h.core.Fence())
	h.turn = l
	if first {
		h.core.Lease.Limit(now, a.lock.maxHold)
		c.keep(&h.core.Lease, now)
	} else {
		c.keeper.Limit(&h.core.Lease, now, a.lock.maxHold)
	}
	a.lease = l
	a.tell()
}

// A Lease is one hold of a lock. The client renews it until it is released or
// lost. All methods are safe for concurrent use.
type Lease struct {
	lock  *Lock
	hold  *hold
	fence atomic.Uint64
	body  bool // a Do or Election.Run releases it
	turn  int  // how many calls of this process had the hold before
	began core.Instant

	// Guarded by the client's mutex.
	err      error // why it is over
	released bool  // Release was called
	done     chan struct{}
	bound    map[*boundContext]struct{}
}

// Name returns the lock's name.
func (l *Lease) Name() string { return l.lock.name }

// Owner returns the hold's own random token. The lock's value on the server carries
// it, and, where the calls of a process pass the lock on among themselves, that of the
// first of them: the owners of the others are the same with a number behind it.
func (l *Lease) Owner() string {
	mine := l.hold.core.Owner
	owner := mine[len(valueMark) : len(mine)-1]
	if l.turn == 0 {
		return owner
	}
	return owner + "." + strconv.Itoa(l.turn)
}

// Fence returns the hold's number: larger than that of every earlier hold of the
// name. It changes only by RaiseFence.
func (l *Lease) Fence() Fence { return Fence(l.fence.Load()) }

// Deadline returns when belief in the lease ends unless a renewal succeeds. It is
// before the key can expire, by the margin.
func (l *Lease) Deadline() time.Time {
	c := l.lock.c
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.clock.at(l.hold.core.Lease.Until())
}

// Done returns a channel that is closed when the lease is over: lost or released.
func (l *Lease) Done() <-chan struct{} {
	c := l.lock.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if l.done == nil {
		l.done = make(chan struct{})
		if l.err != nil {
			close(l.done)
		}
	}
	return l.done
}

// Err returns nil while the lease may be relied on. After that it returns a
// *LostError, or an error that matches ErrNotHeld (released) or ErrClosed. It asks
// the clock itself and not only a timer: after a pause of the process the first
// call knows.
func (l *Lease) Err() error { return l.errAt(l.lock.c.clock.now()) }

func (l *Lease) errAt(now core.Instant) error {
	c := l.lock.c
	c.mu.Lock()
	h := l.hold
	if l.err == nil && c.keeper.Expire(&h.core.Lease, now) {
		c.mu.Unlock()
		h.lose(h.core.Lease.End(), now)
		c.mu.Lock()
	}
	defer c.mu.Unlock()
	return l.err
}

// lose ends a hold before its time. The present turn is lost, and who waits for the
// next one has to ask the server.
func (h *hold) lose(end core.End, now core.Instant) {
	c := h.lock.c
	c.mu.Lock()
	c.keeper.Drop(&h.core.Lease)
	l := h.turn
	err := l.lostError(end)
	if h.line != nil {
		h.line.carry(now, h.line.core.Lost(now, h.core))
	}
	c.mu.Unlock()
	if l.finish(err) == err {
		l.traceLoss(err)
	}
}

// finish ends the turn for this process, once: its channel, its contexts. It
// returns why it is over.
func (l *Lease) finish(err error) error {
	c := l.lock.c
	c.mu.Lock()
	if l.err != nil {
		defer c.mu.Unlock()
		return l.err
	}
	l.err = err
	if l.done != nil {
		close(l.done)
	}
	bound := l.bound
	l.bound = nil
	c.mu.Unlock()
	for b := range bound {
		b.cancel(err) // outside the lock: it runs callers' code
	}
	return err
}

func (l *Lease) lostError(end core.End) error {
	e := &LostError{Name: l.lock.name, Fence: l.Fence()}
	switch end {
	case core.Taken:
		e.Reason = "the key on the server is gone or somebody else's"
	case core.HeldMost:
		e.Reason = fmt.Sprintf("held for %s, the most that was asked for", l.lock.maxHold)
	default:
		e.Reason = "no renewal was answered in time"
		e.Err = l.hold.renewErr
	}
	return e
}

// Bind returns a context that ends when parent does, or when the lease is over,
// with Err as its cause. Several contexts can be bound. Calling cancel frees it and
// does not touch the lease.
func (l *Lease) Bind(parent context.Context) (context.Context, context.CancelFunc) {
	inner, cancel := context.WithCancelCause(parent)
	b := &boundContext{Context: inner, lease: l, cancel: cancel}
	if err := l.Err(); err != nil {
		cancel(err)
		return b, func() {}
	}
	c := l.lock.c
	c.mu.Lock()
	if err := l.err; err != nil { // since Err
		c.mu.Unlock()
		cancel(err)
		return b, func() {}
	}
	if l.bound == nil {
		l.bound = make(map[*boundContext]struct{})
	}
	l.bound[b] = struct{}{}
	c.mu.Unlock()
	return b, func() {
		c.mu.Lock()
		delete(l.bound, b)
		c.mu.Unlock()
		cancel(context.Canceled)
	}
}

// boundContext asks the lease's clock whenever it is asked: after SIGSTOP and
// SIGCONT the work's next check sees the loss, even before the keeper has run.
type boundContext struct {
	context.Context
	lease  *Lease
	cancel context.CancelCauseFunc
}

func (b *boundContext) Err() error {
	if err := b.Context.Err(); err != nil {
		return err
	}
	if err := b.lease.Err(); err != nil {
		b.cancel(err) // whoever has found that out may not have come to it yet
	}
	return b.Context.Err()
}

// run runs fn under the lease and releases it after fn has ended, whichever way.
func (l *Lease) run(ctx context.Context, fn func(ctx context.Context, lease *Lease) error) (err error) {
	bound, cancel := l.Bind(ctx)
	defer func() {
		lost := l.Err() // before the release, which ends it too
		cancel()
		rerr := l.Release(ctx)
		switch {
		case lost == nil && errors.Is(rerr, ErrLost):
			lost = rerr
		case errors.Is(rerr, ErrUnavailable):
			l.lock.c.cfg.Logger.Warn("lock not released; its TTL frees it", "error", rerr)
		}
		err = joinLoss(err, lost)
	}()
	return fn(bound, l)
}

// joinLoss adds the loss of the lease to what the work returned, unless the work
// has said it already.
func joinLoss(err, lost error) error {
	if lost == nil || errors.Is(err, lost) {
		return err
	}
	if err == nil {
		return lost
	}
	return errors.Join(err, lost)
}
