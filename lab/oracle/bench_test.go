package oracle

import (
	"strconv"
	"testing"
)

// measured is a history of eight clients with some operations; one message in a hundred
// is lost.
func measured(b *testing.B, operations int) record {
	for turns := operations / 8; ; turns++ {
		r := newWorld(1, "L", 8, turns, 0.01).run()
		if len(r.ops) >= operations {
			b.ReportAllocs()
			return r
		}
	}
}

func BenchmarkLeases(b *testing.B) {
	for _, n := range []int{100, 500, 1000, 5000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			r := measured(b, n)
			for b.Loop() {
				if v := Leases(r.ops, slack); len(v.Violations)+v.Undecided > 0 {
					b.Fatal(v)
				}
			}
		})
	}
}

// BenchmarkOthers measures the oracles that need no search, on what belongs to 1000
// operations.
func BenchmarkOthers(b *testing.B) {
	r := measured(b, 1000)
	answers := make([]Answer, 300)
	for i := range answers {
		answers[i] = Answer{Said: "held", Allowed: []string{"granted", "unavailable", "held"}}
	}
	for name, judge := range map[string]func() []Violation{
		"O1": func() []Violation { return Overlaps(r.holds) },
		"O2": func() []Violation { return Updates(r.writes, r.final) },
		"O3": func() []Violation { return Fences(r.holds) },
		"O5": func() []Violation { return Liveness(r.waits, 0, patient+bound, r.end) },
		"O6": func() []Violation { return Order(r.places, 0) },
		"O7": func() []Violation { return append(Answers(answers), Losses(r.holds)...) },
		"O8": func() []Violation { return Discipline(r.holds, r.steps) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if found := judge(); len(found) > 0 {
					b.Fatal(found)
				}
			}
		})
	}
}
