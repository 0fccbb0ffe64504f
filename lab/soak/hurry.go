package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockkeeper/lockkeeper"
)

// Brief locks have holds of no length, so that there are very many. Each serves for a
// short time only: its whole history is small enough for a search through all orders in
// which it can have happened.
const (
	briefLoops = 3 // of each worker
	briefLocks = 12
	briefTTL   = 500 * time.Millisecond
	briefTurns = 5 * time.Second
	briefPause = 3 * time.Millisecond
)

// briefLock returns one of the locks of the moment. All processes have the same, by their
// common clock.
func (w *worker) briefLock(rng *rand.Rand) (string, *lockkeeper.Lock) {
	name := fmt.Sprintf("brief-%d-%d", rng.IntN(briefLocks), monotonic()/int64(briefTurns))
	return name, w.client.Mutex(name, lockkeeper.WithTTL(briefTTL))
}

// hurry makes one short call after the other: mostly tries, that find the lock free.
func (w *worker) hurry(ctx context.Context, rng *rand.Rand) {
	for ctx.Err() == nil {
		if w.lull.Load() {
			pause(ctx, 10*time.Millisecond)
			continue
		}
		if !w.brief(ctx, rng) {
			return
		}
		pause(ctx, exponential(rng, briefPause))
	}
}

// brief makes one call, and reports whether the client is still open.
func (w *worker) brief(ctx context.Context, rng *rand.Rand) bool {
	name, lock := w.briefLock(rng)
	c := &call{w: w, id: w.calls.Add(1), spec: lockSpec{Name: name, TTL: briefTTL}, rng: rng, how: byTry}
	ask := lock.Try
	if rng.Float64() < 0.1 {
		c.how, ask = byAcquire, lock.Acquire
	}
	inner := newWait(ctx, rng)
	defer inner.stop()
	c.note(event{What: asks, Text: c.how})
	lease, err := ask(inner)
	if err != nil {
		return c.failed(inner, err)
	}
	at := monotonic()
	if lease.Err() != nil {
		c.note(event{At: at, What: stale, Fence: uint64(lease.Fence())})
	} else {
		c.begin(lease, at)
		c.finish(lease)
	}
	return c.release(lease)
}
