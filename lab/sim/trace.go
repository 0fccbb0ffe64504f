package sim

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"time"
)

// A tracer keeps what happened, for people.
type tracer struct {
	lines []note
	calls []callID
}

type note struct {
	at   Time
	who  string
	text string
}

// note writes a line of the trace. Callers ask w.trace first: most worlds have none.
func (w *world) note(who, format string, args ...any) {
	w.tracer.lines = append(w.tracer.lines, note{w.now, who, fmt.Sprintf(format, args...)})
}

// fence is how people see a fence: from the start of the world on.
func (w *world) fence(f uint64) string { return strconv.FormatInt(int64(f)-epochMicros, 10) }

// at is how people see a time.
func at(t Time) string {
	return fmt.Sprintf("%.3f ms", float64(t)/float64(time.Millisecond))
}

// hash is a number for all that the trace says, and for how the world ended.
func (w *world) hash() uint64 {
	h := fnv.New64a()
	for _, n := range w.tracer.lines {
		fmt.Fprintln(h, n.at, n.who, n.text)
	}
	fmt.Fprintln(h, w.now, w.events, len(w.history.ops), w.base.last)
	return h.Sum64()
}
