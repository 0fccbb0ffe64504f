package core_test

import (
	"slices"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/core"
)

// A bytesSource is what is left of the bytes of a fuzzer, which decide what happens. When
// they are used up, each is high.
type bytesSource struct{ data []byte }

func (b *bytesSource) next() byte {
	if len(b.data) == 0 {
		return 0xff
	}
	first := b.data[0]
	b.data = b.data[1:]
	return first
}

// pickOf chooses one of several by a byte.
func pickOf[T any](b *bytesSource, from ...T) T { return from[int(b.next())%len(from)] }

// A keeperWorld is one keeper with leases, and what the test knows of them by itself.
type keeperWorld struct {
	t      *testing.T
	keeper core.Keeper
	now    core.Instant
	kept   []*kept
	sent   []*flight
}

// kept is a lease with what it may be believed for, reckoned anew from what was asked for
// and answered.
type kept struct {
	lease  core.Lease
	terms  core.Terms
	proven core.Instant
	most   core.Instant
	end    core.End
}

type flight struct {
	of    *kept
	sent  core.Instant
	terms core.Terms // what the request named
}

func (k *kept) until() core.Instant { return min(k.proven, k.most) }

func (w *keeperWorld) hold(terms, granted core.Terms, ago, longest time.Duration) {
	sent := w.now.Add(-ago)
	k := &kept{terms: terms, proven: granted.Until(sent), most: core.Never}
	if k.proven <= w.now {
		return // the shell does not keep what is over
	}
	k.lease = core.NewLease(terms, granted, sent)
	k.lease.Holder = k
	w.kept = append(w.kept, k)
	k.limit(w.now, longest)
	k.lease.Limit(w.now, longest)
	w.keeper.Hold(&k.lease)
}

func (k *kept) limit(now core.Instant, longest time.Duration) {
	if k.most = core.Never; longest > 0 {
		k.most = now.Add(longest)
	}
}

// over notes that a lease has ended, which happens once and for good.
func (w *keeperWorld) over(k *kept, end core.End) {
	w.t.Helper()
	switch {
	case end == core.NotEnded || k.lease.End() != end:
		w.t.Fatalf("a lease ends with %d, and says %d", end, k.lease.End())
	case k.end != core.NotEnded && k.end != end:
		w.t.Fatalf("a lease that ended with %d ends with %d", k.end, end)
	case (end == core.Expired || end == core.HeldMost) && k.end == core.NotEnded && w.now < k.until():
		w.t.Fatalf("a lease ends with %d, %s before its time", end, k.until().Sub(w.now))
	}
	k.end = end
}

func (w *keeperWorld) tick() {
	w.t.Helper()
	renew, ended := w.keeper.Tick(w.now)
	for _, l := range ended {
		k := l.Holder.(*kept)
		if k.end != core.NotEnded {
			w.t.Fatal("a lease is told to have ended twice")
		}
		w.over(k, l.End())
	}
	for _, l := range renew {
		k := l.Holder.(*kept)
		if k.end != core.NotEnded {
			w.t.Fatalf("a lease that ended with %d is renewed", k.end)
		}
		w.send(k)
	}
	for _, k := range w.kept {
		if k.end == core.NotEnded && w.now >= k.until() {
			w.t.Fatalf("a lease is %s beyond its belief after a tick", w.now.Sub(k.until()))
		}
	}
}

func (w *keeperWorld) send(k *kept) {
	w.sent = append(w.sent, &flight{k, w.now, k.terms})
}

// answer takes in what became of a renewal.
func (w *keeperWorld) answer(i int, outcome core.Outcome) {
	w.t.Helper()
	f := w.sent[i]
	w.sent = slices.Delete(w.sent, i, i+1)
	k := f.of
	if believed := k.end == core.NotEnded && w.now < k.until(); believed && outcome == core.Renewed {
		k.proven = max(k.proven, f.terms.Until(f.sent))
	}
	if end := w.keeper.Renewal(&k.lease, f.terms, f.sent, w.now, outcome); end != core.NotEnded {
		w.over(k, end)
	} else if k.end != core.NotEnded || outcome == core.NotOurs || w.now >= k.until() {
		w.t.Fatalf("a lease goes on after outcome %d, end %d, at %s of its belief", outcome, k.end, w.now.Sub(k.until()))
	}
}

