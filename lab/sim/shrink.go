package sim

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/lab/oracle"
)

// A finding is a variant of a world in which an oracle sees something wrong.
type finding struct {
	variant
	violation oracle.Violation
	world     *world
}

// look makes a variant with a trace, and returns what an oracle finds there first; "" is
// any oracle.
func look(v variant, oracleName string) (finding, bool) {
	v.trace = true
	w := simulate(v)
	for _, found := range w.judgeFor(oracleName).violations {
		if oracleName == "" || found.Oracle == oracleName {
			return finding{v, found, w}, true
		}
	}
	return finding{variant: v, world: w}, false
}

// mostLooks is how many worlds are made to shrink one.
const mostLooks = 1200

// A shrinker makes a world smaller that shows something wrong, as long as the same oracle
// still finds something.
type shrinker struct {
	best  finding
	looks int
}

// shrink returns the smallest world it finds.
func shrink(f finding) finding {
	s := &shrinker{best: f}
	for before := -1; before != s.size() && s.looks < mostLooks; {
		before = s.size()
		s.shorter()
		s.fewer()
		s.faults()
		s.calls()
	}
	return s.best
}

// size is what is to get smaller.
func (s *shrinker) size() int {
	return len(s.best.world.tracer.lines) + len(s.best.world.chaos.struck)
}

// try takes a variant if it still shows what is wrong.
func (s *shrinker) try(v variant) bool {
	if s.looks++; s.looks > mostLooks {
		return false
	}
	f, found := look(v, s.best.violation.Oracle)
	if found {
		s.best = f
	}
	return found
}

// shorter ends the work soon after what is wrong, and begins it not long before.
func (s *shrinker) shorter() {
	for _, after := range []time.Duration{ms, 20 * ms, 100 * ms, 500 * ms} {
		v := s.best.variant
		v.lasts = time.Duration(s.best.violation.At) + after
		if v.lasts < s.best.world.Lasts && s.try(v) {
			break
		}
	}
	for _, before := range []time.Duration{10 * ms, 30 * ms, 100 * ms, 300 * ms, time.Second} {
		v := s.best.variant
		v.begins = time.Duration(s.best.violation.At) - before
		if v.begins > s.best.begins && s.try(v) {
			break
		}
	}
}

// fewer leaves processes and locks out, and sets the clocks right.
func (s *shrinker) fewer() {
	v := s.best.variant
	v.steady = true
	s.try(v)
	v = s.best.variant
	v.lock = s.best.violation.Lock
	s.try(v)
	for slot := range s.best.world.Processes {
		v := s.best.variant
		v.absent |= 1 << slot
		s.try(v)
	}
}

func (s *shrinker) faults() {
	minimise(func() []strike { return s.best.world.chaos.struck }, func(left map[strike]bool) bool {
		v := s.best.variant
		v.only = left
		return s.try(v)
	})
}

func (s *shrinker) calls() {
	minimise(func() []callID { return s.best.world.tracer.calls }, func(left map[callID]bool) bool {
		v := s.best.variant
		v.calls = left
		return s.try(v)
	})
}

// minimise leaves out of what there is as much as it can: a half, then quarters, and so on
// (ddmin). try takes what is left, and says whether it is enough.
func minimise[T comparable](now func() []T, try func(map[T]bool) bool) {
	for parts := 1; ; {
		list := now()
		size := (len(list) + parts - 1) / parts
		smaller := false
		for from := 0; from < len(list) && !smaller; from += size {
			left := make(map[T]bool, len(list))
			for i, x := range list {
				if i < from || i >= from+size {
					left[x] = true
				}
			}
			smaller = try(left)
		}
		switch {
		case smaller:
			parts = max(parts-1, 1)
		case size <= 1:
			return
		default:
			parts *= 2
		}
	}
}

// Explain makes the world of a seed again, shrinks it if something is wrong there, and
// prints what happened.
func Explain(seed uint64, out io.Writer) { explain(variant{seed: seed}, out) }

func explain(v variant, out io.Writer) {
	f, found := look(v, "")
	if !found {
		fmt.Fprintf(out, "seed %d: nothing is wrong\n", v.seed)
		return
	}
	shrink(f).print(out)
}

// mostLines is how many lines of a trace are printed, the last ones.
const mostLines = 300

// print prints a trace that ends with what is wrong.
func (f finding) print(out io.Writer) {
	w := f.world
	fmt.Fprintf(out, "seed %d, shrunk to %d calls and %d faults\n", w.seed, len(w.tracer.calls), len(w.chaos.struck))
	fmt.Fprintf(out, "TTL %s, margin %s, network %s, database %s", w.Terms.TTL, w.Terms.Margin, w.Latency, w.Storage)
	for i, p := range w.procs {
		if rate := w.Rates[i]; rate != 0 {
			fmt.Fprintf(out, ", clock of %s %+.1f %%", p.name, float64(rate)/10_000)
		}
	}
	fmt.Fprint(out, "\n\n")
	lines := slices.DeleteFunc(slices.Clone(w.tracer.lines), func(n note) bool {
		return f.violation.At > 0 && n.at > f.violation.At || f.isElsewhere(n)
	})
	if n := len(lines) - mostLines; n > 0 {
		fmt.Fprintf(out, "(%d lines before)\n", n)
		lines = lines[n:]
	}
	for _, n := range lines {
		fmt.Fprintf(out, "%14s  %-9s  %s\n", at(n.at), n.who, n.text)
	}
	fmt.Fprintf(out, "%14s  %-9s  %s\n", "", f.violation.Oracle, fences.ReplaceAllStringFunc(f.violation.Text, w.shortened))
}

// isElsewhere reports whether a line is about another lock than what is wrong.
func (f finding) isElsewhere(n note) bool {
	return f.violation.Lock != "" && slices.ContainsFunc(names[:], func(lock string) bool {
		return lock != f.violation.Lock && strings.Contains(n.text, " "+lock)
	})
}

// fences are the fences in what an oracle says: microseconds of the server's clock.
var fences = regexp.MustCompile(`\b17\d{14}\b`)

func (w *world) shortened(digits string) string {
	n, err := strconv.ParseUint(digits, 10, 64)
	if err != nil {
		return digits
	}
	return w.fence(n)
}
