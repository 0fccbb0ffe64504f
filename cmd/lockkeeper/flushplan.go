package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/store"
	"github.com/lockkeeper/lockkeeper/flush"
)

func (a *app) flushPlanCommand() *cobra.Command {
	var o flush.PlanOptions
	var asJSON bool
	c := &cobra.Command{
		Use:   "plan -f FILE",
		Short: "Show what a pass would do now, and write nothing",
		Long: `Show what a pass would do now with the keys that wait: how many rows it would insert,
update and delete in each table, some of the changes with the old and the new values,
keys that would be parked with their reasons, the SQL, and the statements that make
tables which are not there. Nothing is written, neither to Redis nor to the database.`,
		Example: `  lockkeeper flush plan -f players.yaml
  lockkeeper flush plan -f players.yaml --keys 1000 --changes 3
  lockkeeper flush plan -f players.yaml --json | jq .tables`,
		RunE: func(c *cobra.Command, _ []string) error {
			switch {
			case o.Keys < 0:
				return usagef("--keys %d: it can't be negative", o.Keys)
			case o.Changes < 1:
				return usagef("--changes %d: it is at least 1", o.Changes)
			}
			return a.onConsole(c, func(ctx context.Context, c *console) error { return a.plan(ctx, c, o, asJSON) })
		},
	}
	c.Flags().IntVar(&o.Keys, "keys", 0, "look at so many keys at most; 0 is all that wait")
	c.Flags().IntVar(&o.Changes, "changes", 10, "how many changes of each table to show")
	takesJSON(c, &asJSON)
	return c
}

func (a *app) plan(ctx context.Context, c *console, o flush.PlanOptions, asJSON bool) error {
	if err := c.needDatabase(); err != nil {
		return err
	}
	status, _, err := c.status(ctx)
	if err != nil {
		return err
	}
	s, done, err := c.openToRead(ctx)
	if err != nil {
		return err
	}
	defer done()
	bar := a.newGauge("plan", "keys", asJSON)
	o.Progress = func(p flush.Progress) { bar.report(p.Done, p.Share, p.Table) }
	p, err := c.engine.Plan(ctx, s.SQL, o)
	bar.end()
	if err != nil {
		far := "nothing was written"
		if p != nil {
			far = fmt.Sprintf("%s were looked at, and nothing was written", count(p.Keys, "key", "keys"))
		}
		return c.stopped(ctx, err, far)
	}
	if asJSON {
		return printJSON(a.stdout, p)
	}
	_, err = io.WriteString(a.stdout, strings.Join(planLines(c, p, status.Dirty-p.Keys), "\n")+"\n")
	return err
}

// openToRead opens the database without making it. For a file that is not there, an empty
// one elsewhere stands in.
func (c *console) openToRead(ctx context.Context) (s *sink, done func(), err error) {
	if !c.missingFile() {
		s, err := c.open(ctx)
		if err != nil {
			return nil, nil, err
		}
		return s, s.close, nil
	}
	folder, err := os.MkdirTemp("", "lockkeeper-plan-")
	if err != nil {
		return nil, nil, err
	}
	remove := func() { _ = os.RemoveAll(folder) } // a rest in a temporary folder harms nobody
	empty := *c.job
	if empty.database, err = store.Parse("sqlite:" + filepath.Join(folder, "empty.db")); err == nil {
		s, err = empty.open(ctx)
	}
	if err != nil {
		remove()
		return nil, nil, err
	}
	return s, func() { s.close(); remove() }, nil
}

// planLines shows a plan to people. So many keys wait besides those that were looked at.
func planLines(c *console, p *flush.Plan, besides int) []string {
	lines := []string{fmt.Sprintf("%s of %s -> %s; nothing is written by this", count(p.Keys, "key that waits", "keys that wait"), c.Job, c.database)}
	if besides > 0 {
		lines = append(lines, count(besides, "key waits", "keys wait")+" besides: beyond --keys, put aside, or marked without a version until a pass gives it one")
	}
	lines = append(lines, "")
	for _, pause := range p.Pauses {
		lines = append(lines, fmt.Sprintf("%s is paused by %s: %s", c.part(pause.Table), plainLine(pause.By), plainLine(pause.Reason)))
	}
	lines = append(lines, tableLines(func(row func(cells ...string)) {
		row("TABLE", "INSERT", "UPDATE", "DELETE", "SAME", "GONE", "PARK", "PAUSED")
		for i := range p.Tables {
			t := &p.Tables[i]
			row(t.Table, fmt.Sprint(t.Insert), fmt.Sprint(t.Update), fmt.Sprint(t.Delete), fmt.Sprint(t.Same), fmt.Sprint(t.Missing), fmt.Sprint(t.Park), fmt.Sprint(t.Held))
		}
	})[1:]...)
	if p.Unmapped > 0 {
		lines = append(lines, count(p.Unmapped, "key fits no mapping, and would be parked", "keys fit no mapping, and would be parked"))
	}
	for i := range p.Tables {
		lines = append(lines, tablePlanLines(&p.Tables[i])...)
	}
	if len(p.Parked) > 0 {
		lines = append(lines, "", "keys that would be parked, some of them:")
		for i := range p.Parked {
			k := &p.Parked[i]
			at := ""
			if k.Column != "" {
				at = k.Table + "." + k.Column + ": "
			}
			lines = append(lines, fmt.Sprintf("  %s  %s", shownName(k.Name()), plainLine(at+k.Reason)))
		}
	}
	return lines
}

func tablePlanLines(t *flush.TablePlan) []string {
	lines := []string{"", "table " + t.Table}
	switch {
	case t.DDL != "" && strings.HasPrefix(t.Problem, "there is no table"):
		lines = append(lines, "  it is not there; flush migrate would make it:")
		lines = append(lines, indented(t.DDL)...)
	case t.Problem != "":
		lines = append(lines, "  PROBLEM: "+plainLine(t.Problem))
	}
	for i := range t.Changes {
		ch := &t.Changes[i]
		lines = append(lines, fmt.Sprintf("  %s %s", ch.Do, shownName(ch.Key)))
		for _, col := range ch.Columns {
			lines = append(lines, "    "+plainLine(changeText(ch.Do, col)))
		}
	}
	if left := t.Insert + t.Update + t.Delete - len(t.Changes); left > 0 {
		lines = append(lines, fmt.Sprintf("  and %d more", left))
	}
	lines = append(lines, "  the SQL:")
	return append(lines, indented(t.SQL)...)
}

// changeText shows a value before and after.
func changeText(do string, c flush.ColumnChange) string {
	name := c.Column
	if name == "" {
		name = "row"
	}
	if do == "insert" {
		return fmt.Sprintf("%s: %s", name, c.New)
	}
	return fmt.Sprintf("%s: %s -> %s", name, c.Old, c.New)
}

func indented(text string) []string {
	var lines []string
	for line := range strings.Lines(strings.TrimRight(text, "\n")) {
		lines = append(lines, "    "+strings.TrimRight(line, "\n"))
	}
	return lines
}
