package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/sqlfence"
)

// The ways to ask for a lock.
const (
	byAcquire = "acquire"
	byTry     = "try"
	byDo      = "do"
)

// A call is one Acquire, Try or Do, with the hold that comes of it.
type call struct {
	w    *worker
	id   int64
	spec lockSpec
	how  string
	rng  *rand.Rand

	deadline int64 // of the lease, as it was written down last
	fence    uint64
	claim    *sqlfence.Claim // if it counted
	lost     bool            // that the lease is over was written down
}

// errWork is what a body of Do returns sometimes.
var errWork = errors.New("soak: the work failed")

// call makes one call, and reports whether the client is still open.
func (w *worker) call(ctx context.Context, rng *rand.Rand) bool {
	i := w.pick(rng)
	c := &call{w: w, id: w.calls.Add(1), spec: w.Locks[i], rng: rng, how: byAcquire}
	switch p := rng.Float64(); {
	case p < 0.15:
		c.how = byTry
	case p < 0.4:
		c.how = byDo
	}
	inner := newWait(ctx, rng)
	defer inner.stop()
	w.waiters.add(c.spec.Name, c.id, inner)
	defer w.waiters.remove(c.spec.Name, c.id)
	c.note(event{What: asks, Text: c.how})
	defer c.countLate(ctx) // it is no waiter any more by then
	if c.how == byDo {
		return c.do(inner, w.locks[i])
	}
	ask := w.locks[i].Acquire
	if c.how == byTry {
		ask = w.locks[i].Try
	}
	lease, err := ask(inner)
	if err != nil {
		return c.failed(inner, err)
	}
	w.waiters.remove(c.spec.Name, c.id) // from now on it is no waiter
	c.hold(ctx, lease)
	return c.release(lease)
}

// pick chooses a lock: seldom one whose holds are long, or everybody would be waiting for
// those.
func (w *worker) pick(rng *rand.Rand) int {
	i := rng.IntN(len(w.locks))
	if w.Locks[i].Slow && rng.Float64() < 0.75 {
		return w.pick(rng)
	}
	return i
}

// note writes an event of the call down.
func (c *call) note(e event) {
	e.Call, e.Name = c.id, c.spec.Name
	c.w.journal.write(e)
}

func (c *call) odd(format string, args ...any) { c.w.odd(c.id, c.spec.Name, format, args...) }

// do runs a Do. Its body ends with the context of the call, which the wait had as well.
func (c *call) do(ctx *wait, lock *lockkeeper.Lock) bool {
	ran := false
	err := lock.Do(ctx, func(ctx context.Context, lease *lockkeeper.Lease) error {
		ran = true
		c.hold(ctx, lease)
		if c.rng.Float64() < 0.1 {
			return errWork
		}
		return nil
	})
	if !ran {
		return c.failed(ctx, err)
	}
	at, kind := monotonic(), kindOf(err)
	if kind == unknown && !errors.Is(err, errWork) || kind == kindContext || kind == kindHeld {
		c.odd("Do returned after its body: %v", err)
	}
	c.note(event{At: at, What: released, Text: string(kind), Kind: byDo})
	return c.stillOpen(err)
}

// failed writes down why there is no lease, and what is wrong with that.
func (c *call) failed(ctx *wait, err error) bool {
	e := event{At: monotonic(), What: failed, Text: string(kindOf(err)), Error: refusalOf(err)}
	if ctx.over() {
		e.N = ctx.late()
	}
	c.note(e)
	matchesContext := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	switch {
	case err == nil:
		c.odd("%s returned nil without a lease", c.how)
	case errors.Is(err, lockkeeper.ErrClosed):
	case kindOf(err) == unknown || kindOf(err) == kindLost:
		c.odd("%s returned an error of no known kind: %v", c.how, err)
	case e.Error != "": // an oracle knows whether that was right
	case !ctx.over() && c.how != byTry:
		c.odd("%s gave up while its context was alive: %v", c.how, err)
	case !ctx.over() && matchesContext:
		c.odd("%s returned a context's error while its context was alive: %v", c.how, err)
	case ctx.Err() != nil && c.how != byTry && !errors.Is(err, ctx.Err()):
		c.odd("%s returned an error that does not match its context's (%v): %v", c.how, ctx.Err(), err)
	}
	return c.stillOpen(err)
}

