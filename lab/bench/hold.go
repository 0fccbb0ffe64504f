package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// lockFree takes a lock that nobody has, where that is not what is measured: a call that
// fails or gets stuck, as some do on a busy machine, is made again.
func lockFree(ctx context.Context, m mutex) (err error) {
	for range 20 {
		// Not a deadline, here and below: rueidislock would let go of the lock then.
		locking, cancel := context.WithCancel(ctx)
		late := time.AfterFunc(stuckAfter, cancel)
		err = m.lock(locking)
		switch inTime := late.Stop(); {
		case err == nil && inTime:
			return nil
		case err == nil:
			_ = m.unlock(ctx) // the hold may be over with its context
			err = locking.Err()
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return fmt.Errorf("a free lock was not to be had: %w", err)
}

// A hold is a lock that is kept for long, renewed by its library or, where that does
// not, by a goroutine as its users write it.
type hold struct {
	name    string
	mutex   mutex
	stuck   bool                  // it was not had in time
	failure atomic.Pointer[error] // of taking or renewing it
	renewed chan struct{}         // closed when the goroutine has ended; nil without one
}

func (h *hold) fail(err error) { h.failure.CompareAndSwap(nil, &err) }

// take locks, and renews from then on until ctx ends or a renewal fails.
func (h *hold) take(ctx context.Context, ttl time.Duration) {
	ctx, cancel := context.WithCancel(ctx)
	late := time.AfterFunc(takeWithin, cancel)
	err := h.mutex.lock(ctx)
	if !late.Stop() || err != nil {
		h.stuck = true
		if err != nil {
			h.fail(err)
		}
		return
	}
	h.keep(ctx, ttl)
}

// keep renews at a third of the TTL if the library does not.
func (h *hold) keep(ctx context.Context, ttl time.Duration) {
	r, needed := h.mutex.(renewer)
	if !needed {
		return
	}
	h.renewed = make(chan struct{})
	go func() {
		defer close(h.renewed)
		tick := time.NewTicker(ttl / 3)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if err := r.renew(ctx); err != nil {
				if ctx.Err() == nil {
					h.fail(err)
				}
				return
			}
		}
	}()
}

// believed returns nil as long as the holder knows of no loss.
func (h *hold) believed() error {
	if err := h.failure.Load(); err != nil {
		return *err
	}
	if w, ok := h.mutex.(watched); ok {
		return w.err()
	}
	return nil
}
