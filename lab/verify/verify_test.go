package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestParseCounts(t *testing.T) {
	for _, c := range []struct {
		line string
		want counts
	}{
		{"soak: operations=12 faults=3 lasted=1m0s\n", counts{"operations": 12, "faults": 3}},
		{"    pipe_test.go:12: pipe: histories=3000 violations=0", nil},
		{"soak: 12 operations", nil},
		{"nothing", nil},
	} {
		if got := parseCounts(c.line, "soak:"); !maps.Equal(got, c.want) {
			t.Errorf("%q: got %v, want %v", c.line, got, c.want)
		}
	}
	if got := parseCounts("    pipe_test.go:12: pipe: histories=3000 violations=0", "pipe:"); got["histories"] != 3000 {
		t.Errorf("got %v", got)
	}
	if got := parseCounts("a=1", ""); got != nil {
		t.Errorf("got %v without a marker", got)
	}
}

func shell(script string) job { return job{args: []string{"sh", "-c", script}, marker: "x:"} }

func TestJob(t *testing.T) {
	for _, c := range []struct {
		script, wrong string
		printed       bool
		n             int64
	}{
		{script: "echo x: n=1; echo x: n=2; echo more", n: 2},
		{script: "echo x: n=3; echo the reason; exit 1", wrong: "exit status 1", printed: true, n: 3},
		{script: "echo nothing", wrong: "did not say"},
	} {
		var out bytes.Buffer
		got, err := shell(c.script).do(t.Context(), &out)
		if (err != nil) != (c.wrong != "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%s: got %v, want %q", c.script, err, c.wrong)
		}
		if got["n"] != c.n || strings.Contains(out.String(), "the reason") != c.printed {
			t.Errorf("%s: got %v and printed %q", c.script, got, out.String())
		}
	}
}

// What a program has started ends with it when the time is over.
func TestJobEndsInTime(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, w := io.Pipe()
	go func() {
		_, _ = io.ReadFull(r, make([]byte, 5)) // it runs
		cancel()
		_, _ = io.Copy(io.Discard, r)
	}()
	j := shell("echo x: n=1; sh -c 'sleep 100'; echo x: n=2")
	j.loud = true
	got, err := j.do(ctx, w)
	if err != nil || got["n"] != 1 {
		t.Errorf("got %v, %v, want what was counted so far", got, err)
	}
}

func TestVerdicts(t *testing.T) {
	l := layer{name: "one", what: "the first layer", targets: []target{{"histories", 2, 2000}}}
	found := errors.New("a promise was broken")
	for _, c := range []struct {
		n      int64
		short  bool
		err    error
		quick  int
		failed bool
		says   string
	}{
		{n: 2000, quick: 1, says: "2,000 histories | nothing found"},
		{n: 1999, quick: 1, failed: true, says: "fell short: 1999 histories, want 2000"},
		{n: 1999, quick: 2, says: "nothing found"},
		{n: 2, quick: 1, short: true, says: "nothing found"},
		{n: 5000, quick: 1, err: found, failed: true, says: "failed: a promise was broken"},
	} {
		l.run = func(context.Context, io.Writer, options) (counts, error) { return counts{"histories": c.n}, c.err }
		o := options{short: c.short, quick: c.quick, seed: 7}
		r := l.do(t.Context(), io.Discard, o)
		if r.failed() != c.failed {
			t.Errorf("%+v: failed is %t", c, r.failed())
		}
		var out bytes.Buffer
		report(&out, o, []result{r, {}}, time.Minute)
		if !strings.Contains(out.String(), c.says) || strings.Count(out.String(), "\n|") != 3 {
			t.Errorf("%+v: got\n%s", c, out.String())
		}
	}
}

// Every layer has something to reach in the long programme, or it proves nothing.
func TestTargets(t *testing.T) {
	for _, l := range layers {
		for _, short := range []bool{false, true} {
			if (!short || l.short) && len(l.missed(nil, short)) == 0 {
				t.Errorf("%s, short: %t: nothing at all is enough", l.name, short)
			}
		}
	}
}

func TestShort(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes two minutes")
	}
	program := filepath.Join(t.TempDir(), "verify")
	// Not under the race detector: a world of the simulation has one goroutine.
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.CommandContext(t.Context(), program, "-short", "-seed", "1")
	cmd.Dir = filepath.Join("..", "..")
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatal(err)
	}
}