// check compares the machine with what is known.
func (w *keeperWorld) check() {
	w.t.Helper()
	wake, live := w.keeper.Wake(w.now), 0
	for _, k := range w.kept {
		if got := k.lease.End(); got != k.end {
			w.t.Fatalf("a lease that ended with %d says %d", k.end, got)
		}
		if k.end != core.NotEnded {
			continue
		}
		live++
		if got := k.lease.Until(); got > k.until() {
			w.t.Fatalf("a lease is believed for %s too long", got.Sub(k.until()))
		}
		if wake > k.until() || wake > w.now.Add(max(k.terms.Margin/2, time.Millisecond)) {
			w.t.Fatalf("the keeper sleeps for %s beside a lease with %s left and a margin of %s", wake.Sub(w.now), k.until().Sub(w.now), k.terms.Margin)
		}
		if !slices.Contains(w.keeper.Leases(), &k.lease) {
			w.t.Fatal("a lease is forgotten")
		}
	}
	if live != w.keeper.Len() {
		w.t.Fatalf("the keeper has %d leases of %d", w.keeper.Len(), live)
	}
}

func (w *keeperWorld) play(b *bytesSource) {
	terms := func() core.Terms {
		ttl := pickOf(b, 10*ms, 100*ms, 900*ms, 10*time.Second, time.Hour)
		return core.Terms{TTL: ttl, Margin: pickOf(b, ttl/10, ttl/4, 2*ms)}
	}
	one := func() *kept { return w.kept[int(b.next())%len(w.kept)] }
	switch op := b.next() % 16; {
	case op < 4:
		w.now = w.now.Add(pickOf(b, 0, 1, ms, 3*ms, 30*ms, 300*ms, 3*time.Second, time.Hour))
	case op < 6 || len(w.kept) == 0:
		t := terms()
		granted := t
		if b.next()%2 == 0 {
			granted = t.HandOff()
		}
		w.hold(t, granted, pickOf(b, 0, ms, 50*ms, time.Second), pickOf(b, 0, 0, 5*ms, time.Minute))
	case op < 9:
		w.tick()
	case op < 12 && len(w.sent) > 0:
		w.answer(int(b.next())%len(w.sent), pickOf(b, core.Renewed, core.Renewed, core.Unsure, core.NotOurs))
	case op == 12:
		if k := one(); k.end == core.NotEnded { // Extend asks whether it stands, and then at once
			k.terms = terms()
			w.keeper.Change(&k.lease, k.terms)
			w.send(k)
		}
	case op == 13:
		if k := one(); k.end == core.NotEnded {
			longest := pickOf(b, 0, 5*ms, time.Minute)
			k.limit(w.now, longest)
			w.keeper.Limit(&k.lease, w.now, longest)
		}
	case op == 14:
		k := one()
		w.keeper.Drop(&k.lease)
		if k.end == core.NotEnded {
			w.over(k, core.Withdrawn)
		}
	case op == 15:
		if k := one(); w.keeper.Expire(&k.lease, w.now) {
			w.over(k, k.lease.End())
		} else if w.now >= k.until() {
			w.t.Fatal("a lease stands beyond its belief")
		}
	}
	w.check()
}

// FuzzKeeper: in whatever order leases come, are renewed, changed and dropped, and answers
// arrive, belief goes no further than what was asked for and answered carries it, a lease
// that is over stays so, and none is forgotten.
func FuzzKeeper(f *testing.F) {
	f.Add([]byte{4, 2, 0, 1, 0, 0, 0, 5, 6, 9, 0, 0, 0, 6, 6})                   // held, renewed, renewed late
	f.Add([]byte{4, 2, 0, 1, 0, 0, 0, 5, 6, 12, 0, 4, 0, 9, 0, 0, 0, 6, 6})      // changed while a renewal is on its way
	f.Add([]byte{4, 2, 0, 0, 1, 2, 13, 0, 1, 0, 3, 6, 14, 0, 9, 0, 0})           // limited, dropped
	f.Add([]byte{4, 1, 1, 1, 0, 0, 4, 3, 0, 0, 0, 0, 0, 4, 6, 9, 0, 2, 0, 3, 6}) // two, one without an answer
	f.Fuzz(func(t *testing.T, data []byte) {
		b := &bytesSource{data: data[:min(len(data), 600)]}
		w := &keeperWorld{t: t, now: core.Instant(time.Hour)}
		for len(b.data) > 0 {
			w.play(b)
		}
		// All belief ends, whatever is still on its way.
		w.now = w.now.Add(10000 * time.Hour)
		w.tick()
		w.check()
		if w.keeper.Len() != 0 || w.keeper.Wake(w.now) != core.Never {
			t.Fatal("the keeper keeps what is over")
		}
	})
}
