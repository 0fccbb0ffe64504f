package lockkeeper

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/core"
)

// A listener is the state of the client's one subscription.
type listener struct {
	started bool
	live    bool
	told    bool // that there is none
}

// How a broken subscription is made again.
const (
	listenFirst   = 100 * time.Millisecond
	listenMost    = 2 * time.Second
	listenRefused = 30 * time.Second // the server said no
)

// listen starts the subscription if need be. c.mu must be held.
func (c *Client) listen() {
	if !c.listener.started {
		c.listener.started = c.start(c.hear)
	}
}

// wakePrefix is what the channels of clients of this prefix begin with.
func (c *Client) wakePrefix() string { return c.cfg.Prefix + "wake:" }

// hear is the listener: it keeps the subscription up until the client is closed.
func (c *Client) hear() {
	pause := listenFirst
	for {
		err := c.conn.Listen(c.ctx, c.wakePrefix()+c.id, func() {
			pause = listenFirst
			c.setLive(true, nil)
		}, c.told)
		if c.ctx.Err() != nil {
			return
		}
		c.setLive(false, err)
		var refused *ReplyError
		if errors.As(err, &refused) && core.Classify(refused.Code, refused.Message) == core.Refused {
			pause = listenRefused
		}
		if c.sleep(c.ctx, c.clock.now().Add(pause)) != nil {
			return
		}
		pause = min(2*pause, listenMost)
	}
}

// setLive takes in that the subscription is there or not. Either way every line asks
// at once: messages may have been missed, and the server has to know whether it can
// reach us.
func (c *Client) setLive(live bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.listener.live
	c.listener.live = live
	if live {
		c.listener.told = false
	} else if !c.listener.told {
		c.listener.told = true
		c.cfg.Logger.Warn("no subscription for messages; waiters poll until there is one", "channel", c.wakePrefix()+c.id, "error", err)
	}
	if c.closed || live == was {
		return
	}
	now := c.clock.now()
	for _, ln := range c.lines {
		if h := ln.core.Hold(); h != nil {
			h.Deaf() // of what came before
		}
		ln.carry(now, ln.core.Resume())
	}
}

// told takes in a message of a script: that the lock was handed to us, or that another
// process waits for what we hold.
//
//	g:lk1:OWNER:FENCE:SINCE:OTHERS:KEY
//	w:lk1:OWNER:KEY
func (c *Client) told(message string) {
	kind, rest, _ := strings.Cut(message, ":")
	owner, rest, ok := cutOwner(rest)
	if !ok || !strings.HasPrefix(owner, valueMark+c.id+".") {
		return // another's: what it has is not ours to give up
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if kind == "w" {
		if ln := c.lines[rest]; ln != nil {
			ln.core.Wanted(owner)
		}
		return
	}
	part := strings.SplitN(rest, ":", 4)
	if kind != "g" || len(part) != 4 || c.closed {
		return
	}
	fence, key := number(part[0]), part[3]
	if fence <= 0 {
		return
	}
	now := c.clock.now()
	grant := core.Grant{
		Fence: uint64(fence), Last: uint64(fence) + blockOfFences - 1,
		Server: number(part[1]), Others: part[2] != "0", Hears: true,
	}
	ln := c.lines[key]
	if ln != nil {
		if move, ours := ln.core.Granted(now, owner, grant); ours {
			ln.held, ln.err = nil, nil
			ln.carry(now, move)
			return
		}
	}
	if c.isGiving(owner) {
		return // late
	}
	// Nobody here waits for it any more.
	c.undoes(c.stray(key), owner, core.Loose{}, 0)
}

// blockOfFences is how many fences a hand-off reserves, see give in lua/handoff.lua.
const blockOfFences = 1 << 16

// cutOwner splits what begins with the mark and an owner.
func cutOwner(s string) (owner, rest string, ok bool) {
	after, ok := strings.CutPrefix(s, valueMark)
	i := strings.IndexByte(after, ':')
	if !ok || i < 0 {
		return "", "", false
	}
	i += len(valueMark) + 1
	return s[:i], s[i:], true
}

// stray describes a lock by its key alone.
func (c *Client) stray(key string) *Lock {
	l := &Lock{c: c, name: key, kind: core.Kind{Terms: core.Terms{TTL: c.cfg.TTL}}}
	l.keys = derive(key)
	return l
}

// ended returns why a context ended, such that its own error is visible too.
func ended(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if err == nil && cause != nil { // it has ended in between
		err = ctx.Err()
	}
	if err == nil || errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}
