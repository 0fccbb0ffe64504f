package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/bench"
)

// quickly is how long bench --quick measures.
const quickly = 10 * time.Second

// benchFlags are the flags of the benchmark.
type benchFlags struct {
	duration   time.Duration
	quick      bool
	goroutines int
	leases     int
	json       bool
}

func (a *app) benchCommand() *cobra.Command {
	var f benchFlags
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure what your Redis gives: locks, hand-offs and renewals a second",
		Long: `Measures, from this machine, what the Redis server gives to the users of a lock:

  round trip   the smallest script there is, by one goroutine
  free lock    taken and given back by one goroutine, and by many at a time
  hand-off     from a release to the next holder: among clients that want one key, and
               among the goroutines of one client
  renewals     what it takes to keep many leases, and so how many one core can keep

It does no harm to a server that others use. It sends scripts, and INFO where that is
allowed; it changes no setting. No more than --goroutines requests are on their way at
a time: with 64 one core of Redis can be fully used for a fifth of the time, with fewer
the numbers of many at a time are smaller. Its keys have a random part in their names and
are deleted after each step, also when a signal ends it. Should it be killed, locks and
waiting lines expire within a minute, and the counters of fences of the step that was
going on in 7 days. The rights that locks need are enough.

All clients are in this process. On a machine with few cores they, and a Redis on the
same machine, take the CPU from each other: then the numbers are lower than those of
several machines.`,
		Example: `  lockkeeper bench
  lockkeeper bench --redis rediss://redis.example.com:6380 --quick
  lockkeeper bench --redis redis://127.0.0.1:6379 --duration 5m --json | jq .hand_off.p99_us`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if f.quick {
				if c.Flags().Changed("duration") {
					return usagef("--quick and --duration: give one of them")
				}
				f.duration = quickly
			}
			return a.bench(c.Context(), &f)
		},
	}
	flags := c.Flags()
	flags.SortFlags = false
	flags.DurationVar(&f.duration, "duration", time.Minute, "how long all of it takes, about")
	flags.BoolVar(&f.quick, "quick", false, "take about 10 s, for a first impression")
	flags.IntVar(&f.goroutines, "goroutines", 64, "how many ask at a time; fewer are less load")
	flags.IntVar(&f.leases, "leases", 2000, "how many leases are held for the renewals")
	flags.BoolVar(&f.json, "json", false, "print the result as one JSON object")
	return c
}

func (a *app) bench(ctx context.Context, f *benchFlags) error {
	first, err := a.connect() // tells what is wrong with the flags
	if err != nil {
		return err
	}
	defer first.close()
	progress := a.newProgress()
	result, err := bench.Run(ctx, bench.Options{
		Open: func() (bench.Link, error) {
			server, err := a.connect()
			if err != nil {
				return bench.Link{}, err
			}
			return bench.Link{Redis: server.rdb, Conn: server.conn}, nil
		},
		Address:    first.address,
		Prefix:     a.keyPrefix(),
		Duration:   f.duration,
		Goroutines: f.goroutines,
		Leases:     f.leases,
		Logger:     a.benchLog(),
		Tell:       func(text string) { fmt.Fprintf(a.stderr, "lockkeeper bench: %s\n", text) },
		Step:       progress.step,
	})
	progress.end()
	if result != nil {
		if printed := a.printBench(result, f.json); printed != nil {
			return printed
		}
	}
	return first.explainBench(err)
}

// benchLog is for who looks for a fault: the notes of the result say what matters.
func (a *app) benchLog() *slog.Logger {
	if a.log.Enabled(context.Background(), slog.LevelDebug) {
		return a.log
	}
	return nil
}

func (a *app) printBench(result *bench.Result, asJSON bool) error {
	if !asJSON {
		return result.Print(a.stdout)
	}
	encoder := json.NewEncoder(a.stdout)
	encoder.SetIndent("", "  ")
	return encoder.Encode(result)
}

// explainBench says what has ended a benchmark.
func (s *server) explainBench(err error) error {
	var rights *bench.RightsError
	switch {
	case errors.Is(err, bench.ErrUsage):
		return usageError{errors.New(strings.ReplaceAll(err.Error(), "\n", "; "))}
	case errors.Is(err, bench.ErrInterrupted):
		return errors.New("interrupted before the end: what was measured is not complete")
	case errors.As(err, &rights):
		if rights.Err == nil { // else that says so
			err = fmt.Errorf("%w; docs/PROTOCOL.md lists all that locks need", err)
		}
		return unavailableError{fmt.Errorf("the Redis server at %s refuses: %w", s.address, err)}
	}
	return s.explain(err)
}

// A progress shows on a terminal which step runs. On anything else it shows nothing.
type progress struct {
	app  *app
	stop context.CancelFunc // nil when no step runs
	done sync.WaitGroup
}

func (a *app) newProgress() *progress {
	p := &progress{}
	if file, ok := a.stderr.(*os.File); ok && term.IsTerminal(int(file.Fd())) && a.env["TERM"] != "dumb" {
		p.app = a
	}
	return p
}

// step shows the next step until the one after it, or end.
func (p *progress) step(number, of int, name string, d time.Duration) {
	p.end()
	if p.app == nil {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	p.done.Go(func() {
		begun := time.Now()
		ticker := time.NewTicker(200 * time.Millisecond)
		defer ticker.Stop()
		for {
			gone := min(time.Since(begun), d)
			fmt.Fprintf(p.app.stderr, "\r\x1b[K%d of %d  %s  %.0f s of %.0f s", number, of, name, gone.Seconds(), d.Seconds())
			select {
			case <-ctx.Done():
				fmt.Fprint(p.app.stderr, "\r\x1b[K")
				return
			case <-ticker.C:
			}
		}
	})
}

// end clears the line.
func (p *progress) end() {
	if p.stop != nil {
		p.stop()
		p.done.Wait()
		p.stop = nil
	}
}
