package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
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
	fmt.Fprintf(&b, "up to %d keys a transaction; when nothing is left, a rest of %s; a lock with a TTL of %s\n\n", j.Batch, j.Interval, j.TTL)
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "KEYS\tTABLE\tCOLUMN\tTYPE\tFROM")
	for i := range j.Mappings {
		m := &j.Mappings[i]
		keys, name := m.Keys, m.Table+" ("+tableNote(m)+")"
		row := func(c *flush.Column, from, note string) {
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", keys, name, c.Name, c.Type, fmt.Sprintf(from, orName(c))+note)
			keys, name = "", ""
		}
		for k := range m.Key {
			row(&m.Key[k], "key part {%s}", ", primary key")
		}
		for k := range m.Columns {
			note := ""
			if m.Columns[k].Required {
				note = ", required"
			}
			row(&m.Columns[k], "field %s", note)
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func orName(c *flush.Column) string {
	if c.Field != "" {
		return c.Field
	}
	return c.Name
}

func tableNote(m *flush.Mapping) string {
	note := "has to be there"
	if m.Create {
		note = "is created"
	}
	switch m.Missing {
	case flush.Park:
		return note + "; a missing key is parked"
	case flush.Delete:
		return note + "; a missing key's row is deleted"
	}
	return note + "; a missing key's row is kept"
}

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
