package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// An event is one line of go test -json, see go doc test2json.
type event struct {
	Action      string
	Package     string
	ImportPath  string // instead of Package in what comes from the build
	Test        string
	Output      string
	Elapsed     float64
	FailedBuild string
}

// A summary gathers the events of one or more go test -json streams. It does no
// I/O: its methods return what there is to show.
//
// It counts the leaves: a test without subtests, and a subtest without further
// ones. A test with subtests counts only for what they don't tell: when it failed
// and none of them did, or when it was skipped after them. Besides, a failure
// without a failed test (a build that broke, a TestMain that ended early, a go
// test that could not start) counts as one failed, so that "0 failed" is true.
type summary struct {
	ci      bool // a skip needs an "optional:" reason
	modules []*module
	builds  map[string]string // by import path: what the compiler said so far
	failed  []string          // what failed, for the list at the end
	skipped []skip
}

// A module is what one run of go test gave.
type module struct {
	name     string
	counts   counts
	packages map[string]*pkg
	elapsed  time.Duration
}

// A pkg is one package under test.
type pkg struct {
	tests  map[string]*test
	order  []string
	output strings.Builder // what belongs to no running test
	done   bool
}

// A test is one test, subtest, example or fuzz function.
type test struct {
	output  strings.Builder
	outcome string // pass, fail or skip; empty while it runs
	parent  bool   // has subtests
	told    bool   // a subtest of it failed, so its own failure is no news
}

// A skip is a test that was skipped.
type skip struct{ pkg, test, reason string }

type counts struct{ passed, failed, skipped int }

func (c counts) String() string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped", c.passed, c.failed, c.skipped)
}

func (c *counts) add(d counts) {
	c.passed += d.passed
	c.failed += d.failed
	c.skipped += d.skipped
}

func newSummary(ci bool) *summary {
	return &summary{ci: ci, builds: map[string]string{}}
}

// startModule begins the stream of a module.
func (s *summary) startModule(name string) string {
	s.modules = append(s.modules, &module{name: name, packages: map[string]*pkg{}})
	return "== module " + name + "\n"
}

// current returns the module whose stream is being read.
func (s *summary) current() *module { return s.modules[len(s.modules)-1] }

// addLine takes one line of the stream. One that is no event is shown as it is.
func (s *summary) addLine(line []byte) string {
	var e event
	if err := json.Unmarshal(line, &e); err != nil || e.Action == "" {
		return string(line)
	}
	return s.add(e)
}

// add takes one event and returns what to show for it.
func (s *summary) add(e event) string {
	switch {
	case e.Action == "build-output":
		s.builds[e.ImportPath] += e.Output
		return ""
	case e.Action == "build-fail":
		said := s.builds[e.ImportPath]
		delete(s.builds, e.ImportPath)
		return said
	case e.Package == "":
		return ""
	}
	m := s.current()
	p := m.packages[e.Package]
	if p == nil {
		p = &pkg{tests: map[string]*test{}}
		m.packages[e.Package] = p
	}
	if e.Test != "" {
		return p.add(e)
	}
	switch e.Action {
	case "output":
		p.output.WriteString(e.Output)
	case "pass", "fail", "skip":
		return s.endPackage(p, e)
	}
	return ""
}

// add takes an event of a test.
func (p *pkg) add(e event) string {
	t := p.tests[e.Test]
	if t == nil {
		t = &test{}
		p.tests[e.Test] = t
		p.order = append(p.order, e.Test)
		if up := p.above(e.Test); up != nil {
			up.parent = true
		}
	}
	switch e.Action {
	case "output":
		if t.outcome != "" { // a goroutine that outlived its test
			p.output.WriteString(e.Output)
		} else {
			t.output.WriteString(e.Output)
		}
	case "pass", "skip":
		t.outcome = e.Action
		// A race is blamed on the test that runs when it is seen, if on any; the
		// package then fails without saying why, so its report is kept.
		if strings.Contains(t.output.String(), "DATA RACE") {
			p.output.WriteString(t.output.String())
		}
	case "fail":
		return p.failTest(e.Package, e.Test, t)
	}
	return ""
}

// above returns the test that ran a subtest, or nil. The name of a subtest may
// itself have slashes in it.
func (p *pkg) above(name string) *test {
	for i := strings.LastIndexByte(name, '/'); i > 0; i = strings.LastIndexByte(name[:i], '/') {
		if t := p.tests[name[:i]]; t != nil {
			return t
		}
	}
	return nil
}

// failTest marks a test as failed and returns what it printed.
func (p *pkg) failTest(pkgName, name string, t *test) string {
	t.outcome = "fail"
	if up := p.above(name); up != nil {
		up.told = true
	}
	said := plain(t.output.String())
	if t.told && said == "" {
		return "" // its subtests have said it all
	}
	return fmt.Sprintf("--- FAIL %s %s\n%s", pkgName, name, said)
}

// chrome matches the lines with which go test marks where it is.
var chrome = regexp.MustCompile(`^(=== |\s*--- FAIL: |FAIL(\t|$)|PASS$)`)

