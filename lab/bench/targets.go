package main

import (
	"fmt"
	"slices"
	"strings"
)

// A target is one line of what is to be reached, against the best peer of the same
// run: a lock library in any of its settings, never the raw loops.
type target struct {
	Goal   string             `json:"goal"`
	Demand string             `json:"demand"`
	Peer   string             `json:"peer"`
	Values map[string]verdict `json:"values"` // by system
	Met    string             `json:"met"`
}

// A verdict is what one setting of Lockkeeper has reached.
type verdict struct {
	Text string `json:"text"`
	OK   bool   `json:"ok"`
}

// A judge looks at one row of Lockkeeper. It reports false when the goal is not about
// that system, or when something is missing.
type judge func(r *row) (verdict, bool)

// targets compares the tables of a run; what was not run is left out.
func targets(tables []*table) []target {
	c := comparison{}
	for _, t := range tables {
		c[t.Name] = t
	}
	all := slices.Concat(c.free(), c.contended(), c.kept(), c.exact())
	return slices.DeleteFunc(all, func(t target) bool { return len(t.Values) == 0 })
}

// forComparison is the demand of a goal that is none, but helps to read the one before.
const forComparison = "(for comparison)"

// comparison has the tables of a run by name.
type comparison map[string]*table

// target judges all settings of Lockkeeper in a table.
func (c comparison) target(name, goal, demand, peer string, j judge) target {
	t := target{Goal: name + ": " + goal, Demand: demand, Peer: peer, Values: map[string]verdict{}}
	table := c[name]
	var met, missed []string
	for _, sys := range lockkeeperSystems() {
		r := table.row(sys.name)
		if r == nil {
			continue
		}
		v, ok := j(r)
		if !ok {
			continue
		}
		t.Values[sys.name] = v
		if v.OK {
			met = append(met, sys.name)
		} else {
			missed = append(missed, sys.name)
		}
	}
	switch {
	case demand == forComparison:
		t.Met = "–"
	case len(missed) == 0:
		t.Met = "met"
	case len(met) == 0:
		t.Met = "not met"
	default:
		t.Met = "met by " + strings.Join(met, ", ")
	}
	return t
}

// best returns the peer with the most of a figure, or the least.
func (c comparison) best(name, key string, least bool) *row {
	t := c[name]
	if t == nil {
		return nil
	}
	var best *row
	for _, r := range t.Rows {
		sys, err := systemNamed(r.System)
		if err != nil || sys.kind != peer {
			continue
		}
		value, ok := r.Medians[key]
		if ok && (best == nil || (value < best.Medians[key]) == least) {
			best = r
		}
	}
	return best
}

// named says who the peer is and what it has.
func named(r *row, key, unit string, digits int) string {
	if r == nil {
		return "–"
	}
	return fmt.Sprintf("%s: %s%s", r.System, figure(r.Medians, column{Key: key, digits: digits}), unit)
}

// figureIs judges a figure by itself.
func figureIs(key, unit string, digits int, ok func(value float64) bool) judge {
	return func(r *row) (verdict, bool) {
		value, found := r.Medians[key]
		return verdict{number(value, digits) + unit, ok(value)}, found
	}
}

// timesPeer judges a figure by how many times a peer's it is.
func timesPeer(p *row, key string, ok func(ratio float64) bool) judge {
	return func(r *row) (verdict, bool) {
		if p == nil {
			return verdict{}, false
		}
		value, found := r.Medians[key]
		ratio := value / p.Medians[key]
		return verdict{fmt.Sprintf("%.2f×", ratio), ok(ratio)}, found && p.Medians[key] != 0
	}
}

func atLeast(bound float64) func(float64) bool { return func(x float64) bool { return x >= bound } }
func atMost(bound float64) func(float64) bool  { return func(x float64) bool { return x <= bound } }

// only leaves out the systems whose names do not contain a word.
func only(word string, j judge) judge {
	return func(r *row) (verdict, bool) {
		if !strings.Contains(r.System, word) {
			return verdict{}, false
		}
		return j(r)
	}
}

// rounding is what a figure of two decimals may be off.
const rounding = 0.005

func (c comparison) free() []target {
	peer := c.best("S1", "p50", true)
	raw := c["S2-512"].row("raw-rueidis")
	throughput := c.best("S2-512", "rate", false)
	return []target{
		c.target("S1", "requests a cycle", "2", named(peer, "requests", "", 2), figureIs("requests", "", 2, atMost(2+rounding))),
		c.target("S1", "p50 against raw of the same client", "≤ 1.1×", named(peer, "p50", " µs", 1), figureIs(ratioKey, "×", 2, atMost(1.1+rounding))),
		c.target("S1", "allocations a cycle", "≤ 12 (rueidis)", named(peer, "allocs", "", 1), only("rueidis", figureIs("allocs", "", 1, atMost(12.05)))),
		c.target("S2-512", "cycles/s against raw-rueidis", "≥ 1.0×", named(throughput, "rate", "/s", 0), only("rueidis", timesPeer(raw, "rate", atLeast(1-rounding)))),
		c.target("S2-512", "the same against raw with the same settings", forComparison, "–", figureIs(ratioKey, "×", 2, atLeast(0))),
	}
}

