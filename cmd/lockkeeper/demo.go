package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/demo"
)

// demoFlags are the flags of the demo.
type demoFlags struct {
	demo.Options
	json bool
}

func (a *app) demoCommand() *cobra.Command {
	var f demoFlags
	c := &cobra.Command{
		Use:   "demo",
		Short: "Watch the whole job with faults, and have it checked",
		Long: `Starts a writer that changes, creates and deletes keys in Redis all the time, and
worker processes of which one is active and brings the changes into SQLite. After a
third of the time the active worker is killed. Later the next one is stopped for longer
than its TTL between reading a batch and writing it, with its loss signal switched off,
and continued: it really tries to write, and the database refuses it. At the end the
writer stops, and every key is compared with its row.

Redis is embedded and the database is a temporary file, unless --redis and --db say
otherwise (the environment does not count here). Nothing else on that Redis is touched,
and the demo's keys are deleted at the end.

Exits with 0 only if nothing differs, there was a takeover, and a stale write was refused.`,
		Example: `  lockkeeper demo
  lockkeeper demo --seconds 15 --json
  lockkeeper demo --redis redis://127.0.0.1:6379 --workers 5 --rate 1000
  lockkeeper demo --input packages.jsonl --db packages.db --keep`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.demo(c, &f) },
	}
	flags := c.Flags()
	flags.SortFlags = false
	flags.Float64Var(&f.Seconds, "seconds", 20, "how long the writer writes")
	flags.IntVar(&f.Workers, "workers", 3, "worker processes, at least 3")
	flags.IntVar(&f.Rate, "rate", 200, "changes a second")
	flags.DurationVar(&f.TTL, "ttl", 2*time.Second, "TTL of the lock")
	flags.StringVar(&f.DB, "db", "", "`path` of the SQLite file; it must not have rows of another run")
	flags.StringVar(&f.Input, "input", "", "feed the writer from a `file`: one flat JSON object with an id a line")
	flags.BoolVar(&f.Keep, "keep", false, "leave the database and the keys behind")
	flags.BoolVar(&f.json, "json", false, "print the summary as one JSON object; progress goes to standard error")
	return c
}

// errDemo is a show that did not end well; the summary has said why.
var errDemo = errors.New("the demo failed, see above")

func (a *app) demo(c *cobra.Command, f *demoFlags) error {
	o := f.Options
	if a.redisFlag {
		opts, err := parseRedis(a.redis)
		if err == nil {
			err = a.setPassword(opts)
		}
		if err != nil {
			return err
		}
		o.Redis = opts
	}
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("demo: which program is this: %w", err)
	}
	o.Executable, o.WorkerArgs, o.Logger = exe, []string{demoWorkerName}, a.log
	o.Screen = a.stdout
	if f.json {
		o.Screen = a.stderr
	}
	a.terminal(&o)
	summary, err := demo.Run(c.Context(), o)
	var database *demo.DatabaseError
	switch {
	case errors.Is(err, demo.ErrUsage):
		return usageError{err}
	case errors.As(err, &database):
		return unavailableError{err}
	case err != nil:
		return err
	}
	if f.json {
		err = json.NewEncoder(a.stdout).Encode(summary)
	} else {
		summary.Print(a.stdout)
	}
	if err == nil && !summary.OK {
		err = errDemo
	}
	return err
}

// terminal finds out what the screen can do.
func (a *app) terminal(o *demo.Options) {
	o.Width = func() int { return 80 }
	file, ok := o.Screen.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) || a.env["TERM"] == "dumb" {
		return
	}
	o.Live, o.Color = true, a.env["NO_COLOR"] == ""
	o.Width = func() int {
		width, _, err := term.GetSize(int(file.Fd()))
		if err != nil || width <= 0 {
			return 80
		}
		return width
	}
}

// demoWorkerName is the hidden command that is one worker of the demo.
const demoWorkerName = "demo-worker"

func (a *app) demoWorkerCommand() *cobra.Command {
	return &cobra.Command{
		Use:    demoWorkerName,
		Short:  "One worker of the demo, which starts it",
		Hidden: true,
		Args:   noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return demo.RunWorker(c.Context(), a.stdin, io.Writer(a.stdout), a.log)
		},
	}
}
