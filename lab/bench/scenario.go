package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// A scenario is one table of the report.
type scenario struct {
	name    string
	title   string
	reps    int
	systems []string          // by default; nil is all that are usual
	capable func(system) bool // nil is all
	main    string            // the column whose spread is shown
	ratio   bool              // of that column, to the raw loop of the same repetition
	columns []column
	cell    func(ctx context.Context, b *bench, sys system) (sample, error)
}

// A column is one figure of a table.
type column struct {
	Key    string `json:"key"`
	Title  string `json:"title"`
	digits int    // after the point
}

// A sample is what one cell has measured: one system in one scenario, once. A figure
// that there is not has no entry.
type sample struct {
	Values     map[string]float64 `json:"values"`
	Violations int64              `json:"violations"`
	Others     float64            `json:"others"` // per cent of the cores that other programs used
	Notes      []string           `json:"notes,omitempty"`
	Error      string             `json:"error,omitempty"` // the cell has failed
}

func newSample() sample { return sample{Values: map[string]float64{}} }

func (s *sample) set(key string, value float64) {
	if !math.IsNaN(value) && !math.IsInf(value, 0) {
		s.Values[key] = value
	}
}

func (s *sample) note(text string) {
	if text != "" && !slices.Contains(s.Notes, text) {
		s.Notes = append(s.Notes, text)
	}
}

// A table is a scenario with what was measured.
type table struct {
	Name    string   `json:"name"`
	Title   string   `json:"title"`
	Main    string   `json:"main"`
	Columns []column `json:"columns"`
	Rows    []*row   `json:"rows"`
}

// A row is one system, with the medians of its samples.
type row struct {
	System     string             `json:"system"`
	Medians    map[string]float64 `json:"medians"`
	Min        float64            `json:"min"` // of the main column
	Max        float64            `json:"max"`
	Violations int64              `json:"violations"`
	Samples    []sample           `json:"samples"` // one a repetition
}

// Keys of what is computed from the samples of two systems.
const (
	ratioKey  = "ratio"
	failedKey = "failed"
)

// scenarios returns all of them, in the order of the report.
func scenarios(s settings) []scenario {
	return slices.Concat(freeScenarios(s), contendedScenarios(s), holdScenarios(s), pairScenarios(s), stallScenarios(s))
}

// selected returns the scenarios with the given names; S2 stands for all that begin
// with "S2-". Without names it is all.
func selected(all []scenario, names []string) ([]scenario, error) {
	if len(names) == 0 {
		return all, nil
	}
	var chosen []scenario
	for _, name := range names {
		n := len(chosen)
		for _, s := range all {
			if s.name == name || strings.HasPrefix(s.name, name+"-") {
				chosen = append(chosen, s)
			}
		}
		if len(chosen) == n {
			return nil, fmt.Errorf("no scenario %q", name)
		}
	}
	return chosen, nil
}

// contestants returns who takes part: the systems asked for, or those of the scenario.
func (s scenario) contestants(names []string) ([]system, error) {
	explicit := len(names) > 0
	if !explicit {
		names = s.systems
	}
	if names == nil {
		for _, sys := range systems() {
			if sys.name != "rueidislock-loop" { // S8 is what it is for
				names = append(names, sys.name)
			}
		}
	}
	var chosen []system
	for _, name := range names {
		sys, err := systemNamed(name)
		if err != nil {
			return nil, err
		}
		if s.capable == nil || s.capable(sys) {
			chosen = append(chosen, sys)
		}
	}
	return chosen, nil
}

// run measures all systems in turns, each repetition in another order, so that a
// disturbance of the machine strikes all of them.
func (b *bench) run(ctx context.Context, s scenario, names []string) (*table, error) {
	contestants, err := s.contestants(names)
	if err != nil {
		return nil, err
	}
	t := &table{Name: s.name, Title: s.title, Main: s.main, Columns: s.columns}
	for _, sys := range contestants {
		t.Rows = append(t.Rows, &row{System: sys.name})
	}
	for rep := range s.reps {
		for i := range contestants {
			i = (i + rep*(len(contestants)/2+1)) % len(contestants)
			sys := contestants[i]
			start := time.Now()
			got := b.measure(ctx, s, sys)
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			t.Rows[i].Samples = append(t.Rows[i].Samples, got)
			fmt.Fprintf(b.progress, "%-8s %d/%d %-25s %s  %s\n", s.name, rep+1, s.reps, sys.name,
				time.Since(start).Round(10*time.Millisecond), b.summary(s, got))
		}
	}
	if s.ratio {
		t.addRatios(contestants)
	}
	t.sum()
	return t, nil
}

// summary is what the line of progress says of a cell.
func (b *bench) summary(s scenario, got sample) string {
	if got.Error != "" {
		return "failed: " + got.Error
	}
	i := slices.IndexFunc(s.columns, func(c column) bool { return c.Key == s.main })
	text := figure(got.Values, s.columns[i]) + " " + s.columns[i].Title
	if got.Violations > 0 {
		text += fmt.Sprintf(", %d violations", got.Violations)
	}
	return text
}

// measure runs one cell, and finds out how much other programs have run meanwhile.
func (b *bench) measure(ctx context.Context, s scenario, sys system) sample {
	load := newLoad()
	got, err := s.cell(ctx, b, sys)
	if got.Values == nil {
		got = newSample()
	}
	if err != nil {
		got.Error = err.Error()
	}
	got.Others = load.others()
	return got
}

// addRatios compares each sample with that of the raw loop in the same repetition.
func (t *table) addRatios(contestants []system) {
	for i, r := range t.Rows {
		raw := t.row(contestants[i].raw)
		if raw == nil {
			continue
		}
		for rep, s := range r.Samples {
			value, ok := s.Values[t.Main]
			if bound, known := raw.Samples[rep].Values[t.Main]; ok && known {
				s.set(ratioKey, value/bound)
			}
		}
	}
}

// sum fills in medians and the rest of what samples have in common.
func (t *table) sum() {
	for _, r := range t.Rows {
		values := map[string][]float64{}
		for _, s := range r.Samples {
			r.Violations += s.Violations
			for key, value := range s.Values {
				values[key] = append(values[key], value)
			}
		}
		r.Medians = map[string]float64{}
		for key, all := range values {
			r.Medians[key] = median(all)
		}
		if all := values[t.Main]; len(all) > 0 {
			r.Min, r.Max = slices.Min(all), slices.Max(all)
		}
	}
}

// row returns the row of a system, or nil.
func (t *table) row(name string) *row {
	if t == nil {
		return nil
	}
	for _, r := range t.Rows {
		if r.System == name {
			return r
		}
	}
	return nil
}
