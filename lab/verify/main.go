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
	"regexp"
	"sync"
	"time"
)

// options are the flags.
type options struct {
	short  bool
	seed   uint64
	within time.Duration
	only   *regexp.Regexp
	quick  int
}

func main() {
	var o options
	only := flag.String("only", "", "run only the layers whose name matches this regular expression")
	flag.BoolVar(&o.short, "short", false, "the short programme: what make test runs of it")
	flag.Uint64Var(&o.seed, "seed", 0, "the first seed; 0 is chance")
	flag.DurationVar(&o.within, "within", 80*time.Minute, "end after this, finished or not")
	flag.IntVar(&o.quick, "quick", 1, "do only one in N of everything, without targets: to try this program out")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := o.parse(*only)
	if err == nil {
		err = verify(ctx, os.Stdout, o)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "verify:", err)
		os.Exit(1)
	}
}

func (o *options) parse(only string) (err error) {
	if flag.NArg() > 0 {
		return fmt.Errorf("%q: there are no arguments", flag.Arg(0))
	}
	if o.quick < 1 {
		return fmt.Errorf("-quick %d: want at least 1", o.quick)
	}
	if o.only, err = regexp.Compile(only); err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	if o.seed == 0 {
		o.seed = rand.Uint64N(1e9) + 1
	}
	return nil
}

// errFailed is returned when a layer has failed. What it was has been printed.
var errFailed = errors.New("not verified, see above")

// verify runs the layers in their lanes and reports.
func verify(ctx context.Context, w io.Writer, o options) error {
	ctx, cancel := context.WithTimeout(ctx, o.within)
	defer cancel()
	out := &lockedWriter{w: w}
	began := time.Now()
	results := make([]result, len(layers))
	var lanes sync.WaitGroup
	for lane := range laneCount {
		lanes.Go(func() {
			for i, l := range layers {
				if l.lane == lane && o.wants(l) {
					results[i] = l.do(ctx, out, o)
				}
			}
		})
	}
	lanes.Wait()
	report(w, o, results, time.Since(began))
	for _, r := range results {
		if r.failed() {
			return errFailed
		}
	}
	return nil
}

// wants reports whether a layer belongs to the run.
func (o options) wants(l layer) bool {
	return o.only.MatchString(l.name) && (!o.short || l.short)
}

// A lockedWriter lets several layers print whole lines.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}
