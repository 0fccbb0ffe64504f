package oracle

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// A Verdict is what Leases has found, and how much it has looked at.
type Verdict struct {
	Violations []Violation
	Checked    int // histories of one lock each
	Ops        int
	Undecided  int // histories that it took too long to search
}

// Leases is O4: there is an order in which the operations on each lock can have happened
// on the server, each between its call and its return, such that every answer is right
// and every lease has ended after its TTL, or by slack sooner or later. Of each lock it
// tells the first answer that can't be.
//
// The end of each lease is an event of its own in that order. A lease counts from when
// its request ran, so its end lies between call + TTL - slack and return + TTL + slack,
// and the lock is free once all leases of its owner have ended: as on the server, no
// renewal shortens a life, and asking again lengthens it.
func Leases(ops []Op, slack time.Duration) Verdict {
	v := Verdict{Ops: len(ops)}
	list := sorted(ops, byLock)
	for from := 0; from < len(list); {
		to := from + 1
		for to < len(list) && list[to].Lock == list[from].Lock {
			to++
		}
		v.judge(list[from:to], slack)
		from = to
	}
	return v
}

func byLock(a, b *Op) int {
	if c := strings.Compare(a.Lock, b.Lock); c != 0 {
		return c
	}
	return cmp.Compare(a.Call, b.Call)
}

// judge judges the history of one lock.
func (v *Verdict) judge(ops []*Op, slack time.Duration) {
	v.Checked++
	wrong := func(op *Op, text string) {
		v.Violations = append(v.Violations, Violation{Oracle: "O4", Lock: op.Lock, At: op.Return, Text: text})
	}
	for _, op := range ops {
		if op.Return < op.Call || op.Outcome != Unknown && op.Return == Never {
			wrong(op, fmt.Sprintf("this is no history: %v", op))
			return
		}
	}
	switch check(ops, slack) {
	case porcupine.Illegal:
		culprit := firstWrong(ops, slack)
		wrong(culprit, blame(ops, culprit, slack))
	case porcupine.Unknown:
		v.Undecided++
	}
}

// String says who wanted what, when, and what the answer was.
func (op *Op) String() string {
	what := [...]string{Acquire: "acquires", Renew: "renews", Release: "releases"}[op.Kind]
	text := fmt.Sprintf("%s (owner %s) %s %s at %v, ", op.Who, op.Owner, what, op.Lock, op.Call)
	if op.Kind != Release {
		text += fmt.Sprintf("TTL %v, ", op.TTL)
	}
	switch {
	case op.Outcome == Yes:
		return text + "told yes at " + op.Return.String()
	case op.Outcome == No:
		return text + "told no at " + op.Return.String()
	case op.Return == Never:
		return text + "not told, may still run"
	}
	return text + "not told, may have run until " + op.Return.String()
}
