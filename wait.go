package lockkeeper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/core"
)

// A line is who waits for one key in this process, in the order of their calls.
// Only the first asks the server, so that a thousand goroutines cost what one
// does. The waiting line on the server will keep one place for each line.
type line struct {
	direct bool // the first has no place yet: it sends its first request
	woken  bool // a wake-up came meanwhile
	asked  bool // the server may have our channel in its line
	places []*place

	// What the server told the first, for the errors of the others.
	held *HeldError
	err  error
}

// A place is one waiter.
type place struct {
	first chan struct{} // closed when it is the first of its line
	wake  chan struct{} // a hint that the lock may be free
}

func newPlace() *place {
	return &place{first: make(chan struct{}), wake: make(chan struct{}, 1)}
}

// queue puts a call in the line of its key and reports whether it is the first
// there. That one asks at once, and gets a place only if it has to wait.
func (a *acquisition) queue() bool {
	c, key := a.lock.c, a.lock.keys[0]
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.lines[key]
	if l == nil {
		a.own.direct = true
		c.lines[key] = &a.own
		return true
	}
	a.place = newPlace()
	l.places = append(l.places, a.place)
	return false
}

// settle gives the first of the line a place, if it has none, and lets the others
// know what it knows.
func (a *acquisition) settle() {
	c := a.lock.c
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.lines[a.lock.keys[0]]
	if a.place == nil {
		a.place = newPlace()
		close(a.place.first)
		l.direct = false
		l.places = slices.Insert(l.places, 0, a.place)
	}
	l.held, l.err = a.held, a.err
	if l.woken {
		l.woken = false
		l.wake()
	}
}

// leave takes the call out of its line, and makes the next one ask. The last one
// takes the client's place out of the server's line, unless the request that got
// the lock has done it.
func (a *acquisition) leave(won bool) {
	c, keys := a.lock.c, a.lock.keys
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.lines[keys[0]]
	wasFirst := a.place == nil
	if wasFirst {
		l.direct = false
	} else {
		i := slices.Index(l.places, a.place)
		wasFirst = i == 0 && !l.direct
		l.places = slices.Delete(l.places, i, i+1)
	}
	switch {
	case len(l.places) > 0 && wasFirst:
		close(l.places[0].first)
	case len(l.places) == 0 && !l.direct:
		delete(c.lines, keys[0])
		if (l.asked || l.woken) && !(won && a.asked) {
			c.start(func() { c.passOn(keys[0], keys[2]) })
		}
	}
}

// passOn gives up the client's place in the server's line. If the lock is free, a
// wake-up may have been meant for us, and the next one gets it.
func (c *Client) passOn(key, lineKey string) {
	bound := c.clock.now().Add(time.Second)
	if _, err := c.run(c.ctx, leaveScript, bound, []string{key, lineKey}, []string{c.channel}); err != nil {
		// The others ask again by themselves within a poll.
		c.cfg.Logger.Debug("place in the line not given up", "key", key, "error", err)
	}
}

// park sleeps until there is a reason to ask: a wake-up, the time, or, for a
// waiter that is not the first of its line, that it has become the first. It
// returns the error of the acquisition when the wait is over.
func (a *acquisition) park(ctx context.Context, until core.Instant) error {
	c := a.lock.c
	switch {
	case a.place != nil && !a.place.isFirst():
		return a.await(ctx, a.place.first, core.Never)
	case until == core.Never:
		return nil // it has become the first meanwhile
	}
	a.settle()
	if !a.listens && !a.asked && a.err == nil {
		// Subscribe first and then ask: a release in between would be missed.
		a.listens = true
		return a.await(ctx, c.listen(), until)
	}
	return a.await(ctx, a.place.wake, until)
}

func (p *place) isFirst() bool {
	select {
	case <-p.first:
		return true
	default:
		return false
	}
}

// await waits for the signal or the time.
func (a *acquisition) await(ctx context.Context, signal <-chan struct{}, until core.Instant) error {
	c := a.lock.c
	var due <-chan time.Time
	if until != core.Never {
		timer := time.NewTimer(c.clock.until(until))
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-signal:
		return nil
	case <-due:
		return nil
	case <-ctx.Done():
		return a.failure(ended(ctx))
	case <-c.closing:
		return ErrClosed
	}
}

// hearsay lets a waiter that was never answered know what the first of its line
// was told.
func (a *acquisition) hearsay() {
	if a.place == nil || a.held != nil || a.err != nil {
		return
	}
	c := a.lock.c
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.lines[a.lock.keys[0]]
	a.held, a.err = l.held, l.err
}

// ended returns why a context ended, such that its own error is visible too.
func ended(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if err == nil || errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// A listener is the state of the client's one subscription.
type listener struct {
	started bool
	live    bool
	told    bool          // that there is none
	settled chan struct{} // closed once the first attempt has succeeded or failed
}

func newListener() listener { return listener{settled: make(chan struct{})} }

// How a broken subscription is made again.
const (
	listenFirst   = 100 * time.Millisecond
	listenMost    = 2 * time.Second
	listenRefused = 30 * time.Second // the server said no
)

// listen starts the subscription if need be, and returns a channel that is closed
// once it is known whether there is one.
func (c *Client) listen() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.listener.started {
		c.listener.started = c.start(c.hear)
	}
	return c.listener.settled
}

// wakeChannel returns where the server should wake the line of a key, or "" while
// nobody would hear it.
func (c *Client) wakeChannel(key string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.listener.live {
		return ""
	}
	c.lines[key].asked = true
	return c.channel
}

// hear is the listener: it keeps the subscription up until the client is closed.
func (c *Client) hear() {
	pause := listenFirst
	for {
		err := c.conn.Listen(c.ctx, c.channel, func() {
			pause = listenFirst
			c.setLive(true, nil)
		}, c.wake)
		if c.ctx.Err() != nil {
			return
		}
		c.setLive(false, err)
		var refused *ReplyError
		if errors.As(err, &refused) && core.Classify(refused.Code, refused.Message) == core.Refused {
			pause = listenRefused
		}
		if c.sleep(c.ctx, c.clock.now().Add(pause)) != nil {
			return
		}
		pause = min(2*pause, listenMost)
	}
}

// setLive takes in that the subscription is there or not. A new one makes every
// waiter ask at once, since wake-ups may have been missed.
func (c *Client) setLive(live bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listener.live = live
	select {
	case <-c.listener.settled:
	default:
		close(c.listener.settled)
	}
	if !live {
		if !c.listener.told {
			c.cfg.Logger.Warn("no subscription for wake-ups; waiters poll until there is one", "channel", c.channel, "error", err)
		}
		c.listener.told = true
		return
	}
	c.listener.told = false
	for _, l := range c.lines {
		l.wake()
	}
}

// wake takes in a message: the lock with that key may be free.
func (c *Client) wake(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.lines[key]; l != nil {
		l.wake()
		return
	}
	// Nobody here waits for it any more.
	_, lineKey := derive(key)
	c.start(func() { c.passOn(key, lineKey) })
}

// wake makes the first of the line ask. c.mu must be held.
func (l *line) wake() {
	if l.direct {
		l.woken = true // its request may have been there before the lock was free
		return
	}
	select {
	case l.places[0].wake <- struct{}{}:
	default:
	}
}
