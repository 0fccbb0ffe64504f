// Command soak uses the lock for as long as it is told, from many processes and under
// faults, and checks what they saw. From the root of the repository:
//
//	go run ./lab/soak [-duration 10m] [-seed N] [-keep DIR] [-workers N] [-loops N] [-overtakes N]
//	go run ./lab/soak -check DIR
//
// It starts a redis-server of its own, which keeps its data over a restart, and worker
// processes that go through a proxy each. They ask for a few locks, wait, give up at
// random moments, hold, count in a SQLite database under package sqlfence, and write
// down what they believed and when, on one clock. Meanwhile workers are killed and
// stopped, connections cut, requests and replies lost and delayed, and the server is
// stopped, restarted, kept busy, filled up, made a replica, denied its disk, and its rights
// and its clock are changed. Now and then all is left in peace for some seconds: then
// nobody who waits may be stranded. In a quarter of the time the server loses its memory
// as well, and then the counters in the database must still be right.
//
// After each round the oracles of package oracle, and those in liveness.go, judge its
// history. When one finds a violation, the exit code is 1, what happened before it is told
// in words, and the folder with the history stays; -check judges it again. The last line
// has the counts of the whole run, for other programs.
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
	"time"
)

// options are the flags.
type options struct {
	duration  time.Duration
	seed      uint64
	keep      string
	check     string
	workers   int
	loops     int
	overtakes int
	linger    time.Duration
}

func main() {
	if os.Getenv(asWorker) != "" {
		if err := work(os.Stdin); err != nil {
			fmt.Fprintln(os.Stderr, "soak: worker:", err)
			os.Exit(1)
		}
		return
	}
	var o options
	flag.DurationVar(&o.duration, "duration", 10*time.Minute, "how long")
	flag.Uint64Var(&o.seed, "seed", 0, "chooses the faults, though not the moments at which they meet; 0 is chance")
	flag.StringVar(&o.keep, "keep", "", "write the history to this folder and keep it")
	flag.StringVar(&o.check, "check", "", "judge the history in this folder again, and do nothing else")
	flag.IntVar(&o.workers, "workers", 8, "worker processes")
	flag.IntVar(&o.loops, "loops", 5, "goroutines of each worker")
	flag.IntVar(&o.overtakes, "overtakes", mostOvertakes, "without faults, this many later calls may get a lock before a waiter; 0 is any number")
	flag.DurationVar(&o.linger, "linger", 70*time.Second, "the longest TTL that a key may have that outlives the last worker")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	_, err := soak(ctx, os.Stdout, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

// mostOvertakes is above what a fair line allows: the other processes may each pass the
// lock among their own calls a few times before it is a waiter's turn. A waiter that the
// line has forgotten sees more in a few seconds.
const mostOvertakes = 80

// errViolated is returned when an oracle has found something.
var errViolated = errors.New("promises were broken, see above")

// soak runs all rounds and judges each.
func soak(ctx context.Context, w io.Writer, o options) (*summary, error) {
	if o.check != "" {
		return nil, recheck(ctx, w, o.check)
	}
	if !supported {
		return nil, errors.New("this needs Linux: one clock for all processes, and children that die with their parent")
	}
	if o.seed == 0 {
		o.seed = rand.Uint64N(1e9) + 1
	}
	dir, err := o.folder()
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(w, "soak of %s with seed %d in %s\n", o.duration, o.seed, dir)
	if path, err := compiler(); err != nil {
		return nil, err
	} else if path == "" {
		fmt.Fprintln(w, "the server's clock is not stepped: there is no C compiler (make deps brings one)")
	}
	sum := newSummary()
	for began, i := time.Now(), 0; i < 2 || i%2 == 1 || o.hasTimeFor(time.Since(began), i/2); i++ {
		r := o.round(i)
		r.dir = filepath.Join(dir, fmt.Sprintf("round-%02d", i+1))
		fmt.Fprintf(w, "round %d: %s%s\n", i+1, r.Lasts, map[bool]string{true: ", and Redis loses its memory"}[r.Lossy])
		if err := r.run(ctx); err != nil {
			return nil, fmt.Errorf("round %d: %w (what there is of it is in %s)", i+1, err, r.dir)
		}
		found, err := judgeRound(ctx, w, r.dir, sum)
		if err != nil {
			return nil, err
		}
		if found == 0 && o.keep == "" { // a long run would fill the disk
			if err := os.RemoveAll(r.dir); err != nil {
				return nil, err
			}
		}
	}
	sum.print(w, o.seed)
	return sum, o.finish(w, dir, sum.violations)
}

// hasTimeFor reports whether one more pair of rounds fits in, after some that took a time.
func (o options) hasTimeFor(took time.Duration, pairs int) bool {
	return took+took/time.Duration(pairs) <= o.duration
}

// folder returns where the history goes.
func (o options) folder() (string, error) {
	if o.keep == "" {
		return os.MkdirTemp("", "soak-")
	}
	return filepath.Abs(o.keep)
}

// finish removes the history if nobody needs it.
func (o options) finish(w io.Writer, dir string, violations int) error {
	if violations > 0 {
		fmt.Fprintf(w, "the seed was %d; the history is in %s; judge it again with: go run ./lab/soak -check %s\n", o.seed, dir, dir)
		return errViolated
	}
	if o.keep == "" {
		return os.RemoveAll(dir)
	}
	return nil
}

// pair is how long a pair of rounds does its harm, if there is time: one in which Redis
// keeps its memory, and a short one in which it does not. They are short, so that there are
// many: each has a server and a database of its own.
const pair = time.Minute

// round returns the i-th round.
func (o options) round(i int) *round {
	lasts := min(pair, o.duration)
	r := &round{
		Seed: o.seed + uint64(i), Lossy: i%2 == 1, Lasts: lasts * 3 / 4, Workers: o.workers, Loops: o.loops,
		Locks: fewLocks, Linger: o.linger, Overtakes: o.overtakes,
	}
	if r.Lossy {
		r.Lasts = lasts / 4
	}
	return r
}

// judgeRound judges the history in a folder, and tells what is wrong with it.
func judgeRound(ctx context.Context, w io.Writer, dir string, sum *summary) (int, error) {
	h, err := readHistory(ctx, dir)
	if err != nil {
		return 0, fmt.Errorf("read the history: %w", err)
	}
	found := h.judge()
	sum.add(h, len(found))
	for _, v := range found {
		fmt.Fprintf(w, "\nVIOLATION (%s, seed %d, %s): %s\nbefore that:\n%s\n\n", v.oracle, h.Seed, dir, v.text, h.lastWords(v.name, v.at, 40))
	}
	return len(found), nil
}

// recheck judges a history again: that of a run, or of one round.
func recheck(ctx context.Context, w io.Writer, dir string) error {
	dirs, err := filepath.Glob(filepath.Join(dir, "round-*"))
	if err != nil {
		return err
	}
	if len(dirs) == 0 {
		dirs = []string{dir}
	}
	slices.Sort(dirs)
	sum := newSummary()
	for _, d := range dirs {
		if _, err := judgeRound(ctx, w, d, sum); err != nil {
			return err
		}
	}
	sum.print(w, 0)
	if sum.violations > 0 {
		return errViolated
	}
	return nil
}
