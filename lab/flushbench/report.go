package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/sqlfence"
)

// A report collects cells and prints them as tables in Markdown.
type report struct {
	order  []place
	cells  map[place][]cell
	others []float64
}

type place struct {
	kind sqlfence.Dialect
	way  string
}

func (r *report) add(kind sqlfence.Dialect, way string, c cell) {
	at := place{kind, way}
	if r.cells == nil {
		r.cells = make(map[place][]cell)
	}
	if len(r.cells[at]) == 0 {
		r.order = append(r.order, at)
	}
	r.cells[at] = append(r.cells[at], c)
	r.others = append(r.others, c.others)
}

// median returns the middle of what f says of the cells, with the least and the most.
func median(cells []cell, f func(cell) float64) (middle, least, most float64) {
	all := make([]float64, len(cells))
	for i, c := range cells {
		all[i] = f(c)
	}
	slices.Sort(all)
	return all[len(all)/2], all[0], all[len(all)-1]
}

// speeds prints the table of the databases.
func (r *report) speeds(w io.Writer) {
	fmt.Fprintln(w, "| Database | Way | rows/s | min–max | client CPU µs/row | Redis CPU µs/row | database CPU µs/row | worker's peak MiB |")
	fmt.Fprintln(w, "|---|---|---:|---:|---:|---:|---:|---:|")
	for _, at := range r.order {
		cells := r.cells[at]
		rate, least, most := median(cells, cell.perSecond)
		of := func(f func(cell) float64) float64 { middle, _, _ := median(cells, f); return middle }
		client := of(func(c cell) float64 { return c.perRow(c.CPU) })
		redis := of(func(c cell) float64 { return c.perRow(c.redis) })
		database := of(func(c cell) float64 { return c.perRow(c.database) })
		_, _, peak := median(cells, func(c cell) float64 { return float64(c.Peak) / (1 << 20) })
		memory := fmt.Sprintf("%.0f", peak)
		if !strings.HasPrefix(at.way, doFlush) {
			memory = "–" // it has the rows in memory, to begin with
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s–%s | %.1f | %.1f | %.1f | %s |\n", at.kind, at.way, thousands(rate),
			thousands(least), thousands(most), client, redis, database, memory)
	}
}

// writes prints the table of the producers.
func (r *report) writes(w io.Writer) {
	fmt.Fprintln(w, "| Way | writes/s | min–max | client CPU µs/write | Redis CPU µs/write |")
	fmt.Fprintln(w, "|---|---:|---:|---:|---:|")
	for _, at := range r.order {
		cells := r.cells[at]
		rate, least, most := median(cells, cell.perSecond)
		client, _, _ := median(cells, func(c cell) float64 { return c.perRow(c.CPU) })
		redis, _, _ := median(cells, func(c cell) float64 { return c.perRow(c.redis) })
		fmt.Fprintf(w, "| %s | %s | %s–%s | %.1f | %.1f |\n", at.way, thousands(rate), thousands(least), thousands(most), client, redis)
	}
}

// busy says how much other programs were in the way.
func (r *report) busy() string {
	if len(r.others) == 0 {
		return ""
	}
	slices.Sort(r.others)
	share := func(f float64) float64 { return 100 * max(0, f) }
	return fmt.Sprintf("Other programs used %.0f %% of the cores in the median cell, %.0f %% in the worst.",
		share(r.others[len(r.others)/2]), share(r.others[len(r.others)-1]))
}

// thousands writes a whole number with commas.
func thousands(n float64) string {
	digits := fmt.Sprintf("%.0f", n)
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}
