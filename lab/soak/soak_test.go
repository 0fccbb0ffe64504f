package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestMain makes the test binary a worker, where soak starts one.
func TestMain(m *testing.M) {
	if os.Getenv(asWorker) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// Most of a minute of the soak: what it has to do at least shows that it did something.
// make soak runs it for longer.
func TestSoak(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes more than a minute")
	}
	if !supported {
		t.Skip("optional: the soak needs Linux")
	}
	if _, err := exec.LookPath("redis-server"); err != nil && os.Getenv("LOCKKEEPER_REDIS_SERVER") == "" && os.Getenv("CI") != "true" {
		t.Skip("redis-server is not installed: run make deps")
	}
	var out strings.Builder
	sum, err := soak(t.Context(), &out, options{
		duration: 40 * time.Second, workers: 8, loops: 5, overtakes: mostOvertakes, linger: 70 * time.Second,
	})
	t.Log(out.String())
	if err != nil {
		t.Fatal(err)
	}
	if total := sum.total(); total < 40 || len(sum.faults) < 12 {
		t.Errorf("%d faults of %d kinds, want 40 of 12", total, len(sum.faults))
	}
}

// The last line of a process that was killed may be half a line.
func TestReadJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "worker-1.1.jsonl")
	j, err := openJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	j.write(event{What: asks, Call: 7, Name: "a", Text: byTry})
	j.write(event{What: held, Call: 7, Name: "a", Fence: 1 << 60, Until: 5})
	if _, err := io.WriteString(j.file, `{"at":12,"what":"fr`); err != nil {
		t.Fatal(err)
	}
	if err := j.close(); err != nil {
		t.Fatal(err)
	}
	events, err := readJournal(path)
	if err != nil || len(events) != 2 {
		t.Fatalf("got %v, %v, want two events", events, err)
	}
	if e := events[1]; e.Who != "worker-1.1" || e.Fence != 1<<60 || e.At == 0 {
		t.Errorf("got %+v", e)
	}
}

// Faults come by their weights, and those that lose memory only where they may.
func TestPick(t *testing.T) {
	for _, lossy := range []bool{false, true} {
		n := newNemesis(&round{Seed: 1, Lossy: lossy})
		loses := 0
		for range 2000 {
			if n.pick().loses {
				loses++
			}
		}
		if lossy != (loses > 0) {
			t.Errorf("lossy %t: %d of 2000 faults lose the server's memory", lossy, loses)
		}
	}
}

// A run ends in time, and has rounds of both kinds.
func TestHasTimeFor(t *testing.T) {
	o := options{duration: 10 * time.Minute}
	if !o.hasTimeFor(8*time.Minute, 8) || o.hasTimeFor(9*time.Minute+30*time.Second, 9) {
		t.Error("a run does not end in time")
	}
	for i, lossy := range []bool{false, true, false, true} {
		if r := o.round(i); r.Lossy != lossy || r.Lasts >= pair {
			t.Errorf("round %d: lossy %t, %s", i, r.Lossy, r.Lasts)
		}
	}
}
