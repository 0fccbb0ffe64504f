package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/config"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/store"
	"github.com/lockkeeper/lockkeeper/flush"
)

const flushHelp = `Bring changes of hashes in Redis into the rows of a SQL database, from exactly one of
the processes that run this.

A file says which keys become which rows; this is players.yaml:

  job: players                  # all processes of the job use the same name
  database: sqlite:players.db   # or ` + envDatabase + ` in the environment
  mappings:
    - keys: "player:{id}"       # player:7 becomes the row with id 7
      table: player
      create: true              # make the table if it is not there
      key:
        id: int64
      columns:
        name: text
        score: {type: int64, field: points, required: true}

  Other settings of a file: interval: 1s, batch: 500, ttl: 10s.
  Of a mapping: missing: keep, park or delete, for a key that has gone without a delete.
  The types: text, bytes, int64, float64, bool, json.

Check it, make the tables, run it as often as you like, and look:

  lockkeeper flush check   -f players.yaml
  lockkeeper flush migrate -f players.yaml
  lockkeeper flush run     -f players.yaml
  lockkeeper flush status  -f players.yaml

All that run a job have to reach the same database. An SQLite file is that of one
machine: run several processes there, and do not put it on a network drive.

The application marks what it changes, in the same step in which it changes it: through
the Go package flush, or with the script that docs/PROTOCOL.md shows, in any language.`

// fileFlag is the flag -f of the commands below flush.
const fileFlag = "file"

func (a *app) flushCommand() *cobra.Command {
	c := group(&cobra.Command{
		Use:   "flush",
		Short: "Bring changes in Redis into a SQL database",
		Long:  flushHelp,
	})
	c.AddCommand(a.flushRunCommand(), a.flushCheckCommand(), a.flushMigrateCommand(), a.flushStatusCommand())
	for _, sub := range c.Commands() {
		sub.Args = noArgs
		sub.Flags().StringP(fileFlag, "f", "", "the `file` that describes the flush; - is standard input")
		_ = sub.MarkFlagFilename(fileFlag, "yaml", "yml") // fails for an unknown flag only
	}
	return c
}

// A job is a flush file, and the database that it goes to.
type job struct {
	*config.File
	database    store.Database
	hasDatabase bool
}

// loadJob reads the file that -f names. It touches nothing else.
func (a *app) loadJob(c *cobra.Command) (*job, error) {
	name, err := c.Flags().GetString(fileFlag)
	if err != nil {
		return nil, err
	}
	data, err := a.readFile(c, name)
	if err != nil {
		return nil, err
	}
	file, err := config.Parse(data, name)
	if err != nil {
		return nil, err
	}
	j := &job{File: file}
	url, from := file.Database, name
	if v := a.env[envDatabase]; v != "" {
		url, from = v, envDatabase
	}
	if url == "" {
		return j, nil
	}
	if j.database, err = store.Parse(url); err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	j.hasDatabase = true
	return j, nil
}

func (a *app) readFile(c *cobra.Command, name string) ([]byte, error) {
	switch name {
	case "":
		return nil, usagef("which flush? Name its file: %s -f FILE", c.CommandPath())
	case "-":
		data, err := io.ReadAll(a.stdin)
		if err != nil {
			return nil, usagef("read standard input: %w", err)
		}
		return data, nil
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, usagef("%w", err)
	}
	return data, nil
}

// needDatabase is for the commands that can't do without.
func (j *job) needDatabase() error {
	if !j.hasDatabase {
		return usagef("no database: write it into %s as \"database: sqlite:PATH\", or set %s", j.Name, envDatabase)
	}
	return nil
}

// open opens the job's database.
func (j *job) open(ctx context.Context) (*sink, error) {
	if err := j.needDatabase(); err != nil {
		return nil, err
	}
	db, dialect, err := j.database.Open(ctx)
	if err != nil {
		return nil, unavailableError{err}
	}
	s, err := flush.NewSQL(db, dialect, j.Mappings)
	if err != nil {
		_ = db.Close() // the other error is the one to tell
		return nil, err
	}
	s.Guard(j.database.Guard(db))
	return &sink{SQL: s, db: db}, nil
}

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
	if err := s.Check(ctx); err != nil {
		return fmt.Errorf("%s is migrated, but: %w", j.database, err)
	}
	_, err = fmt.Fprintf(a.stdout, "%s is ready for the job %s\n", j.database, j.Job)
	return err
}
