package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// replay gives a new summary recorded streams, each as a module of its own. It
// returns the summary and all that it had to show.
func replay(t *testing.T, ci bool, streams ...string) (*summary, string) {
	t.Helper()
	s := newSummary(ci)
	var shown strings.Builder
	for _, name := range streams {
		f, err := os.Open(filepath.Join("testdata", name+".jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		shown.WriteString(s.startModule(name))
		if err := feed(&shown, s, f); err != nil {
			t.Fatal(err)
		}
		shown.WriteString(s.endModule(nil, time.Second))
	}
	shown.WriteString(s.report())
	return s, shown.String()
}

// lastLine returns the last line of an output, which has to end with a newline.
func lastLine(t *testing.T, output string) string {
	t.Helper()
	body, ok := strings.CutSuffix(output, "\n")
	if !ok {
		t.Fatalf("the output does not end with a newline: %q", output)
	}
	return body[strings.LastIndexByte(body, '\n')+1:]
}

// recorded says what the summary makes of the streams in testdata. Each is what
// go test -json -race printed for a package of that name, without the times and
// the folders of the machine.
var recorded = []struct {
	streams string // separated by spaces
	ci      bool
	ok      bool
	last    string
	show    []string // has to be in the output
	hide    []string // must not be
}{
	{
		streams: "pass", ok: true,
		last: "4 passed, 0 failed, 0 skipped", // two subtests, a seed of the fuzz function, TestOne
		show: []string{"ok   example.com/ex/pass (4 passed, 0 failed, 0 skipped, 1.0s)", "module pass: 1 packages, 4 passed"},
		hide: []string{"said by a test that passed", "FAIL"},
	},
	{
		streams: "fail",
		last:    "3 passed, 2 failed, 0 skipped",
		show: []string{
			"--- FAIL example.com/ex/fail TestGroup/bad\n    fail_test.go:6: got 1, want 2\n",
			"--- FAIL example.com/ex/fail TestParentOnly\n    fail_test.go:9: the parent itself\n",
			"FAILED example.com/ex/fail: TestParentOnly\n",
		},
		hide: []string{"not shown", "FAILED example.com/ex/fail: TestGroup\n", "=== RUN"},
	},
	{
		streams: "skip", ok: true,
		last: "1 passed, 0 failed, 3 skipped",
		show: []string{
			"skipped example.com/ex/skip: TestNoReason: (no reason given)\n",
			"skipped example.com/ex/skip: TestOptional: optional: no PostgreSQL, see the README\n",
			"skipped example.com/ex/skip: TestGroup/a: needs 64 cores\n",
		},
		hide: []string{"FAILED"},
	},
	{
		streams: "skip", ci: true,
		last: "1 passed, 0 failed, 3 skipped",
		show: []string{`only for a reason that starts with "optional:"; 2 were not`},
	},
	{
		streams: "broken",
		last:    "0 passed, 1 failed, 0 skipped",
		show:    []string{"broken_test.go:5:28: undefined: undefined\n", "FAILED example.com/ex/broken: the build failed\n"},
	},
	{
		streams: "panics",
		last:    "1 passed, 1 failed, 0 skipped",
		show:    []string{"panic: boom", "panics/panics_test.go:6", "FAILED example.com/ex/panics: TestPanics/sub\n"},
	},
	{
		streams: "race",
		last:    "0 passed, 1 failed, 0 skipped",
		show:    []string{"WARNING: DATA RACE", "race/race_test.go:5", "race detected during execution of test"},
	},
	{
		streams: "mainrace", // a race after the last test
		last:    "1 passed, 1 failed, 0 skipped",
		show:    []string{"WARNING: DATA RACE", "FAILED example.com/ex/mainrace: the package failed, none of its tests did\n"},
	},
	{
		streams: "timeout",
		last:    "1 passed, 1 failed, 0 skipped",
		show:    []string{"panic: test timed out after 2s", "FAILED example.com/ex/timeout: TestSlow/sub\n"},
	},
	{
		streams: "exits", // TestMain gave up
		last:    "0 passed, 1 failed, 0 skipped",
		show:    []string{"no server to be had\n", "FAILED example.com/ex/exits: the package failed, none of its tests did\n"},
	},
	{
		streams: "none",
		last:    "0 passed, 0 failed, 0 skipped",
		show:    []string{"--   example.com/ex/none (no tests)\n", "FAILED: no test ran\n"},
	},
	{
		streams: "pass none", ci: true, ok: true,
		last: "4 passed, 0 failed, 0 skipped",
	},
	{
		streams: "pass fail skip broken",
		last:    "8 passed, 3 failed, 3 skipped",
		show:    []string{"module pass: 1 packages, 4 passed, 0 failed", "module broken: 1 packages, 0 passed, 1 failed"},
	},
}

func TestRecordedStreams(t *testing.T) {
	for _, tt := range recorded {
		t.Run(tt.streams, func(t *testing.T) {
			s, output := replay(t, tt.ci, strings.Fields(tt.streams)...)
			if s.ok() != tt.ok {
				t.Errorf("ok() = %v, want %v", s.ok(), tt.ok)
			}
			if got := lastLine(t, output); got != tt.last {
				t.Errorf("the last line is %q, want %q", got, tt.last)
			}
			for _, want := range tt.show {
				if !strings.Contains(output, want) {
					t.Errorf("missing in the output: %q", want)
				}
			}
			for _, bad := range tt.hide {
				if strings.Contains(output, bad) {
					t.Errorf("should not be in the output: %q", bad)
				}
			}
			if t.Failed() {
				t.Logf("the output was:\n%s", output)
			}
		})
	}
}

// What is no event is shown as it is, also a line without an end.
func TestLinesThatAreNoEvents(t *testing.T) {
	s := newSummary(false)
	s.startModule("m")
	var shown strings.Builder
	stream := "go: a warning\n" +
		`{"Action":"run","Package":"p","Test":"TestA"}` + "\n" +
		`{"half an event` + "\n" +
		`{"other":"JSON"}` + "\n\n" +
		`{"Action":"pass","Package":"p","Test":"TestA"}` + "\n" +
		`{"Action":"pass","Package":"p"}` + "\n" +
		"the end"
	if err := feed(&shown, s, strings.NewReader(stream)); err != nil {
		t.Fatal(err)
	}
	want := "go: a warning\n{\"half an event\n{\"other\":\"JSON\"}\nok   p (1 passed, 0 failed, 0 skipped, 0.0s)\nthe end"
	if shown.String() != want {
		t.Errorf("got\n%s\nwant\n%s", shown.String(), want)
	}
	if !s.ok() {
		t.Error("not ok")
	}
}

// A go test that breaks off or ends with an error has failed, whatever it said.
func TestGoTestItselfFails(t *testing.T) {
	passed := `{"Action":"run","Package":"p","Test":"TestA"}` + "\n" + `{"Action":"pass","Package":"p","Test":"TestA"}` + "\n"
	tests := []struct {
		name, stream string
		err          error
		last, show   string
	}{
		{"error without a word", passed + `{"Action":"pass","Package":"p"}`, errors.New("exit status 1"),
			"1 passed, 1 failed, 0 skipped", "FAILED module m: go test: exit status 1\n"},
		{"package without an end", passed, nil,
			"1 passed, 1 failed, 0 skipped", "FAILED p: the package failed, none of its tests did\n"},
		{"test without an end", `{"Action":"run","Package":"p","Test":"TestA"}` + "\n" + `{"Action":"pass","Package":"p"}`, nil,
			"0 passed, 1 failed, 0 skipped", "FAILED p: TestA\n"},
		{"compiler without an end", `{"Action":"build-output","ImportPath":"p","Output":"no space left\n"}`, errors.New("exit status 1"),
			"0 passed, 1 failed, 0 skipped", "no space left\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newSummary(false)
			s.startModule("m")
			var shown strings.Builder
			if err := feed(&shown, s, strings.NewReader(tt.stream)); err != nil {
				t.Fatal(err)
			}
			shown.WriteString(s.endModule(tt.err, 0))
			shown.WriteString(s.report())
			if s.ok() {
				t.Error("ok() = true")
			}
			if got := lastLine(t, shown.String()); got != tt.last {
				t.Errorf("the last line is %q, want %q", got, tt.last)
			}
			if !strings.Contains(shown.String(), tt.show) {
				t.Errorf("missing in the output: %q\n%s", tt.show, shown.String())
			}
		})
	}
}

func TestReason(t *testing.T) {
	tests := []struct{ name, output, want string }{
		{"none", "=== RUN   TestA\n--- SKIP: TestA (0.00s)\n", "(no reason given)"},
		{"the last one counts", "    a.go:1: looked\n    a.go:2: optional: none there\n--- SKIP: TestA (0.00s)\n", "optional: none there"},
		{"several lines", "    a.go:1: one\n        two\n--- SKIP: TestA (0.00s)\n", "one two"},
		{"printed besides", "    a.go:1: one\na server says: hello.go: x\n--- SKIP: TestA (0.00s)\n", "one"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := reason(tt.output); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestArgs(t *testing.T) {
	got := strings.Join(options{short: true, race: true, run: "A b", parallel: 3}.args(), "|")
	if want := "test|-json|-count=1|-timeout=15m|-p=3|-race|-short|-run=A b|./..."; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	got = strings.Join(options{parallel: 1}.args(), "|")
	if want := "test|-json|-count=1|-timeout=15m|-p=1|./..."; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
