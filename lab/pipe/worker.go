package pipe

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockkeeper/lockkeeper"
)

// A worker is one goroutine of a process: it makes calls, one after the other. When its
// client is closed, it goes on in the next process of the slot.
type worker struct {
	w    *world
	slot *slot
	rng  *rand.Rand
	left int // calls
}

func newWorker(s *slot, i int) *worker {
	w := s.w
	return &worker{
		w: w, slot: s, rng: source(w.seed, 5, uint64(s.index), uint64(i)),
		left: 1 + w.params.calls/(w.clients*w.workers),
	}
}

// run makes calls until there have been enough, or faults are over.
func (k *worker) run() {
	for ; k.left > 0; k.left-- {
		think := k.w.think
		if k.rng.IntN(10) == 0 {
			think *= 8
		}
		time.Sleep(upTo(k.rng, think))
		if time.Since(k.w.zero)-time.Second > k.w.until {
			return
		}
		k.call()
	}
}

// errWork is what a body returns sometimes.
var errWork = errors.New("pipe: the work failed")

// call makes one call, and holds the lock if it got it.
func (k *worker) call() {
	w, p := k.w, k.slot.current()
	i := k.rng.IntN(w.params.locks)
	name := fmt.Sprintf("l%d", i)
	how := byAcquire
	switch n := k.rng.IntN(100); {
	case n < 20:
		how = byTry
	case n < 40:
		how = byDo
	case n < 45:
		how = byRun
	}
	c := k.begin(p, how, prefix+name)
	ctx, stop := k.bounded(context.WithValue(w.ctx, callKey{}, c), c)
	defer stop()
	lock := p.client.Mutex(name, lockkeeper.WithTTL(w.ttls[i]))
	if how == byDo || how == byRun {
		k.body(ctx, c, lock, p.client.Election(name, lockkeeper.WithTTL(w.ttls[i])))
		return
	}
	ask := lock.Acquire
	if how == byTry {
		ask = lock.Try
	}
	lease, err := ask(ctx)
	if err != nil {
		c.fail(ctx, err)
		return
	}
	c.serve()
	h := k.hold(c, lease)
	k.release(c, h, lease)
}

// bounded is the context of a call: some end at a time, some are cancelled, most last.
func (k *worker) bounded(ctx context.Context, c *call) (context.Context, context.CancelFunc) {
	d := upTo(k.rng, 500*time.Millisecond)
	if k.rng.IntN(3) == 0 {
		d = upTo(k.rng, 5*time.Millisecond)
	}
	switch n := k.rng.IntN(100); {
	case n < 25:
		return context.WithTimeout(ctx, d)
	case n < 45:
		ctx, cancel := context.WithCancel(ctx)
		timer := time.AfterFunc(d, cancel)
		return ctx, func() { timer.Stop(); cancel() }
	case n < 55:
		ctx, cancel := context.WithCancel(ctx)
		k.w.mu.Lock()
		defer k.w.mu.Unlock()
		l := c.p.on(c.lock)
		l.leave = append(l.leave, cancel)
		return ctx, cancel
	}
	return ctx, func() {}
}

// body runs a Do, or an election until it has led once.
func (k *worker) body(ctx context.Context, c *call, lock *lockkeeper.Lock, election *lockkeeper.Election) {
	var last *hold
	fails := k.rng.IntN(10) == 0
	work := func(_ context.Context, lease *lockkeeper.Lease) error {
		if !c.got {
			c.serve()
		} else { // an election that leads again
			k.w.gaveBack(c, last, last.lease.Err())
		}
		last = k.hold(c, lease)
		last.finish(k.w)
		if fails {
			return errWork
		}
		return nil
	}
	run := lock.Do
	if c.how == byRun {
		run = election.Run
	}
	err := run(ctx, work)
	if last == nil {
		c.fail(ctx, err)
		return
	}
	if fails && errors.Is(err, errWork) && !errors.Is(err, lockkeeper.ErrLost) {
		err = nil
	}
	if c.how == byRun && last.lost && saidBy(err) == "ended" {
		err = last.lease.Err() // it stood by again, until its context ended
	}
	k.w.gaveBack(c, last, err)
}

// release gives a lease back, in one of the ways in which that is done.
func (k *worker) release(c *call, h *hold, lease *lockkeeper.Lease) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if k.rng.IntN(4) == 0 {
		cancel() // which must not stop it
	}
	h.finish(k.w)
	k.w.gaveBack(c, h, lease.Release(ctx))
	if k.rng.IntN(8) == 0 {
		if err := lease.Release(ctx); err != nil && !errors.Is(err, lockkeeper.ErrLost) {
			k.w.odd(c.p.name, c.lock, fmt.Sprintf("the second Release: %v", err))
		}
	}
}
