package pipe

import (
	"context"
	"errors"
	"time"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/lab/oracle"
)

// The ways to ask for a lock.
const (
	byTry     = "try"
	byAcquire = "acquire"
	byDo      = "do"
	byRun     = "run" // an election
)

// A call is one that a worker makes.
type call struct {
	k    *worker
	p    *process
	id   int64
	how  string
	lock string // the key
	from oracle.Time
	told told // by requests that the call has sent itself
	got  bool
}

// callKey is what the context of a call has it under, so that requests tell whose they are.
type callKey struct{}

// begin writes down that a call begins.
func (k *worker) begin(p *process, how, lock string) *call {
	w := k.w
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls++
	w.note(p.name, "calls "+how+" for", lock, "")
	return &call{k: k, p: p, id: w.calls, how: how, lock: lock, from: w.now()}
}

// serve writes down that the call has the lock.
func (c *call) serve() {
	w := c.k.w
	w.mu.Lock()
	defer w.mu.Unlock()
	c.got = true
	c.waited(true)
	w.history.answers = append(w.history.answers, oracle.Answer{
		Lock: c.lock, Who: c.p.name, At: w.now(), Said: "granted", Allowed: []string{"granted"},
	})
}

// waited writes down the wait of the call. w.mu must be held.
func (c *call) waited(served bool) {
	if c.how == byTry {
		return
	}
	w := c.k.w
	w.history.waits = append(w.history.waits, oracle.Wait{
		Lock: c.lock, Who: c.p.name, Call: c.id, From: c.from, To: w.now(), Served: served,
	})
}

// fail writes down that the call was told why it has no lock, and what it might have
// been told.
func (c *call) fail(ctx context.Context, err error) {
	w := c.k.w
	w.mu.Lock()
	defer w.mu.Unlock()
	c.waited(false)
	if n := len(w.history.waits); n > 0 && c.how != byTry && w.ctx.Err() != nil {
		w.history.waits[n-1].To = oracle.Never // it was not served in all that time
	}
	said := saidBy(err)
	w.note(c.p.name, "gets none by "+c.how+" of", c.lock, err.Error())
	w.history.answers = append(w.history.answers, oracle.Answer{
		Lock: c.lock, Who: c.p.name, At: w.now(), Said: said, Allowed: c.allowed(ctx),
	})
}

// allowed is what may be said to a call that has no lock. w.mu must be held.
func (c *call) allowed(ctx context.Context) (all []string) {
	w, p := c.k.w, c.p
	now := w.now()
	if p.closing {
		all = append(all, "closed")
	}
	if c.how == byTry {
		switch {
		case c.told == toldHeld:
			all = append(all, "held")
		case w.harmed(p.name, c.from, now), isOver(ctx):
			all = append(all, "unavailable")
		}
		return all
	}
	if !isOver(ctx) { // then only a refusal ends a wait
		if p.on(c.lock).refused >= c.from {
			all = append(all, "unavailable")
		}
		return all
	}
	if c.how == byRun {
		return append(all, "ended")
	}
	l := p.on(c.lock)
	if l.told == toldHeld || l.told == toldGranted || l.holds > 0 || l.until >= c.from {
		all = append(all, "held") // by another, or by another call of the process
	}
	if l.told == toldTrouble || l.at < c.from || l.asking > 0 || l.failed > 0 && l.failed >= l.at {
		all = append(all, "unavailable")
	}
	if l.at == now || l.until == now {
		// It got the lock as it was leaving, and has handed it on: nobody else has it, and
		// nothing is wrong with the server.
		all = append(all, "unavailable", "ended")
	}
	return all
}

// isOver reports whether a context has ended, or does in this instant.
func isOver(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(deadline)
}

// saidBy is what an error says, in a word; the error itself if it is none that is known.
func saidBy(err error) string {
	switch {
	case errors.Is(err, lockkeeper.ErrClosed):
		return "closed"
	case errors.Is(err, lockkeeper.ErrLost):
		return "lost"
	case errors.Is(err, lockkeeper.ErrQueueFull):
		return "full"
	case errors.Is(err, lockkeeper.ErrHeld):
		return "held"
	case errors.Is(err, lockkeeper.ErrUnavailable):
		return "unavailable"
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return "ended"
	}
	return err.Error()
}
