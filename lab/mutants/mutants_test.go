package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// repository is the root of this repository.
const repository = "../.."

// TestFastMutants plants the fast ones. make mutants plants all.
func TestFastMutants(t *testing.T) {
	if testing.Short() {
		t.Skip("optional: plants bugs for about a minute")
	}
	o := options{root: repository, only: regexp.MustCompile(""), fast: true, lanes: 2}
	if err := kill(t.Context(), t.Output(), o, o.chosen(catalogue())); err != nil {
		t.Error(err)
	}
}

// All mutants fit the code, and all killers are there, so that a change that leaves one
// behind is seen at once.
func TestCatalogue(t *testing.T) {
	all := catalogue()
	if err := fit(tree{repository}, all); err != nil {
		t.Error(err)
	}
	names := make(map[string]bool)
	for _, m := range all {
		if names[m.name] {
			t.Errorf("there are two mutants with the name %s", m.name)
		}
		names[m.name] = true
		for _, k := range m.killers {
			if !hasTest(t, k) {
				t.Errorf("%s: there is no test %s in %s", m.name, k.test, path.Join(k.module, k.pkg))
			}
		}
	}
	fast := slices.DeleteFunc(all, func(m mutant) bool { return !m.fast })
	if len(names) < 30 || len(fast) < 12 {
		t.Errorf("%d mutants, %d of them fast: at least 30 and 12", len(names), len(fast))
	}
}

// hasTest reports whether the package of a killer has its test. Subtests are left to the
// run.
func hasTest(t *testing.T, k killer) bool {
	files, err := filepath.Glob(filepath.Join(repository, k.module, k.pkg, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	test, _, _ := strings.Cut(k.test, "/")
	return slices.ContainsFunc(files, func(name string) bool {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return bytes.Contains(text, []byte("\nfunc "+test+"(t *testing.T)"))
	})
}

// A small module, whose package adds and whose tests look at that in several ways.
var addition = map[string]string{
	"go.mod": "module example.com/addition\n\ngo 1.26\n",
	"add/add.go": `package add

func Add(a, b int) int { return a + b }

func Twice(a int) int { return Add(a, a) }
`,
	"add/add_test.go": `package add

import "testing"

func TestAdd(t *testing.T) {
	if got := Add(2, 3); got != 5 {
		t.Errorf("seed 17: 2 and 3 are %d", got)
	}
}

func TestParts(t *testing.T) {
	t.Run("small", func(t *testing.T) {
		if Add(1, 1) != 2 {
			t.Error("small numbers are wrong")
		}
	})
}

func TestBlind(t *testing.T) { t.Log("all is well") }

func TestBroken(t *testing.T) { t.Error("never passes") }

func TestLeftOut(t *testing.T) { t.Skip("not here") }

func TestPanics(t *testing.T) {
	if Add(2, 3) != 5 {
		panic("out of nothing")
	}
}
`,
}

var adding = setting{module: ".", pkg: "./add"}

// subtract makes a subtraction of the addition.
func subtract(name string, killers ...killer) mutant {
	return mutant{name: name, what: "Sums are differences.", file: "add/add.go", old: "a + b", new: "a - b", killers: killers}
}

// plantsAndSays are mutants of the addition, and what is to be said about each.
var plantsAndSays = []struct {
	mutant mutant
	want   []string // lines; blanks and times are left out
}{
	{subtract("killed", adding.says("TestAdd", "2 and 3 are -1")), []string{"killed TestAdd 17"}},
	{subtract("killed by an oracle", killer{setting: adding, oracle: "O1", test: "TestAdd", want: "2 and 3"}), []string{"killed by an oracle O1 TestAdd 17"}},
	{subtract("killed by a subtest", adding.says("TestParts/small", "are wrong")), []string{"killed by a subtest TestParts/small"}},
	{subtract("killed by a panic", adding.says("TestPanics", "out of nothing")), []string{"killed by a panic TestPanics"}},

	{subtract("blind", adding.says("TestBlind", "wrong")), []string{"blind SURVIVED TestBlind"}},
	{subtract("one is blind", adding.says("TestAdd", "2 and 3"), adding.says("TestBlind", "wrong")),
		[]string{"one is blind TestAdd 17", "one is blind SURVIVED TestBlind"}},

	{subtract("fails anyway", adding.says("TestBroken", "never")), []string{"fails anyway ERROR: TestBroken fails where nothing is planted"}},
	{subtract("skipped", adding.says("TestLeftOut", "never")), []string{"skipped ERROR: TestLeftOut is skipped on this machine"}},
	{subtract("no test", adding.says("TestNothing", "never")), []string{"no test ERROR: TestNothing does not run: there is no such test, or the package could not be tested"}},
	{subtract("no package", setting{module: ".", pkg: "./multiply"}.says("TestAdd", "2 and 3")),
		[]string{"no package ERROR: TestAdd does not compile where nothing is planted"}},
	{subtract("said anyway", adding.says("TestBlind", "is well")), []string{`said anyway ERROR: TestBlind says "is well" where nothing is planted`}},
	{subtract("another message", adding.says("TestAdd", "2 and 3 make")), []string{`another message ERROR: TestAdd fails, but does not say "2 and 3 make"`}},
	{subtract("another panic", adding.says("TestPanics", "into nothing")), []string{`another panic ERROR: TestPanics fails, but does not say "into nothing"`}},
	{mutant{name: "does not compile", what: "It is no Go.", file: "add/add.go", old: "a + b", new: "a + c",
		killers: []killer{adding.says("TestAdd", "2 and 3")}}, []string{"does not compile ERROR: TestAdd the mutant does not compile"}},
}

// write makes a repository of files.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("git", "init", "--quiet", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return dir
}

// clean takes times and the blanks of columns out of a report.
func clean(text string) string {
	text = regexp.MustCompile(`\d+\.\ds(, seed )?`).ReplaceAllString(text, "")
	text = regexp.MustCompile(`seconds=\d+`).ReplaceAllString(text, "seconds=N")
	return regexp.MustCompile(` +`).ReplaceAllString(text, " ")
}

// Each way in which a mutant is not killed says what it is.
func TestKill(t *testing.T) {
	dir, temp := write(t, addition), t.TempDir()
	t.Setenv("TMPDIR", temp)
	var mutants []mutant
	for _, p := range plantsAndSays {
		mutants = append(mutants, p.mutant)
	}
	var out bytes.Buffer
	err := kill(t.Context(), &out, options{root: dir, lanes: 2}, mutants)
	if err == nil || err.Error() != "10 of 14 mutants were not killed, see above" {
		t.Errorf("got %v", err)
	}
	report := clean(out.String())
	for _, p := range plantsAndSays {
		for _, want := range p.want {
			if !strings.Contains(report, "\n"+want) {
				t.Errorf("it does not say %q", want)
			}
		}
	}
	if !strings.HasSuffix(report, "\nmutants: planted=14 killed=4 survived=2 errors=8 seconds=N\n") {
		t.Error("the last line is another")
	}
	if t.Failed() {
		t.Logf("it says:\n%s", report)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "add/add.go")); err != nil || string(text) != addition["add/add.go"] {
		t.Errorf("it has planted something in the tree itself: %s %v", text, err)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("it leaves %v behind, %v", left, err)
	}
}

