package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"syscall"
	"time"
)

// options are the flags.
type options struct {
	root    string
	only    *regexp.Regexp // names
	fast    bool
	verbose bool
	lanes   int
}

func main() {
	o := options{root: "."}
	only := flag.String("run", "", "plant only the mutants whose name matches this regular expression")
	flag.BoolVar(&o.fast, "fast", false, "plant only the fast ones, with one killer each, as make test does")
	flag.BoolVar(&o.verbose, "v", false, "show each mutant and what its killer says")
	flag.IntVar(&o.lanes, "lanes", 2, "plant this many mutants at a time, each in a copy of its own")
	justList := flag.Bool("list", false, "list the mutants and plant none")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := o.parse(*only)
	switch {
	case err != nil:
	case *justList:
		list(os.Stdout, o.chosen(catalogue()))
	default:
		err = kill(ctx, os.Stdout, o, o.chosen(catalogue()))
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func (o *options) parse(only string) (err error) {
	if flag.NArg() > 0 {
		return fmt.Errorf("%q: there are no arguments", flag.Arg(0))
	}
	if o.lanes < 1 {
		return fmt.Errorf("-lanes %d: want at least 1", o.lanes)
	}
	if o.only, err = regexp.Compile(only); err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	return nil
}

// chosen returns those of all mutants that the flags name. A fast run has one killer each.
func (o options) chosen(all []mutant) (chosen []mutant) {
	for _, m := range all {
		if !o.only.MatchString(m.name) || o.fast && !m.fast {
			continue
		}
		if o.fast {
			m.killers = m.killers[:min(len(m.killers), 1)]
		}
		chosen = append(chosen, m)
	}
	return chosen
}

// kill plants mutants and returns an error unless all are killed.
func kill(ctx context.Context, w io.Writer, o options, mutants []mutant) error {
	if len(mutants) == 0 {
		return errors.New("no mutant has such a name")
	}
	began := time.Now()
	p := &report{w: w, verbose: o.verbose}
	for _, m := range mutants {
		p.wide = max(p.wide, len(m.name))
	}
	p.row("mutant", "killed by", "after")
	h := hunt{root: o.root, lanes: o.lanes, mutants: mutants, done: p.add}
	if err := h.run(ctx); err != nil {
		return err
	}
	p.end(time.Since(began))
	if p.killed < p.planted {
		return fmt.Errorf("%d of %d mutants were not killed, see above", p.planted-p.killed, p.planted)
	}
	return nil
}
