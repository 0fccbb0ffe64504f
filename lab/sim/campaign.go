package sim

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/lockkeeper/lockkeeper/lab/oracle"
)

// A Result is what became of one world.
type Result struct {
	Seed       uint64
	InModel    bool
	Broken     bool // two believed to have a lock at a time, where that may be
	Violations []oracle.Violation
	Stats      Stats
}

// Run makes the world of a seed and judges it.
func Run(seed uint64) Result { return run(variant{seed: seed}) }

func run(v variant) Result {
	w := simulate(v)
	return w.result(w.judge())
}

func (w *world) result(v verdict) Result {
	h := &w.history
	r := Result{Seed: w.seed, InModel: w.InModel, Violations: v.violations, Broken: v.broken && !w.InModel}
	r.Stats = Stats{
		Histories: 1, Turns: h.turns, HandOffs: h.handOffs, Passed: h.passed, Renewals: h.renewals,
		Writes: len(h.writes), Ops: len(h.ops), Checked: v.checked, Undecided: v.undecided, Events: w.events,
		Calls: len(h.waits) + len(h.answers), Faults: make(map[Fault]int),
	}
	if w.InModel {
		r.Stats.InModel = 1
	} else {
		r.Stats.OutOfModel = 1
	}
	if r.Broken {
		r.Stats.Broken = 1
	}
	for f, n := range w.chaos.counts {
		if n > 0 {
			r.Stats.Faults[Fault(f)] = n
		}
	}
	return r
}

// Stats are counts of a campaign.
type Stats struct {
	Histories  int
	InModel    int
	OutOfModel int
	Broken     int // of the latter, in which two believed to have a lock at a time
	Faults     map[Fault]int
	Calls      int
	Turns      int
	HandOffs   int
	Passed     int // turns that were passed on inside of a process
	Renewals   int
	Writes     int
	Ops        int // that the oracle of leases has seen
	Checked    int // locks whose leases were checked
	Undecided  int // of these, without a verdict in time
	Events     int
}

// AllFaults is how many faults there were.
func (s Stats) AllFaults() int {
	n := 0
	for _, k := range s.Faults {
		n += k
	}
	return n
}

// add adds the counts of other worlds.
func (s *Stats) add(o Stats) {
	s.Histories += o.Histories
	s.InModel += o.InModel
	s.OutOfModel += o.OutOfModel
	s.Broken += o.Broken
	s.Calls += o.Calls
	s.Turns += o.Turns
	s.HandOffs += o.HandOffs
	s.Passed += o.Passed
	s.Renewals += o.Renewals
	s.Writes += o.Writes
	s.Ops += o.Ops
	s.Checked += o.Checked
	s.Undecided += o.Undecided
	s.Events += o.Events
	if s.Faults == nil {
		s.Faults = make(map[Fault]int)
	}
	for f, n := range o.Faults {
		s.Faults[f] += n
	}
}

// A Failure is a world in which a promise was broken.
type Failure struct {
	Seed      uint64
	Violation oracle.Violation // the first
}

// Campaign makes n worlds, from one seed on. progress is told of the counts now and then,
// one call at a time. It returns early when ctx ends.
func Campaign(ctx context.Context, first, n uint64, workers int, progress func(Stats)) (Stats, []Failure) {
	return campaign(ctx, variant{seed: first}, n, workers, progress)
}

// batch is how many worlds a worker makes before it tells.
const batch = 100

// campaign makes worlds with the seeds from that of v on.
func campaign(ctx context.Context, v variant, n uint64, workers int, progress func(Stats)) (Stats, []Failure) {
	var (
		mu       sync.Mutex
		next     uint64
		stats    Stats
		failures []Failure
		group    sync.WaitGroup
	)
	take := func() (from, to uint64) {
		mu.Lock()
		defer mu.Unlock()
		from = next
		next = min(next+batch, n)
		return from, next
	}
	for range workers {
		group.Go(func() {
			for ctx.Err() == nil {
				from, to := take()
				if from == to {
					return
				}
				some, failed := several(ctx, v, from, to)
				mu.Lock()
				stats.add(some)
				failures = append(failures, failed...)
				if progress != nil {
					progress(stats)
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	slices.SortFunc(failures, func(a, b Failure) int { return cmp.Compare(a.Seed, b.Seed) })
	return stats, failures
}

// several makes a batch of worlds.
func several(ctx context.Context, v variant, from, to uint64) (stats Stats, failures []Failure) {
	first := v.seed
	for i := from; i < to && ctx.Err() == nil; i++ {
		v.seed = first + i
		r := run(v)
		stats.add(r.Stats)
		if len(r.Violations) > 0 {
			failures = append(failures, Failure{v.seed, r.Violations[0]})
		}
	}
	return stats, failures
}
