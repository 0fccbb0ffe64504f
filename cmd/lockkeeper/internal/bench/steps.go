package bench

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"time"

	"github.com/lockkeeper/lockkeeper"
)

// tallied runs workers and makes a Timing of what they have noted. There may be one with
// an error too, when the work was ended early.
func (b *bench) tallied(ctx context.Context, d time.Duration, clients []*client, workers []worker) (*Timing, error) {
	before := b.measure(ctx, clients)
	t, err := crew(ctx, d, workers)
	timing := newTiming(t, clients, len(workers), b.measure(ctx, clients).cost(before, t.all))
	var failed int64
	for _, c := range clients {
		failed += c.meter.failed.Load()
	}
	if failed > 0 {
		b.note("%s: %s got no usable answer", b.now, count(int(failed), "request", "requests"))
	}
	if timing == nil && err == nil {
		b.note("%s: it did not happen once in %s", b.now, d.Round(time.Millisecond))
	}
	return timing, err
}

// roundTrip measures the smallest script there is, as one goroutine sends it.
func (b *bench) roundTrip(ctx context.Context, d time.Duration) error {
	const script = "return 1"
	sum := sha1.Sum([]byte(script))
	sha := hex.EncodeToString(sum[:])
	return b.with(ctx, 1, ttl, func(clients []*client) (err error) {
		conn := clients[0].meter
		loading, cancel := context.WithTimeout(ctx, closeWithin)
		defer cancel()
		if _, err := conn.Eval(loading, script, nil, nil); err != nil {
			return err
		}
		b.out.RoundTrip, err = b.tallied(ctx, d, clients, []worker{func(ctx context.Context, log *samples) error {
			requests, cancel := context.WithTimeout(ctx, d+closeWithin)
			defer cancel()
			for log.goesOn() {
				began := time.Now()
				_, err := conn.EvalSha(requests, sha, nil, nil)
				switch {
				case err == nil:
					log.add(began, time.Now())
				case isTrouble(err) && requests.Err() == nil:
					within(50*time.Millisecond, log.over) // the meter ends it when it has had enough
				default:
					return err
				}
			}
			return nil
		}})
		return err
	})
}

// freeLock measures a free lock as one goroutine takes it and gives it back.
func (b *bench) freeLock(ctx context.Context, d time.Duration) error {
	return b.with(ctx, 1, ttl, func(clients []*client) (err error) {
		lock := clients[0].locks.Mutex(b.use("free"))
		b.out.FreeLock, err = b.tallied(ctx, d, clients, []worker{takeAndGive(lock)})
		return err
	})
}

// freeLocks does the same with many goroutines, each with a lock of its own.
func (b *bench) freeLocks(ctx context.Context, d time.Duration) error {
	return b.with(ctx, 1, ttl, func(clients []*client) (err error) {
		var workers []worker
		for _, name := range b.uses("free", b.o.Goroutines) {
			workers = append(workers, takeAndGive(clients[0].locks.Mutex(name)))
		}
		b.out.FreeLockParallel, err = b.tallied(ctx, d, clients, workers)
		return err
	})
}

func takeAndGive(lock *lockkeeper.Lock) worker {
	return func(ctx context.Context, log *samples) error {
		for log.goesOn() {
			began := time.Now()
			lease, err := lock.Acquire(ctx)
			if err != nil {
				return unlessEnded(ctx, err)
			}
			if err := lease.Release(ctx); err != nil {
				return err
			}
			log.add(began, time.Now())
		}
		return nil
	}
}

// unlessEnded returns an error that is not due to the end of the work.
func unlessEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}
