package pipe

import (
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// setting reads a number from the environment.
func setting(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// play runs a seed in a bubble of its own.
func play(t *testing.T, seed uint64) (r Result) {
	defer func() {
		if p := recover(); p != nil { // a deadlock in the bubble, or goroutines left in it
			stacks := make([]byte, 1<<18)
			t.Errorf("seed %d: %v\n%s", seed, p, stacks[:runtime.Stack(stacks, true)])
		}
	}()
	var played Played
	synctest.Test(t, func(*testing.T) { played = Play(seed) })
	return played.Judge()
}

// A total is what many histories came to.
type total struct {
	histories, lossy, broken, operations, requests, holds, writes, checked, violations int
	faults                                                                             map[kind]int
}

func (a *total) add(r Result) {
	a.histories++
	if r.Lossy {
		a.lossy++
	}
	if r.Broken && r.Lossy {
		a.broken++
	}
	a.operations += r.Operations
	a.requests += r.Requests
	a.holds += r.Holds
	a.writes += r.Writes
	a.checked += r.Checked
	a.violations += len(r.Violations)
	for k, n := range r.Faults {
		a.faults[k] += n
	}
}

// campaign plays histories, two at a time.
func campaign(t *testing.T, first, n uint64) total {
	sum := total{faults: make(map[kind]int)}
	var mu sync.Mutex
	var next, failed atomic.Uint64
	var lanes sync.WaitGroup
	for range 2 {
		lanes.Go(func() {
			for i := next.Add(1); i <= n && failed.Load() < 5; i = next.Add(1) {
				r := play(t, first+i-1)
				mu.Lock()
				sum.add(r)
				mu.Unlock()
				if len(r.Violations) > 0 {
					failed.Add(1)
					var b strings.Builder
					r.Tell(&b)
					t.Error(b.String())
				}
			}
		})
	}
	lanes.Wait()
	return sum
}

// TestHistories plays histories, and says in its last line what there was in them.
func TestHistories(t *testing.T) {
	histories := uint64(3000)
	if raceEnabled {
		histories = 150
	}
	first := setting(t, "LOCKKEEPER_PIPE_SEED", 1)
	began := time.Now()
	sum := campaign(t, first, setting(t, "LOCKKEEPER_PIPE_HISTORIES", histories))
	n := 0
	for _, k := range slices.Sorted(maps.Keys(sum.faults)) {
		n += sum.faults[k]
		t.Logf("%-24s %d", k, sum.faults[k])
	}
	took := time.Since(began)
	fmt.Fprintf(t.Output(), "pipe: histories=%d operations=%d faults=%d kinds=%d violations=%d requests=%d holds=%d writes=%d checked=%d lossy=%d broken=%d us_each=%d\n",
		sum.histories, sum.operations, n, len(sum.faults), sum.violations, sum.requests, sum.holds, sum.writes, sum.checked,
		sum.lossy, sum.broken, took.Microseconds()/int64(max(1, sum.histories)))
}

// TestEachFaultHappens sees to it that no kind of fault is one in name only.
func TestEachFaultHappens(t *testing.T) {
	n := uint64(150)
	if raceEnabled {
		n = 60
	}
	sum := campaign(t, 1_000_000, n)
	for _, k := range slices.Concat(ofRequests, ofProcesses, outOfModel) {
		if sum.faults[k] < int(n)/20 {
			t.Errorf("%q has happened %d times in %d histories", k, sum.faults[k], n)
		}
	}
	if sum.broken*5 < sum.lossy {
		t.Errorf("of %d histories that no lock survives, two have believed in one in %d only", sum.lossy, sum.broken)
	}
}

// TestSameFaultsForASeed sees to it that a seed stands for the same faults and the same
// work, and another seed for others.
func TestSameFaultsForASeed(t *testing.T) {
	plans := make(map[string]uint64)
	for seed := range uint64(200) {
		p := newParams(source(seed, 1))
		text := fmt.Sprint(p, plan(p, source(seed, 2)))
		again := newParams(source(seed, 1))
		if other := fmt.Sprint(again, plan(again, source(seed, 2))); other != text {
			t.Fatalf("seed %d stands for\n%s\nand for\n%s", seed, text, other)
		}
		if twin, ok := plans[text]; ok {
			t.Errorf("seeds %d and %d stand for the same", twin, seed)
		}
		plans[text] = seed
	}
}
