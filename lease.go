package lockkeeper

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/core"
)

// A Lease is one hold of a lock. The client renews it until it is released or
// lost. All methods are safe for concurrent use.
type Lease struct {
	lock  *Lock
	mine  string // how the lock's value begins while it is ours
	fence atomic.Uint64
	body  bool // a Do or Election.Run releases it

	// Guarded by the client's mutex.
	core     core.Lease
	err      error // why it is over
	released bool  // Release was called
	renewErr error // of the last renewal, if that failed
	done     chan struct{}
	bound    map[*boundContext]struct{}
}

// Name returns the lock's name.
func (l *Lease) Name() string { return l.lock.name }

// Owner returns the hold's own random token, which the lock's value on the server
// carries.
func (l *Lease) Owner() string { return l.mine[len(valueMark) : len(l.mine)-1] }

// Fence returns the hold's number: larger than that of every earlier hold of the
// name. It changes only by RaiseFence.
func (l *Lease) Fence() Fence { return Fence(l.fence.Load()) }

// Deadline returns when belief in the lease ends unless a renewal succeeds. It is
// before the key can expire, by the margin.
func (l *Lease) Deadline() time.Time {
	c := l.lock.c
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.clock.at(l.core.Until())
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
	if l.err == nil && c.keeper.Expire(&l.core, now) {
		c.mu.Unlock()
		return l.finish(l.core.End(), nil)
	}
	defer c.mu.Unlock()
	return l.err
}

// finish ends the lease for this process, once: its channel, its contexts. It
// returns why the lease is over. err is the reason when the machine has none.
func (l *Lease) finish(end core.End, err error) error {
	c := l.lock.c
	c.mu.Lock()
	if l.err != nil {
		defer c.mu.Unlock()
		return l.err
	}
	c.keeper.Drop(&l.core)
	if err == nil {
		err = l.lostError(end)
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
		e.Err = l.renewErr
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
