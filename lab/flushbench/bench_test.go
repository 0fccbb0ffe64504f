package main

import (
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/lockkeeper/lockkeeper/internal/sqltest"
	"github.com/lockkeeper/lockkeeper/lab/flushbench/rig"
)

// TestMain makes the test binary a worker, where the program starts one.
func TestMain(m *testing.M) {
	if os.Getenv(asWorker) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// All parts with a few rows: that they run to their end and measure something.
func TestSmall(t *testing.T) {
	if !rig.Supported {
		t.Skip("optional: the benchmark needs Linux")
	}
	if _, err := exec.LookPath("redis-server"); err != nil && os.Getenv("LOCKKEEPER_REDIS_SERVER") == "" && os.Getenv("CI") != "true" {
		t.Skip("optional: redis-server is not installed: run make deps")
	}
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && name != "sqlite" {
				t.Skip("it starts a database server")
			}
			var out strings.Builder
			o := options{only: "speed,memory,produce", db: name, rows: 1200, rounds: 1, batch: 500, silent: true}
			err := run(t.Context(), &out, o)
			if errors.Is(err, sqltest.ErrNotInstalled) && os.Getenv("CI") != "true" {
				t.Skip("optional: ", err)
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{
				`\| ` + kind.String() + ` \| flush, new rows \| [1-9][0-9,]+ \|`,
				`\| ` + kind.String() + ` \| flush, changed rows \| [1-9][0-9,]+ \|`,
				`\| ` + kind.String() + ` \| row by row, autocommit \| [1-9][0-9,]+ \|`,
				`\| ` + kind.String() + ` \| bulk \| [1-9][0-9,]+ \|`,
				`\| ` + kind.String() + ` \| 1,200 \| [1-9][0-9]* \|`, // the worker's peak
				`\| 1,200 \| [1-9][0-9]* \| -?[0-9.]+ \|`,             // Redis's memory
				`\| mark script, pipelined \| [1-9][0-9,]+ \|`,
			} {
				if !regexp.MustCompile(want).MatchString(out.String()) {
					t.Errorf("no line %s in\n%s", want, out.String())
				}
			}
		})
	}
}

func TestRefuses(t *testing.T) {
	for name, o := range map[string]options{"part": {only: "nothing", db: "sqlite", rounds: 1, rows: 1}, "database": {only: "speed", db: "oracle", rounds: 1, rows: 1}} {
		if err := run(t.Context(), &strings.Builder{}, o); err == nil {
			t.Errorf("an unknown %s passed", name)
		}
	}
}

func TestMedian(t *testing.T) {
	cells := []cell{{result: result{Rows: 3}}, {result: result{Rows: 1}}, {result: result{Rows: 2}}}
	middle, least, most := median(cells, func(c cell) float64 { return float64(c.Rows) })
	if middle != 2 || least != 1 || most != 3 {
		t.Fatal(middle, least, most)
	}
}

func TestThousands(t *testing.T) {
	for n, want := range map[float64]string{0: "0", 999: "999", 1000: "1,000", 1234567.8: "1,234,568"} {
		if got := thousands(n); got != want {
			t.Errorf("%v: %q, want %q", n, got, want)
		}
	}
}

// All values have the width that the report speaks of, in each edition.
func TestValues(t *testing.T) {
	for i := range 1000 {
		if len(key(i)) != 11 {
			t.Fatal(key(i))
		}
		n := 0
		for j, v := range values(i, 0) {
			n += len(v)
			if w := values(i, 7)[j]; len(w) != len(v) {
				t.Fatalf("%q and %q", v, w)
			}
		}
		if n < 140 || n > 160 {
			t.Fatalf("row %d has %d bytes", i, n)
		}
	}
}
