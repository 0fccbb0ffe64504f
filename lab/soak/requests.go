package main

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/lab/oracle"
)

// A request is one lock's part of a script that a worker has asked for.
type request struct {
	event        // asked
	to     int64 // when its answer was there; math.MaxInt64: never
	answer event
}

// A ledge is what is known of one owner, the one on the server: their requests, and the
// answers that carry belief.
type ledge struct {
	first  int64      // their first request
	who    string     // whose they are
	waits  []answer   // that another has the lock, by time
	asks   []*request // that made a place in the line, or may have
	gave   *request   // that gave up what they had, the last one so far
	fences map[uint64]bool
	proofs []oracle.Proof // by time
}

// An answer is that another has the lock, or that a message said so.
type answer struct {
	sent, at int64
	fence    uint64 // of the holder
	server   int64  // its time
}

// A record is what the workers and the server have said to each other.
type record struct {
	h        *history
	requests []*request
	heard    []event
	owners   map[string]*ledge
	ops      []oracle.Op
}

// readRecord makes operations and proofs of the events.
func (h *history) readRecord(events []event) *record {
	r := &record{h: h, owners: make(map[string]*ledge)}
	type key struct {
		who string
		id  int64
	}
	open := make(map[key]*request)
	for _, e := range events {
		switch e.What {
		case asked:
			q := &request{event: e, to: math.MaxInt64, answer: event{Text: dark}}
			open[key{e.Who, e.Request}] = q
			r.requests = append(r.requests, q)
		case answered:
			if q := open[key{e.Who, e.Request}]; q != nil {
				q.to, q.answer = e.At, e
			}
		case heard:
			r.heard = append(r.heard, e)
		}
	}
	slices.SortStableFunc(r.requests, func(a, b *request) int { return cmp.Compare(a.to, b.to) })
	slices.SortStableFunc(r.heard, func(a, b event) int { return cmp.Compare(a.At, b.At) })
	r.meet()
	for _, e := range r.heard { // before the answers that say the same again
		r.hear(e)
	}
	for _, q := range r.requests {
		r.take(q)
	}
	r.fill()
	for _, o := range r.owners {
		slices.SortStableFunc(o.proofs, func(a, b oracle.Proof) int { return cmp.Compare(a.Learned, b.Learned) })
	}
	return r
}

// meet finds the owners, and when each was told that another has the lock.
func (r *record) meet() {
	owner := func(q *request, name string) *ledge {
		o := r.owners[name]
		if o == nil {
			o = &ledge{first: q.At, who: q.Who, fences: make(map[uint64]bool)}
			r.owners[name] = o
		}
		o.first = min(o.first, q.At)
		return o
	}
	for _, q := range r.requests {
		o, told := owner(q, q.Owner), q.answer.Text
		if q.Next != "" {
			o, told = owner(q, q.Next), q.answer.Kind
		}
		if (told == no || told == dark) && (q.Text == toAcquire || q.Next != "") {
			o.asks = append(o.asks, q)
		}
		if told == no && (q.Text == toAcquire || q.Next != "") {
			o.waits = append(o.waits, answer{q.At, q.to, q.answer.Fence, q.answer.Value})
		}
	}
}

// take makes operations of a request.
func (r *record) take(q *request) {
	if q.answer.Text == nothing {
		return
	}
	switch q.Text {
	case toAcquire:
		r.acquire(q, q.Owner, q.answer.Text)
	case toRelease:
		r.op(q, oracle.Release, q.Owner, q.answer.Text)
		switch {
		case q.Next == "":
		case q.answer.Text == dark:
			r.acquire(q, q.Next, dark)
		case q.answer.Kind != "": // else there is no place
			r.acquire(q, q.Next, q.answer.Kind)
		}
	case toRenew:
		r.op(q, oracle.Renew, q.Owner, q.answer.Text)
		if q.answer.Text == yes && q.Kind != kindRepeat { // nobody has heard of that one
			r.prove(q.Owner, q.Name, q.At, q.to)
		}
	case toRaise:
		r.owners[q.Owner].fences[q.answer.Fence] = true
	}
}

func (r *record) acquire(q *request, owner, told string) {
	if told == nothing {
		return
	}
	r.op(q, oracle.Acquire, owner, told)
	if told != yes {
		return
	}
	r.prove(owner, q.Name, q.At, q.to)
	o := r.owners[owner]
	if o.fences[q.answer.Fence] {
		return
	}
	o.fences[q.answer.Fence] = true
	if before := o.waitedBefore(q.At); before > 0 { // it was handed over meanwhile, without a message that was heard
		r.granted(owner, q.Name, before, q.to)
	}
}

// waitedBefore returns when the last request before a time was sent that the server
// answered "held", or 0.
func (o *ledge) waitedBefore(at int64) (sent int64) {
	for _, a := range o.waits {
		if a.at <= at {
			sent = a.sent
		}
	}
	return sent
}

