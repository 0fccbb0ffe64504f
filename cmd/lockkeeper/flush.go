package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/config"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/store"
	"github.com/lockkeeper/lockkeeper/flush"
	"github.com/lockkeeper/lockkeeper/sqlfence"
)

// fileFlag is the flag -f of the commands below flush.
const fileFlag = "file"

func (a *app) flushCommand() *cobra.Command {
	c := group(&cobra.Command{
		Use:   "flush",
		Short: "Bring changes in Redis into a SQL database",
		Long:  flushHelp,
	})
	for _, sub := range []*cobra.Command{
		a.flushRunCommand(), a.flushCheckCommand(), a.flushMigrateCommand(), a.flushPlanCommand(),
		a.flushStatusCommand(), a.flushNowCommand(), a.flushPauseCommand(), a.flushResumeCommand(),
		a.flushDrainCommand(), a.flushStepDownCommand(), a.flushVerifyCommand(), a.flushResyncCommand(),
	} {
		sub.Args = noArgs
		takesFile(sub)
		c.AddCommand(sub)
	}
	c.AddCommand(a.flushParkedCommand())
	return c
}

// takesFile gives a command the flag -f.
func takesFile(c *cobra.Command) {
	c.Flags().SortFlags = false
	c.Flags().StringP(fileFlag, "f", "", "the `file` that describes the flush; - is standard input")
	_ = c.MarkFlagFilename(fileFlag, "yaml", "yml") // fails for an unknown flag only
}

// takesTable gives a command the flag --table.
func takesTable(c *cobra.Command, table *string, what string) {
	c.Flags().StringVar(table, "table", "", what)
}

// takesJSON gives a command the flag --json.
func takesJSON(c *cobra.Command, asJSON *bool) {
	c.Flags().BoolVar(asJSON, "json", false, "print JSON")
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
	if password := a.env[envDatabasePassword]; password != "" {
		j.database = j.database.WithPassword(password)
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

// command returns a command line of this program for people, about the same file.
func (j *job) command(verb string) string {
	name := j.Name
	if strings.ContainsAny(name, " '\"$`\\") {
		name = "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
	}
	return fmt.Sprintf("lockkeeper flush %s -f %s", verb, name)
}

// checkTable wants a table to be that of a mapping; "" is all of them.
func (j *job) checkTable(table string) error {
	var tables []string
	for i := range j.Mappings {
		if table == "" || j.Mappings[i].Table == table {
			return nil
		}
		tables = append(tables, j.Mappings[i].Table)
	}
	return usagef("no mapping of %s has the table %q; there is %s", j.Name, table, strings.Join(tables, ", "))
}

// needDatabase is for the commands that can't do without.
func (j *job) needDatabase() error {
	if !j.hasDatabase {
		return usagef("no database: write it into %s as \"database: sqlite:PATH\", or set %s", j.Name, envDatabase)
	}
	return nil
}

// A sink is an open database.
type sink struct {
	*flush.SQL
	db *sql.DB
}

func (s *sink) close() { _ = s.db.Close() } // what was committed is on the disk

// open opens the job's database. It makes the file of an SQLite database.
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
	s.Codes(store.ErrorCode)
	return &sink{SQL: s, db: db}, nil
}

// missingFile reports whether the database is a file that is not there. Opening it would
// make it.
func (j *job) missingFile() bool {
	if j.database.Kind() != sqlfence.SQLite {
		return false
	}
	_, err := os.Stat(strings.TrimPrefix(j.database.String(), "sqlite:"))
	return errors.Is(err, fs.ErrNotExist)
}
