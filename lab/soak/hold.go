package main

import (
	"context"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper"
)

// lookEvery is how often a longer hold looks at its lease.
const lookEvery = 8 * time.Millisecond

// stepEvery is at how many of those looks it begins a step of its work.
const stepEvery = 4

// hold does some work under a lease, and writes down for how long the lease was
// believed. What is written must never be longer than the belief was, whenever this
// process is stopped: a beginning is read before the lease is asked, a deadline is
// rounded down by the time that reading it took, and the end is written before the
// lease is given back.
func (c *call) hold(ctx context.Context, lease *lockkeeper.Lease) {
	at := monotonic()
	if lease.Err() != nil {
		c.note(event{At: at, What: stale, Fence: uint64(lease.Fence())})
		return
	}
	c.begin(lease, at)

	length, counts := c.length(), c.rng.Float64()
	until := at + int64(length)
	switch {
	case length >= lookEvery && counts < 0.6: // most of the hold is between reading and writing
		c.watched(lease, func() {
			c.count(ctx, lease, func(ctx context.Context) { pause(ctx, time.Duration(until-monotonic())) })
		})
	case counts < 0.2:
		c.watched(lease, func() {
			c.count(ctx, lease, func(ctx context.Context) { pause(ctx, exponential(c.rng, 3*time.Millisecond)) })
			c.rest(ctx, lease, until)
		})
	case length < lookEvery:
		c.rest(ctx, lease, until)
	default:
		c.watched(lease, func() { c.rest(ctx, lease, until) })
	}
	c.finish(lease)
}

// begin writes down a lease that was believed at a time.
func (c *call) begin(lease *lockkeeper.Lease, at int64) {
	c.checkDeadline(lease, at)
	c.deadline, c.fence = monotonicAt(lease.Deadline()), uint64(lease.Fence())
	c.note(event{At: at, What: held, Fence: c.fence, Owner: lease.Owner(), Until: c.deadline})
}

// finish writes down how the hold ended.
func (c *call) finish(lease *lockkeeper.Lease) {
	if c.lost {
		return
	}
	at := monotonic()
	if err := lease.Err(); err != nil {
		c.noteLoss(err)
		return
	}
	c.checkDeadline(lease, at)
	c.note(event{At: at, What: free})
}

// checkDeadline makes sure that a lease that was believed at a time had its deadline
// after that. A pause in the middle of reading the deadline makes it come out too early,
// so that it is read several times.
func (c *call) checkDeadline(lease *lockkeeper.Lease, at int64) {
	for range 5 {
		left := time.Until(lease.Deadline())
		if monotonic()+int64(left) >= at {
			return
		}
	}
	c.odd("the lease is believed %s after its deadline", time.Duration(at-monotonicAt(lease.Deadline())))
}

func (c *call) noteLoss(err error) {
	c.lost = true
	c.note(event{At: monotonic(), What: ended, Text: string(kindOf(err)), Error: err.Error()})
}

// rest waits until a time, or until the lease or ctx ends.
func (c *call) rest(ctx context.Context, lease *lockkeeper.Lease, until int64) {
	timer := time.NewTimer(time.Duration(until - monotonic()))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-lease.Done():
	case <-ctx.Done():
	}
}

// watched runs work while another goroutine looks at the lease.
func (c *call) watched(lease *lockkeeper.Lease, work func()) {
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { c.watch(lease, stop) })
	work()
	close(stop)
	wg.Wait()
}

// watch writes down each new deadline, and the loss.
func (c *call) watch(lease *lockkeeper.Lease, stop <-chan struct{}) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for looks := 0; ; looks++ {
		select {
		case <-stop:
			return
		case <-lease.Done():
		case <-tick.C:
		}
		at := monotonic()
		if err := lease.Err(); err != nil {
			c.noteLoss(err)
			return
		}
		c.checkDeadline(lease, at)
		if looks%stepEvery == 0 {
			c.note(event{At: at, What: step, Fence: c.fence, Owner: lease.Owner()})
		}
		if d := monotonicAt(lease.Deadline()); d > c.deadline+int64(2*time.Millisecond) {
			c.deadline = d
			c.note(event{What: renewed, Until: d})
		}
	}
}

// count adds to the lock's counter in the database, once or a few times. Half of the
// time it does so with no regard to the lease, and for longer than that may live, as a
// process does that is stopped between its look at the lease and its write: then only
// the fence protects the counter.
func (c *call) count(ctx context.Context, lease *lockkeeper.Lease, think func(ctx context.Context)) {
	var cancel context.CancelFunc
	bound := c.rng.Float64() < 0.5
	if bound {
		ctx, cancel = lease.Bind(ctx)
	} else {
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
	}
	defer cancel()
	claim, err := c.w.ledger.claim(ctx, c.spec.Name, lease)
	if err != nil {
		c.refusedByDatabase(ctx, err)
		return
	}
	c.claim = claim
	for i := range 1 + c.rng.IntN(3) {
		who := c.w.entry(c.id, i)
		if at := monotonic(); bound && ctx.Err() == nil {
			c.note(event{At: at, What: step, Fence: c.fence, Owner: lease.Owner()})
		}
		value, err := c.w.ledger.add(ctx, claim, c.spec.Name, who, func() { think(ctx) })
		if err != nil {
			c.refusedByDatabase(ctx, err)
			return
		}
		c.note(event{What: wrote, Value: value, Fence: uint64(claim.Fence()), Text: who})
	}
}

// countLate adds to the counter once more when the lease is over, as a process does that
// was stopped in the middle. It may, for as long as nobody else has claimed the counter.
func (c *call) countLate(ctx context.Context) {
	if c.claim == nil || c.rng.Float64() < 0.5 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
	defer cancel()
	who := c.w.entry(c.id, lateEntry)
	value, err := c.w.ledger.add(ctx, c.claim, c.spec.Name, who, func() { pause(ctx, exponential(c.rng, 20*time.Millisecond)) })
	if err != nil {
		c.refusedByDatabase(ctx, err)
		return
	}
	c.note(event{What: wrote, Value: value, Fence: uint64(c.claim.Fence()), Text: who})
}

// lateEntry is the number of that addition, after those of the lease.
const lateEntry = 9
