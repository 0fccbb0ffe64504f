package lockkeeper

import (
	"context"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/core"
)

// An undoing is an undo on its way.
type undoing struct {
	lock     *Lock
	owner    string
	used     string        // the last fence that the owner has used, if the server can't know it
	machine  core.Undo     // guarded by the client's mutex
	answered chan struct{} // a request that it waits for has been answered
}

// undo takes back, in the background, what an owner may have got.
func (c *Client) undo(l *Lock, owner string, loose core.Loose) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.undoes(l, owner, loose, 0)
}

// undoes is undo with the mutex held, for an owner that has used fences up to one.
func (c *Client) undoes(l *Lock, owner string, loose core.Loose, used uint64) {
	u := &undoing{
		lock: l, owner: owner, used: digits(used), answered: make(chan struct{}, 1),
		machine: core.NewUndo(c.clock.now(), loose, l.kind.Terms.TTL),
	}
	if c.follows(func() { c.drive(u) }) && loose.Count > 0 {
		c.undos[owner] = u
	}
}

// answered takes in the answer to a question of an owner that nobody uses any more. c.mu
// must be held.
func (c *Client) answered(l *Lock, owner string, r core.Reply) {
	u := c.undos[owner]
	switch {
	case r.Answer == core.NoAnswer:
	case u != nil:
		u.machine.Answered()
		select {
		case u.answered <- struct{}{}:
		default:
		}
	case r.Answer == core.Granted && !c.isGiving(owner):
		// Its undo has overtaken it, and found nothing.
		c.undoes(l, owner, core.Loose{}, 0)
	}
}

// isGiving reports whether a release of the owner is being tried again. It must not find
// the lock gone through an undo beside it.
func (c *Client) isGiving(owner string) bool {
	_, giving := c.giving[owner]
	return giving
}

// drive does what the machine of an undo says.
func (c *Client) drive(u *undoing) {
	defer c.forget(u)
	step := c.step(u, u.machine.Start)
	for step.Do == core.Send || step.Do == core.Sleep {
		if step.Do == core.Send {
			step = c.undoOnce(u, step.Until)
			continue
		}
		timer := time.NewTimer(c.clock.until(step.Until))
		select {
		case <-timer.C:
		case <-u.answered:
		case <-c.ctx.Done():
			timer.Stop()
			return // closed; the TTL frees what is left
		}
		timer.Stop()
		step = c.step(u, u.machine.Resume)
	}
}

func (c *Client) step(u *undoing, next func(core.Instant) core.GiveBack) core.GiveBack {
	c.mu.Lock()
	defer c.mu.Unlock()
	return next(c.clock.now())
}

func (c *Client) forget(u *undoing) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.undos[u.owner] == u {
		delete(c.undos, u.owner)
	}
}

func (c *Client) undoOnce(u *undoing, bound core.Instant) core.GiveBack {
	sent := c.clock.now()
	deleted, server, err := u.lock.giveUp(c.ctx, u.owner, u.used, bound)
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.now()
	if c.closed {
		u.machine.Hurry()
	}
	if err != nil {
		return u.machine.Failed(now)
	}
	c.sample(sent, server)
	return u.machine.Done(now, deleted, server)
}

// giveUp gives up whatever an owner has: the lock or a place in the line. If it was
// not the lock, it returns the server's time.
func (l *Lock) giveUp(ctx context.Context, owner, used string, bound core.Instant) (deleted bool, server int64, err error) {
	reply, err := l.c.run(ctx, releaseScript, bound, l.keys[:], []string{owner, used})
	if err != nil {
		return false, 0, err
	}
	return readRelease(reply)
}

// readRelease reads a reply of release.lua about the lock alone.
func readRelease(reply any) (deleted bool, server int64, err error) {
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

// digits returns a fence as the scripts take it, or "" for none.
func digits(fence uint64) string {
	if fence == 0 {
		return ""
	}
	return Fence(fence).String()
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
