package sim

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the traces in testdata anew")

// mistakes are flaws that lose updates. The seeds are of worlds that keep to the
// assumptions, with a short trace.
var mistakes = []struct {
	name string
	flaw flaw
	seed uint64
	file string
}{
	{"the claim comes after the first read", claimLate, 858, "claim-after-read.txt"},
	{"no claim, and a write is accepted if no larger fence has written", atLeast, 116, "at-least.txt"},
	{"no check when it writes", noCheck, 116, ""},
}

// TestFlawsAreFound plants mistakes in how the database is used, and sees updates lost.
func TestFlawsAreFound(t *testing.T) {
	for _, tt := range mistakes {
		t.Run(tt.name, func(t *testing.T) {
			lost, worlds := 0, 0
			for seed := uint64(0); worlds < 150; seed++ {
				if paramsOf(seed, false).InModel {
					continue // there it takes many more
				}
				worlds++
				if len(simulate(variant{seed: seed, flaw: tt.flaw}).updates()) > 0 {
					lost++
				}
			}
			t.Logf("updates are lost in %d of %d worlds", lost, worlds)
			if lost < 2 {
				t.Errorf("updates are lost in %d of %d worlds", lost, worlds)
			}
			f, found := look(variant{seed: tt.seed, flaw: tt.flaw}, "O2")
			if !found || !f.world.InModel {
				t.Fatalf("seed %d loses nothing within the assumptions", tt.seed)
			}
			var trace bytes.Buffer
			shrink(f).print(&trace)
			if lines := strings.Count(trace.String(), "\n"); tt.file != "" && lines > 60 {
				t.Errorf("the trace has %d lines", lines)
			}
			golden(t, tt.file, trace.Bytes())
		})
	}
}

// golden compares a trace with the one that docs/VERIFICATION.md shows.
func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	if file == "" {
		return
	}
	path := filepath.Join("testdata", file)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what happens any more; -update writes it anew. Now:\n%s", path, got)
	}
}

// A variant with less in it still shows what is wrong, by the same oracle.
func TestShrink(t *testing.T) {
	before, found := look(variant{seed: 116, flaw: noCheck}, "O2")
	if !found {
		t.Fatal("nothing is wrong")
	}
	after := shrink(before)
	again, found := look(after.variant, "O2")
	if !found || again.violation != after.violation {
		t.Fatalf("%+v, and again %+v", after.violation, again.violation)
	}
	if n, m := len(after.world.tracer.lines), len(before.world.tracer.lines); 5*n > m {
		t.Errorf("%d lines of %d are left", n, m)
	}
	if n, m := len(after.world.chaos.struck), len(before.world.chaos.struck); n >= m {
		t.Errorf("%d faults of %d are left", n, m)
	}
}

// What minimise leaves is enough, and less is not.
func TestMinimise(t *testing.T) {
	all := make([]int, 100)
	for i := range all {
		all[i] = i
	}
	needed := []int{3, 50, 51, 98}
	minimise(func() []int { return all }, func(left map[int]bool) bool {
		for _, n := range needed {
			if !left[n] {
				return false
			}
		}
		some := all[:0:0]
		for _, n := range all {
			if left[n] {
				some = append(some, n)
			}
		}
		all = some
		return true
	})
	if len(all) != len(needed) {
		t.Errorf("left: %v", all)
	}
	minimise(func() []int { return nil }, func(map[int]bool) bool { t.Error("there is nothing to leave out"); return false })
}

func TestExplain(t *testing.T) {
	var out strings.Builder
	Explain(0, &out)
	if out.String() != "seed 0: nothing is wrong\n" {
		t.Errorf("%q", out.String())
	}
	out.Reset()
	explain(variant{seed: 116, flaw: noCheck}, &out)
	for _, want := range []string{"seed 116, shrunk to ", "TTL ", "database", "\n                O2         lost update"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}
