package main

import (
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/lab/oracle"
)

// A violation is a promise that was broken.
type violation struct {
	oracle string
	name   string // of the lock; "" is none
	at     int64
	text   string
}

// A promise is one that a history may break.
type promise struct {
	name string
	// inModel says that the promise holds only where Redis keeps its memory.
	inModel bool
	broken  func(h *history) []violation
}

var promises = []promise{
	{"O1 no two holders", true, overlaps},
	{"O2 no lost update", false, lostUpdates},
	{"O3 fences grow", true, fences},
	{"O4 leases in an order", true, leases},
	{"O7 no loss before its time", true, earlyLosses},
	{"O7 no refusal for nothing", false, refusals},
	{"O8 no step without belief", true, discipline},
	{"O8 no deadline without a proof", true, deadlines},
	{"nobody is stranded", false, stranded},
	{"nobody is overtaken for ever", false, overtaken},
	{"a cancelled wait returns", false, lateReturns},
	{"a good end", false, ends},
	{"nothing odd", false, oddities},
}

// mostViolations is how many of a kind are told: what is wrong once is wrong often.
const mostViolations = 5

// judge looks for all that is broken.
func (h *history) judge() []violation {
	var all []violation
	for _, p := range promises {
		if p.inModel && h.Lossy {
			continue
		}
		found := p.broken(h)
		for i := range found {
			found[i].oracle = p.name
		}
		all = append(all, found[:min(len(found), mostViolations)]...)
	}
	return all
}

// clock says a time to people.
func (h *history) clock(at int64) string {
	return fmt.Sprintf("%.4f s", time.Duration(at-h.zero).Seconds())
}

// told turns what package oracle has found into violations of this one. It counts time
// from the beginning of the round.
func (h *history) told(found []oracle.Violation) (violations []violation) {
	for _, v := range found {
		violations = append(violations, violation{name: v.Lock, at: int64(v.At) + h.zero, text: v.Text})
	}
	return violations
}

func overlaps(h *history) []violation { return h.told(oracle.Overlaps(h.seen().holds)) }

func fences(h *history) []violation { return h.told(oracle.Fences(h.seen().holds)) }

func earlyLosses(h *history) []violation { return h.told(oracle.Losses(h.seen().holds)) }

func discipline(h *history) []violation {
	return h.told(oracle.Discipline(h.seen().holds, h.seen().steps))
}

// deadlines finds leases that say that they may be believed for longer than any answer
// by then has proven. Nobody has to believe for so long to show that.
func deadlines(h *history) (found []violation) {
	j := h.seen()
	for name, spans := range h.holds {
		for _, s := range spans {
			for _, d := range s.promises {
				proven := oracle.Time(0)
				for _, p := range j.proofs[onServer(s.owner)] {
					if p.Learned <= h.since(d.at) {
						proven = max(proven, p.Until)
					}
				}
				if over := h.since(d.until) - proven; over > 0 {
					found = append(found, violation{name: name, at: d.at, text: fmt.Sprintf(
						"%s call %d has %s, and may believe so until %s, which is %s longer than any answer has proven",
						s.who, s.id, name, h.clock(d.until), time.Duration(over))})
				}
			}
		}
	}
	return found
}

func leases(h *history) []violation { return h.told(h.seen().leases().Violations) }

// refusals finds calls that the server has refused although they had all rights.
func refusals(h *history) []violation { return h.told(oracle.Answers(h.seen().answers)) }

// oddities finds what the workers themselves have found.
func oddities(h *history) (found []violation) {
	for _, e := range h.events {
		if e.What == odd {
			found = append(found, violation{name: e.Name, at: e.At, text: fmt.Sprintf("%s call %d: %s", e.Who, e.Call, e.Text)})
		}
	}
	return found
}

// ends finds workers that did not end well, and keys that nobody needs any more.
func ends(h *history) (found []violation) {
	state := make(map[string]what)
	for _, e := range h.events {
		switch {
		case e.What == starts, e.What == killed, e.What == bye:
			state[e.Who] = e.What
		case e.What == leak:
			found = append(found, violation{at: e.At, text: e.Who + " has left goroutines behind: " + e.Text})
		case e.What == gone && e.Text != "":
			found = append(found, violation{at: e.At, text: e.Who + " " + e.Text})
		case e.What == gone && state[e.Who] == starts:
			found = append(found, violation{at: e.At, text: e.Who + " has ended without a word"})
		case e.What == keys && e.Text != "":
			found = append(found, violation{at: e.At, text: "keys are left on the server that should not be: " + e.Text})
		}
	}
	for _, call := range h.calls {
		if call.outcome == "" && state[call.who] == bye {
			found = append(found, violation{name: call.name, at: call.to, text: fmt.Sprintf("%s call %d never returned", call.who, call.id)})
		}
	}
	return found
}

// lostUpdates finds additions to a counter that were overwritten, or reported and not
// there.
func lostUpdates(h *history) (found []violation) {
	found = h.told(oracle.Updates(h.seen().writes, h.counters))
	for i := range found {
		found[i].at = h.writtenAt(found[i].name)
	}
	there := make(map[string]int64)
	for _, e := range h.entries {
		there[e.Who] = e.Value
	}
	for _, e := range h.events {
		if e.What == wrote && there[e.Text] != e.Value {
			found = append(found, violation{name: e.Name, at: e.At, text: fmt.Sprintf(
				"%s was told that it had made the counter of %s %d, which is not in the log", e.Text, e.Name, e.Value)})
		}
	}
	return found
}

// writtenAt returns when a worker wrote to a counter last.
func (h *history) writtenAt(name string) int64 {
	at := h.zero
	for _, e := range h.events {
		if e.What == wrote && e.Name == name {
			at = e.At
		}
	}
	return at
}
