package core_test

import (
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/core"
)

const ms = time.Millisecond

// terms of most tests: belief lasts 900 ms, renewals are due after 333 ms.
var terms = core.Terms{TTL: 999 * ms, Margin: 99 * ms}

// at is an instant in milliseconds.
func at(millis float64) core.Instant { return core.Instant(millis * float64(ms)) }

// hold keeps one lease that a request sent at 0 has obtained.
func hold(longest time.Duration) (*core.Keeper, *core.Lease) {
	k := new(core.Keeper)
	l := lease(terms, 0, longest)
	l.Holder = "holder"
	k.Hold(&l)
	return k, &l
}

// lease is what a request sent at that time has obtained for one turn.
func lease(terms core.Terms, sent core.Instant, longest time.Duration) core.Lease {
	l := core.NewLease(terms, terms, sent)
	l.Limit(sent, longest)
	return l
}

func wantUntil(t *testing.T, l *core.Lease, want core.Instant) {
	t.Helper()
	if l.Until() != want {
		t.Errorf("belief ends at %v, want %v", time.Duration(l.Until()), time.Duration(want))
	}
}

func wantEnd(t *testing.T, got, want core.End) {
	t.Helper()
	if got != want {
		t.Errorf("end is %d, want %d", got, want)
	}
}

func TestBeliefCountsFromSending(t *testing.T) {
	l := lease(terms, at(100), 0)
	wantUntil(t, &l, at(1000))
	if l.Holder != nil || l.Terms() != terms || l.End() != core.NotEnded {
		t.Errorf("new lease is %+v", l)
	}
}

func TestTickRenewsAtAThirdAndEndsAtBelief(t *testing.T) {
	k, l := hold(0)
	if renew, ended := k.Tick(at(333) - 1); len(renew)+len(ended) != 0 {
		t.Fatalf("before a third of the TTL: renew %d, ended %d", len(renew), len(ended))
	}
	if renew, _ := k.Tick(at(333)); len(renew) != 1 || renew[0] != l {
		t.Fatalf("at a third of the TTL: renew %v", renew)
	}
	if renew, _ := k.Tick(at(400)); len(renew) != 0 {
		t.Error("a renewal on its way was sent again")
	}
	if _, ended := k.Tick(at(900) - 1); len(ended) != 0 {
		t.Error("ended before belief did")
	}
	if _, ended := k.Tick(at(900)); len(ended) != 1 || ended[0] != l {
		t.Fatal("not ended when belief did")
	}
	wantEnd(t, l.End(), core.Expired)
	if k.Len() != 0 || k.Wake(at(900)) != core.Never {
		t.Error("the keeper still keeps the lease")
	}
	if _, ended := k.Tick(at(901)); len(ended) != 0 {
		t.Error("ended twice")
	}
}

func TestRenewalCountsFromSending(t *testing.T) {
	k, l := hold(0)
	k.Tick(at(333))
	wantEnd(t, k.Renewal(l, l.Terms(), at(340), at(800), core.Renewed), core.NotEnded)
	wantUntil(t, l, at(1240))
	// It was due at 340 + 333; now is later, so it is due at once.
	if renew, _ := k.Tick(at(800)); len(renew) != 1 {
		t.Error("not renewed again at once after a slow reply")
	}
}

func TestRenewalNeverShortens(t *testing.T) {
	k, l := hold(0)
	k.Renewal(l, l.Terms(), at(500), at(510), core.Renewed)
	wantUntil(t, l, at(1400))
	k.Renewal(l, l.Terms(), at(300), at(520), core.Renewed) // sent before, answered after
	wantUntil(t, l, at(1400))
	k.Change(l, core.Terms{TTL: 30 * ms, Margin: 3 * ms})
	k.Renewal(l, l.Terms(), at(600), at(610), core.Renewed) // a shorter TTL
	wantUntil(t, l, at(1400))
}

// A renewal that was on its way when the TTL was changed has lengthened the key's life by
// what it asked for, and by no more.
func TestRenewalOfBeforeAChange(t *testing.T) {
	k, l := hold(0)
	asked := l.Terms()
	k.Change(l, core.Terms{TTL: 10 * time.Second, Margin: time.Second})
	wantEnd(t, k.Renewal(l, asked, at(10), at(20), core.Renewed), core.NotEnded)
	wantUntil(t, l, at(910))
	if renew, _ := k.Tick(at(10 + 333)); len(renew) != 1 {
		t.Error("not renewed at a third of what the server has granted")
	}
}

func TestChangeWaitsForARenewal(t *testing.T) {
	k, l := hold(0)
	longer := core.Terms{TTL: 3 * time.Second, Margin: 300 * ms}
	k.Change(l, longer)
	wantUntil(t, l, at(900))
	if l.Terms() != longer {
		t.Errorf("terms are %+v", l.Terms())
	}
	k.Renewal(l, l.Terms(), at(10), at(20), core.Renewed)
	wantUntil(t, l, at(2710))
	if renew, _ := k.Tick(at(1009)); len(renew) != 0 {
		t.Error("renewed before a third of the new TTL")
	}
	if renew, _ := k.Tick(at(1010)); len(renew) != 1 {
		t.Error("not renewed at a third of the new TTL")
	}
}

