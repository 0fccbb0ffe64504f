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
	Gaps        []gap  `json:"gaps"`         // the pause is one of them
	UnlockError string `json:"unlock_error"` // what its late unlock returned
	StillHeld   bool   `json:"still_held"`   // by the other, after that unlock
	Note        string `json:"note"`
}

// A gap is a time in which a goroutine that asks without a break did not come to it:
// because the process was stopped, or for want of a CPU.
type gap struct {
	Until int64 `json:"until"`
	Alive int64 `json:"alive"` // how often it found a live context from then on, until the next gap
}

// gapFrom is how long a gap is at least.
const gapFrom = 10 * time.Millisecond

// workHolder takes a lock and keeps it until it is killed, or until it was watched
// through a pause.
func workHolder(ctx context.Context, l *link, j job, sys system) error {
	s, err := sys.open(j.Addr, j.TTL)
	if err != nil {
		return err
	}
	h := &hold{name: j.Name, mutex: s.mutex(j.Name)}
	if err := lockFree(ctx, h.mutex); err != nil {
		return err
	}
	h.keep(ctx, j.TTL)
	l.say("held", nil)
	if err := l.hear(ctx, "watch", nil); err != nil {
		return err
	}
	contexts, err := contextsOf(ctx, s, h)
	if err != nil {
		return err
	}
	l.say("watching", nil)
	c := newClock()
	r := watch(c, h, contexts)
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	if err := h.mutex.unlock(ctx); err != nil {
		r.UnlockError = err.Error()
	}
	r.StillHeld = s.mutex(j.Name).try(ctx) == errHeld
	l.say("result", r)
	return nil
}

// contextsOf returns the contexts that are to end when the lock is lost: that of the
// hold, and that of a function under another lock, where the library has them.
func contextsOf(ctx context.Context, s session, h *hold) (contexts []context.Context, err error) {
	w, ok := h.mutex.(watched)
	if !ok {
		return nil, nil
	}
	bound, _ := w.boundContext(ctx) // ends with the hold
	contexts = append(contexts, bound)
	d, ok := s.mutex(h.name + ":do").(doer)
	if !ok {
		return contexts, nil
	}
	inside, ended := make(chan context.Context, 1), make(chan error, 1)
	go func() { // ends when the lock is lost, or with the process
		ended <- d.do(ctx, func(ctx context.Context) {
			inside <- ctx
			<-ctx.Done()
		})
	}()
	select {
	case ctx := <-inside:
		return append(contexts, ctx), nil
	case err := <-ended:
		return nil, err
	}
}

// watch waits through a pause for the hold's loss to show.
func watch(c clock, h *hold, contexts []context.Context) watchResult {
	if len(contexts) > 0 {
		return askThroughPause(c, contexts)
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
func askThroughPause(c clock, contexts []context.Context) watchResult {
	r := watchResult{By: contextTells}
	last := c.now()
	giveUp := last + int64(answerWithin)
	pass := func(until int64) {
		r.Gaps = append(r.Gaps, gap{Until: until})
		giveUp = until + int64(answerWithin)
	}
	for last < giveUp {
		asked := c.now()
		if asked-last > int64(gapFrom) {
			pass(asked)
		}
		alive := int64(0)
		for _, ctx := range contexts {
			if ctx.Err() == nil {
				alive++
			}
		}
		last = c.now()
		switch {
		case alive == 0:
			r.ToldAt = last
			return r
		case last-asked > int64(gapFrom):
			pass(last)
		case len(r.Gaps) > 0:
			r.Gaps[len(r.Gaps)-1].Alive += alive
		}
	}
	r.Note = "not told"
	return r
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
		if err := lockFree(ctx, warm); err != nil {
			return err
		}
		if err := warm.unlock(ctx); err != nil {
			return err
		}
	}
	if err := lockFree(ctx, other.mutex(j.Name+":other")); err != nil { // connects it
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
