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

// A minute of the soak. make soak runs it for longer.
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
	err := soak(t.Context(), &out, options{
		duration: time.Minute, workers: 8, loops: 5, overtakes: mostOvertakes, linger: 70 * time.Second,
	})
	t.Log(out.String())
	if err != nil {
		t.Fatal(err)
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

func TestRoundsFillTheTime(t *testing.T) {
	for _, d := range []time.Duration{time.Minute, 10 * time.Minute, time.Hour} {
		total, lossy := time.Duration(0), time.Duration(0)
		for _, r := range (options{duration: d}).rounds() {
			total += r.Lasts
			if r.Lossy {
				lossy += r.Lasts
			}
		}
		if total != d || lossy != d/4 {
			t.Errorf("%s is divided into %s, %s of it lossy", d, total, lossy)
		}
	}
}
