package main

import (
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// lines shows a status to people: first how the job is, and then the age of the oldest
// change that is not flushed.
func (s *jobStatus) lines(now time.Time) []string {
	lines := []string{s.States[0].line()}
	for _, state := range s.States[1:] {
		lines = append(lines, "also "+state.line())
	}
	oldest := "nothing waits"
	if s.Dirty > 0 {
		oldest = s.age()
	}
	lines = append(lines, "",
		"oldest  "+oldest,
		"job     "+s.Job,
		"dirty   "+count(s.Dirty, "key waits", "keys wait"))
	if s.Unaged > 0 {
		lines = append(lines, fmt.Sprintf("        %d that the application put into a set, how long ago is not known", s.Unaged))
	}
	if s.Waiting > 0 {
		lines = append(lines, fmt.Sprintf("        %d for rows that they refer to", s.Waiting))
	}
	for _, h := range s.Held {
		lines = append(lines, fmt.Sprintf("        %d of the table %s, which is or was paused; the oldest for %s", h.Keys, h.Table, short(ofSeconds(h.OldestSeconds))))
	}
	if r := s.Rates; r != nil {
		lines = append(lines, "rates   "+r.String())
	}
	lines = append(lines, "parked  "+count(s.Parked, "key can't be flushed", "keys can't be flushed"))
	if s.Refused > 0 {
		lines = append(lines, "refused "+count(s.Refused, "write that came too late", "writes that came too late"))
	}
	epoch := "none: nobody has worked yet"
	if s.Epoch > 0 {
		epoch = fmt.Sprint(s.Epoch)
	}
	lines = append(lines, "epoch   "+epoch, "active  "+s.Active.line(now))
	lines = append(lines, s.processLines(now)...)
	lines = append(lines, s.pauseLines()...)
	return append(lines, s.scanLines(now)...)
}

func (s *jobState) line() string {
	line := s.Name + ": " + s.Text
	if strings.HasPrefix(s.Text, "by ") {
		line = s.Name + " " + s.Text
	}
	if s.Do != "" {
		line += "; " + s.Do
	}
	return line
}

func (l *jobLeader) line(now time.Time) string {
	if l == nil {
		return "nobody"
	}
	line := l.Label
	if !l.Since.IsZero() {
		line += ", for " + short(max(0, now.Sub(l.Since)))
	}
	if l.LeaseSeconds < 0 {
		return line + ", without a TTL"
	}
	return line + fmt.Sprintf("; %s left unless renewed", short(ofSeconds(l.LeaseSeconds)))
}

func (s *jobStatus) processLines(now time.Time) []string {
	if len(s.Processes) == 0 {
		return nil
	}
	return tableLines(func(row func(cells ...string)) {
		row("PROCESS", "IS", "LAST PASS", "FLUSHED", "SAYS")
		for i := range s.Processes {
			p := &s.Processes[i]
			last := "-"
			if !p.LastPass.IsZero() {
				last = short(max(0, now.Sub(p.LastPass))) + " ago"
			}
			row(p.Label, p.what(), last, count(p.Total.Upserts+p.Total.Deletes, "row", "rows"), p.says())
		}
	})
}

// what says what a process is at.
func (p *jobProcess) what() string {
	switch {
	case p.Role == silent:
		return "silent for " + short(ofSeconds(p.SaidSeconds))
	case p.Role == active:
		return fmt.Sprintf("active, epoch %d", p.Epoch)
	case p.Role == former:
		return fmt.Sprintf("was active, epoch %d", p.Epoch)
	case !p.Ready && p.Trouble == "":
		return "starts"
	case p.Ready:
		return "stands by, ready"
	}
	return "stands by, NOT READY"
}

// says is what there is to say about a process.
func (p *jobProcess) says() string {
	var parts []string
	if p.ConfigDiffers {
		parts = append(parts, "other mappings than the file's")
	}
	if p.Refused > 0 {
		parts = append(parts, count(p.Refused, "write came too late", "writes came too late"))
	}
	if p.Total.Missing > 0 {
		parts = append(parts, count(p.Total.Missing, "changed key had gone, and its row was kept", "changed keys had gone, and their rows were kept"))
	}
	if p.Trouble != "" {
		parts = append(parts, plainLine(strings.TrimPrefix(p.Trouble, "flush: ")))
	}
	if parts == nil {
		return "-"
	}
	return strings.Join(parts, "; ")
}

func (s *jobStatus) pauseLines() []string {
	if len(s.Pauses) == 0 {
		return nil
	}
	return tableLines(func(row func(cells ...string)) {
		row("PAUSED", "SINCE", "BY", "REASON")
		for _, p := range s.Pauses {
			what, since, by := "the job", "-", plainLine(p.By)
			if p.Table != "" {
				what = "table " + p.Table
			}
			if !p.Since.IsZero() {
				since = p.Since.UTC().Format(time.RFC3339)
			}
			if p.Auto {
				by += ", by itself"
			}
			row(what, since, by, plainLine(p.Reason))
		}
	})
}

func (s *jobStatus) scanLines(now time.Time) []string {
	w := s.worker()
	if w == nil || len(w.Scans) == 0 {
		return nil
	}
	return tableLines(func(row func(cells ...string)) {
		row("SCAN OF", "ENDED", "KEYS", "CHANGED", "GONE", "DELETED", "SAYS")
		for _, scan := range w.Scans {
			says := "-"
			switch {
			case scan.Trouble != "":
				says = plainLine(scan.Trouble)
			case scan.Refused:
				says = "too many have gone: no row is deleted"
			}
			row(scan.Table, short(max(0, now.Sub(scan.At)))+" ago", strconv.Itoa(scan.Keys), strconv.Itoa(scan.Changed),
				strconv.Itoa(scan.Gone), strconv.Itoa(scan.Deleted), says)
		}
	})
}

// tableLines returns an empty line and the lines of a table.
func tableLines(fill func(row func(cells ...string))) []string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fill(func(cells ...string) { fmt.Fprintln(w, strings.Join(cells, "\t")) })
	_ = w.Flush() // a Builder takes everything
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return append([]string{""}, lines...)
}

// plainLine makes a text that others have written fit to print: on one line, without what
// a terminal obeys.
func plainLine(text string) string {
	return strings.Map(func(r rune) rune {
		if strconv.IsPrint(r) {
			return r
		}
		return ' '
	}, text)
}

// shownName shows the name of a key: as it is if that is plain, and otherwise quoted.
func shownName(name string) string {
	quoted := strconv.Quote(name)
	if quoted == `"`+name+`"` && !strings.Contains(name, " ") && name != "" {
		return name
	}
	return quoted
}

// short shows a time with as much as matters.
func short(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return strconv.FormatFloat(d.Round(100*time.Millisecond).Seconds(), 'f', 1, 64) + "s"
	case d < 48*time.Hour:
		return d.Round(time.Second).String()
	}
	hours := int(d.Round(time.Hour).Hours())
	return fmt.Sprintf("%dd%dh", hours/24, hours%24)
}

func ofSeconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
