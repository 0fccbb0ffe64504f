package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/flush"
)

func (a *app) flushResyncCommand() *cobra.Command {
	var table string
	var asJSON bool
	c := &cobra.Command{
		Use:   "resync -f FILE",
		Short: "Mark all keys again, so that every row is written once more",
		Long: `Mark all keys of the mappings, so that the active process flushes them again: after a
restore of the database, a new column, or at the first start with keys that are there
already. Rows whose keys are not there stay as they are; flush verify finds them.

It walks through all keys of the Redis server, some at a time. Ctrl-C ends it; what is
marked by then stays marked.`,
		Example: `  lockkeeper flush resync -f players.yaml
  lockkeeper flush resync -f players.yaml --table player`,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.onConsole(c, func(ctx context.Context, c *console) error { return a.resync(ctx, c, table, asJSON) })
		},
	}
	takesTable(c, &table, "only the keys of the mapping of this `table`")
	takesJSON(c, &asJSON)
	return c
}

func (a *app) resync(ctx context.Context, c *console, table string, asJSON bool) error {
	if err := c.checkTable(table); err != nil {
		return err
	}
	bar := a.newGauge("resync", "keys", asJSON)
	done, err := c.engine.Resync(ctx, table, func(p flush.Progress) { bar.report(p.Done, p.Share, p.Table) })
	bar.end()
	if err != nil {
		far := fmt.Sprintf("%s were found and %d marked by then, and stay so", count(done.Keys, "key", "keys"), done.Marked)
		return c.stopped(ctx, err, far)
	}
	if asJSON {
		return printJSON(a.stdout, done)
	}
	text := fmt.Sprintf("%s of %s: %d marked", count(done.Keys, "key", "keys"), c.part(table), done.Marked)
	if before := done.Keys - done.Marked; before > 0 {
		text += fmt.Sprintf(", and %d were so before", before)
	}
	_, err = fmt.Fprintf(a.stdout, "%s; see %s\n", text, c.command("drain"))
	return err
}
