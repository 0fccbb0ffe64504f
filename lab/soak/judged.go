package main

import (
	"cmp"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/lab/oracle"
)

// A judged is a history as package oracle takes it. Its times count from the beginning of
// the round.
type judged struct {
	h       *history
	holds   []oracle.Hold
	steps   []oracle.Step
	writes  []oracle.Write
	ops     []oracle.Op
	answers []oracle.Answer
	proofs  map[string][]oracle.Proof // by the owner on the server

	verdict *oracle.Verdict // of leases, once it was asked for
}

// seen returns the history as package oracle takes it.
func (h *history) seen() *judged {
	if h.judged == nil {
		h.judged = h.see()
	}
	return h.judged
}

func (h *history) see() *judged {
	j := &judged{h: h}
	r := h.readRecord(h.events)
	first := make(map[string]int64) // hold of each owner
	for _, spans := range h.holds {
		for _, s := range spans {
			if at, seen := first[onServer(s.owner)]; !seen || s.from < at {
				first[onServer(s.owner)] = s.from
			}
		}
	}
	j.proofs = make(map[string][]oracle.Proof)
	for owner, at := range first {
		j.proofs[owner] = r.proofsOf(owner, at)
	}
	for name, spans := range h.holds {
		for _, s := range spans {
			j.hold(name, s, j.proofs[onServer(s.owner)])
		}
	}
	for _, e := range h.events {
		if e.What == step {
			j.steps = append(j.steps, oracle.Step{Lock: e.Name, Who: e.Who, Owner: onServer(e.Owner), Fence: e.Fence, At: h.since(e.At)})
		}
	}
	for _, op := range r.ops {
		op.Call, op.Return = h.since(int64(op.Call)), h.since(int64(op.Return))
		j.ops = append(j.ops, op)
	}
	for _, call := range h.calls {
		j.answer(call)
	}
	for _, e := range h.entries {
		j.writes = append(j.writes, oracle.Write{Resource: e.Name, Who: e.Who, Fence: e.Fence, Epoch: e.Epoch, Base: e.Base, Value: e.Value})
	}
	return j
}

// since returns a time from the beginning of the round on.
func (h *history) since(at int64) oracle.Time {
	if oracle.Time(at) == oracle.Never {
		return oracle.Never
	}
	return oracle.Time(at - h.zero)
}

// hold adds a hold, with the steps that its beginning and its end are: at both the lease
// was said to be valid.
func (j *judged) hold(name string, s *span, proofs []oracle.Proof) {
	hold := oracle.Hold{
		Lock: name, Who: s.who, Owner: onServer(s.owner), Fence: s.fence,
		From: j.h.since(s.from), To: j.h.since(s.to), Proofs: proofs,
	}
	if s.early > 0 {
		hold.Early = j.h.since(s.early)
	}
	j.holds = append(j.holds, hold)
	at := []oracle.Time{hold.From}
	if s.end == free {
		at = append(at, hold.To)
	}
	for _, t := range at {
		j.steps = append(j.steps, oracle.Step{Lock: name, Who: s.who, Owner: hold.Owner, Fence: s.fence, At: t})
	}
}

// refusedFor is for how long after the fault a call may hear of it: from a connection that
// was being made, over a slow network.
const refusedFor = time.Second

// answer adds a refusal. It is right only where rights were taken away.
func (j *judged) answer(call *attempt) {
	if call.outcome != failed || call.refusal == "" {
		return
	}
	a := oracle.Answer{Lock: call.name, Who: call.who, At: j.h.since(call.to), Said: call.refusal}
	for _, f := range j.h.faults {
		if f.At <= call.to && call.from <= f.Until+int64(refusedFor) && slices.Contains(rightsFaults, f.Kind) {
			a.Allowed = refusalCodes
		}
	}
	j.answers = append(j.answers, a)
}

// expirySlack is how much sooner or later than its TTL a key may be seen to end: the
// server counts in milliseconds, and looks at its clock once for a script.
const expirySlack = 5 * time.Millisecond

// leases judges what the server has answered. Of a lock whose history the server's clock
// goes back in, leases may live longer by that.
func (j *judged) leases() *oracle.Verdict {
	if j.verdict != nil {
		return j.verdict
	}
	j.verdict = &oracle.Verdict{}
	byLock := func(a, b oracle.Op) int { return cmp.Compare(a.Lock, b.Lock) }
	slices.SortStableFunc(j.ops, byLock)
	for from := 0; from < len(j.ops); {
		to, begin, end := from, j.ops[from].Call, j.ops[from].Call
		for ; to < len(j.ops) && j.ops[to].Lock == j.ops[from].Lock; to++ {
			begin, end = min(begin, j.ops[to].Call), max(end, j.ops[to].Call)
		}
		v := oracle.Leases(j.ops[from:to], expirySlack+j.h.setBack(begin, end))
		j.verdict.Violations = append(j.verdict.Violations, v.Violations...)
		j.verdict.Checked += v.Checked
		j.verdict.Ops += v.Ops
		j.verdict.Undecided += v.Undecided
		from = to
	}
	return j.verdict
}

// setBack returns by how much the server's clock has gone back in a time.
func (h *history) setBack(from, to oracle.Time) (by time.Duration) {
	for _, e := range h.backs {
		if at := h.since(e.At); at >= from && at <= to {
			by += time.Duration(e.N)
		}
	}
	return by
}
