package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/config"
	"github.com/lockkeeper/lockkeeper/flush"
)

type verifyFlags struct {
	flush.VerifyOptions
	full, ignoreOrphans, json bool
	streams                   map[string]bool // tables whose rows are not looked at one by one
	deletes                   string
}

func (a *app) flushVerifyCommand() *cobra.Command {
	var f verifyFlags
	c := &cobra.Command{
		Use:   "verify -f FILE [--full | --sample N]",
		Short: "Compare keys with their rows, and repair what differs",
		Long: `Compare every key with its row, field by field, and look for rows whose key is not there;
or with --sample only so many keys of each mapping, chosen at random. It can be done while
the job works: a key that has changed and is not flushed yet is no difference.

--repair marks the keys that differ, for the active process to flush them. Rows without a
key are left alone, since the key may have expired; --deletes 5% has them deleted, unless
they are more than that share of the rows.

Exits with 0 if everything is the same, or after --repair if all that differed is marked;
with 1 if there are differences. Keys that are parked or wait to be flushed are counted,
and are no differences. Ctrl-C ends it and says how far it came.`,
		Example: `  lockkeeper flush verify -f players.yaml
  lockkeeper flush verify -f players.yaml --sample 1000 --json
  lockkeeper flush verify -f players.yaml --repair --deletes 1%`,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := f.check(c); err != nil {
				return err
			}
			return a.onConsole(c, func(ctx context.Context, c *console) error { return a.verify(ctx, c, &f) })
		},
	}
	flags := c.Flags()
	flags.BoolVar(&f.full, "full", false, "all keys and all rows; this is the default")
	flags.IntVar(&f.Sample, "sample", 0, "only so many keys of each mapping")
	takesTable(c, &f.Table, "only the mapping of this `table`")
	flags.BoolVar(&f.Repair, "repair", false, "mark the keys that differ")
	flags.StringVar(&f.deletes, "deletes", "0%", "with --repair: delete rows without a key, if they are at most this `share` of the rows")
	flags.BoolVar(&f.ignoreOrphans, "ignore-orphans", false, "rows without a key are no difference, as where keys expire")
	flags.IntVar(&f.Differences, "differences", 20, "how many differences of each mapping to show")
	takesJSON(c, &f.json)
	return c
}

// check looks at the flags.
func (f *verifyFlags) check(c *cobra.Command) error {
	share, err := config.Share(f.deletes)
	switch {
	case err != nil:
		return usagef("--deletes: %w", err)
	case f.full && c.Flags().Changed("sample"):
		return usagef("--full or --sample, not both")
	case c.Flags().Changed("sample") && f.Sample < 1:
		return usagef("a sample of %d: it is at least 1", f.Sample)
	case share > 0 && !f.Repair:
		return usagef("--deletes needs --repair")
	case share > 0 && f.Sample > 0:
		return usagef("--deletes needs --full: a sample looks for no rows without a key")
	case f.Differences < 1:
		return usagef("--differences %d: it is at least 1", f.Differences)
	}
	f.Deletes = share
	return nil
}

// errDiffers is what was found; the summary has said what.
var errDiffers = errors.New("there are differences between Redis and the database, see above")