func TestAllKilled(t *testing.T) {
	var out bytes.Buffer
	mutants := []mutant{plantsAndSays[0].mutant, plantsAndSays[1].mutant}
	if err := kill(t.Context(), &out, options{root: write(t, addition), lanes: 1, verbose: true}, mutants); err != nil {
		t.Error(err)
	}
	for _, want := range []string{"planted=2 killed=2 survived=0 errors=0", "- a + b", "+ a - b", "| --- FAIL: TestAdd"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in %s", want, out.String())
		}
	}
	if err := kill(t.Context(), &out, options{}, nil); err == nil {
		t.Error("no mutant at all counts as well")
	}
}

// What does not fit is told of all at once, before anything runs.
func TestMisfits(t *testing.T) {
	files := map[string]string{"one.txt": "a bird in the hand is worth two in the bush", "gone.txt": ""}
	dir := write(t, files)
	ok := adding.says("TestAdd", "2 and 3")
	misfits := []struct {
		mutant mutant
		want   string
	}{
		{mutant{name: "gone", what: "x", file: "one.txt", old: "a fish", new: "x", killers: []killer{ok}},
			"the mutant gone does not fit the code any more: its text is not in one.txt"},
		{mutant{name: "twice", what: "x", file: "one.txt", old: "in the", new: "x", killers: []killer{ok}},
			"the mutant twice does not fit the code any more: its text is in one.txt more than once"},
		{mutant{name: "nowhere", what: "x", file: "two.txt", old: "a bird", new: "x", killers: []killer{ok}},
			"the mutant nowhere does not fit the code any more: open "},
		{mutant{name: "same", what: "x", file: "one.txt", old: "a bird", new: "a bird", killers: []killer{ok}}, "the mutant same changes nothing"},
		{mutant{name: "silent", file: "one.txt", old: "a bird", new: "x", killers: []killer{ok}}, `the mutant "silent" lacks`},
		{mutant{name: "immortal", what: "x", file: "one.txt", old: "a bird", new: "x"}, "the mutant immortal has no killer"},
		{mutant{name: "mute", what: "x", file: "one.txt", old: "a bird", new: "x", killers: []killer{adding.says("TestAdd", "")}}, "a killer of mute lacks"},
	}
	var mutants []mutant
	for _, m := range misfits {
		mutants = append(mutants, m.mutant)
	}
	h := hunt{root: dir, lanes: 1, mutants: mutants, done: func(r result) { t.Errorf("it has run %s", r.name) }}
	err := h.run(t.Context())
	if err == nil {
		t.Fatal("all fit")
	}
	for _, m := range misfits {
		if !strings.Contains(err.Error(), m.want) {
			t.Errorf("it does not say %q, but\n%v", m.want, err)
		}
	}
}

