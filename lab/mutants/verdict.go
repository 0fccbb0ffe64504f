package main

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// A verdict is what came of one killer at one mutant.
type verdict struct {
	killer
	killed bool
	wrong  string // why there is no verdict: it is neither a kill nor a survival
	seed   string // of the history that showed the mutant, if the killer has named one
	took   time.Duration
	output string
}

// A result is what came of a mutant. Its killers all have to kill it.
type result struct {
	mutant
	wrong    string // why it could not be planted, or not be taken out again
	verdicts []verdict
}

// errs reports whether there is something wrong with the mutant or a killer of it.
func (r result) errs() bool {
	for _, v := range r.verdicts {
		if v.wrong != "" {
			return true
		}
	}
	return r.wrong != ""
}

// survives reports whether a killer has found nothing.
func (r result) survives() bool {
	for _, v := range r.verdicts {
		if v.wrong == "" && !v.killed {
			return true
		}
	}
	return false
}

// unfit says why a killer can't be believed that has run where nothing is planted.
func (r testRun) unfit(k killer) string {
	switch result := r.results[k.test]; {
	case r.unbuilt:
		return "does not compile where nothing is planted"
	case r.hung:
		return "hangs where nothing is planted"
	case result == "":
		return "does not run: there is no such test, or the package could not be tested"
	case result == "skip":
		return "is skipped on this machine"
	case result != "pass":
		return "fails where nothing is planted"
	case strings.Contains(r.said(k.test), k.want):
		return fmt.Sprintf("says %q where nothing is planted", k.want)
	}
	return ""
}

// verdict judges a killer that has run where a mutant is planted.
func (r testRun) verdict(k killer) verdict {
	v := verdict{killer: k, took: r.took, output: r.said("")}
	switch {
	case r.err == nil:
	case r.unbuilt:
		v.wrong = "the mutant does not compile"
	case r.hung:
		v.wrong = "hangs for " + mostTime
	case r.results[k.test] == "skip" || !strings.Contains(v.output, k.want):
		v.wrong = fmt.Sprintf("fails, but does not say %q", k.want)
	default:
		v.killed = true
		v.seed = seedOf(v.output, k.want)
	}
	return v
}

// seedIn finds a seed that a simulation names.
var seedIn = regexp.MustCompile(`\bseed[ =:]+(\d+)`)

// seedOf returns the last seed that was named before a test had said what it is wanted
// to, or "".
func seedOf(output, want string) string {
	before := output[:strings.Index(output, want)+len(want)]
	seed := ""
	for _, m := range seedIn.FindAllStringSubmatch(before, -1) {
		seed = m[1]
	}
	return seed
}