// plain drops the chrome: the summary has lines of its own for it.
func plain(output string) string {
	var b strings.Builder
	for line := range strings.Lines(output) {
		if !chrome.MatchString(strings.TrimSuffix(line, "\n")) {
			b.WriteString(line)
		}
	}
	return b.String()
}

// endPackage counts the tests of a package and returns its line.
func (s *summary) endPackage(p *pkg, e event) string {
	p.done = true
	var show strings.Builder
	for _, name := range slices.Backward(p.order) { // subtests before what ran them
		if t := p.tests[name]; t.outcome == "" {
			t.output.WriteString("the package ended before this test did\n")
			show.WriteString(p.failTest(e.Package, name, t))
		}
	}
	c := s.count(e.Package, p)
	if e.Action == "fail" {
		show.WriteString(plain(p.output.String()))
		if c.failed == 0 {
			c.failed = 1
			why := "the package failed, none of its tests did"
			if e.FailedBuild != "" {
				why = "the build failed"
			}
			s.failed = append(s.failed, e.Package+": "+why)
		}
	}
	s.current().counts.add(c)
	word := "ok  "
	switch {
	case c.failed > 0:
		word = "FAIL"
	case len(p.order) == 0:
		return fmt.Sprintf("--   %s (no tests)\n", e.Package)
	}
	fmt.Fprintf(&show, "%s %s (%s, %.1fs)\n", word, e.Package, c, e.Elapsed)
	return show.String()
}

// count sums up the tests of a package that has ended.
func (s *summary) count(name string, p *pkg) counts {
	var c counts
	for _, testName := range p.order {
		t := p.tests[testName]
		switch {
		case t.outcome == "skip":
			c.skipped++
			s.skipped = append(s.skipped, skip{name, testName, reason(t.output.String())})
		case t.outcome == "fail" && !t.told:
			c.failed++
			s.failed = append(s.failed, name+": "+testName)
		case t.outcome == "pass" && !t.parent:
			c.passed++
		}
	}
	return c
}

// reason finds what t.Skip was given: the last thing that the test logged. That
// is "    file.go:line: message", and its further lines are indented by eight.
func reason(output string) string {
	var said []string
	for line := range strings.Lines(output) {
		trimmed := strings.TrimSpace(line)
		file, message, isLog := strings.Cut(trimmed, ": ")
		switch {
		case strings.HasPrefix(line, "        ") && len(said) > 0:
			said = append(said, trimmed)
		case strings.HasPrefix(line, "    ") && isLog && strings.Contains(file, ".go:"):
			said = []string{message}
		}
	}
	if len(said) == 0 {
		return "(no reason given)"
	}
	return strings.Join(said, " ")
}

// endModule ends the stream of a module; err is how go test itself ended.
func (s *summary) endModule(err error, elapsed time.Duration) string {
	m := s.current()
	m.elapsed = elapsed
	var show strings.Builder
	for _, name := range slices.Sorted(maps.Keys(m.packages)) {
		if p := m.packages[name]; !p.done {
			show.WriteString(s.endPackage(p, event{Action: "fail", Package: name}))
		}
	}
	if err != nil && m.counts.failed == 0 {
		for _, path := range slices.Sorted(maps.Keys(s.builds)) {
			show.WriteString(s.builds[path])
		}
		m.counts.failed++
		s.failed = append(s.failed, fmt.Sprintf("module %s: go test: %v", m.name, err))
	}
	clear(s.builds)
	return show.String()
}

// total sums up all modules.
func (s *summary) total() counts {
	var c counts
	for _, m := range s.modules {
		c.add(m.counts)
	}
	return c
}

// refused returns the skips that CI does not accept.
func (s *summary) refused() []skip {
	if !s.ci {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(s.skipped), func(k skip) bool {
		return strings.HasPrefix(k.reason, "optional:")
	})
}

// ran reports whether any test ran to a verdict.
func (s *summary) ran() bool {
	c := s.total()
	return c.passed+c.failed > 0
}

// ok reports whether all is well.
func (s *summary) ok() bool {
	return s.ran() && s.total().failed == 0 && len(s.refused()) == 0
}

// report returns the end of the output.
func (s *summary) report() string {
	var b strings.Builder
	b.WriteString("\n== summary\n")
	for _, m := range s.modules {
		fmt.Fprintf(&b, "module %s: %d packages, %s, %.1fs\n", m.name, len(m.packages), m.counts, m.elapsed.Seconds())
	}
	for _, k := range s.skipped {
		fmt.Fprintf(&b, "skipped %s: %s: %s\n", k.pkg, k.test, k.reason)
	}
	for _, what := range s.failed {
		fmt.Fprintf(&b, "FAILED %s\n", what)
	}
	if n := len(s.refused()); n > 0 {
		fmt.Fprintf(&b, "FAILED: with CI=true a test may be skipped only for a reason that starts with \"optional:\"; %d were not\n", n)
	}
	if !s.ran() {
		b.WriteString("FAILED: no test ran\n")
	}
	fmt.Fprintf(&b, "%s\n", s.total())
	return b.String()
}
