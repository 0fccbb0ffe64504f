package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/flush"
)

func (a *app) flushCheckCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check -f FILE",
		Short: "Check a file, and show what it would do",
		Long: `Check the file of a flush, and show what goes where. Neither Redis nor the database is
touched. Errors come all at once, as FILE:LINE:COLUMN: MESSAGE, with exit code 64.`,
		Example: `  lockkeeper flush check -f players.yaml`,
		RunE: func(c *cobra.Command, _ []string) error {
			j, err := a.loadJob(c)
			if err != nil {
				return err
			}
			return j.describe(a.stdout)
		},
	}
}

// describe shows what a flush does.
func (j *job) describe(w io.Writer) error {
	database := "no database; set " + envDatabase
	if j.hasDatabase {
		database = j.database.String()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "job %s -> %s\n", j.Job, database)
	fmt.Fprintf(&b, "up to %d keys a transaction; when nothing is left, a rest of %s; a lock with a TTL of %s\n", j.Batch, j.Interval, j.TTL)
	fmt.Fprintf(&b, "a mapping is paused when more than %s of its keys can't be written\n", percent(j.MaxParked))
	for i := range j.Mappings {
		m := &j.Mappings[i]
		fmt.Fprintf(&b, "\n%s%s -> table %s (%s)\n", m.Keys, sourceNote(m), m.Table, tableNote(m))
		for _, line := range columnLines(m)[1:] {
			b.WriteString("  " + line + "\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func columnLines(m *flush.Mapping) []string {
	return tableLines(func(row func(cells ...string)) {
		row("COLUMN", "TYPE", "FROM")
		for k := range m.Key {
			c := &m.Key[k]
			row(c.Name, string(c.Type), fmt.Sprintf("key part {%s}, primary key", orName(c)))
		}
		for k := range m.Columns {
			c := &m.Columns[k]
			row(c.Name, string(c.Type), source(m, c)+rules(c))
		}
	})
}

func sourceNote(m *flush.Mapping) string {
	if m.Source == "" || m.Source == flush.Hashes {
		return ""
	}
	return fmt.Sprintf(" (%s)", m.Source)
}

func orName(c *flush.Column) string {
	if c.Field != "" {
		return c.Field
	}
	return c.Name
}

// source says where a column's value comes from.
func source(m *flush.Mapping, c *flush.Column) string {
	switch m.Source {
	case "", flush.Hashes:
		return "field " + orName(c)
	case flush.Strings:
		return "the string"
	case flush.Documents:
		return "JSON " + orName(c)
	}
	return fmt.Sprintf("%s of the %s", orName(c), m.Source)
}

// rules says what is special about a column.
func rules(c *flush.Column) string {
	note := ""
	if c.Required {
		note += ", required"
	}
	if c.Default != nil {
		note += fmt.Sprintf(", else %q", *c.Default)
	}
	if c.Nulls != nil {
		note += fmt.Sprintf(", NULL for %q", c.Nulls)
	}
	switch c.Empty {
	case flush.EmptyNull:
		note += ", NULL if empty"
	case flush.EmptyPark:
		note += ", parked if empty"
	}
	if c.Round {
		note += ", rounded"
	}
	if c.Replace {
		note += ", what is not UTF-8 replaced"
	}
	return note
}

func tableNote(m *flush.Mapping) string {
	note := "has to be there"
	if m.Create {
		note = "is created"
	}
	switch m.Missing {
	case flush.Park:
		note += "; a missing key is parked"
	case flush.Delete:
		note += "; a missing key's row is deleted"
	default:
		note += "; a missing key's row is kept"
	}
	if m.Scan > 0 {
		note += fmt.Sprintf("; scanned every %s", m.Scan)
	}
	if m.ScanDeletes > 0 {
		note += fmt.Sprintf(", which deletes at most %s", percent(m.ScanDeletes))
	}
	return note
}

func percent(share float64) string { return strconv.FormatFloat(100*share, 'g', 6, 64) + "%" }

func (a *app) flushMigrateCommand() *cobra.Command {
	var printOnly bool
	c := &cobra.Command{
		Use:   "migrate -f FILE",
		Short: "Make the tables that a flush needs",
		Long: `Make the table lockkeeper_fence, and the tables of the mappings that say create: true,
where they are not there. What is there is not changed, so that it does no harm to run it
again. At the end every table is compared with its mapping.`,
		Example: `  lockkeeper flush migrate -f players.yaml
  lockkeeper flush migrate -f players.yaml --print | sqlite3 players.db`,
		RunE: func(c *cobra.Command, _ []string) error {
			j, err := a.loadJob(c)
			if err != nil {
				return err
			}
			if printOnly {
				return j.printMigration(a.stdout)
			}
			return a.migrate(c.Context(), j)
		},
	}
	c.Flags().BoolVar(&printOnly, "print", false, "print the SQL, and touch nothing")
	return c
}

func (j *job) printMigration(w io.Writer) error {
	if err := j.needDatabase(); err != nil {
		return err
	}
	db, err := j.database.Prepare()
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }() // it was never used
	s, err := flush.NewSQL(db, j.database.Kind(), j.Mappings)
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, s.Migration())
	return err
}

func (a *app) migrate(ctx context.Context, j *job) error {
	s, err := j.open(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.Migrate(ctx); err != nil {
		return fmt.Errorf("%s: %w", j.database, err)
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if err := errors.Join(s.Check(ctx), s.CheckTables(ctx)); err != nil {
		return fmt.Errorf("%s is migrated, but: %w", j.database, err)
	}
	_, err = fmt.Fprintf(a.stdout, "%s is ready for the job %s\n", j.database, j.Job)
	return err
}
