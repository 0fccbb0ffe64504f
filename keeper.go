package lockkeeper

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/core"
)

// keep starts keeping a lease. c.mu must be held.
func (c *Client) keep(l *core.Lease, now core.Instant) {
	c.keeper.Hold(l)
	c.hurry(now)
}

// hurry wakes the keeper if it would sleep for too long. Taking a lock that is
// released again at once must not cost a wake-up. c.mu must be held.
func (c *Client) hurry(now core.Instant) {
	wake := c.keeper.Wake(now)
	if !c.keeping && wake != core.Never {
		c.keeping = c.start(c.watch)
	}
	if wake >= c.asleep {
		return
	}
	select {
	case c.nudge <- struct{}{}:
	default:
	}
}

// watch is the keeper's goroutine: it ends leases whose belief is over, sends renewals,
// and makes lines ask when they are due. It never waits for the network, so no call can
// delay a loss.
func (c *Client) watch() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		c.mu.Lock()
		now := c.clock.now()
		late := now.Sub(c.asleep)
		renew, ended := c.keeper.Tick(now)
		for due := c.keeper.DueLine(now); due != nil; due = c.keeper.DueLine(now) {
			due.Of.(*line).carry(now, due.Resume())
		}
		c.asleep = c.keeper.Wake(now)
		c.mu.Unlock()

		for _, l := range ended {
			l.Holder.(*hold).lose(l.End(), now)
		}
		c.renewAll(renew)
		c.noteLate(late)

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

// lateFrom is from when on a wake-up of the keeper counts as late. Leases have more
// to spare than that; it is a sign of a process that gets too little of its CPUs.
const (
	lateFrom = 50 * time.Millisecond
	lateTold = 500 * time.Millisecond // and the log says so
)

// noteLate counts a wake-up that came late.
func (c *Client) noteLate(by time.Duration) {
	if by < lateFrom {
		return
	}
	n := c.late.Add(1)
	if by >= lateTold {
		c.cfg.Logger.Warn("the keeper was woken late: this process gets too little CPU, or was stopped", "by", by, "times", n)
	}
	if trace := c.cfg.Trace; trace != nil && trace.Late != nil {
		trace.Late(by)
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
		for n < min(len(leases), core.Batch) && ttl(leases[n]) == ttl(leases[0]) {
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
	keys := make([]string, len(batch))
	args := make([]string, 2*len(batch))
	asked := make([]core.Terms, len(batch))
	sent := c.clock.now()
	bound := sent
	c.mu.Lock()
	for i, l := range batch {
		h := l.Holder.(*hold)
		keys[i] = h.lock.keys[0]
		args[2*i], args[2*i+1], asked[i] = h.core.Owner, h.ttl, l.Terms()
		bound = max(bound, l.Bound(sent))
	}
	c.mu.Unlock()

	bound = min(bound, c.deadlineOf(ctx))
	reply, err := c.run(ctx, renewScript, bound, keys, args)
	var outcomes []core.Outcome
	if err == nil {
		outcomes, err = renewOutcomes(reply, len(batch))
	}
	c.renewed(batch, asked, sent, outcomes, err)
	if trace := c.cfg.Trace; trace != nil && trace.Renew != nil {
		trace.Renew(RenewTrace{Leases: len(batch), Took: c.clock.now().Sub(sent), Err: err})
	}
	return err
}

// renewed takes in what became of a batch; without outcomes that is not known.
func (c *Client) renewed(batch []*core.Lease, asked []core.Terms, sent core.Instant, outcomes []core.Outcome, err error) {
	var lost []*core.Lease
	now := c.clock.now()
	c.mu.Lock()
	for i, l := range batch {
		outcome := core.Unsure
		if outcomes != nil {
			outcome = outcomes[i]
		}
		l.Holder.(*hold).renewErr = err
		if end := c.keeper.Renewal(l, asked[i], sent, now, outcome); end != core.NotEnded && end != core.Withdrawn {
			lost = append(lost, l)
		}
	}
	c.hurry(now)
	c.mu.Unlock()
	for _, l := range lost {
		l.Holder.(*hold).lose(l.End(), now)
	}
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
	h := l.hold.core
	h.Kind.Terms = core.Terms{TTL: ttl, Margin: c.cfg.margin(ttl)}
	l.hold.ttl = strconv.FormatInt(ttl.Milliseconds(), 10)
	c.keeper.Change(&h.Lease, h.Kind.Terms)
	c.mu.Unlock()
	err := c.renew(ctx, []*core.Lease{&h.Lease})
	if lost := l.Err(); lost != nil {
		return lost
	}
	return unavailable("extend", l.lock.name, err)
}
