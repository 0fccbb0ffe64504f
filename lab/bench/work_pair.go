package main

import (
	"context"
	"time"
)

// answerWithin bounds what a worker waits for after a pause, so that it can report.
const answerWithin = 5 * time.Second

// contextTells is By of a library that ends a context.
const contextTells = "its context"

// watchResult is what a holder tells of a pause.
type watchResult struct {
	ToldAt      int64  `json:"told_at"`      // when it knew of the loss; 0 is never
	By          string `json:"by"`           // what told it
	Alive       int64  `json:"alive"`        // how often a context was asked after the pause, and had not ended
	UnlockError string `json:"unlock_error"` // what its late unlock returned
	StillHeld   bool   `json:"still_held"`   // by the other, after that unlock
	Note        string `json:"note"`
}

// workHolder takes a lock and keeps it until it is killed, or until it was watched
// through a pause.
func workHolder(ctx context.Context, l *link, j job, sys system) error {
	s, err := sys.open(j.Addr, j.TTL)
	if err != nil {
		return err
	}
	h := &hold{name: j.Name, mutex: s.mutex(j.Name)}
	if err := h.mutex.lock(ctx); err != nil {
		return err
	}
	h.keep(ctx, j.TTL)
	var contexts []context.Context
	if w, ok := h.mutex.(watched); ok {
		bound, cancel := w.boundContext(ctx)
		defer cancel()
		contexts = append(contexts, bound)
	}
	if d, ok := s.mutex(j.Name + ":do").(doer); ok {
		inside := make(chan context.Context)
		go func() { // ends when the lock is lost, or with the process
			_ = d.do(ctx, func(ctx context.Context) {
				inside <- ctx
				<-ctx.Done()
			})
		}()
		contexts = append(contexts, <-inside)
	}
	l.say("held", nil)
	if err := l.hear(ctx, "watch", nil); err != nil {
		return err
	}
	l.say("watching", nil)
	c := newClock()
	r := watch(c, h, contexts, j.TTL/2)
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	if err := h.mutex.unlock(ctx); err != nil {
		r.UnlockError = err.Error()
	}
	r.StillHeld = s.mutex(j.Name).try(ctx) == errHeld
	l.say("result", r)
	return nil
}

// watch waits for a pause of at least gap and for the hold's loss to show.
func watch(c clock, h *hold, contexts []context.Context, gap time.Duration) watchResult {
	if len(contexts) > 0 {
		return askThroughPause(c, contexts, gap)
	}
	<-h.renewed // the renewal meets another's lock, or its own that has expired
	r := watchResult{ToldAt: c.now(), By: "the renewal's error"}
	if err := h.believed(); err != nil {
		r.Note = "renewal: " + err.Error()
	}
	return r
}

// askThroughPause asks the contexts without a break. What is asked after the pause is
// to find them ended, the first time already; a question that the pause has
// interrupted may have been answered before it.
func askThroughPause(c clock, contexts []context.Context, gap time.Duration) watchResult {
	r := watchResult{By: contextTells}
	paused, giveUp := false, int64(0)
	for last := c.now(); ; {
		asked := c.now()
		if !paused && asked-last > int64(gap) {
			paused, giveUp = true, asked+int64(answerWithin)
		}
		ended := 0
		for _, ctx := range contexts {
			if ctx.Err() != nil {
				ended++
			} else if paused {
				r.Alive++
			}
		}
		last = c.now()
		switch {
		case ended == len(contexts) && paused:
			r.ToldAt = last
			return r
		case ended > 0 && !paused && last-asked < int64(gap):
			r.Note = "a context ended before the pause"
			return r
		case paused && last > giveUp:
			r.Note = "not told"
			return r
		case !paused && last-asked > int64(gap):
			paused, giveUp = true, last+int64(answerWithin)
		}
	}
}

// workWaiter waits for a lock that another process holds, and keeps it.
func workWaiter(ctx context.Context, l *link, j job, sys system) error {
	s, err := sys.open(j.Addr, j.TTL)
	if err != nil {
		return err
	}
	c := newClock()
	l.say("ready", nil)
	if err := l.hear(ctx, "go", nil); err != nil {
		return err
	}
	h := &hold{name: j.Name, mutex: s.mutex(j.Name)}
	if err := h.mutex.lock(ctx); err != nil {
		return err
	}
	l.say("locked", c.now())
	h.keep(ctx, j.TTL)
	if err := l.hear(ctx, "ask", nil); err != nil {
		return err
	}
	l.say("believes", h.believed() == nil)
	return nil
}

// stallResult is what a worker tells of one lock call during a stall.
type stallResult struct {
	LockedAt   int64  `json:"locked_at"` // 0 is not in time
	Violations int64  `json:"violations"`
	Note       string `json:"note"`
}

// workStall takes one free lock when it is told to.
func workStall(ctx context.Context, l *link, j job, sys system) error {
	s, err := sys.open(j.Addr, j.TTL)
	if err != nil {
		return err
	}
	defer s.close()
	other, err := sys.open(j.Addr, j.TTL)
	if err != nil {
		return err
	}
	c := newClock()
	warm := s.mutex(j.Name + ":warm-up")
	for range 3 {
		if err := warm.lock(ctx); err != nil {
			return err
		}
		if err := warm.unlock(ctx); err != nil {
			return err
		}
	}
	if err := other.mutex(j.Name + ":other").lock(ctx); err != nil { // connects it
		return err
	}
	m := s.mutex(j.Name)
	l.say("ready", nil)
	if err := l.hear(ctx, "go", nil); err != nil {
		return err
	}
	locking, cancel := context.WithCancel(ctx)
	late := time.AfterFunc(j.For, cancel)
	var r stallResult
	err = m.lock(locking)
	switch now := c.now(); {
	case !late.Stop():
		r.Note = "still waiting at the end"
	case err != nil:
		r.Note = err.Error()
	default:
		r.LockedAt = now
		if other.mutex(j.Name).try(ctx) == nil {
			r.Violations++
		}
	}
	l.say("result", r)
	return nil
}
