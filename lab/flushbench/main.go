package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockkeeper/lockkeeper/lab/flushbench/rig"
	"github.com/lockkeeper/lockkeeper/sqlfence"
)

// options are the flags.
type options struct {
	quick   bool
	only    string
	db      string
	rows    int
	rounds  int
	batch   int
	profile string
	silent  bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if os.Getenv(asWorker) != "" {
		if err := work(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "flushbench: worker:", err)
			os.Exit(1)
		}
		return
	}
	var o options
	flag.BoolVar(&o.quick, "quick", false, "fewer rows and rounds")
	flag.StringVar(&o.only, "only", "speed,memory,produce", "the parts to run")
	flag.StringVar(&o.db, "db", "sqlite,postgres,mariadb", "the databases")
	flag.IntVar(&o.rows, "rows", 0, "rows of each measurement of speed; 0 is 200,000, or 50,000 with -quick; with fewer than 10,000 the other parts are as small")
	flag.IntVar(&o.rounds, "rounds", 0, "rounds; 0 is 5, or 3 with -quick")
	flag.IntVar(&o.batch, "batch", 500, "keys of one transaction")
	flag.StringVar(&o.profile, "profile", "", "write CPU profiles of the workers into this folder")
	flag.Parse()
	if err := run(ctx, os.Stdout, o.withDefaults()); err != nil {
		fmt.Fprintln(os.Stderr, "flushbench:", err)
		os.Exit(1)
	}
}

func (o options) withDefaults() options {
	if o.rows == 0 {
		o.rows = map[bool]int{false: 200_000, true: 50_000}[o.quick]
	}
	if o.rounds == 0 {
		o.rounds = map[bool]int{false: 5, true: 3}[o.quick]
	}
	return o
}

// kinds are the databases that can be named.
var kinds = map[string]sqlfence.Dialect{"sqlite": sqlfence.SQLite, "postgres": sqlfence.Postgres, "mariadb": sqlfence.MariaDB}

func (o options) databases() ([]sqlfence.Dialect, error) {
	var list []sqlfence.Dialect
	for name := range strings.SplitSeq(o.db, ",") {
		kind, known := kinds[name]
		if !known {
			return nil, fmt.Errorf("no database %q: sqlite, postgres or mariadb", name)
		}
		list = append(list, kind)
	}
	return list, nil
}

func run(ctx context.Context, out io.Writer, o options) (err error) {
	if !rig.Supported {
		return errors.New("this needs Linux: it reads /proc")
	}
	databases, err := o.databases()
	if err != nil {
		return err
	}
	b := &bench{options: o, out: out, report: &report{}}
	if b.dir, err = os.MkdirTemp("", "flushbench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	if b.redis, err = rig.StartRedis(ctx, b.dir); err != nil {
		return err
	}
	defer b.redis.Kill()
	b.rdb = redis.NewClient(&redis.Options{Addr: b.redis.Addr(), ReadTimeout: time.Minute})
	defer func() { _ = b.rdb.Close() }() // nothing is on its way any more
	b.head()
	return b.parts(ctx, databases)
}

// parts runs the parts that are asked for.
func (b *bench) parts(ctx context.Context, databases []sqlfence.Dialect) error {
	for part := range strings.SplitSeq(b.only, ",") {
		var err error
		switch part {
		case "speed":
			err = b.speeds(ctx, databases)
		case "memory":
			err = errors.Join(b.marks(ctx), b.peaks(ctx, databases))
		case "produce":
			err = b.produce(ctx)
		default:
			err = fmt.Errorf("no part %q: speed, memory or produce", part)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) speeds(ctx context.Context, databases []sqlfence.Dialect) error {
	for _, kind := range databases {
		if err := b.speed(ctx, kind); err != nil {
			return err
		}
	}
	fmt.Fprintf(b.out, "\n## Speed: %s rows, batches of %d\n\n", thousands(float64(b.rows)), b.batch)
	b.report.speeds(b.out)
	fmt.Fprintf(b.out, "\n%s\n", b.report.busy())
	return nil
}

// head says what is measured, on what.
func (b *bench) head() {
	redis, _ := exec.Command(b.redis.Binary(), "--version").Output() // nothing is said then
	version := "redis-server of an unknown version"
	for word := range strings.FieldsSeq(string(redis)) {
		if v, found := strings.CutPrefix(word, "v="); found {
			version = "redis-server " + v
		}
	}
	fmt.Fprintf(b.out, "* %s; %d CPUs, %s; %s; %s\n", time.Now().UTC().Format("2006-01-02 15:04 UTC"), runtime.NumCPU(), rig.Machine(), runtime.Version(), version)
}

func (b *bench) say(format string, args ...any) {
	if b.silent {
		return
	}
	fmt.Fprintf(os.Stderr, "%s "+format+"\n", append([]any{time.Now().Format("15:04:05")}, args...)...)
}
