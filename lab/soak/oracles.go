package main

import (
	"fmt"
	"time"
)

// A violation is a promise that was broken.
type violation struct {
	oracle string
	name   string // of the lock; "" is none
	at     int64
	text   string
}

// An oracle looks for violations of one promise in a history.
type oracle struct {
	name string
	// inModel says that the promise holds only where Redis keeps its memory.
	inModel bool
	judge   func(h *history) []violation
}

var oracles = []oracle{
	{"no two holders", true, overlaps},
	{"fences grow", true, fences},
	{"no loss before its time", true, earlyLosses},
	{"no lost update", false, lostUpdates},
	{"nobody is stranded", false, stranded},
	{"nobody is overtaken for ever", false, overtaken},
	{"a cancelled wait returns", false, lateReturns},
	{"a good end", false, ends},
	{"nothing odd", false, oddities},
}

// mostViolations is how many of an oracle are told: what is wrong once is wrong often.
const mostViolations = 5

// judge asks all oracles.
func (h *history) judge() []violation {
	var all []violation
	for _, o := range oracles {
		if o.inModel && h.Lossy {
			continue
		}
		found := o.judge(h)
		for i := range found {
			found[i].oracle = o.name
		}
		all = append(all, found[:min(len(found), mostViolations)]...)
	}
	return all
}

// overlaps finds two processes, or two calls of one, that believed in a hold of one
// name at the same time.
func overlaps(h *history) (found []violation) {
	for name, spans := range h.holds {
		var last *span // the one that ends last of those before
		for _, s := range spans {
			if last != nil && s.from < last.to {
				found = append(found, violation{name: name, at: s.from, text: fmt.Sprintf(
					"%s call %d (fence %d) has %s from %s on, while %s call %d (fence %d) has had it from %s to %s: both for %s",
					s.who, s.id, s.fence, name, h.clock(s.from), last.who, last.id, last.fence, h.clock(last.from), h.clock(last.to),
					time.Duration(min(s.to, last.to)-s.from))})
			}
			if last == nil || s.to > last.to {
				last = s
			}
		}
	}
	return found
}

// clock says a time to people.
func (h *history) clock(at int64) string {
	return fmt.Sprintf("%.4f s", time.Duration(at-h.zero).Seconds())
}

// fences finds holds whose fence is not above those of all earlier ones.
func fences(h *history) (found []violation) {
	for name, spans := range h.holds {
		var top *span
		for _, s := range spans {
			if top != nil && s.fence <= top.fence {
				found = append(found, violation{name: name, at: s.from, text: fmt.Sprintf(
					"%s call %d has %s with fence %d, after %s call %d had it with %d",
					s.who, s.id, name, s.fence, top.who, top.id, top.fence)})
			}
			if top == nil || s.fence > top.fence {
				top = s
			}
		}
	}
	return found
}

// earlyLosses finds leases that were lost before their deadline: the server said that
// the key was gone, or another's, when it should have been there.
func earlyLosses(h *history) (found []violation) {
	for name, spans := range h.holds {
		for _, s := range spans {
			if s.early > 0 {
				found = append(found, violation{name: name, at: s.early, text: fmt.Sprintf(
					"%s call %d has lost %s at %s, %s before its deadline",
					s.who, s.id, name, h.clock(s.early), time.Duration(s.until-s.early))})
			}
		}
	}
	return found
}

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
	wrong := func(name, format string, args ...any) {
		found = append(found, violation{name: name, at: h.writtenAt(name), text: fmt.Sprintf(format, args...)})
	}
	value, epoch, there := make(map[string]int64), make(map[string]int64), make(map[string]int64)
	for _, e := range h.entries {
		if e.Base != value[e.Name] || e.Value != e.Base+1 {
			wrong(e.Name, "lost update: %s has made %d of %d, when the counter of %s was %d (fence %d, epoch %d)",
				e.Who, e.Value, e.Base, e.Name, value[e.Name], e.Fence, e.Epoch)
		}
		if e.Epoch < epoch[e.Name] {
			wrong(e.Name, "a write of an old claim: %s has written to %s with epoch %d after one with epoch %d", e.Who, e.Name, e.Epoch, epoch[e.Name])
		}
		value[e.Name], epoch[e.Name] = e.Value, e.Epoch
		there[e.Who] = e.Value
	}
	counts := make(map[string]int64)
	for _, e := range h.entries {
		counts[e.Name]++
	}
	for name, n := range h.counters {
		if n != counts[name] {
			wrong(name, "the counter of %s is %d after %d additions", name, n, counts[name])
		}
	}
	for _, e := range h.events {
		if e.What == wrote && there[e.Text] != e.Value {
			wrong(e.Name, "%s was told that it had made the counter of %s %d, which is not in the log", e.Text, e.Name, e.Value)
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
