package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// A report prints results as they come, and counts them.
type report struct {
	w       io.Writer
	verbose bool
	wide    int // the longest name of a mutant

	planted, killed, survived, errors int
}

// tailLines is how much of what a test said is shown.
const tailLines = 30

// add prints a result: a line for each killer.
func (p *report) add(r result) {
	p.planted++
	switch {
	case r.errs():
		p.errors++
	case r.survives():
		p.survived++
	default:
		p.killed++
	}
	if r.wrong != "" {
		p.row(r.name, "ERROR: "+r.wrong, "")
	}
	for _, v := range r.verdicts {
		after := fmt.Sprintf("%.1fs", v.took.Seconds())
		if v.seed != "" {
			after += ", seed " + v.seed
		}
		switch {
		case v.wrong != "":
			p.row(r.name, "ERROR: "+v.name()+" "+v.wrong, after)
		case !v.killed:
			p.row(r.name, "SURVIVED "+v.name(), after)
		default:
			p.row(r.name, v.name(), after)
		}
		if p.verbose || !v.killed {
			p.explain(r.mutant, v)
		}
	}
}

// rowWide is the width of the middle column.
const rowWide = 52

func (p *report) row(name, what, after string) {
	fmt.Fprintf(p.w, "%-*s  %-*s  %s\n", p.wide, name, rowWide, what, after)
}

// explain shows the mutant and what the killer has said.
func (p *report) explain(m mutant, v verdict) {
	fmt.Fprintf(p.w, "    %s\n    in %s:\n%s%s", m.what, m.file, indented("- ", m.old), indented("+ ", m.new))
	lines := strings.SplitAfter(strings.TrimRight(v.output, "\n"), "\n")
	lines = lines[max(0, len(lines)-tailLines):]
	fmt.Fprint(p.w, indented("| ", strings.Join(lines, "")))
}

func indented(mark, text string) string {
	return "      " + mark + strings.ReplaceAll(text, "\n", "\n      "+mark) + "\n"
}

// end prints the counts.
func (p *report) end(took time.Duration) {
	fmt.Fprintf(p.w, "mutants: planted=%d killed=%d survived=%d errors=%d seconds=%.0f\n",
		p.planted, p.killed, p.survived, p.errors, took.Seconds())
}

// list prints what there is to plant.
func list(w io.Writer, mutants []mutant) {
	for _, m := range mutants {
		fast := ""
		if m.fast {
			fast = " (fast)"
		}
		fmt.Fprintf(w, "%s%s: %s\n    in %s; must be killed by", m.name, fast, m.what, m.file)
		for i, k := range m.killers {
			if i > 0 {
				fmt.Fprint(w, ",")
			}
			fmt.Fprintf(w, " %s", k.name())
		}
		fmt.Fprintln(w)
	}
}