// stillOpen reports whether the client is not closed, going by an error.
func (c *call) stillOpen(err error) bool {
	if !errors.Is(err, lockkeeper.ErrClosed) {
		return true
	}
	if !c.w.closing.Load() {
		c.odd("%s returned ErrClosed although nobody has closed the client: %v", c.how, err)
	}
	return false
}

// release gives an acquired lease back, in one of the ways in which that is done:
// mostly once, sometimes twice, sometimes with a context that has ended.
func (c *call) release(lease *lockkeeper.Lease) bool {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if c.rng.Float64() < 0.3 {
		cancel()
	}
	disturb := c.rng.Float64()
	if disturb < 0.15 {
		c.w.waiters.cancelOne(c.spec.Name)
	}
	err := lease.Release(ctx)
	if disturb > 0.85 {
		c.w.waiters.cancelOne(c.spec.Name)
	}
	c.note(event{At: monotonic(), What: released, Text: string(kindOf(err))})
	switch kindOf(err) {
	case "", kindLost, kindUnavailable:
	default:
		c.odd("Release: %v", err)
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) && ctx.Err() == nil {
		c.odd("Release returned a context's error, but not its own context's (%v): %v", ctx.Err(), err)
	}
	if c.rng.Float64() < 0.1 {
		if again := lease.Release(ctx); again != nil && kindOf(again) != kindLost {
			c.odd("the second Release: %v", again)
		}
	}
	return !errors.Is(lease.Err(), lockkeeper.ErrClosed)
}

// A kind is what an error is, of the kinds that the library promises.
type kind string

const (
	kindClosed      kind = "closed"
	kindHeld        kind = "held"
	kindUnavailable kind = "unavailable"
	kindLost        kind = "lost"
	kindNotHeld     kind = "not held"
	kindContext     kind = "context"
	unknown         kind = "unknown"
)

// kindOf returns the kind of an error; "" is none.
func kindOf(err error) kind {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, lockkeeper.ErrClosed):
		return kindClosed
	case errors.Is(err, lockkeeper.ErrLost):
		return kindLost
	case errors.Is(err, lockkeeper.ErrHeld):
		return kindHeld
	case errors.Is(err, lockkeeper.ErrUnavailable):
		return kindUnavailable
	case errors.Is(err, lockkeeper.ErrNotHeld):
		return kindNotHeld
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return kindContext
	}
	return unknown
}

// refusalCodes are those of a server that does not let a worker do what it has to.
var refusalCodes = []string{"NOPERM", "NOAUTH", "WRONGPASS"}

// refusalOf returns the code with which the server has refused something, or "".
func refusalOf(err error) string {
	var reply *lockkeeper.ReplyError
	switch {
	case !errors.As(err, &reply):
		return ""
	case strings.Contains(reply.Message, "can't run this command"): // in a script
		return "NOPERM"
	case slices.Contains(refusalCodes, reply.Code):
		return reply.Code
	}
	return ""
}

// length picks how long a hold lasts: some are short, some a good part of the TTL, and
// some so long that they have to be renewed.
func (c *call) length() time.Duration {
	short, medium, long := 0.75, 0.9, 0.99
	if c.spec.Slow {
		short, medium, long = 0.4, 0.6, 0.9
	}
	ttl := float64(c.spec.TTL)
	switch p := c.rng.Float64(); {
	case c.w.linger.Load():
		return time.Duration((0.5 + 2*c.rng.Float64()) * ttl)
	case p < short:
		return time.Duration(c.rng.Float64() * float64(1500*time.Microsecond))
	case p < medium:
		return nextBeat(0)
	case p < long:
		return time.Duration(c.rng.Float64() * 0.2 * ttl)
	}
	return time.Duration(c.rng.Float64() * 2 * ttl)
}
