package bench

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// What is measured, as people see it.
const (
	rowRoundTrip = "round trip"
	rowFreeLock  = "free lock"
	rowHandOff   = "hand-off"
	rowRenewals  = "renewals"
)

// Print writes the result for people: a table, and what each row of it means.
func (r *Result) Print(w io.Writer) error {
	var b strings.Builder
	version := ""
	if r.RedisVersion != nil {
		version = " " + *r.RedisVersion
	}
	fmt.Fprintf(&b, "Redis%s at %s, measured for %.0f s\n\n", version, r.Redis, r.Seconds)
	r.printTable(&b)
	b.WriteString("\n")
	for _, row := range r.rows() {
		if row.timing != nil {
			fmt.Fprintf(&b, "%-14s  %s\n", row.label, row.meaning)
		}
	}
	r.printRenewals(&b)
	r.printServer(&b)
	for _, note := range r.Notes {
		fmt.Fprintf(&b, "%-14s  %s\n", "note", note)
	}
	if !r.Complete {
		fmt.Fprintf(&b, "%-14s  the run did not end, and this is what there is: %s\n", "NOT COMPLETE", r.Error)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Result) printTable(b *strings.Builder) {
	names := len("a batch of 128 renewals")
	for _, row := range r.rows() {
		names = max(names, len(row.name))
	}
	line := func(columns ...any) {
		text := fmt.Sprintf("%-*s  %8s  %8s  %8s  %9s  %s", append([]any{names}, columns...)...)
		b.WriteString(strings.TrimRight(text, " ") + "\n")
	}
	line("", "p50", "p99", "most", "a second", "")
	for _, row := range r.rows() {
		if t := row.timing; t != nil {
			line(row.name, duration(t.P50), duration(t.P99), duration(t.Max), grouped(t.PerSecond), part(t.Complete))
		}
	}
	if n := r.Renewals; n != nil {
		batch := "a batch of " + count(int(math.Round(n.PerBatch)), "renewal", "renewals")
		line(batch, duration(n.BatchP50), duration(n.BatchP99), "", "", part(n.Complete))
	}
}

// A row is one line of the table, with what it means.
type row struct {
	name, label string
	timing      *Timing
	meaning     string
}

func (r *Result) rows() []row {
	rows := []row{
		{name: rowRoundTrip, label: rowRoundTrip, timing: r.RoundTrip},
		{name: rowFreeLock + ", 1 goroutine", label: rowFreeLock, timing: r.FreeLock},
		{name: rowFreeLock + ", " + count(r.Goroutines, "goroutine", "goroutines"), label: "many at a time", timing: r.FreeLockParallel},
		{name: rowHandOff + ", " + strconv.Itoa(handOffClients) + " clients", label: rowHandOff, timing: r.HandOff},
		{name: rowHandOff + " in one process", label: "in one process", timing: r.HandOffInProcess},
	}
	for i := range rows {
		if t := rows[i].timing; t != nil {
			rows[i].meaning = meanings[i](t)
		}
	}
	return rows
}

// meanings say in a sentence what each row is about.
var meanings = []func(t *Timing) string{
	func(t *Timing) string {
		return fmt.Sprintf("about %s to Redis and back, with the smallest script: everything else is made of these", about(t.P50))
	},
	func(t *Timing) string {
		return fmt.Sprintf("about %s to take a lock that is free and give it back, in %s requests: %s a second for one goroutine",
			about(t.P50), number(t.Requests), roughly(t.PerSecond))
	},
	func(t *Timing) string {
		return fmt.Sprintf("about %s a second by %s over %s, each with a lock of its own; about %s each",
			roughly(t.PerSecond), count(t.Goroutines, "goroutine", "goroutines"), count(t.Connections, "connection", "connections"), about(t.P50))
	},
	func(t *Timing) string {
		return fmt.Sprintf("about %s from one client's release until the next client has the lock: %s hand-offs a second on one key, among %d clients with connections of their own",
			about(t.P50), roughly(t.PerSecond), t.Clients)
	},
	func(t *Timing) string {
		return fmt.Sprintf("about %s from one goroutine's release until the next goroutine has the lock: %s a second on one key, among %s of one client",
			about(t.P50), roughly(t.PerSecond), grouped(float64(t.Goroutines)))
	},
}

func (r *Result) printRenewals(b *strings.Builder) {
	n := r.Renewals
	if n == nil {
		return
	}
	fmt.Fprintf(b, "%-14s  about %s leases can be renewed a second over one connection", rowRenewals, roughly(n.Connection))
	if n.ProcessCPU != nil && n.Core != nil {
		fmt.Fprintf(b, ", and %s with one core of this process (%s us each)", roughly(*n.Core), number(*n.ProcessCPU))
	}
	fmt.Fprintf(b, "; %s held, %s lost\n", count(n.Leases, "lease was", "leases were"), grouped(float64(n.Lost)))
	if n.LeasesCore != nil {
		fmt.Fprintf(b, "%-14s  about %s leases per core at TTL 10 s, where each is renewed every 3.3 s; about %s over one connection\n",
			"leases", roughly(*n.LeasesCore), roughly(n.LeasesConnection))
	}
}

func (r *Result) printServer(b *strings.Builder) {
	var parts []string
	if t := r.FreeLockParallel; t != nil && t.ServerCPU != nil {
		parts = append(parts, fmt.Sprintf("%s us for a lock taken and given back", number(*t.ServerCPU)))
	}
	if t := r.HandOff; t != nil && t.ServerCPU != nil {
		parts = append(parts, fmt.Sprintf("%s us for a hand-off", number(*t.ServerCPU)))
	}
	if n := r.Renewals; n != nil && n.LeasesServer != nil {
		text := fmt.Sprintf("%s us for a renewal, so that its core carries about %s leases at TTL 10 s", number(*n.ServerCPU), roughly(*n.LeasesServer))
		if n.ServerScripts != nil {
			text += fmt.Sprintf(" (%s us of it in the script)", number(*n.ServerScripts))
		}
		parts = append(parts, text)
	}
	if len(parts) > 0 {
		fmt.Fprintf(b, "%-14s  its CPU: %s\n", "Redis", strings.Join(parts, ", "))
	}
}

// part marks what was ended early.
func part(complete bool) string {
	if complete {
		return ""
	}
	return "ended early"
}

// duration shows microseconds.
func duration(us float64) string {
	switch {
	case us < 9.95:
		return fmt.Sprintf("%.1f us", us)
	case us < 999.5:
		return fmt.Sprintf("%.0f us", us)
	case us < 9950:
		return fmt.Sprintf("%.1f ms", us/1000)
	case us < 999500:
		return fmt.Sprintf("%.0f ms", us/1000)
	}
	return fmt.Sprintf("%.1f s", us/1e6)
}

// about shows microseconds with two digits.
func about(us float64) string { return duration(significant(us, 2)) }

// number shows a small number with two digits.
func number(n float64) string { return strconv.FormatFloat(significant(n, 2), 'f', -1, 64) }

// roughly shows a number with two digits, and the thousands of a large one apart.
func roughly(n float64) string { return grouped(significant(n, 2)) }

// significant rounds a number to some digits.
func significant(n float64, digits int) float64 {
	if n == 0 {
		return 0
	}
	scale := math.Pow(10, float64(digits-1)-math.Floor(math.Log10(math.Abs(n))))
	return math.Round(n*scale) / scale
}

// grouped shows a number without decimals, its digits in threes.
func grouped(n float64) string {
	text := strconv.FormatFloat(math.Round(n), 'f', 0, 64)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