func TestLateSuccessNeverRevives(t *testing.T) {
	k, l := hold(0)
	k.Tick(at(333))
	wantEnd(t, k.Renewal(l, l.Terms(), at(340), at(900), core.Renewed), core.Expired) // nobody called Tick before
	wantUntil(t, l, at(900))
	wantEnd(t, k.Renewal(l, l.Terms(), at(340), at(910), core.Renewed), core.Expired)
	wantUntil(t, l, at(900))
	if k.Len() != 0 {
		t.Error("a lost lease is kept")
	}
	if !k.Expire(l, at(1)) {
		t.Error("a lost lease is believed again")
	}
}

func TestNotOursEndsAtOnce(t *testing.T) {
	k, l := hold(0)
	wantEnd(t, k.Renewal(l, l.Terms(), at(340), at(350), core.NotOurs), core.Taken)
	wantEnd(t, l.End(), core.Taken)
	if k.Len() != 0 {
		t.Error("a taken lease is kept")
	}
	wantEnd(t, k.Renewal(l, l.Terms(), at(340), at(360), core.Renewed), core.Taken)
}

func TestNotOursAfterTheEndChangesNothing(t *testing.T) {
	k, l := hold(0)
	k.Drop(l)
	wantEnd(t, l.End(), core.Withdrawn)
	wantEnd(t, k.Renewal(l, l.Terms(), at(340), at(350), core.NotOurs), core.Withdrawn)
	k.Drop(l)
	wantEnd(t, l.End(), core.Withdrawn)
}

func TestUnsureIsRetriedUntilBeliefEnds(t *testing.T) {
	k, l := hold(0)
	now := at(333)
	var sent []core.Instant
	for {
		renew, ended := k.Tick(now)
		if len(ended) > 0 {
			break
		}
		if len(renew) > 0 {
			sent = append(sent, now)
			wantEnd(t, k.Renewal(l, l.Terms(), now, now, core.Unsure), core.NotEnded) // fails at once
		}
		now = k.Wake(now)
	}
	if now != at(900) {
		t.Errorf("ended at %s, want 900ms", time.Duration(now))
	}
	wantUntil(t, l, at(900))
	// 20, 40, 80, then a tenth of the TTL: no hot loop, no long pause.
	want := []float64{333, 353, 393, 473, 572.9, 672.8, 772.7, 872.6}
	if len(sent) != len(want) {
		t.Fatalf("renewals at %v, want %v", sent, want)
	}
	for i, w := range want {
		if d := time.Duration(sent[i] - at(w)); d.Abs() > time.Microsecond {
			t.Errorf("renewal %d at %s, want %vms", i, time.Duration(sent[i]), w)
		}
	}
}

func TestSuccessEndsTheBackoff(t *testing.T) {
	k, l := hold(0)
	k.Tick(at(333))
	k.Renewal(l, l.Terms(), at(333), at(333), core.Unsure)
	k.Tick(at(353))
	k.Renewal(l, l.Terms(), at(353), at(353), core.Unsure)
	k.Tick(at(393))
	k.Renewal(l, l.Terms(), at(393), at(394), core.Renewed)
	wantUntil(t, l, at(1293))
	k.Tick(at(726))
	k.Renewal(l, l.Terms(), at(726), at(726), core.Unsure)
	if renew, _ := k.Tick(at(746)); len(renew) != 1 {
		t.Error("the backoff did not start again at 20 ms")
	}
}

func TestShortTTLHasNoHotLoop(t *testing.T) {
	k := new(core.Keeper)
	l := lease(core.Terms{TTL: 10 * ms, Margin: 2 * ms}, 0, 0)
	k.Hold(&l)
	tries := 0
	for now := core.Instant(0); l.End() == core.NotEnded; {
		next := k.Wake(now)
		if next <= now {
			t.Fatalf("the keeper does not sleep at %s", time.Duration(now))
		}
		now = next
		if renew, _ := k.Tick(now); len(renew) > 0 {
			tries++
			k.Renewal(&l, l.Terms(), now, now, core.Unsure)
		}
	}
	if tries > 6 {
		t.Errorf("%d renewals in 8 ms", tries)
	}
}

func TestMaxHold(t *testing.T) {
	k, l := hold(1200 * ms)
	wantUntil(t, l, at(900))
	k.Tick(at(333))
	k.Renewal(l, l.Terms(), at(333), at(340), core.Renewed)
	wantUntil(t, l, at(1200)) // not 1233
	if renew, _ := k.Tick(at(1199)); len(renew) != 0 {
		t.Error("renewed though nothing can be gained")
	}
	wantEnd(t, k.Renewal(l, l.Terms(), at(1190), at(1199), core.Renewed), core.NotEnded)
	wantUntil(t, l, at(1200))
	if _, ended := k.Tick(at(1200)); len(ended) != 1 {
		t.Error("not ended at the longest hold")
	}
	wantEnd(t, l.End(), core.HeldMost)
}

