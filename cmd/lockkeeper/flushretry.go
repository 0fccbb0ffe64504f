package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/flush"
)

// A choice says which parked keys are meant.
type choice struct {
	names []string
	all   bool
	table string
}

func (ch *choice) flags(c *cobra.Command) {
	c.Flags().BoolVar(&ch.all, "all", false, "all of them")
	takesTable(c, &ch.table, "all of this `table`")
}

// check wants one way to say which.
func (ch *choice) check(c *cobra.Command) error {
	ways := 0
	for _, way := range []bool{len(ch.names) > 0, ch.all, ch.table != ""} {
		if way {
			ways++
		}
	}
	if ways != 1 {
		return usagef("which keys? Either name them, or say --all, or --table TABLE: %s -f FILE NAME...", c.CommandPath())
	}
	return nil
}

// find returns the parked keys that are meant.
func (ch *choice) find(ctx context.Context, c *console) ([]flush.Parked, error) {
	if len(ch.names) > 0 {
		return c.parkedOf(ctx, ch.names)
	}
	return c.allParked(ctx, ch.table)
}

func (a *app) parkedRetryCommand() *cobra.Command {
	var ch choice
	c := &cobra.Command{
		Use:   "retry -f FILE NAME... | --all | --table TABLE",
		Short: "Try parked keys again",
		Long: `Mark parked keys again, for the next pass to try them: after the value or the table was
corrected. Each stays parked until it is flushed. A key that is changed by the
application is tried without this.`,
		RunE: func(c *cobra.Command, names []string) error {
			ch.names = names
			if err := ch.check(c); err != nil {
				return err
			}
			return a.onConsole(c, func(ctx context.Context, c *console) error { return a.retryParked(ctx, c, &ch) })
		},
	}
	ch.flags(c)
	return c
}

func (a *app) retryParked(ctx context.Context, c *console, ch *choice) error {
	list, err := ch.find(ctx, c)
	if err != nil {
		return err
	}
	n, err := a.inChunks(ctx, c, "retry", list, c.engine.RetryParked)
	if err != nil {
		return err
	}
	text := count(n, "key is marked again; it stays parked until it is flushed", "keys are marked again; each stays parked until it is flushed")
	if marked := len(list) - n; marked > 0 {
		text += fmt.Sprintf("; %s already", count(marked, "was marked", "were marked"))
	}
	_, err = fmt.Fprintln(a.stdout, text)
	return err
}

// parkedChunk is how many keys are dealt with before the progress is shown.
const parkedChunk = 500

// inChunks does something to parked keys, and returns to how many.
func (a *app) inChunks(ctx context.Context, c *console, what string, list []flush.Parked, do func(context.Context, ...flush.Parked) (int, error)) (int, error) {
	bar := a.newGauge(what+" "+c.Job, "keys", false)
	defer bar.end()
	done, seen := 0, 0
	for chunk := range slices.Chunk(list, parkedChunk) {
		n, err := do(ctx, chunk...)
		done += n
		if err != nil {
			return done, c.stopped(ctx, err, fmt.Sprintf("%d of %s are done", seen, count(len(list), "key", "keys")))
		}
		seen += len(chunk)
		bar.report(seen, float64(seen)/float64(len(list)), "")
	}
	return done, nil
}

func (a *app) parkedDropCommand() *cobra.Command {
	var ch choice
	var yes bool
	c := &cobra.Command{
		Use:   "drop -f FILE NAME... | --all | --table TABLE",
		Short: "Forget parked keys, whose rows then stay as they are",
		Long: `Forget parked keys: what could not be written is not written, and their rows stay as
they are. A later change of a key is flushed as any other. It asks before; where there is
no terminal to ask, --yes has to be there.`,
		RunE: func(c *cobra.Command, names []string) error {
			ch.names = names
			if err := ch.check(c); err != nil {
				return err
			}
			return a.onConsole(c, func(ctx context.Context, c *console) error { return a.dropParked(ctx, c, &ch, yes) })
		},
	}
	ch.flags(c)
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return c
}

func (a *app) dropParked(ctx context.Context, c *console, ch *choice, yes bool) error {
	list, err := ch.find(ctx, c)
	if err != nil {
		return err
	}
	if len(list) > 0 && !yes {
		question := fmt.Sprintf("Drop %s of %s? Their rows stay as they are.", count(len(list), "parked key", "parked keys"), c.Job)
		if err := a.confirm(ctx, question, "--yes"); err != nil {
			return err
		}
	}
	n, err := a.inChunks(ctx, c, "drop", list, c.engine.DropParked)
	if err != nil {
		return err
	}
	text := count(n, "key is dropped", "keys are dropped")
	if kept := len(list) - n; kept > 0 {
		text += fmt.Sprintf("; %s, since it was parked again or flushed meanwhile", count(kept, "is kept", "are kept"))
	}
	_, err = fmt.Fprintln(a.stdout, text)
	return err
}