func (a *app) verify(ctx context.Context, c *console, f *verifyFlags) error {
	if err := c.checkTable(f.Table); err != nil {
		return err
	}
	s, err := c.openReady(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	bar := a.newGauge("verify", "compared", f.json)
	table, done, before := "", 0, 0
	f.Progress = func(p flush.Progress) {
		if p.Table != table { // each counts from 0
			table, before = p.Table, before+done
		}
		done = p.Done
		bar.report(before+done, p.Share, p.Table)
	}
	found, err := c.engine.Verify(ctx, s.SQL, f.VerifyOptions)
	bar.end()
	if err != nil {
		return c.stopped(ctx, err, verifiedSoFar(found))
	}
	f.streams = make(map[string]bool)
	for i := range c.Mappings {
		f.streams[c.Mappings[i].Table] = c.Mappings[i].Source == flush.Streams
	}
	left := f.left(found)
	if f.json {
		err = printJSON(a.stdout, struct {
			OK     bool             `json:"ok"`
			Tables []flush.Verified `json:"tables"`
		}{left == 0, found})
	} else {
		err = a.printVerified(f, found, left)
	}
	if err == nil && left > 0 {
		err = errDiffers
	}
	return err
}

// openReady opens the database of a verb that only reads, and wants its tables to be
// there.
func (c *console) openReady(ctx context.Context) (*sink, error) {
	if err := c.needDatabase(); err != nil {
		return nil, err
	}
	if c.missingFile() {
		return nil, unavailableError{fmt.Errorf("database %s: there is no such file; %s makes it", c.database, c.command("migrate"))}
	}
	s, err := c.open(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.CheckTables(ctx); err != nil {
		s.close()
		return nil, unavailableError{fmt.Errorf("%s: %w; see %s", c.database, err, c.command("migrate"))}
	}
	return s, nil
}

// left counts what is not as it should be, and was not repaired.
func (f *verifyFlags) left(found []flush.Verified) int {
	n := 0
	for i := range found {
		v := &found[i]
		if !f.Repair {
			n += v.Differ + v.Unreadable
		}
		if !f.ignoreOrphans {
			n += max(0, v.Orphans-v.Deleted)
		}
	}
	return n
}

func verifiedSoFar(found []flush.Verified) string {
	var sum flush.Verified
	for i := range found {
		sum.Keys += found[i].Keys
		sum.Rows += found[i].Rows
		sum.Differ += found[i].Differ
		sum.Orphans += found[i].Orphans
		sum.Repaired += found[i].Repaired
	}
	return fmt.Sprintf("%s and %s were compared by then: %d differ, %d rows are without a key, %d are marked",
		count(sum.Keys, "key", "keys"), count(sum.Rows, "row", "rows"), sum.Differ, sum.Orphans, sum.Repaired)
}

func (a *app) printVerified(f *verifyFlags, found []flush.Verified, left int) error {
	var lines []string
	for i := range found {
		for _, d := range found[i].Differences {
			at := d.Table
			if d.Column != "" {
				at += "." + plainLine(d.Column)
			}
			lines = append(lines, fmt.Sprintf("%s  %s  Redis: %s  database: %s", shownName(d.Key), at, plainLine(d.Redis), plainLine(d.Database)))
		}
		if shown := len(found[i].Differences); shown >= f.Differences && shown < found[i].Differ+found[i].Orphans {
			lines = append(lines, fmt.Sprintf("and more of the table %s; --differences says how many are shown", found[i].Table))
		}
	}
	if lines != nil {
		lines = append(lines, "")
	}
	lines = append(lines, tableLines(func(row func(cells ...string)) {
		row("TABLE", "KEYS", "ROWS", "SAME", "DIFFER", "NO KEY", "UNREADABLE", "PENDING", "PARKED", "MARKED", "DELETED")
		for i := range found {
			v := &found[i]
			cells := []string{v.Table}
			for _, n := range []int{v.Keys, v.Rows, v.Same, v.Differ, v.Orphans, v.Unreadable, v.Pending, v.Parked, v.Repaired, v.Deleted} {
				cells = append(cells, strconv.Itoa(n))
			}
			if f.streams[v.Table] {
				cells[2] = "-" // what is trimmed from a stream stays in its table
			}
			row(cells...)
		}
	})[1:]...)
	for i := range found {
		if v := &found[i]; v.TooMany {
			lines = append(lines, fmt.Sprintf("table %s: %d of %d rows are without a key, and that is more than %s: none was deleted", v.Table, v.Orphans, v.Rows, percent(f.Deletes)))
		}
	}
	if left == 0 {
		lines = append(lines, f.verdict(found))
	}
	_, err := io.WriteString(a.stdout, strings.Join(lines, "\n")+"\n")
	return err
}

func (f *verifyFlags) verdict(found []flush.Verified) string {
	differ, parked, pending := 0, 0, 0
	for i := range found {
		differ += found[i].Differ + found[i].Deleted + found[i].Unreadable
		parked += found[i].Parked
		pending += found[i].Pending
	}
	switch {
	case differ > 0:
		return "all that differed is marked, and flushed again"
	case parked+pending > 0:
		return fmt.Sprintf("all that was compared is the same; not compared: %s, %s",
			count(parked, "key that is parked", "keys that are parked"), count(pending, "key that waits to be flushed", "keys that wait to be flushed"))
	case f.Sample > 0:
		return "the sample is the same in Redis and the database"
	}
	return "Redis and the database are the same"
}
