package schedule

import (
	"fmt"
	"time"
)

// A When says at which instants a job runs: its ticks. Every process of a job must have
// the same, as a tick is known by its instant.
type When interface {
	// Next returns the first tick after an instant, or the zero time if there is none. It
	// depends on nothing but that instant, and blocks for no time to speak of.
	Next(after time.Time) time.Time

	// String says when that is, so that people can read it and processes can compare it.
	String() string
}

// leastEvery is the shortest interval of Every.
const leastEvery = 100 * time.Millisecond

type every time.Duration

// Every runs a job at all multiples of d since 1970-01-01 00:00:00 UTC, whenever its
// processes were started: every hour is at the full hour, UTC. d is at least 100 ms, in
// whole milliseconds; New refuses another.
func Every(d time.Duration) When { return every(d) }

func (e every) Next(after time.Time) time.Time {
	ms := time.Duration(e).Milliseconds()
	if ms <= 0 {
		return time.Time{}
	}
	return time.UnixMilli((floorDiv(after.UnixMilli(), ms) + 1) * ms).UTC()
}

func (e every) String() string { return "every " + time.Duration(e).String() }

func (e every) check() error {
	d := time.Duration(e)
	switch {
	case d < leastEvery:
		return fmt.Errorf("every %s: it must be at least %s", d, leastEvery)
	case d%time.Millisecond != 0:
		return fmt.Errorf("every %s: ticks are in whole milliseconds", d)
	}
	return nil
}

// floorDiv rounds down, also below 0.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// latest returns the last tick after an instant that is not later than now, or the zero
// time. It does not walk through all ticks of a long time in which nothing ran.
func latest(w When, after, now time.Time) time.Time {
	from := after
	for back := time.Minute; now.Add(-back).After(after); back *= 2 {
		if first := w.Next(now.Add(-back)); !first.IsZero() && !first.After(now) {
			from = now.Add(-back)
			break
		}
	}
	var last time.Time
	for {
		next := w.Next(from)
		if next.IsZero() || next.After(now) || !next.After(from) { // the last is a When that does not keep its word
			return last
		}
		last, from = next, next
	}
}
