package oracle

import (
	"slices"
	"time"
)

// A turn is one way of a client to the lock, with an owner of its own, and what the
// client does when it is there.
type turn struct {
	w     *world
	who   string
	owner string
	waits bool

	call    Time   // the first request
	open    []Time // when those requests were sent that nobody has answered
	refused Time   // when the server ran the last one that it refused
	sent    Time   // when that was sent, or the first
	left    bool   // the wait is over
	learned bool   // it has got the lock

	place *Place // in the line, on the server
	fence uint64
	given int // how often the server gave it the lock

	hold  Hold
	until Time // belief ends
	over  bool // the hold is
	claim int64
}

func (t *turn) op(kind OpKind, outcome Outcome, call, answered Time) {
	t.w.ops = append(t.w.ops, Op{Lock: t.w.lock, Who: t.who, Owner: t.owner, Kind: kind, Outcome: outcome, Call: call, Return: answered, TTL: ttl})
}

// ask asks for the lock, and does so again until there is an answer.
func (t *turn) ask() {
	w, sent := t.w, t.w.now
	t.open = append(t.open, sent)
	w.send(func() {
		granted, fence, ran := w.acquires(t), t.fence, w.now
		w.send(func() {
			t.open = slices.DeleteFunc(t.open, func(s Time) bool { return s == sent })
			switch {
			case granted:
				t.learns(fence, sent)
			case ran > t.refused:
				t.refused, t.sent = ran, sent
			}
		})
	})
	again := anAnswer
	if t.waits {
		again = 5*time.Millisecond + w.upTo(60*time.Millisecond)
	}
	w.after(again, func() {
		switch {
		case t.learned:
		case t.waits && w.now < t.call.add(patient-bound):
			t.ask()
		default:
			t.leaves()
		}
	})
}

// leaves ends the wait.
func (t *turn) leaves() {
	w := t.w
	w.leaves(t, Never)
	t.left = true
	t.ends(No)
	w.begins(t.who)
}

// ends writes down how the wait ended, and what the owner's requests may have done unseen.
func (t *turn) ends(outcome Outcome) {
	w := t.w
	if t.waits {
		w.waits = append(w.waits, Wait{Lock: w.lock, Who: t.who, From: t.call, To: w.now, Served: outcome == Yes})
	}
	unseen := t.given
	switch {
	case outcome == Yes:
		unseen--
		t.op(Acquire, Yes, t.call, w.now)
	case t.refused > 0:
		t.op(Acquire, No, t.call, w.now)
	}
	for range unseen {
		t.op(Acquire, Unknown, t.call, w.now)
	}
	for _, sent := range t.open {
		latest := sent.add(bound)
		if w.oneIn(4) {
			latest = Never // nobody knows of the bound
		}
		t.op(Acquire, Unknown, sent, latest)
	}
}

// learns begins the hold, which is proven by a request that was sent then.
func (t *turn) learns(fence uint64, sent Time) {
	w := t.w
	if t.left || t.learned {
		return
	}
	t.learned = true
	t.ends(Yes)
	t.until = sent.add(ttl - margin)
	if w.now >= t.until {
		t.release()
		return
	}
	t.hold = Hold{Lock: w.lock, Who: t.who, Owner: t.owner, Fence: fence, From: w.now, Proofs: []Proof{{w.now, t.until}}}
	t.watch()
	t.work()
	w.after(ttl/3, t.renew)
	lasts := w.upTo(ttl / 4)
	if w.oneIn(3) {
		lasts = w.upTo(3 * ttl)
	}
	w.after(lasts, func() { t.finish(w.now, !w.oneIn(10)) })
}

// watch ends the hold where belief does.
func (t *turn) watch() {
	t.w.after(time.Duration(t.until-t.w.now), func() {
		if t.w.now < t.until {
			t.watch()
			return
		}
		t.finish(t.until, true)
	})
}

// finish ends the hold; a client that dies gives nothing back.
func (t *turn) finish(at Time, lives bool) {
	if t.over {
		return
	}
	t.over = true
	t.hold.To = at
	t.w.holds = append(t.w.holds, t.hold)
	if lives {
		t.release()
		return
	}
	t.w.begins(t.who)
}

func (t *turn) release() {
	t.request(Release, func() bool { return t.w.releases(t) }, func(bool) {})
	t.w.begins(t.who)
}

func (t *turn) renew() {
	if t.over {
		return
	}
	w, sent := t.w, t.w.now
	renews := func() bool {
		if w.holder != t {
			return false
		}
		w.lives(t)
		return true
	}
	t.request(Renew, renews, func(ours bool) {
		switch {
		case t.over:
		case !ours:
			t.finish(w.now, true)
		case w.now <= t.until:
			t.hold.Proofs = append(t.hold.Proofs, Proof{w.now, sent.add(ttl - margin)})
			t.until = max(t.until, sent.add(ttl-margin))
		}
	})
	w.after(ttl/3, t.renew)
}

// request sends one request and writes down what became of it.
func (t *turn) request(kind OpKind, runs func() bool, answered func(bool)) {
	w, sent, known := t.w, t.w.now, false
	w.send(func() {
		did := runs()
		w.send(func() {
			known = true
			outcome := No
			if did {
				outcome = Yes
			}
			t.op(kind, outcome, sent, w.now)
			answered(did)
		})
	})
	w.after(anAnswer, func() {
		if !known {
			t.op(kind, Unknown, sent, sent.add(bound))
		}
	})
}

// work does steps and writes while the hold is believed in.
func (t *turn) work() {
	if t.over {
		return
	}
	w := t.w
	w.steps = append(w.steps, Step{Lock: w.lock, Who: t.who, Owner: t.owner, Fence: t.hold.Fence, At: w.now})
	if t.claim == 0 {
		w.epoch++
		t.claim = w.epoch
	}
	w.writes = append(w.writes, Write{Resource: w.lock, Who: t.who, Fence: t.hold.Fence, Epoch: t.claim, Base: w.value, Value: w.value + 1})
	w.value++
	w.after(time.Millisecond+w.upTo(ttl/3), t.work)
}
