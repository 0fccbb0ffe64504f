package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/flush"
)

func (a *app) flushDrainCommand() *cobra.Command {
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "drain -f FILE",
		Short: "Wait until every change is flushed",
		Long: `Wait until no key waits to be flushed, and show how far that is. The active process does
the work; it is asked not to rest meanwhile. Keys that are parked do not count: they
can't be flushed.

Exits with 0 when nothing waits, with 75 when that takes longer than --timeout, and with
1 at once when it can't come to that: the job or a mapping is paused, or nobody is active.`,
		Example: `  lockkeeper flush drain -f players.yaml
  lockkeeper flush drain -f players.yaml --timeout 1m`,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.onConsole(c, func(ctx context.Context, c *console) error { return a.drain(ctx, c, timeout) })
		},
	}
	c.Flags().DurationVar(&timeout, "timeout", 0, "how long to wait; 0 is for ever")
	return c
}

// A drainer waits until nothing is left.
type drainer struct {
	*console
	bar    *gauge
	most   int // keys that waited at the most
	dirty  int // keys that wait, at the last look
	oldest time.Duration
	active time.Time // when somebody was last seen to be active
	asked  time.Time // when the active process was last asked for a pass
}

func (a *app) drain(ctx context.Context, c *console, timeout time.Duration) error {
	if timeout < 0 {
		return usagef("a timeout of %s: it can't be negative", timeout)
	}
	d := &drainer{console: c, bar: a.newGauge("drain "+c.Job, "keys", false), active: time.Now()}
	waiting, cancel := ctx, context.CancelFunc(func() {})
	if timeout > 0 {
		waiting, cancel = context.WithTimeout(ctx, timeout)
	}
	defer cancel()
	parked, err := d.run(waiting)
	d.bar.end()
	left := fmt.Sprintf("%s, the oldest for %s", count(d.dirty, "key waits", "keys wait"), short(d.oldest))
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("interrupted: %s", left)
	case errors.Is(waiting.Err(), context.DeadlineExceeded):
		return timeoutError{fmt.Errorf("not drained within %s: %s; see %s", timeout, left, c.command("status"))}
	case err != nil:
		return err
	}
	text := c.Job + " is drained: nothing waits"
	if parked > 0 {
		text += fmt.Sprintf("; %s: %s", count(parked, "key is parked", "keys are parked"), c.command("parked ls"))
	}
	_, err = fmt.Fprintln(a.stdout, text)
	return err
}

// run returns when nothing waits, and how many keys are parked then.
func (d *drainer) run(ctx context.Context) (parked int, err error) {
	for {
		s, lock, err := d.status(ctx)
		if err != nil {
			return 0, err
		}
		d.dirty, d.oldest, d.most = s.Dirty, s.Oldest, max(d.most, s.Dirty)
		if s.Dirty == 0 {
			return s.Parked, nil
		}
		if err := d.hopeless(s, lock); err != nil {
			return 0, err
		}
		if time.Since(d.asked) >= time.Second { // it may have a long interval
			if err := d.explain(d.engine.Now(ctx)); err != nil {
				return 0, err
			}
			d.asked = time.Now()
		}
		d.bar.report(d.most-s.Dirty, float64(d.most-s.Dirty)/float64(d.most), drainNote(s))
		if err := rest(ctx, lookEvery); err != nil {
			return 0, err
		}
	}
}

// standbyMost is how long a process that is ready may take to become active: after it has
// stepped down, it leaves that to others for 5 seconds.
const standbyMost = 8 * time.Second

// hopeless returns why it can't come to zero without somebody doing something, or nil.
func (d *drainer) hopeless(s flush.Status, lock lockkeeper.State) error {
	left := count(s.Dirty, "key waits", "keys wait")
	if p := jobPauseOf(s, ""); p != nil {
		return fmt.Errorf("it can't be drained: %s is paused by %s (%s), and %s; go on with %s",
			d.Job, plainLine(p.By), plainLine(p.Reason), left, d.command("resume"))
	}
	for _, h := range s.Held {
		if p := jobPauseOf(s, h.Table); p != nil && !p.Retries {
			return fmt.Errorf("it can't be drained: the table %s is paused by %s (%s), and %s of it wait; go on with %s",
				h.Table, plainLine(p.By), plainLine(p.Reason), count(h.Keys, "key", "keys"), d.command("resume --table "+h.Table))
		}
	}
	if lock.Held && !lock.Holder.Foreign {
		d.active = time.Now()
		return nil
	}
	patience := d.TTL // a process that died takes so long to be replaced
	if someoneElse(s, "") {
		patience += standbyMost
	}
	switch {
	case lock.Held:
		return fmt.Errorf("it can't be drained: the lock of %s is held by something that is not Lockkeeper, and %s; see %s", d.Job, left, d.command("status"))
	case time.Since(d.active) > patience, len(s.Members) == 0:
		return fmt.Errorf("it can't be drained: no process is active, and %s; start one with %s, or see %s", left, d.command("run"), d.command("status"))
	}
	return nil
}

// drainNote says what may keep it from zero.
func drainNote(s flush.Status) string {
	held := 0
	for _, h := range s.Held {
		held += h.Keys
	}
	note := "oldest " + short(s.Oldest)
	if s.Waiting > 0 {
		note += fmt.Sprintf(", %d wait for rows that they refer to", s.Waiting)
	}
	if held > 0 {
		note += fmt.Sprintf(", %d of paused tables", held)
	}
	return note
}
