package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// errGaveUp is the cause of contexts that are cancelled.
var errGaveUp = errors.New("soak: gave up")

// A wait is the context of one call.
type wait struct {
	context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer // cancels it; nil is none
	cut    atomic.Int64
}

// abort cancels the wait.
func (w *wait) abort() {
	w.cut.CompareAndSwap(0, monotonic())
	w.cancel(errGaveUp)
}

// stop frees what the wait has.
func (w *wait) stop() {
	if w.timer != nil {
		w.timer.Stop()
	}
	w.cancel(nil)
}

// over reports whether the wait has ended. Its deadline can be over a moment before its
// timer has said so.
func (w *wait) over() bool {
	deadline, ok := w.Deadline()
	return w.Err() != nil || ok && !time.Now().Before(deadline)
}

// late returns how long ago the wait has ended, or 0 when it was somebody else's
// context that ended.
func (w *wait) late() int64 {
	now, cut := monotonic(), w.cut.Load()
	if deadline, ok := w.Deadline(); ok && cut == 0 {
		cut = monotonicAt(deadline)
	}
	if cut == 0 {
		return 0
	}
	return max(0, now-cut)
}

// A waiters is the calls of a process that may be waiting, so that a holder can cancel
// one at the moment when it would get the lock.
type waiters struct {
	mu      sync.Mutex
	pending map[string]map[int64]*wait
}

func (w *waiters) add(name string, call int64, waiting *wait) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pending[name] == nil {
		w.pending[name] = make(map[int64]*wait)
	}
	w.pending[name][call] = waiting
}

func (w *waiters) remove(name string, call int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.pending[name], call)
}

// cancelOne cancels any one that waits for a name.
func (w *waiters) cancelOne(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, waiting := range w.pending[name] { // the order of a map is as good as chance
		waiting.abort()
		return
	}
}

// beat is when many things happen at a time, in all processes, since they have one
// clock: holds end and waits are cancelled on it, so that a cancellation often meets a
// hand-off, without any two having to talk to each other.
const beat = 20 * time.Millisecond

// nextBeat returns the first beat after d from now.
func nextBeat(d time.Duration) time.Duration {
	now := monotonic()
	beats := (now+int64(d))/int64(beat) + 1
	return time.Duration(beats*int64(beat) - now)
}

// newWait returns the context of one call: some have none but a far end, others a
// deadline, or are cancelled at any time or around a beat.
func newWait(ctx context.Context, rng *rand.Rand) *wait {
	w := new(wait)
	w.Context, w.cancel = context.WithCancelCause(ctx)
	if p := rng.Float64(); p < 0.5 {
		most := 20 * time.Second
		if p < 0.15 {
			most = time.Duration(rng.Int64N(int64(400 * time.Millisecond)))
		}
		var stop context.CancelFunc
		w.Context, stop = context.WithTimeout(w.Context, most)
		cancel := w.cancel
		w.cancel = func(cause error) { cancel(cause); stop() }
		return w
	}
	after := exponential(rng, 150*time.Millisecond)
	if rng.Float64() < 0.6 {
		jitter := time.Duration(rng.Int64N(int64(3*time.Millisecond))) - 500*time.Microsecond
		after = max(0, nextBeat(after)+jitter)
	}
	w.timer = time.AfterFunc(after, w.abort)
	return w
}
