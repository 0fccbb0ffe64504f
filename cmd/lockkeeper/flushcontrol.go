package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/flush"
)

func (a *app) flushNowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "now -f FILE",
		Short: "Ask the active process for a pass at once",
		Long: `Ask the active process for a pass at once, for a job with a long interval. It begins
within a second; flush drain waits for its end.`,
		Example: `  lockkeeper flush now -f players.yaml`,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.onConsole(c, a.now)
		},
	}
}

// onConsole runs a verb that works on a console.
func (a *app) onConsole(c *cobra.Command, verb func(context.Context, *console) error) error {
	k, err := a.openConsole(c)
	if err != nil {
		return err
	}
	defer k.close()
	return verb(c.Context(), k)
}

func (a *app) now(ctx context.Context, c *console) error {
	s, lock, err := c.status(ctx)
	if err != nil {
		return err
	}
	if p := jobPauseOf(s, ""); p != nil {
		return fmt.Errorf("%s is paused %s: nothing is flushed until %s", c.Job, pausedBy(jobPause{Pause: *p}), c.command("resume"))
	}
	if !lock.Held {
		return fmt.Errorf("no process of %s is active, and who becomes it begins with a pass; start one: %s", c.Job, c.command("run"))
	}
	if err := c.explain(c.engine.Now(ctx)); err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.stdout, "%s is asked for a pass; %s\n", nameOf(lock), count(s.Dirty, "key waits", "keys wait"))
	return err
}

// jobPauseOf returns the pause of the job, or of the mapping of a table, or nil.
func jobPauseOf(s flush.Status, table string) *flush.Pause {
	for i := range s.Pauses {
		if s.Pauses[i].Table == table {
			return &s.Pauses[i]
		}
	}
	return nil
}

// nameOf says who holds a lock.
func nameOf(lock lockkeeper.State) string {
	if lock.Holder.Foreign || lock.Holder.Label == "" {
		return lock.Holder.String()
	}
	return lock.Holder.Label
}

func (a *app) flushPauseCommand() *cobra.Command {
	var p flush.Pause
	c := &cobra.Command{
		Use:   "pause -f FILE --reason TEXT",
		Short: "Stop flushing until resume, and say why",
		Long: `Stop the flushing of the job, or with --table of one mapping, until flush resume. The
batch that is on its way is finished; the active process stays active. Changes are kept
in Redis, and need memory there. Everybody who asks for the status sees the reason, and
who has paused it.`,
		Example: `  lockkeeper flush pause -f players.yaml --reason "migration of the table player"
  lockkeeper flush pause -f players.yaml --reason "too large rows" --table player`,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.onConsole(c, func(ctx context.Context, c *console) error { return a.pause(ctx, c, p) })
		},
	}
	c.Flags().StringVar(&p.Reason, "reason", "", "`text` that says why; it has to be there")
	takesTable(c, &p.Table, "pause only the mapping of this `table`")
	c.Flags().StringVar(&p.By, "by", "", "`name` of who pauses it (default user@host)")
	return c
}

func (a *app) pause(ctx context.Context, c *console, p flush.Pause) error {
	if strings.TrimSpace(p.Reason) == "" {
		return usagef("why is it paused? Say it to those who will wonder: --reason TEXT")
	}
	if err := c.checkTable(p.Table); err != nil {
		return err
	}
	if p.By == "" {
		p.By = a.whoAsks()
	}
	s, _, err := c.status(ctx)
	if err != nil {
		return err
	}
	if err := c.explain(c.engine.Pause(ctx, p)); err != nil {
		return err
	}
	before := ""
	if old := jobPauseOf(s, p.Table); old != nil {
		before = fmt.Sprintf("; before it was paused by %s: %s", plainLine(old.By), plainLine(old.Reason))
	}
	resume := "resume"
	if p.Table != "" {
		resume += " --table " + p.Table
	}
	_, err = fmt.Fprintf(a.stdout, "%s is paused; its changes are kept until %s%s\n", c.part(p.Table), c.command(resume), before)
	return err
}

// part names the job, or the mapping of a table.
func (j *job) part(table string) string {
	if table == "" {
		return j.Job
	}
	return fmt.Sprintf("the table %s of %s", table, j.Job)
}

func (a *app) flushResumeCommand() *cobra.Command {
	var table string
	c := &cobra.Command{
		Use:   "resume -f FILE",
		Short: "Go on after a pause",
		Long: `End the pause of the job, or with --table that of one mapping, whoever has paused it. A
mapping that its table or its data has paused is tried again.`,
		Example: `  lockkeeper flush resume -f players.yaml
  lockkeeper flush resume -f players.yaml --table player`,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.onConsole(c, func(ctx context.Context, c *console) error { return a.resume(ctx, c, table) })
		},
	}
	takesTable(c, &table, "resume only the mapping of this `table`")
	return c
}

