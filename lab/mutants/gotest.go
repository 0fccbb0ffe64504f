package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// mostTime is how long one go test may take; what is planted may hang.
const mostTime = "150s"

// A testRun is what a go test said.
type testRun struct {
	results map[string]string // of each test: pass, fail or skip
	lines   []line
	unbuilt bool
	hung    bool
	err     error // it exited with another code than 0
	took    time.Duration
}

type line struct{ test, text string }

// said returns what a test and its subtests printed; everything for "".
func (r testRun) said(test string) string {
	var b strings.Builder
	for _, l := range r.lines {
		if test == "" || l.test == test || strings.HasPrefix(l.test, test+"/") {
			b.WriteString(l.text)
		}
	}
	return b.String()
}

// waitedFor tells a test in its environment which oracle is waited for, so that it can
// end once that has spoken. Where nothing is planted it is not set.
const waitedFor = "LOCKKEEPER_ORACLE"

// goTest runs tests in a tree. No copy's path gets into what is built, so that all copies
// share the build cache, and only what a mutant touches is built anew.
func (t tree) goTest(ctx context.Context, s setting, oracle string, tests ...string) testRun {
	args := []string{"test", "-json", "-count=1", "-trimpath", "-vet=off", "-timeout=" + mostTime, "-run=" + exactly(tests)}
	if s.short {
		args = append(args, "-short")
	}
	cmd := exec.CommandContext(ctx, "go", append(args, s.pkg)...)
	cmd.Dir = filepath.Join(t.dir, filepath.FromSlash(s.module))
	cmd.Env = append(os.Environ(), strings.Fields(s.env)...)
	if oracle != "" {
		cmd.Env = append(cmd.Env, waitedFor+"="+oracle)
	}
	// go test passes no signal on to what it runs, so the whole group gets it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	began := time.Now()
	out, err := cmd.CombinedOutput()
	r := readRun(out)
	r.err, r.took = err, time.Since(began)
	return r
}

// exactly returns the regular expression of go test -run for tests and subtests.
func exactly(tests []string) string {
	all := make([]string, len(tests))
	for i, test := range tests {
		all[i] = "^" + strings.ReplaceAll(test, "/", "$/^") + "$"
	}
	return strings.Join(all, "|")
}

// readRun reads what go test -json has printed. What is no JSON is the go command's own.
func readRun(out []byte) testRun {
	r := testRun{results: make(map[string]string)}
	for text := range bytes.Lines(out) {
		var e struct{ Action, Test, Output string }
		if err := json.Unmarshal(text, &e); err != nil {
			e.Action, e.Output = "output", string(text)
		}
		switch e.Action {
		case "pass", "fail", "skip":
			r.results[e.Test] = e.Action
		case "build-fail":
			r.unbuilt = true
		case "output", "build-output":
			r.lines = append(r.lines, line{e.Test, e.Output})
			r.unbuilt = r.unbuilt || strings.Contains(e.Output, "[build failed]") || strings.Contains(e.Output, "[setup failed]")
			r.hung = r.hung || strings.HasPrefix(e.Output, "panic: test timed out")
		}
	}
	return r
}
