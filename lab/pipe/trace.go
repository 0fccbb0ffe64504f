package pipe

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/lab/oracle"
)

// A note is one line of what happened.
type note struct {
	at              oracle.Time
	who, what, lock string
	text            string
}

// note writes down what happened; it is put into words only if something is wrong. w.mu
// must be held.
func (w *world) note(who, what, lock, text string) {
	w.log = append(w.log, note{w.now(), who, what, lock, text})
}

func clock(at oracle.Time) string {
	if at == oracle.Never {
		return "never"
	}
	return fmt.Sprintf("%.6f", time.Duration(at).Seconds()-1)
}

// mostNotes is how many notes before a violation are told.
const mostNotes = 60

// Tell says what happened to people: the violations, the faults, and what came before the
// first violation.
func (r Result) Tell(out io.Writer) {
	w := r.world
	fmt.Fprintf(out, "seed %d: %d clients with %d goroutines, %d locks, TTLs %v, latency %s, RESP%d, on rueidis: %v, server clock +%d/1000, lossy: %t\n",
		r.Seed, w.clients, w.workers, len(w.ttls), w.ttls, w.latency, w.proto, w.rueidis, w.drift, r.Lossy)
	fmt.Fprintln(out, "violations:")
	for i, v := range r.Violations {
		if i == 10 {
			fmt.Fprintf(out, "  and %d more\n", len(r.Violations)-10)
			break
		}
		fmt.Fprintf(out, "  %s  %s %s: %s\n", clock(v.At), v.Oracle, v.Lock, v.Text)
	}
	fmt.Fprintln(out, "faults that were planned:")
	for _, f := range w.plan {
		fmt.Fprintf(out, "  %10.6f  %s\n", f.At.Seconds(), f)
	}
	fmt.Fprintln(out, "events before the first violation:")
	first := slices.MinFunc(r.Violations, func(a, b oracle.Violation) int { return int(a.At - b.At) })
	var lines []note
	for _, n := range w.log {
		if n.at <= first.At+oracle.Time(time.Millisecond) && (first.Lock == "" || n.lock == "" || strings.HasSuffix(n.lock, first.Lock)) {
			lines = append(lines, n)
		}
	}
	for _, n := range lines[max(0, len(lines)-mostNotes):] {
		fmt.Fprintf(out, "  %10s  %-7s %s %s %s\n", clock(n.at), n.who, n.what, n.lock, n.text)
	}
}
