package oracle

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// worldOf returns the history of one world; its shape depends on the seed.
func worldOf(seed uint64) record {
	lossy := [...]float64{0, 0.02, 0.1, 0.3}[seed%4]
	return newWorld(seed, "L", 1+int(seed/4%6), 4+int(seed/24%30), lossy).run()
}

// oracles asks each oracle about a record.
var oracles = map[string]func(*record) []Violation{
	"O1": func(r *record) []Violation { return Overlaps(r.holds) },
	"O2": func(r *record) []Violation { return Updates(r.writes, r.final) },
	"O3": func(r *record) []Violation { return Fences(r.holds) },
	"O4": func(r *record) []Violation {
		v := Leases(r.ops, slack)
		if v.Undecided > 0 {
			v.Violations = append(v.Violations, Violation{Oracle: "none", Text: "it took too long"})
		}
		return v.Violations
	},
	"O5": func(r *record) []Violation { return Liveness(r.waits, 0, patient+bound, r.end) },
	"O6": func(r *record) []Violation { return Order(r.places, 0) },
	"O7": func(r *record) []Violation { return Losses(r.holds) },
	"O8": func(r *record) []Violation { return Discipline(r.holds, r.steps) },
}

func TestCorrectWorlds(t *testing.T) {
	n := uint64(2000)
	if testing.Short() {
		n = 300
	}
	var total record
	unknown := 0
	for seed := range n {
		r := worldOf(seed)
		for name, judge := range oracles {
			for _, v := range judge(&r) {
				t.Fatalf("seed %d: %s has found what is right to be wrong: %+v", seed, name, v)
			}
		}
		total.ops = append(total.ops, r.ops...)
		total.holds = append(total.holds, r.holds...)
		total.steps = append(total.steps, r.steps...)
		total.places = append(total.places, r.places...)
	}
	for _, op := range total.ops {
		if op.Outcome == Unknown {
			unknown++
		}
	}
	t.Logf("%d worlds: %d operations, %d of them unknown, %d holds, %d steps, %d places",
		n, len(total.ops), unknown, len(total.holds), len(total.steps), len(total.places))
}

// A mistake spoils a history; it returns false if there is nothing that it could spoil so
// that it must be seen.
type mistake struct {
	name   string
	oracle string // that should see it
	spoil  func(rng *rand.Rand, r *record) bool
	seen   int // percent that are seen at least
}

func TestMistakesAreSeen(t *testing.T) {
	n := uint64(120)
	if testing.Short() {
		n = 60
	}
	for _, m := range mistakes {
		made, seen := 0, 0
		for seed := range n {
			r := worldOf(seed)
			if !m.spoil(rand.New(rand.NewPCG(seed, 11)), &r) {
				continue
			}
			made++
			found := oracles[m.oracle](&r)
			if slices.ContainsFunc(found, func(v Violation) bool { return v.Oracle == m.oracle }) {
				seen++
			}
		}
		share := 100 * seen / max(1, made)
		t.Logf("%s %-45s %3d %% of %d", m.oracle, m.name, share, made)
		if made < int(n)/8 || share < m.seen {
			t.Errorf("%s should see %q in %d %% at least", m.oracle, m.name, m.seen)
		}
	}
}
