package lockkeeper

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/core"
)

// maxBatch is how many renewals share a request: few enough that the server is
// not held up for more than about half a millisecond.
const maxBatch = 128

// hold starts keeping a lease, unless the client was closed meanwhile.
func (c *Client) hold(l *Lease, now core.Instant) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.keeper.Hold(&l.core)
	if !c.keeping {
		c.keeping = c.start(c.keep)
	}
	c.hurry(now)
	return true
}

// hurry wakes the keeper if it would sleep for too long. Taking a lock that is
// released again at once must not cost a wake-up. c.mu must be held.
func (c *Client) hurry(now core.Instant) {
	if c.keeper.Wake(now) >= c.asleep {
		return
	}
	select {
	case c.nudge <- struct{}{}:
	default:
	}
}

// keep is the keeper: it ends leases whose belief is over and sends renewals. It
// never waits for the network, so no call can delay a loss.
func (c *Client) keep() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		c.mu.Lock()
		now := c.clock.now()
		renew, ended := c.keeper.Tick(now)
		c.asleep = c.keeper.Wake(now)
		c.mu.Unlock()

		for _, l := range ended {
			l.Holder.(*Lease).finish(l.End(), nil)
		}
		c.renewAll(renew)

		sleep := time.Hour
		if c.asleep != core.Never {
			sleep = c.clock.until(c.asleep) // what came between has taken time
		}
		timer.Reset(sleep)
		select {
		case <-timer.C:
		case <-c.nudge:
		case <-c.ctx.Done():
			return
		}
	}
}

// renewAll sends the renewals, many in a request, each request in a goroutine
// that Close joins. Only leases of one TTL share a request: it is given up after a
// part of it, which must not be too soon for some or too late for others.
func (c *Client) renewAll(leases []*core.Lease) {
	c.mu.Lock() // for the terms
	defer c.mu.Unlock()
	ttl := func(l *core.Lease) time.Duration { return l.Terms().TTL }
	slices.SortStableFunc(leases, func(a, b *core.Lease) int { return cmp.Compare(ttl(a), ttl(b)) })
	for len(leases) > 0 {
		n := 1
		for n < min(len(leases), maxBatch) && ttl(leases[n]) == ttl(leases[0]) {
			n++
		}
		batch := leases[:n]
		leases = leases[n:]
		c.start(func() { _ = c.renew(c.ctx, batch) }) // the leases have its error
	}
}

// renew renews a batch in one request and returns its error, which concerns all of
// the batch, and is no loss: belief stands until its time.
func (c *Client) renew(ctx context.Context, batch []*core.Lease) error {
	keys := make([]string, 0, len(batch))
	args := make([]string, 0, 2*len(batch))
	sent := c.clock.now()
	bound := sent
	c.mu.Lock()
	for _, l := range batch {
		lease := l.Holder.(*Lease)
		keys = append(keys, lease.lock.keys[0])
		args = append(args, lease.mine, strconv.FormatInt(l.Terms().TTL.Milliseconds(), 10))
		bound = max(bound, l.Bound(sent))
	}
	c.mu.Unlock()

	bound = min(bound, c.deadlineOf(ctx))
	reply, err := c.run(ctx, renewScript, bound, keys, args)
	var outcomes []core.Outcome
	if err == nil {
		outcomes, err = renewOutcomes(reply, len(batch))
	}
	now := c.clock.now()
	for i, l := range batch {
		outcome := core.Unsure
		if err == nil {
			outcome = outcomes[i]
		}
		l.Holder.(*Lease).renewed(sent, now, outcome, err)
	}
	return err
}

// renewOutcomes reads the reply of renew.lua for n leases. Only what it says in so
// many words is a loss.
func renewOutcomes(reply any, n int) ([]core.Outcome, error) {
	v, ok := reply.([]any)
	if !ok || len(v) != n {
		return nil, unexpected(reply)
	}
	outcomes := make([]core.Outcome, n)
	for i, one := range v {
		switch one {
		case int64(0):
			outcomes[i] = core.NotOurs
		case int64(1):
			outcomes[i] = core.Renewed
		default:
			return nil, unexpected(reply)
		}
	}
	return outcomes, nil
}

// renewed takes in what became of one renewal.
func (l *Lease) renewed(sent, now core.Instant, outcome core.Outcome, err error) {
	c := l.lock.c
	c.mu.Lock()
	l.renewErr = err
	end := c.keeper.Renewal(&l.core, sent, now, outcome)
	c.hurry(now)
	c.mu.Unlock()
	if end == core.Expired || end == core.Taken || end == core.HeldMost {
		l.finish(end, nil)
	}
}

// Extend gives the lease a new TTL, for now and for every renewal that follows,
// and renews it at once, in one round trip; for work that knows that it will be
// busy for long. A shorter TTL does not shorten what the server has granted. The
// TTL follows the rules of Config.TTL.
//
// It returns an error that matches ErrLost if the lease is over, and
// ErrUnavailable if Redis gave no usable answer in time; the lease then stands as
// before, and the next renewal asks for the new TTL.
func (l *Lease) Extend(ctx context.Context, ttl time.Duration) error {
	if err := checkTTL(ttl); err != nil {
		return err
	}
	if err := l.Err(); err != nil {
		return err
	}
	if err := notStarted(ctx); err != nil {
		return unavailable("extend", l.lock.name, err)
	}
	c := l.lock.c
	c.mu.Lock()
	c.keeper.Change(&l.core, core.Terms{TTL: ttl, Margin: c.cfg.margin(ttl)})
	c.mu.Unlock()
	err := c.renew(ctx, []*core.Lease{&l.core})
	if lost := l.Err(); lost != nil {
		return lost
	}
	return unavailable("extend", l.lock.name, err)
}