// What git ignores stays behind, and what was deleted by hand is no error.
func TestCopyTree(t *testing.T) {
	dir := write(t, map[string]string{"a/run.sh": "x", "built.test": "x", ".gitignore": "*.test\n", "gone.txt": "x"})
	if out, err := exec.Command("git", "-C", dir, "add", ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := os.Chmod(filepath.Join(dir, "a/run.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "gone.txt")); err != nil {
		t.Fatal(err)
	}
	files, err := listFiles(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	to := t.TempDir()
	if _, err := copyTree(dir, files, to); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(to, "a/run.sh")); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("got %v, %v", info, err)
	}
	for _, name := range []string{"built.test", "gone.txt", ".git"} {
		if _, err := os.Stat(filepath.Join(to, name)); err == nil {
			t.Errorf("%s is in the copy", name)
		}
	}
	if _, err := listFiles(t.Context(), t.TempDir()); err == nil || !strings.Contains(err.Error(), "not a git repository") {
		t.Errorf("got %v outside of a repository", err)
	}
}

// A test that hangs is no kill, whatever it has said before.
func TestHangIsNoKill(t *testing.T) {
	r := readRun([]byte(`{"Action":"run","Test":"TestAdd"}
{"Action":"output","Test":"TestAdd","Output":"2 and 3 are -1\n"}
{"Action":"output","Test":"TestAdd","Output":"panic: test timed out after 2m30s\n"}
{"Action":"fail","Test":"TestAdd","Elapsed":150}
{"Action":"fail","Elapsed":150}
`))
	r.err = os.ErrDeadlineExceeded
	v := r.verdict(adding.says("TestAdd", "2 and 3"))
	if v.killed || v.wrong != "hangs for "+mostTime {
		t.Errorf("got %+v", v)
	}
}

// Who stops a hunt gets no verdicts of what was cut off.
func TestStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	h := hunt{root: write(t, addition), lanes: 1, mutants: []mutant{plantsAndSays[0].mutant}}
	h.done = func(r result) { t.Errorf("got a verdict: %+v", r) }
	cancel()
	if err := h.run(ctx); err == nil {
		t.Error("it says that it has run")
	}
}

func TestOptions(t *testing.T) {
	for _, c := range []struct {
		only  string
		lanes int
		ok    bool
	}{{"fence|epoch", 1, true}, {"(", 1, false}, {"", 0, false}} {
		o := options{lanes: c.lanes}
		if err := o.parse(c.only); (err == nil) != c.ok {
			t.Errorf("-run %q -lanes %d: %v", c.only, c.lanes, err)
		}
	}
	o := options{only: regexp.MustCompile("^b"), fast: true}
	got := o.chosen([]mutant{{name: "a", fast: true}, {name: "b"}, {name: "bb", fast: true}})
	if len(got) != 1 || got[0].name != "bb" {
		t.Errorf("got %v", got)
	}
	var out bytes.Buffer
	list(&out, []mutant{{name: "a", what: "It is bad.", file: "a.go", fast: true,
		killers: []killer{adding.says("TestA", "x"), {setting: adding, oracle: "O1", test: "TestB", want: "x"}}}})
	if want := "a (fast): It is bad.\n    in a.go; must be killed by TestA, O1 TestB\n"; out.String() != want {
		t.Errorf("got %q", out.String())
	}
}
