package sim

import (
	"cmp"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/lab/oracle"
)

// passedOver is by how many later ones a place that lives and hears may be passed over.
const passedOver = 0

// ended takes in that belief in a turn is over. early says that the server has told so.
func (h *history) ended(t *turn, early bool) {
	hold := t.hold
	p := hold.p
	seen := oracle.Hold{
		Lock: h.w.name(hold.way.key), Who: p.name, Owner: hold.way.owner, Fence: t.first, From: t.from,
		To: max(t.from, min(h.w.now, p.world(hold.core.Lease.Until()))), Proofs: slices.Clip(hold.proofs),
	}
	if early && h.w.now == seen.To {
		seen.Early = h.w.now
	}
	h.holds = append(h.holds, seen)
}

// died takes in that a process is dead: it waits for nothing, and stands in no line.
func (h *history) died(p *process) {
	for i := range h.places {
		if o := &h.places[i]; o.Who == p.name {
			o.Gone = min(o.Gone, h.w.now)
		}
	}
	for i := range h.waits {
		if o := &h.waits[i]; o.Who == p.name {
			o.To = min(o.To, h.w.now)
		}
	}
}

// says takes in what a call is told.
func (h *history) says(x *call, said string, allowed []string) {
	p := x.caller.p
	h.answers = append(h.answers, oracle.Answer{Lock: h.w.name(x.key), Who: p.name, At: h.w.now, Said: said, Allowed: allowed})
}

// freed takes in that a turn is over, and taken that the next one has begun.
func (h *history) freed(key int) {
	h.idle[key] = oracle.Never
	for _, p := range h.w.procs {
		if ln := p.lines[key]; ln != nil && len(ln.waiting) > 0 && h.w.now-ln.waiting[0].came > Time(10*ms) {
			h.idle[key] = h.w.now
		}
	}
}

func (h *history) taken(key int) {
	if h.idle[key] < h.w.now {
		idle := time.Duration(h.w.now - h.idle[key])
		h.slowest = max(h.slowest, idle)
		if h.w.calm && idle > 5*ms {
			h.w.wrong(h.w.name(key), "the lock was idle for %s though somebody waited", idle)
		}
	}
	h.idle[key] = oracle.Never
}

// within is how soon a wait that is still open is over once all is well: a dead holder's
// TTL, that of a hand-off to the dead, what is late, and the turns before it.
func (w *world) within() time.Duration {
	open := 0
	for _, o := range w.history.waits {
		if o.To > Time(w.Lasts) {
			open++
		}
	}
	turn := 4*w.Terms.TTL + w.Work + 20*w.Latency + 10*w.Storage
	return 4*w.Terms.TTL + 2*w.Late + w.server.back + 5*time.Second + time.Duration(open)*turn
}

// A verdict is what the oracles say about a world.
type verdict struct {
	violations []oracle.Violation // in their order
	broken     bool               // two believed to have a lock at a time
	checked    int
	undecided  int
}

// judge asks all oracles that have something to say about such a world.
func (w *world) judge() verdict { return w.judgeFor("") }

// judgeFor asks at least the oracle that somebody wants to hear; that of leases takes so
// long that it is left out if it is another.
func (w *world) judgeFor(wanted string) verdict {
	h := &w.history
	h.end()
	v := verdict{violations: h.wrong}
	overlaps := oracle.Overlaps(h.holds)
	v.broken = len(overlaps) > 0
	v.violations = append(v.violations, w.updates()...)
	if w.InModel || w.chaos.counts[ClockBack] == 0 {
		// A server that forgets and whose clock goes back makes an old message look new.
		v.violations = append(v.violations, oracle.Discipline(h.holds, h.steps)...)
	}
	if w.InModel {
		v.violations = append(v.violations, overlaps...)
		v.violations = append(v.violations, oracle.Fences(h.holds)...)
		v.violations = append(v.violations, oracle.Order(h.places, passedOver)...)
		v.violations = append(v.violations, oracle.Answers(h.answers)...)
		v.violations = append(v.violations, oracle.Losses(h.holds)...)
		v.violations = append(v.violations, oracle.Liveness(h.waits, Time(w.Lasts), w.within(), w.now)...)
		if wanted == "" || wanted == "O4" {
			w.leases(&v)
		}
	}
	slices.SortStableFunc(v.violations, func(a, b oracle.Violation) int { return cmp.Compare(a.At, b.At) })
	return v
}

// updates asks the oracle of updates. It knows no times: that of a violation is when the
// first write was made with which there is one.
func (w *world) updates() []oracle.Violation {
	h := &w.history
	found := oracle.Updates(h.writes, w.base.final())
	if len(found) == 0 {
		return nil
	}
	last := make(map[string]int64)
	for i, o := range h.writes {
		last[o.Resource] = o.Value
		if some := oracle.Updates(h.writes[:i+1], last); len(some) > 0 {
			found[0].At = h.written[i]
			break
		}
	}
	return found[:1]
}

// leases asks the oracle of leases, where that does not take longer than the world itself:
// not where the clock was set back, since a lease may end at any of many times then, nor
// where messages take long beside the TTL, so that everything overlaps. Where calls differ
// in their TTL, a lease may also be shorter than one before it. And a fuzzer soon finds what
// takes longest.
func (w *world) leases(v *verdict) {
	if w.TTLs || w.data != nil || w.server.back > 0 || w.Latency > w.Terms.TTL/12 {
		return
	}
	r := oracle.Leases(w.history.ops, 2*ms)
	v.violations = append(v.violations, r.Violations...)
	v.checked, v.undecided = r.Checked, r.Undecided
}
