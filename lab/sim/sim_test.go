package sim

import (
	"context"
	"runtime"
	"testing"
)

// report fails the test for worlds in which something was wrong, and explains the first.
func report(t *testing.T, failures []Failure) {
	t.Helper()
	for i, f := range failures {
		t.Errorf("seed %d: %s %s", f.Seed, f.Violation.Oracle, f.Violation.Text)
		if i == 0 {
			Explain(f.Seed, t.Output())
		}
	}
}

// TestLinesThroughFaults runs worlds that keep to the assumptions, in which requests,
// answers and messages are lost, late and doubled, processes stand still and die, and the
// server stops and comes back. It checks that much happens there.
func TestLinesThroughFaults(t *testing.T) {
	const worlds = 150
	var stats Stats
	for seed := uint64(0); stats.Histories < worlds; seed++ {
		if !paramsOf(seed, false).InModel {
			continue
		}
		r := Run(seed)
		stats.add(r.Stats)
		if len(r.Violations) > 0 {
			report(t, []Failure{{seed, r.Violations[0]}})
		}
	}
	t.Logf("%d faults, %d turns, of which %d were passed on, %d hand-offs, %d renewals, %d writes",
		stats.AllFaults(), stats.Turns, stats.Passed, stats.HandOffs, stats.Renewals, stats.Writes)
	for what, n := range map[string]int{
		"faults": stats.AllFaults() / 40, "turns": stats.Turns / 50, "turns passed on": stats.Passed / 5,
		"hand-offs": stats.HandOffs / 15, "renewals": stats.Renewals / 10, "writes": stats.Writes / 85,
	} {
		if n < worlds {
			t.Errorf("too few %s: the worlds are too quiet", what)
		}
	}
}

// TestLinesWithoutFaults also checks that the lock never lies idle for longer than a
// hand-off takes while somebody waits.
func TestLinesWithoutFaults(t *testing.T) {
	waited := false
	for seed := range uint64(60) {
		w := simulate(variant{seed: seed, calm: true})
		for _, found := range w.judge().violations {
			t.Errorf("seed %d: %s %s", seed, found.Oracle, found.Text)
		}
		waited = waited || w.history.slowest > 0
		if w.chaos.counts != [faults]int{} {
			t.Errorf("seed %d: faults %v", seed, w.chaos.counts)
		}
	}
	if !waited {
		t.Error("nobody had to wait")
	}
}

// TestFewHistories runs worlds of all sorts on two goroutines. Where the server forgets,
// two must be seen to have a lock at a time now and then, or the faults prove nothing.
func TestFewHistories(t *testing.T) {
	stats, failures := Campaign(t.Context(), 1_000_000, 300, 2, nil)
	report(t, failures)
	t.Logf("%+v", stats)
	if stats.Histories != 300 || stats.InModel+stats.OutOfModel != 300 || stats.Checked == 0 {
		t.Errorf("%+v", stats)
	}
	if 5*stats.Broken < stats.OutOfModel {
		t.Errorf("in %d of %d worlds out of the model two had a lock at a time, want a fifth", stats.Broken, stats.OutOfModel)
	}
}

func TestCampaignEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	stats, _ := Campaign(ctx, 0, 1_000_000, 2, func(Stats) { cancel() })
	if stats.Histories == 0 || stats.Histories > 1000 {
		t.Errorf("%d histories", stats.Histories)
	}
}

// TestEachFaultHappens runs so many worlds that a kind which hardly ever happens shows.
func TestEachFaultHappens(t *testing.T) {
	const worlds = uint64(600)
	counts := make(map[Fault]int)
	for seed := range worlds {
		w := simulate(variant{seed: seed})
		for f, n := range w.chaos.counts {
			counts[Fault(f)] += n
			if n > 0 && w.InModel && Fault(f) >= beyond {
				t.Errorf("seed %d: %s in a world that keeps to the assumptions", seed, Fault(f))
			}
		}
	}
	for f := range faults {
		t.Logf("%-22s %7d", f, counts[f])
		if counts[f] < int(worlds)/50 {
			t.Errorf("%s happens %d times in %d worlds", f, counts[f], worlds)
		}
	}
}

// TestReplay makes worlds twice: all that happens must be the same, also with another
// number of threads.
func TestReplay(t *testing.T) {
	const worlds = 200
	hashes := func() (list [worlds]uint64) {
		for seed := range list {
			list[seed] = simulate(variant{seed: uint64(seed), trace: true}).hash()
		}
		return list
	}
	first := hashes()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1 + runtime.GOMAXPROCS(0)%2))
	second := hashes()
	different := make(map[uint64]bool)
	for seed := range first {
		different[first[seed]] = true
		if first[seed] != second[seed] {
			t.Errorf("seed %d: %x, then %x", seed, first[seed], second[seed])
		}
	}
	if len(different) != worlds {
		t.Errorf("%d different worlds from %d seeds", len(different), worlds)
	}
	quiet := Run(7)
	if noisy := run(variant{seed: 7, trace: true}); noisy.Stats.Events != quiet.Stats.Events || noisy.Stats.Ops != quiet.Stats.Ops {
		t.Error("the trace changes the world")
	}
}