func TestMaxHoldBelowBelief(t *testing.T) {
	k, l := hold(100 * ms)
	wantUntil(t, l, at(100))
	if renew, ended := k.Tick(at(100)); len(renew) != 0 || len(ended) != 1 || l.End() != core.HeldMost {
		t.Errorf("renew %v, ended %v, end %d", renew, ended, l.End())
	}
}

func TestMaxHoldBeyondAllTime(t *testing.T) {
	_, l := hold(1<<63 - 1)
	wantUntil(t, l, at(900))
	if core.Instant(5).Add(1<<63-1) != core.Never || core.Never.Add(-1) != core.Never {
		t.Error("Add overflows")
	}
	if core.Instant(5).Add(-3) != 2 {
		t.Error("Add does not subtract")
	}
}

func TestExpireAsksTheTime(t *testing.T) {
	k, l := hold(0)
	if k.Expire(l, at(900)-1) {
		t.Error("expired too early")
	}
	if !k.Expire(l, at(900)) || l.End() != core.Expired || k.Len() != 0 {
		t.Error("not expired at the end of belief")
	}
}

func TestBoundLeavesTimeForAnotherTry(t *testing.T) {
	_, l := hold(0)
	if got := l.Bound(at(100)); got != at(349.75) {
		t.Errorf("bound is %s, want 249.75ms after sending", time.Duration(got))
	}
	if got := l.Bound(at(800)); got != at(900) {
		t.Errorf("bound is %s, want the end of belief", time.Duration(got))
	}
	short := lease(core.Terms{TTL: 12 * ms, Margin: 2 * ms}, 0, 0)
	if got := short.Bound(0); got != at(5) {
		t.Errorf("bound is %s, want at least 5ms", time.Duration(got))
	}
}

func TestTickLetsOthersRideAlong(t *testing.T) {
	k := new(core.Keeper)
	keep := func(sent float64) *core.Lease {
		l := lease(terms, at(sent), 0)
		k.Hold(&l)
		return &l
	}
	a, b, c := keep(0), keep(49), keep(51) // due at 333, 382, 384; a twentieth is 49.95
	renew, _ := k.Tick(at(333))
	if len(renew) != 2 || renew[0] != a || renew[1] != b {
		t.Fatalf("%d leases renewed, want those due within a twentieth of the TTL", len(renew))
	}
	if renew, _ := k.Tick(at(384)); len(renew) != 1 || renew[0] != c {
		t.Error("the third was not renewed at its time")
	}
}

func TestTickKeepsTheBackoffOfOthers(t *testing.T) {
	k := new(core.Keeper)
	a, b := lease(terms, 0, 0), lease(terms, at(40), 0)
	k.Hold(&a)
	k.Hold(&b)
	k.Tick(at(333)) // both
	k.Renewal(&a, a.Terms(), at(333), at(334), core.Unsure)
	k.Renewal(&b, b.Terms(), at(333), at(335), core.Unsure) // due at 354 and 355
	if renew, _ := k.Tick(at(354)); len(renew) != 1 || renew[0] != &a {
		t.Errorf("%d renewed, want only the one whose pause is over", len(renew))
	}
}

func TestTickAlone(t *testing.T) {
	k := new(core.Keeper)
	l := lease(terms, at(20), 0)
	k.Hold(&l)
	// Nobody is due at 333, so nobody rides along.
	if renew, _ := k.Tick(at(333)); len(renew) != 0 {
		t.Error("renewed before its time without company")
	}
}

// A timer stands still with a suspended machine: the keeper looks at every half
// margin of the lease that has the least.
func TestWakeChecksEveryHalfMargin(t *testing.T) {
	k, _ := hold(0)
	if got := k.Wake(0); got != at(49.5) {
		t.Errorf("wakes at %s, want half of the margin", time.Duration(got))
	}
	if got := k.Wake(at(320)); got != at(333) {
		t.Errorf("wakes at %s, want when the renewal is due", time.Duration(got))
	}
	short := lease(core.Terms{TTL: 100 * ms, Margin: 10 * ms}, 0, 0)
	k.Hold(&short)
	if got := k.Wake(0); got != at(5) {
		t.Errorf("wakes at %s, want half of the smallest margin", time.Duration(got))
	}
	// When the short one is gone the keeper gets its sleep back, after a few ticks.
	k.Drop(&short)
	for range 4 {
		k.Tick(at(1))
	}
	if got := k.Wake(0); got != at(49.5) {
		t.Errorf("wakes at %s, want half of the margin that is left", time.Duration(got))
	}
	var lowest core.Keeper
	l := lease(core.Terms{TTL: 10 * ms, Margin: ms}, 0, 0)
	lowest.Hold(&l)
	if got := lowest.Wake(0); got != at(1) {
		t.Errorf("wakes at %s, want not more than once a millisecond", time.Duration(got))
	}
}

func TestChangeMayNeedMoreChecks(t *testing.T) {
	k, l := hold(0)
	k.Change(l, core.Terms{TTL: 100 * ms, Margin: 10 * ms})
	if got := k.Wake(0); got != at(5) {
		t.Errorf("wakes at %s, want half of the new margin", time.Duration(got))
	}
}
