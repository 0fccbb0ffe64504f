package demo

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/flush"
)

// A Takeover is a change of the active worker.
type Takeover struct {
	Cause string  `json:"cause"` // killed, stopped, or lost
	From  string  `json:"from"`
	To    string  `json:"to"`
	Epoch int64   `json:"epoch"`
	GapMS float64 `json:"gap_ms"` // nobody was active for that long
}

// A board is what is known about the workers: events go in, and the director and the
// screen look at it. It is safe for concurrent use.
type board struct {
	start time.Time

	mu       sync.Mutex
	changed  chan struct{} // closed and replaced at every change
	order    []string
	workers  map[string]*role
	active   string
	outage   *outage
	flushed  flush.Stats
	batches  int
	refused  int
	takeover []Takeover
	news     []string
}

// A role is what one worker does.
type role struct {
	what  string // starting, standing by, active, stopped, killed
	since time.Time
	epoch int64
}

// An outage is the time since which nobody is active.
type outage struct {
	cause string
	from  string
	at    time.Time
}

func newBoard(names []string) *board {
	b := &board{start: time.Now(), changed: make(chan struct{}), order: names, workers: make(map[string]*role)}
	for _, name := range names {
		b.workers[name] = &role{what: "starting", since: b.start}
	}
	return b
}

// change runs f under the lock and wakes whoever waits.
func (b *board) change(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
	close(b.changed)
	b.changed = make(chan struct{})
}

// wait returns true when cond holds, or false after a time or when ctx ends.
func (b *board) wait(ctx context.Context, most time.Duration, cond func() bool) bool {
	timer := time.NewTimer(most)
	defer timer.Stop()
	for {
		b.mu.Lock()
		ok, changed := cond(), b.changed
		b.mu.Unlock()
		if ok {
			return true
		}
		select {
		case <-changed:
		case <-timer.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// take takes in one event.
func (b *board) take(r report) {
	b.change(func() {
		w := b.workers[r.worker.name]
		switch r.Kind {
		case standsBy:
			w.set("standing by", r)
		case active:
			b.begin(w, r)
		case wrote:
			b.batches++
			b.flushed.Add(r.Stats)
		case freezing:
			w.set("stopped", r)
			b.out("stopped", r.worker.name, r.at)
			b.say(r.at, "%s has read a batch, and is stopped before it writes", r.worker.name)
		case refused:
			b.refused++
			b.say(r.at, "the database REFUSED the stale write of %s (epoch %d)", r.worker.name, r.Epoch)
		case endedTerm:
			if b.out("lost", r.worker.name, r.at) {
				b.say(r.at, "%s is not active any more: %s", r.worker.name, r.Error)
			}
		}
	})
}

func (w *role) set(what string, r report) { *w = role{what: what, since: r.at, epoch: r.Epoch} }

// begin notes that a worker has become active.
func (b *board) begin(w *role, r report) {
	w.set("active", r)
	if o := b.outage; o != nil {
		gap := r.at.Sub(o.at)
		b.takeover = append(b.takeover, Takeover{o.cause, o.from, r.worker.name, r.Epoch, millis(gap)})
		b.say(r.at, "%s took over from %s after %.2f s (epoch %d)", r.worker.name, o.from, gap.Seconds(), r.Epoch)
	} else {
		b.say(r.at, "%s is active (epoch %d)", r.worker.name, r.Epoch)
	}
	b.active, b.outage = r.worker.name, nil
}

// out notes that a worker is out, and reports whether it was the active one. b.mu must
// be held.
func (b *board) out(cause, name string, at time.Time) bool {
	if b.active != name {
		return false
	}
	b.active, b.outage = "", &outage{cause, name, at}
	return true
}

// say adds a line of news. b.mu must be held.
func (b *board) say(at time.Time, format string, args ...any) {
	b.news = append(b.news, fmt.Sprintf("%6.2f s  ", at.Sub(b.start).Seconds())+fmt.Sprintf(format, args...))
}

func (b *board) tell(format string, args ...any) {
	b.change(func() { b.say(time.Now(), format, args...) })
}

func millis(d time.Duration) float64 {
	return float64(d.Round(100*time.Microsecond).Microseconds()) / 1000
}
