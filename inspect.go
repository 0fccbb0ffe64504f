package lockkeeper

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/core"
)

// A State is what the server says about one lock.
type State struct {
	Name   string
	Held   bool
	Holder Holder        // zero when it is not held
	Left   time.Duration // until it is free unless renewed; negative: it has no TTL
}

// Inspect asks the server who holds a lock, in one round trip. The answer may be
// old when it arrives: nothing may be decided by it.
func (c *Client) Inspect(ctx context.Context, name string) (State, error) {
	keys, err := keysOf(c.cfg.Prefix, name)
	if err != nil {
		return State{}, err
	}
	states, err := c.states(ctx, keys[:1])
	if err != nil {
		return State{}, unavailable("inspect", name, err)
	}
	return states[0], nil
}

// states reads the locks with these keys in one request.
func (c *Client) states(ctx context.Context, keys []string) ([]State, error) {
	if c.isClosed() {
		return nil, ErrClosed
	}
	if err := notStarted(ctx); err != nil {
		return nil, err
	}
	reply, err := c.run(ctx, stateScript, c.boundOf(ctx), keys, nil)
	if err != nil {
		return nil, err
	}
	v, ok := reply.([]any)
	if !ok || len(v) != 1+2*len(keys) {
		return nil, unexpected(reply)
	}
	states := make([]State, len(keys))
	for i, key := range keys {
		s := State{Name: strings.TrimPrefix(key, c.cfg.Prefix)}
		if value, held := v[1+2*i].(string); held {
			s.Held, s.Holder = true, parseHolder(value)
			s.Left = time.Duration(number(v[2+2*i])) * time.Millisecond
		}
		states[i] = s
	}
	return states, nil
}

// boundOf bounds a request that belongs to no lease.
func (c *Client) boundOf(ctx context.Context) core.Instant {
	return min(c.clock.now().Add(3*time.Second), c.deadlineOf(ctx))
}

// deadlineOf returns ctx's deadline on our clock.
func (c *Client) deadlineOf(ctx context.Context) core.Instant {
	if deadline, ok := ctx.Deadline(); ok {
		return c.clock.now().Add(time.Until(deadline))
	}
	return core.Never
}

// List yields the locks whose name matches a glob pattern as Redis knows them ("*"
// is all), in no order, those of foreign clients too. It needs a Conn that is a
// Scanner, scans without blocking the server, and may miss a lock that comes or goes
// meanwhile. The first error ends it.
func (c *Client) List(ctx context.Context, match string) iter.Seq2[State, error] {
	return func(yield func(State, error) bool) {
		if c.isClosed() {
			yield(State{}, ErrClosed)
			return
		}
		if err := notStarted(ctx); err != nil {
			yield(State{}, unavailable("list", match, err))
			return
		}
		scanner, ok := c.conn.(Scanner)
		if !ok {
			yield(State{}, invalidf("this Conn is not a Scanner, so it can't list"))
			return
		}
		seen := make(map[string]bool)
		var page []string
		flush := func() bool {
			ok := c.yieldPage(ctx, page, yield)
			page = page[:0]
			return ok
		}
		for key, err := range scanner.Scan(ctx, escapeGlob(c.cfg.Prefix)+match) {
			if err != nil {
				yield(State{}, unavailable("list", match, err))
				return
			}
			if seen[key] || isDerived(key) {
				continue
			}
			seen[key] = true
			if page = append(page, key); len(page) == 100 && !flush() {
				return
			}
		}
		flush()
	}
}

// yieldPage yields the held locks among the keys.
func (c *Client) yieldPage(ctx context.Context, keys []string, yield func(State, error) bool) bool {
	if len(keys) == 0 {
		return true
	}
	states, err := c.states(ctx, keys)
	if err != nil {
		yield(State{}, unavailable("list", keys[0], err))
		return false
	}
	for _, s := range states {
		if s.Held && !yield(s, nil) {
			return false
		}
	}
	return true
}

// isDerived reports whether a key is one that belongs to a lock beside its own.
func isDerived(key string) bool {
	return strings.HasSuffix(key, fenceSuffix) || strings.HasSuffix(key, lineSuffix) || strings.HasSuffix(key, placeSuffix)
}

// escapeGlob makes a pattern that matches s and nothing else.
func escapeGlob(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(s)
}

// Break deletes a lock that somebody else holds, if it still has the fence that was
// looked at: an operator breaks the hold that they saw, never the next one. The
// holder's context ends at its next renewal, at a third of its TTL; until then two
// may believe that they hold the lock, and only a fence that the store checks keeps
// the old one from writing.
//
// The error matches ErrNotHeld when nobody holds it, and ErrHeld when its fence is
// another one or it is foreign.
func (c *Client) Break(ctx context.Context, name string, fence Fence) error {
	keys, err := keysOf(c.cfg.Prefix, name)
	switch {
	case err != nil:
		return err
	case !fence.Valid():
		return invalidf("fence 0 is no fence: name the one that Inspect shows")
	case c.isClosed():
		return ErrClosed
	}
	if err := notStarted(ctx); err != nil {
		return unavailable("break", name, err)
	}
	reply, err := c.run(ctx, breakScript, c.boundOf(ctx), keys[:], []string{fence.String()})
	if err != nil {
		return unavailable("break", name, err)
	}
	if reply == int64(1) {
		return nil
	}
	v, ok := reply.([]any)
	if !ok || len(v) != 3 {
		return unavailable("break", name, unexpected(reply))
	}
	value, held := v[0].(string)
	if !held {
		return fmt.Errorf("%w: nobody holds %q", ErrNotHeld, name)
	}
	left := time.Duration(number(v[1])) * time.Millisecond
	return &HeldError{Name: name, Holder: parseHolder(value), Left: left, Err: errors.New("not by the fence that was named")}
}
