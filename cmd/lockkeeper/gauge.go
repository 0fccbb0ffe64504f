package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

const (
	drawEvery = 100 * time.Millisecond // on a terminal
	lineEvery = 5 * time.Second        // elsewhere

	barWidth = 16
)

// A gauge shows how far long work is: a bar on a terminal, a line from time to time
// elsewhere, nothing when it is quiet. It is for one goroutine.
type gauge struct {
	screen *screen // nil is quiet
	what   string
	unit   string // of what is counted
	began  time.Time
	shown  time.Time
	now    func() time.Time
}

// newGauge shows the progress of something on standard error.
func (a *app) newGauge(what, unit string, quiet bool) *gauge {
	g := &gauge{what: what, unit: unit, began: time.Now(), now: time.Now}
	if !quiet {
		g.screen = a.newScreen(a.stderr)
	}
	g.shown = g.began
	return g
}

// report takes in how much is done, and what share of all that is. A share below zero is
// not known. note may be "".
func (g *gauge) report(done int, share float64, note string) {
	if g.screen == nil {
		return
	}
	now := g.now()
	every := lineEvery
	if g.screen.live {
		every = drawEvery
	}
	if now.Sub(g.shown) < every {
		return
	}
	g.shown = now
	line := g.line(done, share, note, now.Sub(g.began))
	if g.screen.live {
		g.screen.draw([]string{line})
		return
	}
	_, _ = io.WriteString(g.screen.w, line+"\n") // who does not listen misses it
}

func (g *gauge) line(done int, share float64, note string, took time.Duration) string {
	parts := []string{g.what}
	if share >= 0 {
		share = min(share, 1)
		full := int(share * barWidth)
		if g.screen.live {
			parts = append(parts, "["+strings.Repeat("#", full)+strings.Repeat(".", barWidth-full)+"]")
		}
		parts = append(parts, fmt.Sprintf("%3.0f%%", 100*share))
	}
	parts = append(parts, grouped(done)+" "+g.unit)
	if took > 0 {
		parts = append(parts, grouped(int(float64(done)/took.Seconds()))+"/s")
	}
	if share > 0 && share < 1 {
		parts = append(parts, short(time.Duration(float64(took)*(1-share)/share))+" left")
	}
	if note != "" {
		parts = append(parts, note)
	}
	return strings.Join(parts, "  ")
}

// end takes the bar away. What has come of the work is told by others.
func (g *gauge) end() {
	if g.screen != nil && g.screen.live {
		g.screen.erase()
	}
}

// grouped writes a number with commas between its thousands.
func grouped(n int) string {
	digits := strconv.Itoa(n)
	if n < 0 {
		return "-" + grouped(-n)
	}
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}
