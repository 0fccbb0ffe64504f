package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockkeeper/lockkeeper/lab/flushbench/rig"
	"github.com/lockkeeper/lockkeeper/sqlfence"
)

// options are the flags.
type options struct {
	duration time.Duration
	db       string
	seed     uint64
	keep     string
	plant    string
	writers  int
	workers  int
	verbose  bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	redis.SetLogger(silent{}) // it would say that a server is down which was killed
	if os.Getenv(asWorker) != "" {
		if err := work(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "flushchaos: worker:", err)
			os.Exit(1)
		}
		return
	}
	var o options
	flag.DurationVar(&o.duration, "duration", 3*time.Minute, "how long on each database")
	flag.StringVar(&o.db, "db", "sqlite,postgres,mariadb", "the databases")
	flag.Uint64Var(&o.seed, "seed", 0, "chooses the writes and the faults, though not the moments at which they meet; 0 is chance")
	flag.StringVar(&o.keep, "keep", "", "keep the logs in this folder")
	flag.StringVar(&o.plant, "plant", "", "a bug of the workers: "+strings.Join(plants, ", "))
	flag.IntVar(&o.writers, "writers", 6, "writers; the first marks in transactions of its own")
	flag.IntVar(&o.workers, "workers", 3, "worker processes")
	flag.BoolVar(&o.verbose, "v", false, "tell each fault")
	flag.Parse()
	if err := chaos(ctx, os.Stdout, o); err != nil {
		fmt.Fprintln(os.Stderr, "flushchaos:", err)
		os.Exit(1)
	}
}

// silent is no logger.
type silent struct{}

// Printf implements the logger of go-redis.
func (silent) Printf(context.Context, string, ...any) {}

// kinds are the databases that can be named.
var kinds = map[string]sqlfence.Dialect{"sqlite": sqlfence.SQLite, "postgres": sqlfence.Postgres, "mariadb": sqlfence.MariaDB}

// errViolated is returned when something was found.
var errViolated = errors.New("promises were broken, see above")

// chaos runs on one database after the other.
func chaos(ctx context.Context, w io.Writer, o options) error {
	switch {
	case !rig.Supported:
		return errors.New("this needs Linux: children that die with their parent")
	case o.plant != "" && !slices.Contains(plants, o.plant):
		return fmt.Errorf("no bug %q: %s", o.plant, strings.Join(plants, ", "))
	case o.writers < 2 || o.workers < 2:
		return errors.New("at least two writers and two workers")
	}
	if o.seed == 0 {
		o.seed = rand.Uint64N(1e9) + 1
	}
	dir, err := o.folder()
	if err != nil {
		return err
	}
	violations := 0
	for name := range strings.SplitSeq(o.db, ",") {
		kind, known := kinds[name]
		if !known {
			return fmt.Errorf("no database %q: sqlite, postgres or mariadb", name)
		}
		r := &run{options: o, out: w, dir: filepath.Join(dir, name), faults: make(map[string]int)}
		fmt.Fprintf(w, "chaos on %s for %s with seed %d\n", kind, o.duration, o.seed)
		v, err := r.run(ctx, kind)
		if err != nil {
			return fmt.Errorf("%s: %w (the logs are in %s)", kind, err, r.dir)
		}
		r.print(w, v)
		violations += len(v.violations)
	}
	if violations > 0 {
		fmt.Fprintf(w, "the logs are in %s\n", dir)
		return errViolated
	}
	if o.keep == "" {
		return os.RemoveAll(dir)
	}
	return nil
}

func (o options) folder() (string, error) {
	if o.keep == "" {
		return os.MkdirTemp("", "flushchaos-")
	}
	return filepath.Abs(o.keep)
}
