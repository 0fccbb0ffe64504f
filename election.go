package lockkeeper

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"
)

// An Election keeps one of many processes active and the others standing by. It is
// a mutex that is held for as long as its holder works.
type Election struct{ lock *Lock }

// Election describes an election among all that use the same name. Name and
// options follow the rules of Mutex; WithMaxWait has no effect, as Run stands by for
// as long as its context allows.
func (c *Client) Election(name string, opts ...Option) *Election {
	lock := c.Mutex(name, opts...)
	lock.maxWait = 0
	return &Election{lock: lock}
}

// Run stands by until this process is elected, runs lead while it is, and stands by
// again when leadership was lost. It takes over when the active process releases,
// within milliseconds, or has died, when its TTL has ended.
//
// lead's context ends before leadership can be lost, with the cause; the next
// process may be active from the end of the TTL on, so lead should stop at once
// then. lead is never run twice at a time, and leadership is given up only after it
// has returned.
//
// Run blocks. It returns nil when lead returned nil while elected, lead's error when
// it returned one while elected, ctx's error when ctx ended, and otherwise only
// errors that waiting can't mend, such as a missing right.
func (e *Election) Run(ctx context.Context, lead func(ctx context.Context, lease *Lease) error) error {
	if lead == nil {
		return invalidf("nil function")
	}
	for {
		var term *Lease
		err := e.lock.Do(ctx, func(ctx context.Context, lease *Lease) error {
			term = lease
			return lead(ctx, lease)
		})
		if term == nil && ctx.Err() != nil {
			return fmt.Errorf("lockkeeper: election %q: %w", e.lock.name, ended(ctx))
		}
		// The lease is asked, not the error: lead may return the loss of another lock.
		if term == nil || ctx.Err() != nil || !errors.Is(term.Err(), ErrLost) {
			return err
		}
		e.lock.c.cfg.Logger.Info("stands by again", "name", e.lock.name, "error", err)
	}
}

// Leader returns who is elected now, in one round trip, or an error that matches
// ErrNotHeld when nobody is.
func (e *Election) Leader(ctx context.Context) (Holder, error) {
	s, err := e.state(ctx)
	if err == nil && !s.Held {
		err = fmt.Errorf("%w: nobody is elected for %q", ErrNotHeld, e.lock.name)
	}
	return s.Holder, err
}

func (e *Election) state(ctx context.Context) (State, error) {
	if e.lock.err != nil {
		return State{}, e.lock.err
	}
	return e.lock.c.Inspect(ctx, e.lock.name)
}

// observeEvery is how often Observe looks.
const observeEvery = 500 * time.Millisecond

// Observe yields who is elected, now and at every change, until ctx ends or the loop
// is left; nobody is the zero Holder. It looks twice a second: a short term can be
// missed. An error is yielded and does not end it, but ErrClosed does; the first
// answer after an error is yielded again.
func (e *Election) Observe(ctx context.Context) iter.Seq2[Holder, error] {
	return func(yield func(Holder, error) bool) {
		var last Holder
		for seen := false; ctx.Err() == nil; {
			s, err := e.state(ctx)
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				seen = false
				if !yield(Holder{}, err) || errors.Is(err, ErrClosed) {
					return
				}
			case !seen || s.Holder != last:
				seen, last = true, s.Holder
				if !yield(s.Holder, nil) {
					return
				}
			}
			c := e.lock.c
			if c.sleep(ctx, c.clock.now().Add(observeEvery)) != nil {
				return
			}
		}
	}
}