// op adds an operation that was asked for. What nobody has answered is over when the
// faults have been healed for a while: what was on its way is lost or done by then.
func (r *record) op(q *request, kind oracle.OpKind, owner, told string) {
	op := oracle.Op{
		Lock: q.Name, Who: q.Who, Owner: owner, Kind: kind, Call: oracle.Time(q.At), Return: oracle.Time(q.to), TTL: r.h.ttl(q.Name),
	}
	switch told {
	case no:
		op.Outcome = oracle.No
	case dark:
		op.Outcome, op.Return = oracle.Unknown, r.h.settled(q.At)
	}
	r.ops = append(r.ops, op)
}

// settled returns when nothing is on its way any more that was sent at a time.
func (h *history) settled(at int64) oracle.Time {
	for _, q := range h.quiets {
		if q.At >= at {
			return oracle.Time(q.Until)
		}
	}
	return oracle.Never
}

// prove adds a proof: an answer to what was sent at a time.
func (r *record) prove(owner, name string, sent, learned int64) {
	ttl := r.h.ttl(name)
	until := sent + int64(ttl-ttl/10) // the default margin; a hand-off to one of these locks has its TTL
	o := r.owners[owner]
	o.proofs = append(o.proofs, oracle.Proof{Learned: oracle.Time(learned), Until: oracle.Time(until)})
}

// hear takes in a hand-off. It came later than the last request was sent that the server
// answered "held": later than the first, if there is none. A message that is older than
// that answer proves nothing.
func (r *record) hear(e event) {
	o := r.owners[e.Owner]
	if o == nil || o.fences[e.Fence] {
		return // it is said twice, or of another prefix
	}
	o.fences[e.Fence] = true
	from, fresh := o.first, true
	for _, a := range o.waits {
		newer := e.Value > a.server && e.Fence > a.fence
		switch {
		case a.at > e.At && newer: // the client may have taken in the answer before the message
			r.prove(e.Owner, e.Name, a.sent, a.at)
		case a.at > e.At:
		case newer:
			from, fresh = a.sent, true
		default:
			fresh = false
		}
	}
	if fresh {
		r.prove(e.Owner, e.Name, from, e.At)
	} else {
		from = o.first
	}
	r.granted(e.Owner, e.Name, from, e.At)
}

func (r *record) granted(owner, name string, from, to int64) {
	r.ops = append(r.ops, oracle.Op{
		Lock: name, Who: r.owners[owner].who, Owner: owner, Kind: oracle.Acquire, Outcome: oracle.Yes,
		Call: oracle.Time(from), Return: oracle.Time(to), TTL: r.h.ttl(name),
	})
}

// fill adds the hand-offs that their owners have not heard of. They are known from
// others, who were told who has the lock, and from an owner who could give it up or renew
// it.
func (r *record) fill() {
	for _, q := range r.requests {
		if mine := r.owners[q.Owner]; q.answer.Text == yes && (q.Text == toRelease || q.Text == toRenew) {
			r.had(mine, q)
		}
		holder := r.owners[q.answer.Holder]
		if holder == nil || holder.fences[q.answer.Fence] {
			continue
		}
		holder.fences[q.answer.Fence] = true
		r.granted(q.answer.Holder, q.Name, min(holder.first, q.to), q.to)
	}
}

// had adds the hand-off behind what an owner could give up or renew, if nothing else is
// known of one. A question that ran after the owner had given up makes a place again,
// which can get the lock again, until the owner gives that up as well.
func (r *record) had(mine *ledge, q *request) {
	switch {
	case len(mine.fences) == 0:
		mine.fences[0] = true
		r.granted(q.Owner, q.Name, mine.first, q.to)
	case mine.gave != nil && mine.mayAskAfter(mine.gave.At, q.to):
		r.granted(q.Owner, q.Name, mine.gave.At, q.to)
	}
	if q.Text == toRelease {
		mine.gave = q
	}
}

// mayAskAfter reports whether a question of the owner may have run between two times.
func (o *ledge) mayAskAfter(from, to int64) bool {
	return slices.ContainsFunc(o.asks, func(q *request) bool { return q.to > from && q.At < to })
}

// proofsOf returns what carries belief in the holds of an owner, of which the first was
// seen at a time. What has carried to some time before that only was no reason to believe:
// a message that comes too late makes its client ask again.
func (r *record) proofsOf(owner string, first int64) (proofs []oracle.Proof) {
	o := r.owners[owner]
	if o == nil {
		return nil
	}
	for _, p := range o.proofs {
		if p.Until >= oracle.Time(first) {
			proofs = append(proofs, oracle.Proof{Learned: r.h.since(int64(p.Learned)), Until: r.h.since(int64(p.Until))})
		}
	}
	return proofs
}

// onServer returns the owner that the server knows: CLIENT.TOKEN, without the number of
// the turn.
func onServer(owner string) string {
	part := strings.SplitN(owner, ".", 3)
	return strings.Join(part[:min(len(part), 2)], ".")
}

// ttl returns the TTL of a lock.
func (h *history) ttl(name string) time.Duration {
	for _, lock := range h.Locks {
		if lock.Name == name {
			return lock.TTL
		}
	}
	return briefTTL
}