func (a *app) resume(ctx context.Context, c *console, table string) error {
	if err := c.checkTable(table); err != nil {
		return err
	}
	s, _, err := c.status(ctx)
	if err != nil {
		return err
	}
	if err := c.explain(c.engine.Resume(ctx, table)); err != nil {
		return err
	}
	text := c.part(table) + " goes on"
	if jobPauseOf(s, table) == nil {
		text = c.part(table) + " was not paused"
	}
	for _, p := range s.Pauses {
		if p.Table != table {
			text += fmt.Sprintf("; %s is still paused by %s: %s", c.part(p.Table), plainLine(p.By), plainLine(p.Reason))
		}
	}
	_, err = fmt.Fprintln(a.stdout, text)
	return err
}

func (a *app) flushStepDownCommand() *cobra.Command {
	var wait bool
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "step-down -f FILE",
		Short: "Have another process be the active one",
		Long: `Ask the active process to let another one be it, and wait until that is so. It finishes
the batch that is on its way, gives the lock to the next one, and stands by. If nobody
else stands by, it is active again after some seconds.

Exits with 75 if it has not stepped down within --timeout; it may still do so.`,
		Example: `  lockkeeper flush step-down -f players.yaml
  lockkeeper flush step-down -f players.yaml --wait=false`,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.onConsole(c, func(ctx context.Context, c *console) error { return a.stepDown(ctx, c, wait, timeout) })
		},
	}
	c.Flags().BoolVar(&wait, "wait", true, "wait until another process is active, or nobody")
	c.Flags().DurationVar(&timeout, "timeout", 30*time.Second, "how long to wait")
	return c
}

// lookEvery is how often the verbs that wait for something look.
const lookEvery = 200 * time.Millisecond

func (a *app) stepDown(ctx context.Context, c *console, wait bool, timeout time.Duration) error {
	if timeout <= 0 {
		return usagef("a timeout of %s: it is more than 0; or say --wait=false", timeout)
	}
	s, lock, err := c.status(ctx)
	switch {
	case err != nil:
		return err
	case !lock.Held:
		return fmt.Errorf("no process of %s is active: there is nobody to step down", c.Job)
	case lock.Holder.Foreign || s.Epoch == 0:
		return fmt.Errorf("%s has the lock of %s and has not begun to work: it can't be asked", nameOf(lock), c.Job)
	}
	if err := c.explain(c.engine.StepDown(ctx, s.Epoch)); err != nil {
		return err
	}
	if !wait {
		_, err = fmt.Fprintf(a.stdout, "%s is asked to step down (epoch %d)\n", nameOf(lock), s.Epoch)
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	now, err := c.steppedDown(waiting, s.Epoch, lock)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("interrupted: %s is asked to step down, and may still do so", nameOf(lock))
	case errors.Is(err, context.DeadlineExceeded):
		return timeoutError{fmt.Errorf("%s has not stepped down within %s, and may still do so: see %s", nameOf(lock), timeout, c.command("status"))}
	case err != nil:
		return err
	}
	_, err = fmt.Fprintf(a.stdout, "%s has stepped down; %s\n", nameOf(lock), now)
	return err
}

// steppedDown waits until another epoch is active, or nobody is and nobody stands by to
// become it, and says who is active then.
func (c *console) steppedDown(ctx context.Context, epoch int64, before lockkeeper.State) (string, error) {
	for {
		if err := rest(ctx, lookEvery); err != nil {
			return "", err
		}
		s, lock, err := c.status(ctx)
		switch {
		case ctx.Err() != nil:
			return "", ctx.Err()
		case err != nil:
			return "", err
		case lock.Held && lock.Holder.Fence != before.Holder.Fence && s.Epoch > epoch:
			return fmt.Sprintf("%s is active (epoch %d)", nameOf(lock), s.Epoch), nil
		case !lock.Held && !someoneElse(s, nameOf(before)):
			return "nobody is active, and no other process stands by", nil
		}
	}
}

// someoneElse reports whether a process that is not this one could become active.
func someoneElse(s flush.Status, label string) bool {
	for i := range s.Members {
		if m := &s.Members[i]; m.Label != label && m.Ready && m.Age < silentAfter {
			return true
		}
	}
	return false
}

// rest sleeps, or returns ctx's error.
func rest(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
