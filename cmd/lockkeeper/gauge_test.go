package main

import (
	"strings"
	"testing"
	"time"
)

// newTestGauge has a clock that the test turns.
func newTestGauge(live bool) (g *gauge, out *strings.Builder, pass func(time.Duration)) {
	out = &strings.Builder{}
	now := time.Unix(1000, 0)
	g = &gauge{
		screen: &screen{w: out, live: live, size: func() (int, int) { return 60, 3 }},
		what:   "resync", unit: "keys", began: now, shown: now,
		now: func() time.Time { return now },
	}
	return g, out, func(d time.Duration) { now = now.Add(d) }
}

func TestGaugeOnTerminal(t *testing.T) {
	g, out, pass := newTestGauge(true)
	g.report(1, 0.1, "")
	if out.Len() > 0 {
		t.Errorf("it has drawn at once: %q", out)
	}
	pass(time.Second)
	g.report(1500, 0.25, "player")
	g.report(1501, 0.26, "player") // too soon
	pass(time.Second)
	g.report(3000, 0.5, "player")
	g.end()
	want := "\r\x1b[Kresync  [####............]   25%  1,500 keys  1,500/s  3.0s\n\x1b[J" +
		"\x1b[1A\r\x1b[Kresync  [########........]   50%  3,000 keys  1,500/s  2.0s\n\x1b[J" +
		"\x1b[1A\x1b[J"
	if got := out.String(); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestGaugeElsewhere(t *testing.T) {
	g, out, pass := newTestGauge(false)
	for i := range 12 {
		pass(time.Second)
		g.report(1000*(i+1), float64(i+1)/20, "player")
	}
	g.end()
	want := "resync   25%  5,000 keys  1,000/s  15s left  player\nresync   50%  10,000 keys  1,000/s  10s left  player\n"
	if got := out.String(); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	quiet := &gauge{now: time.Now}
	quiet.report(1, 1, "")
	quiet.end()
}

func TestGaugeAtItsEnds(t *testing.T) {
	g, out, pass := newTestGauge(false)
	for _, share := range []float64{-1, 0, 1, 1.5} {
		pass(lineEvery)
		g.report(10, share, "")
	}
	want := "resync  10 keys  2/s\nresync    0%  10 keys  1/s\nresync  100%  10 keys  0/s\nresync  100%  10 keys  0/s\n"
	if got := out.String(); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestScreenCuts(t *testing.T) {
	var out strings.Builder
	s := &screen{w: &out, live: true, size: func() (int, int) { return 30, 3 }}
	s.draw([]string{strings.Repeat("ü", 40), "b", "c"})
	s.draw([]string{"d"})
	want := "\r\x1b[K" + strings.Repeat("ü", 29) + "\n\r\x1b[Kb\n\x1b[J\x1b[2A\r\x1b[Kd\n\x1b[J"
	if got := out.String(); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestGrouped(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1234: "-1,234", -999: "-999"} {
		if got := grouped(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

func TestShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0.0s", 49 * time.Millisecond: "0.0s", 800 * time.Millisecond: "0.8s", 9940 * time.Millisecond: "9.9s",
		12600 * time.Millisecond: "13s", 3*time.Hour + 4*time.Minute + 5*time.Second: "3h4m5s", 76 * time.Hour: "3d4h",
	} {
		if got := short(d); got != want {
			t.Errorf("%s: %s, want %s", d, got, want)
		}
	}
}
