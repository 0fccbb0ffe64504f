package main

import (
	"strings"
	"testing"
)

func TestNumber(t *testing.T) {
	for _, test := range []struct {
		value  float64
		digits int
		want   string
	}{
		{0, 2, "0.00"}, {7, 0, "7"}, {999, 0, "999"}, {1000, 0, "1,000"}, {1234567.891, 1, "1,234,567.9"},
		{-12345, 0, "-12,345"}, {-1.25, 1, "-1.2"}, {999.6, 0, "1,000"},
	} {
		if got := number(test.value, test.digits); got != test.want {
			t.Errorf("number(%v, %d) = %q, want %q", test.value, test.digits, got, test.want)
		}
	}
}

func TestTable(t *testing.T) {
	tab := &table{
		Name: "S9", Title: "a test", Main: "p50", Columns: []column{{"p50", "p50 µs", 1}, {"rate", "cycles/s", 0}},
		Rows: []*row{
			{System: "raw-goredis", Samples: []sample{
				{Values: map[string]float64{"p50": 10, "rate": 100}}, {Values: map[string]float64{"p50": 20, "rate": 300}}}},
			{System: "redsync", Samples: []sample{
				{Values: map[string]float64{"p50": 15}, Violations: 2, Notes: []string{"strange"}, Others: 4},
				{Values: map[string]float64{"p50": 60}, Error: "worker\nended", Others: 8}}},
		},
	}
	tab.addRatios([]system{{}, {raw: "raw-goredis"}})
	tab.sum()
	var b strings.Builder
	tab.markdown(&b)
	want := `## S9: a test

| System | p50 µs | cycles/s | × raw | min–max | violations |
|---|---:|---:|---:|---:|---:|
| raw-goredis | 15.0 | 200 | – | 10.0–20.0 | 0 |
| redsync | 37.5 | – | 2.25 | 15.0–60.0 | 2 |

* redsync: strange
* redsync FAILED: worker; ended

Other programs used 2 % of the cores in the median cell, 8 % in the worst.

`
	if b.String() != want {
		t.Errorf("the table is\n%s\nwant\n%s", b.String(), want)
	}
}

// one makes a table with one sample a system.
func one(name string, rows map[string]map[string]float64) *table {
	t := &table{Name: name}
	for _, sys := range systems() {
		if values, ok := rows[sys.name]; ok {
			t.Rows = append(t.Rows, &row{System: sys.name, Samples: []sample{{Values: values}}})
		}
	}
	t.sum()
	return t
}

func TestTargets(t *testing.T) {
	contended := one("S3", map[string]map[string]float64{
		"raw-rueidis":        {"handoffs": 9000, "requests": 5, "jain": 0.9}, // the best, but no library
		"redsync":            {"handoffs": 10, "requests": 50, "jain": 1},
		"redislock-tuned":    {"handoffs": 4000, "requests": 8, "jain": 0.95},
		"lockkeeper-rueidis": {"handoffs": 500_000, "requests": 0.004, "jain": 0.999},
		"lockkeeper-goredis": {"handoffs": 300_000, "requests": 0.006, "jain": 0.98},
	})
	got := map[string]target{}
	for _, target := range targets([]*table{contended}) {
		got[target.Goal] = target
	}
	for goal, met := range map[string]string{
		"S3: hand-offs/s against the best peer": "met by lockkeeper-rueidis",
		"S3: requests a hand-off":               "met by lockkeeper-rueidis",
		"S3: Jain":                              "met by lockkeeper-rueidis",
		"all: violations of mutual exclusion":   "met",
	} {
		if got[goal].Met != met {
			t.Errorf("%s: %q, want %q", goal, got[goal].Met, met)
		}
		delete(got, goal)
	}
	if len(got) > 0 {
		t.Errorf("goals about what was not run: %v", got)
	}
}

func TestTargetsCompareWithTheBestPeer(t *testing.T) {
	processes := one("S4", map[string]map[string]float64{
		"redislock":          {"handoffs": 100, "p50": 150, "acquisitions": 9000},
		"redislock-tuned":    {"handoffs": 1700, "p50": 250, "acquisitions": 3000},
		"lockkeeper-rueidis": {"handoffs": 8500, "p50": 90, "acquisitions": 30_000},
	})
	for _, target := range targets([]*table{processes}) {
		v, judged := target.Values["lockkeeper-rueidis"]
		want := map[string]verdict{
			"S4: process hand-offs/s against the best peer":         {"5.00×", true},
			"S4: hand-off p50 against that peer":                    {"0.36×", true},
			"S4: acquisitions/s against that peer":                  {"10.00×", true},
			"S4: acquisitions/s against the peer with most of them": {"3.33×", false},
			"all: violations of mutual exclusion":                   {"0", true},
		}[target.Goal]
		if !judged || v != want {
			t.Errorf("%s: %v, want %v", target.Goal, v, want)
		}
	}
}

func TestTargetsWithoutPeers(t *testing.T) {
	alone := one("S3", map[string]map[string]float64{"lockkeeper-goredis": {"handoffs": 5, "requests": 0, "jain": 1}})
	for _, target := range targets([]*table{alone}) {
		if strings.Contains(target.Goal, "peer") {
			t.Errorf("%s: judged without a peer", target.Goal)
		}
	}
}

func TestSelected(t *testing.T) {
	all := scenarios(quickSettings())
	names := func(chosen []scenario) string {
		var b strings.Builder
		for _, s := range chosen {
			b.WriteString(s.name + " ")
		}
		return b.String()
	}
	for _, test := range []struct{ run, want string }{
		{"", "S1 S1try S2-64 S2-512 S3 S4 S4w S5 S5busy S6 S6keys S7 S8 "},
		{"S1", "S1 "}, {"S2,S4", "S2-64 S2-512 S4 "}, {"S2-512", "S2-512 "},
	} {
		chosen, err := selected(all, list(test.run))
		if err != nil || names(chosen) != test.want {
			t.Errorf("-run %q: %s, %v, want %s", test.run, names(chosen), err, test.want)
		}
	}
	if _, err := selected(all, []string{"S9"}); err == nil {
		t.Error("S9 is no error")
	}
}

func TestFlags(t *testing.T) {
	for _, args := range [][]string{{"-systems", "redlock"}, {"-run", "S9"}, {"S1"}} {
		if _, err := parseFlags(args); err == nil {
			t.Errorf("%v is no error", args)
		}
	}
	o, err := parseFlags([]string{"-quick", "-reps", "5", "-hold", "60s", "-systems", "redsync,redislock", "-run", "S3"})
	if err != nil || o.settings.reps != 5 || o.settings.hold.Seconds() != 60 || len(o.systems) != 2 || len(o.scenarios) != 1 {
		t.Errorf("%+v, %v", o, err)
	}
}