func (c comparison) contended() []target {
	one, many := c.best("S3", "handoffs", false), c.best("S4", "handoffs", false)
	most := c.best("S4", "acquisitions", false)
	handoffs := named(many, "handoffs", "/s", 0)
	return append([]target{
		c.target("S3", "hand-offs/s against the best peer", "≥ 100×", named(one, "handoffs", "/s", 0), timesPeer(one, "handoffs", atLeast(100))),
		c.target("S3", "requests a hand-off", "0.00", named(one, "requests", "", 2), figureIs("requests", "", 2, atMost(rounding))),
		c.target("S3", "Jain", "≥ 0.99", named(one, "jain", "", 3), figureIs("jain", "", 3, atLeast(0.99))),
		c.target("S4", "process hand-offs/s against the best peer", "≥ 3×", handoffs, timesPeer(many, "handoffs", atLeast(3))),
		c.target("S4", "hand-off p50 against that peer", "≤ 0.4×", named(many, "p50", " µs", 0), timesPeer(many, "p50", atMost(0.4))),
		c.target("S4", "requests a hand-off", "≤ 2", named(many, "requests", "", 2), figureIs("requests", "", 2, atMost(2+rounding))),
		c.target("S4", "Jain", "≥ 0.97", named(many, "jain", "", 3), figureIs("jain", "", 3, atLeast(0.97))),
		c.target("S4", "acquisitions/s against that peer", "≥ 4×", named(many, "acquisitions", "/s", 0), timesPeer(many, "acquisitions", atLeast(4))),
		c.target("S4", "acquisitions/s against the peer with most of them", "≥ 4×", named(most, "acquisitions", "/s", 0), timesPeer(most, "acquisitions", atLeast(4))),
	}, c.waiters()...)
}

// growth is how much more a hand-off may cost with most waiters than with fewest and
// still count as the same.
const growth = 1.2

func (c comparison) waiters() []target {
	t := c["S4w"]
	if t == nil {
		return nil
	}
	var keys []string // the requests, by number of waiters
	for _, col := range t.Columns {
		if strings.HasPrefix(col.Key, "requests ") {
			keys = append(keys, col.Key)
		}
	}
	few, many := keys[0], keys[len(keys)-1]
	text := func(r *row) string {
		return figure(r.Medians, column{Key: few, digits: 2}) + " → " + figure(r.Medians, column{Key: many, digits: 2})
	}
	best := "–"
	if p := c.best("S4w", many, true); p != nil {
		best = p.System + ": " + text(p)
	}
	return []target{c.target("S4w", "requests a hand-off, fewest → most waiters", fmt.Sprintf("no growth (≤ %.1f×)", growth), best,
		func(r *row) (verdict, bool) {
			from, known := r.Medians[few]
			to, found := r.Medians[many]
			return verdict{text(r), to <= growth*from}, known && found
		})}
}

func (c comparison) kept() []target {
	peer := c.best("S5", "client", true)
	none := func(name string) target {
		return c.target(name, "leases lost", "0", named(c.best(name, "client", true), "lost", "", 0), figureIs("lost", "", 0, atMost(0)))
	}
	crash := func(name string) target {
		return c.target(name, "past expiry, the latest", "≤ 5 ms, all", named(c.best(name, "past", true), "past max", " ms", 1),
			func(r *row) (verdict, bool) {
				latest, found := r.Medians["past max"]
				got, of := r.Medians["taken over"], r.Medians["of"]
				return verdict{fmt.Sprintf("%.1f ms, %.0f of %.0f", latest, got, of), found && latest <= 5 && got == of}, of > 0
			})
	}
	return []target{
		c.target("S5", "requests/s", "≤ 60", named(peer, "requests", "/s", 0), figureIs("requests", "/s", 0, atMost(60))),
		c.target("S5", "client CPU against the best peer", "≤ 0.35×", named(peer, "client", " s/min", 2), timesPeer(peer, "client", atMost(0.35))),
		c.target("S5", "goroutines", "< 20", named(peer, "goroutines", "", 0), figureIs("goroutines", "", 0, atMost(19))),
		none("S5"), none("S5busy"), crash("S6"), crash("S6keys"),
		c.target("S7", "asks after SIGCONT that found a live context", "0", named(c.best("S7", "told", true), "told", " ms to told", 2),
			func(r *row) (verdict, bool) {
				alive, found := r.Medians["alive"]
				_, told := r.Medians["told"]
				return verdict{fmt.Sprintf("%.0f, told after %s ms", alive, figure(r.Medians, column{Key: "told", digits: 2})), told && alive == 0}, found
			}),
	}
}

// exact has one line for the violations of all tables, which no setting may have.
func (c comparison) exact() []target {
	violations := map[string]int64{}
	all := &table{}
	for _, t := range c {
		for _, r := range t.Rows {
			if _, seen := violations[r.System]; !seen {
				all.Rows = append(all.Rows, &row{System: r.System})
			}
			violations[r.System] += r.Violations
		}
	}
	name := "all"
	return []target{comparison{name: all}.target(name, "violations of mutual exclusion", "0", "–", func(r *row) (verdict, bool) {
		n := violations[r.System]
		return verdict{fmt.Sprint(n), n == 0}, true
	})}
}

func targetsMarkdown(b *strings.Builder, all []target) {
	var names []string
	for _, sys := range lockkeeperSystems() {
		if slices.ContainsFunc(all, func(t target) bool { _, ok := t.Values[sys.name]; return ok }) {
			names = append(names, sys.name)
		}
	}
	if len(names) == 0 {
		return
	}
	fmt.Fprintf(b, "## To reach\n\n| Goal | Target | Best peer | %s | Result |\n|---|---|---|%s---|\n",
		strings.Join(names, " | "), strings.Repeat("---:|", len(names)))
	for _, t := range all {
		cells := []string{t.Goal, t.Demand, t.Peer}
		for _, name := range names {
			v, ok := t.Values[name]
			switch {
			case !ok:
				cells = append(cells, "–")
			case v.OK:
				cells = append(cells, v.Text)
			default:
				cells = append(cells, v.Text+" ✗")
			}
		}
		fmt.Fprintf(b, "| %s | %s |\n", strings.Join(cells, " | "), t.Met)
	}
}
