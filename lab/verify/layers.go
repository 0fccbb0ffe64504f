package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/lockkeeper/lockkeeper/lab/sim"
)

// layers are in the order in which their lanes run them.
var layers = []layer{
	{
		name: "simulation", what: "simulation of the core", lane: 0, short: true, run: simulation,
		targets: []target{{"histories", 20_000, 400_000}, {"faults", 900_000, 18_000_000}, {"broken_percent", 20, 20}},
	},
	{
		name: "flush", what: "simulation of the flush", lane: 0, run: flushSimulation,
		targets: []target{{"schedules", 0, 40_000}},
	},
	{
		name: "mutants", what: "planted bugs", lane: 0, run: mutants,
		targets: []target{{"planted", 0, 30}},
	},
	{
		name: "clients-race", what: "the same under the race detector", lane: 0, run: clientsRace,
		targets: []target{{"histories", 0, 2_000}},
	},
	{name: "fuzz", what: "fuzz functions", lane: 0, run: fuzz, targets: []target{{"functions", 0, 8}}},
	{
		name: "chaos", what: "chaos on real processes", lane: 1, run: chaos,
		targets: []target{{"operations", 0, 2_000_000}, {"faults", 0, 900}, {"kinds", 0, 25}, {"broken_percent", 0, 20}, {"porcupine_histories", 0, 2_000}},
	},
	{
		name: "clients", what: "whole clients under a fake clock", lane: 1, short: true, run: clients,
		targets: []target{{"histories", 3_000, 58_000}},
	},
}

// scaled is n, or what is left of it for a run to try this program out.
func (o options) scaled(n int64) int64 { return max(1, n/int64(o.quick)) }

// pick is what a programme does.
func (o options) pick(short, long int64) int64 {
	if o.short {
		return o.scaled(short)
	}
	return o.scaled(long)
}

// percent is how many of a hundred; 0 of none.
func percent(n, of int64) int64 {
	if of == 0 {
		return 0
	}
	return 100 * n / of
}

// chaosLasts is how long the long programme does harm to real processes.
const chaosLasts = 18 * time.Minute

func chaos(ctx context.Context, w io.Writer, o options) (counts, error) {
	lasts := chaosLasts / time.Duration(o.quick)
	c, err := job{
		dir: ".", args: []string{"go", "run", "./lab/soak", "-duration", lasts.String(), "-seed", strconv.FormatUint(o.seed, 10)},
		marker: "soak:", loud: true,
	}.do(ctx, w)
	if c != nil {
		c["broken_percent"] = percent(c["lossy_o1_broken"], c["lossy"])
	}
	return c, err
}

func clients(ctx context.Context, w io.Writer, o options) (counts, error) {
	return pipe(ctx, w, o, o.pick(3_000, 58_000))
}

func clientsRace(ctx context.Context, w io.Writer, o options) (counts, error) {
	return pipe(ctx, w, o, o.scaled(2_000), "-race")
}

// pipe runs the histories of package pipe. They need a *testing.T for their bubbles.
func pipe(ctx context.Context, w io.Writer, o options, n int64, flags ...string) (counts, error) {
	args := append([]string{"go", "test"}, flags...)
	return job{
		dir: "lab", args: append(args, "-count=1", "-v", "-timeout", "80m", "-run", "^TestHistories$", "./pipe"), marker: "pipe:",
		env: []string{"LOCKKEEPER_PIPE_HISTORIES=" + strconv.FormatInt(n, 10), "LOCKKEEPER_PIPE_SEED=" + strconv.FormatUint(o.seed, 10)},
	}.do(ctx, w)
}

func flushSimulation(ctx context.Context, w io.Writer, o options) (counts, error) {
	n := o.scaled(40_000)
	_, err := job{
		dir: ".", args: []string{"go", "test", "-count=1", "-timeout", "80m", "-run", "^TestSimulation$", "./flush"},
		env: []string{fmt.Sprintf("LOCKKEEPER_SIM_SCHEDULES=%d", n), fmt.Sprintf("LOCKKEEPER_SIM_SEED=%d", o.seed)},
	}.do(ctx, w)
	if err != nil || ctx.Err() != nil {
		return nil, err
	}
	return counts{"schedules": n}, nil
}

func mutants(ctx context.Context, w io.Writer, o options) (counts, error) {
	args := []string{"go", "run", "./lab/mutants"}
	if o.quick > 1 {
		args = append(args, "-fast")
	}
	return job{dir: ".", args: args, marker: "mutants:", loud: true}.do(ctx, w)
}

func fuzz(ctx context.Context, w io.Writer, o options) (counts, error) {
	lasts := max(time.Second, 10*time.Second/time.Duration(o.quick))
	return job{dir: ".", args: []string{"make", "fuzz", "FUZZTIME=" + lasts.String()}, marker: "fuzz:"}.do(ctx, w)
}

// simulation runs the worlds of package sim. The first failures are explained.
func simulation(ctx context.Context, w io.Writer, o options) (counts, error) {
	n := uint64(o.pick(20_000, 400_000))
	last := time.Now()
	stats, failures := sim.Campaign(ctx, o.seed, n, 1, func(s sim.Stats) {
		if time.Since(last) > time.Minute {
			last = time.Now()
			fmt.Fprintf(w, "%d of %d histories\n", s.Histories, n)
		}
	})
	for _, f := range failures[:min(len(failures), 100)] {
		fmt.Fprintf(w, "seed %d: %s %s\n", f.Seed, f.Violation.Oracle, f.Violation.Text)
	}
	for _, f := range failures[:min(len(failures), 3)] {
		sim.Explain(f.Seed, w)
	}
	c := counts{
		"histories": int64(stats.Histories), "out_of_model": int64(stats.OutOfModel), "faults": int64(stats.AllFaults()),
		"kinds": int64(len(stats.Faults)), "turns": int64(stats.Turns), "hand-offs": int64(stats.HandOffs), "writes": int64(stats.Writes),
		"leases_checked": int64(stats.Checked), "undecided": int64(stats.Undecided),
		"broken_percent": percent(int64(stats.Broken), int64(stats.OutOfModel)),
	}
	if len(failures) > 0 {
		return c, errors.New("a promise was broken in " + strconv.Itoa(len(failures)) + " histories")
	}
	return c, nil
}
