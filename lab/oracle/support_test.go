package oracle

import (
	"strings"
	"testing"
	"time"
)

// ms is a time of a history that was made by hand.
func ms(n float64) Time { return Time(n * float64(time.Millisecond)) }

// A broken promise, as a self-test expects it.
type broken struct {
	lock string
	at   Time
	text string // a part of it, that a person needs
}

// expect compares what an oracle has found with what it should have.
func expect(t *testing.T, oracle string, found []Violation, want ...broken) {
	t.Helper()
	for i, v := range found {
		if i >= len(want) {
			t.Errorf("found what is right to be wrong: %+v", v)
			continue
		}
		w := want[i]
		if v.Oracle != oracle || v.Lock != w.lock || v.At != w.at {
			t.Errorf("found %s on %q at %v, want %s on %q at %v: %s", v.Oracle, v.Lock, v.At, oracle, w.lock, w.at, v.Text)
		}
		if !strings.Contains(v.Text, w.text) {
			t.Errorf("text is %q, want %q in it", v.Text, w.text)
		}
		t.Log(v.Text)
	}
	if len(found) < len(want) {
		t.Errorf("found %d of %d violations", len(found), len(want))
	}
}
