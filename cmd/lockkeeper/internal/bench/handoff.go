package bench

import (
	"context"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper"
)

// handOffClients is how many clients want one key: enough that others wait while one
// that has given the lock away gets in line again.
const handOffClients = 4

// A baton knows who gave the lock away last, and when.
type baton struct {
	mu    sync.Mutex
	by    int
	at    time.Time     // zero before the first
	taken chan struct{} // closed when the next one has the lock
}

// give notes that a holder is about to release, and returns a channel that is closed
// when the next one has the lock.
func (h *baton) give(who int) <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.by, h.at, h.taken = who, time.Now(), make(chan struct{})
	return h.taken
}

// take notes that somebody has the lock. It returns when the one before began to release
// it, if that was another.
func (h *baton) take(who int) (given time.Time, passed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.at.IsZero() {
		return time.Time{}, false
	}
	close(h.taken)
	return h.at, h.by != who
}

// handOff measures how a lock goes from client to client. Who has given it away stands
// back until another has it.
func (b *bench) handOff(ctx context.Context, d time.Duration) error {
	return b.with(ctx, handOffClients, ttl, func(clients []*client) (err error) {
		name := b.use("hand-off")
		var workers []worker
		var shared baton
		for i, c := range clients {
			workers = append(workers, passOn(c.locks.Mutex(name), &shared, i, true))
		}
		b.out.HandOff, err = b.tallied(ctx, d, clients, workers)
		return err
	})
}

// handOffInProcess measures how a lock goes from goroutine to goroutine of one client.
func (b *bench) handOffInProcess(ctx context.Context, d time.Duration) error {
	return b.with(ctx, 1, ttl, func(clients []*client) (err error) {
		lock := clients[0].locks.Mutex(b.use("in-process"))
		var workers []worker
		var shared baton
		for i := range b.o.Goroutines {
			workers = append(workers, passOn(lock, &shared, i, false))
		}
		b.out.HandOffInProcess, err = b.tallied(ctx, d, clients, workers)
		return err
	})
}

// passOn takes a lock and gives it away at once.
func passOn(lock *lockkeeper.Lock, shared *baton, who int, standBack bool) worker {
	return func(ctx context.Context, log *samples) error {
		for log.goesOn() {
			lease, err := lock.Acquire(ctx)
			if err != nil {
				return unlessEnded(ctx, err)
			}
			if given, passed := shared.take(who); passed {
				log.add(given, time.Now())
			}
			taken := shared.give(who)
			if err := lease.Release(ctx); err != nil {
				return err
			}
			if !standBack {
				continue
			}
			select {
			case <-taken:
			case <-log.over:
			}
		}
		return nil
	}
}
