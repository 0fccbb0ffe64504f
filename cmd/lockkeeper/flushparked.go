package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/flush"
)

func (a *app) flushParkedCommand() *cobra.Command {
	c := group(&cobra.Command{
		Use:   "parked",
		Short: "List, show, retry and drop the keys that can't be flushed",
		Long: `A key whose value can't be its row is parked: it is put aside with its reason, and holds
up no other. A later change of the key is flushed as any other, and ends its parking.

A name is the key; of an entry of a stream it is as in 'orders:7 entry 1526919030474-0'. Names that are
not plain are shown in quotes with escapes such as \n, and are understood so, too.`,
		Example: `  lockkeeper flush parked ls    -f players.yaml
  lockkeeper flush parked show  -f players.yaml player:7
  lockkeeper flush parked retry -f players.yaml --table player
  lockkeeper flush parked drop  -f players.yaml player:7 --yes`,
	})
	for _, sub := range []*cobra.Command{a.parkedListCommand(), a.parkedShowCommand(), a.parkedRetryCommand(), a.parkedDropCommand()} {
		takesFile(sub)
		c.AddCommand(sub)
	}
	return c
}

// A shownParked is a parked key with the name that retry and drop take.
type shownParked struct {
	Name string `json:"name"`
	flush.Parked
}

func newShownParked(p *flush.Parked) shownParked { return shownParked{shownName(p.Name()), *p} }

func (a *app) parkedListCommand() *cobra.Command {
	var table string
	var limit int
	var asJSON bool
	c := &cobra.Command{
		Use:   "ls -f FILE",
		Short: "List the keys that can't be flushed, the first that was parked first",
		Args:  noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.onConsole(c, func(ctx context.Context, c *console) error { return a.listParked(ctx, c, table, limit, asJSON) })
		},
	}
	takesTable(c, &table, "only those of this `table`")
	c.Flags().IntVar(&limit, "limit", 100, "how many to list; 0 is all")
	takesJSON(c, &asJSON)
	return c
}

func (a *app) listParked(ctx context.Context, c *console, table string, limit int, asJSON bool) error {
	if limit < 0 {
		return usagef("a limit of %d: it can't be negative", limit)
	}
	list, err := c.allParked(ctx, table)
	if err != nil {
		return err
	}
	total := len(list)
	if limit > 0 {
		list = list[:min(limit, total)]
	}
	shown := make([]shownParked, len(list))
	for i := range list {
		shown[i] = newShownParked(&list[i])
	}
	if asJSON {
		return printJSON(a.stdout, struct {
			Total  int           `json:"total"`
			Parked []shownParked `json:"parked"`
		}{total, shown})
	}
	if total == 0 {
		_, err := fmt.Fprintln(a.stdout, "no key is parked")
		return err
	}
	lines := tableLines(func(row func(cells ...string)) {
		row("NAME", "TABLE", "COLUMN", "CODE", "TIMES", "LAST", "REASON")
		for i := range shown {
			p := &shown[i]
			row(cutLine(p.Name), orDash(plainLine(p.Table)), orDash(plainLine(p.Column)), orDash(plainLine(p.Code)), strconv.Itoa(p.Attempts), ofTime(p.Last), cutLine(plainLine(p.Reason)))
		}
	})[1:]
	if left := total - len(shown); left > 0 {
		lines = append(lines, fmt.Sprintf("and %s; --limit 0 lists all", count(left, "more", "more")))
	}
	_, err = io.WriteString(a.stdout, strings.Join(lines, "\n")+"\n")
	return err
}

// cutLine cuts what is too long for a table; show and --json have all of it.
func cutLine(text string) string {
	const most = 80
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	return string(runes[:most]) + "..."
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func ofTime(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

// allParked returns all parked keys, or those of a table, in the order in which they were
// parked.
func (c *console) allParked(ctx context.Context, table string) ([]flush.Parked, error) {
	if err := c.checkTable(table); err != nil {
		return nil, err
	}
	byName := make(map[string]flush.Parked) // one can come twice
	err := c.engine.EachParked(ctx, func(p flush.Parked) bool {
		if table == "" || p.Table == table {
			byName[p.Name()] = p
		}
		return true
	})
	if err != nil {
		return nil, c.explain(err)
	}
	list := make([]flush.Parked, 0, len(byName))
	for _, p := range byName {
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b flush.Parked) int {
		return cmp.Or(a.First.Compare(b.First), cmp.Compare(a.Name(), b.Name()))
	})
	return list, nil
}

func (a *app) parkedShowCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "show -f FILE NAME...",
		Short: "Show all that is known of parked keys",
		RunE: func(c *cobra.Command, names []string) error {
			if len(names) == 0 {
				return usagef("which keys? Name them: %s -f FILE NAME...", c.CommandPath())
			}
			return a.onConsole(c, func(ctx context.Context, c *console) error { return a.showParked(ctx, c, names, asJSON) })
		},
	}
	takesJSON(c, &asJSON)
	return c
}

func (a *app) showParked(ctx context.Context, c *console, names []string, asJSON bool) error {
	list, err := c.parkedOf(ctx, names)
	if err != nil {
		return err
	}
	shown := make([]shownParked, len(list))
	for i := range list {
		shown[i] = newShownParked(&list[i])
	}
	if asJSON {
		return printJSON(a.stdout, shown)
	}
	for i := range shown {
		p := &shown[i]
		if i > 0 {
			fmt.Fprintln(a.stdout)
		}
		_, err = fmt.Fprintf(a.stdout, "name      %s\nkey       %s\nentry     %s\ntable     %s\ncolumn    %s\nreason    %s\ncode      %s\nversion   %s\nattempts  %d\nfirst     %s\nlast      %s\n",
			p.Name, shownName(p.Key), orDash(plainLine(p.Entry)), orDash(plainLine(p.Table)), orDash(plainLine(p.Column)), plainLine(p.Reason),
			orDash(plainLine(p.Code)), orDash(plainLine(p.Version)), p.Attempts, ofTime(p.First), ofTime(p.Last))
	}
	return err
}

// parkedOf returns the parked keys of names, as they are or as they are shown. One that is
// not parked is an error.
func (c *console) parkedOf(ctx context.Context, names []string) ([]flush.Parked, error) {
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	var list []flush.Parked
	for _, name := range names {
		found, err := c.engine.GetParked(ctx, name)
		if plain, quoted := unquoted(name); err == nil && len(found) == 0 && quoted {
			found, err = c.engine.GetParked(ctx, plain)
		}
		if err != nil {
			return nil, c.explain(err)
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("%s is not parked; perhaps it is flushed meanwhile: %s", shownName(name), c.command("parked ls"))
		}
		list = append(list, found...)
	}
	return list, nil
}

// unquoted reads a name in the form in which names are shown, with its quotes or, as a
// shell has taken them off, without.
func unquoted(name string) (plain string, ok bool) {
	for _, text := range []string{name, `"` + name + `"`} {
		if plain, err := strconv.Unquote(text); err == nil && text[0] == '"' && plain != name {
			return plain, true
		}
	}
	return "", false
}
