package lockkeeper_test

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A rule is one row of a table whose last column says what shows it.
type rule struct {
	line  int
	text  string
	shown string
}

// shownBy are the titles of such a column.
var shownBy = []string{"test", "shown by"}

var cellBorder = regexp.MustCompile(`\s*\|\s*`)

// rulesOf returns the rules of a document.
func rulesOf(document string) []rule {
	var rules []rule
	inside := false
	for i, line := range strings.Split(document, "\n") {
		row, isRow := strings.CutPrefix(strings.TrimSpace(line), "|")
		row, closed := strings.CutSuffix(row, "|")
		if !isRow || !closed {
			inside = false
			continue
		}
		cells := cellBorder.Split(strings.TrimSpace(row), -1)
		last := cells[len(cells)-1]
		switch {
		case slices.Contains(shownBy, last):
			inside = true
		case inside && strings.Trim(row, "-:| ") != "":
			rules = append(rules, rule{i + 1, cells[0], last})
		}
	}
	return rules
}

const notTested = "not tested"

// unshown returns what is wrong with the rules of a document, and how many of them say
// that no test shows them.
func unshown(document string, tests map[string]bool) (wrong []string, untested int) {
	for _, r := range rulesOf(document) {
		names := namedTest.FindAllString(r.shown, -1)
		at := "line " + strconv.Itoa(r.line) + " (" + r.text + ")"
		switch says := strings.HasPrefix(r.shown, notTested); {
		case says && len(names) > 0:
			wrong = append(wrong, at+" is not tested, and names a test")
		case says:
			untested++
		case len(names) == 0:
			wrong = append(wrong, at+" names no test")
		}
		for _, name := range missingTests(r.shown, tests) {
			wrong = append(wrong, at+" names "+name+", which no test file has")
		}
	}
	return wrong, untested
}

// Every invariant, and everything that is promised, names a test that is there, or says
// that it has none; how many those are is said in the document.
func TestRulesNameTheirTests(t *testing.T) {
	tests := testsIn(readAll(t, isTestFile))
	for path, least := range map[string]int{"docs/ARCHITECTURE.md": 12, "docs/GUARANTEES.md": 105} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		document := string(text)
		wrong, untested := unshown(document, tests)
		for _, what := range wrong {
			t.Errorf("%s: %s", path, what)
		}
		if n := len(rulesOf(document)); n < least {
			t.Errorf("%s has %d rules, fewer than the %d that there were", path, n, least)
		}
		if says := "not tested: " + strconv.Itoa(untested); untested > 0 && !strings.Contains(document, says+" ") {
			t.Errorf("%s does not say %q", path, says)
		}
	}
}

// A check that cannot fail is none.
func TestRulesSeeViolations(t *testing.T) {
	tests := testsIn(map[string]string{"a_test.go": "\nfunc TestThere(t *testing.T) {\nfunc FuzzThere(f *testing.F) {\n"})
	const head = "text | no row |\n\n| rule | shown by |\n|---|---|\n"
	for row, want := range map[string]string{
		"| a | `TestThere` |":                 "",
		"| a | `TestThere`, `FuzzThere` |":    "",
		"| a | not tested |":                  "",
		"| a | not tested: out of reach |":    "",
		"| a | |":                             "names no test",
		"| a | TestThere |":                   "names no test", // it has to be marked as a name
		"| a | the review |":                  "names no test",
		"| a | `TestGone` |":                  "names TestGone, which no test file has",
		"| a | `TestThere`, `TestGone` |":     "names TestGone, which no test file has",
		"| a | not tested, but `TestThere` |": "is not tested, and names a test",
	} {
		wrong, untested := unshown(head+row+"\n", tests)
		if want == "" && len(wrong) > 0 || want != "" && (len(wrong) != 1 || !strings.HasSuffix(wrong[0], want)) {
			t.Errorf("%s: found %q, want %q", row, wrong, want)
		}
		if says := strings.Contains(row, notTested) && want == ""; (untested == 1) != says {
			t.Errorf("%s: %d are counted as not tested", row, untested)
		}
	}
	if rules := rulesOf("| rule | why |\n|---|---|\n| a | b |\n\n" + head + "| a | b |\n| c | d |\nend\n| e | f |\n"); len(rules) != 2 {
		t.Errorf("found the rules %v, want two", rules)
	}
}
