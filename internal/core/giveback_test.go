package core_test

import (
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/core"
)

func wantBack(t *testing.T, got core.GiveBack, do core.Back, until core.Instant) {
	t.Helper()
	if got.Do != do || got.Until != until {
		t.Errorf("got %d until %s, want %d until %s", got.Do, time.Duration(got.Until), do, time.Duration(until))
	}
}

func TestReleaseAnswers(t *testing.T) {
	r := core.NewRelease(at(5000))
	wantBack(t, r.Start(at(100)), core.Send, at(1100))
	wantBack(t, r.Done(true), core.Freed, 0)

	r = core.NewRelease(at(5000))
	r.Start(at(100))
	wantBack(t, r.Done(false), core.NotOur, 0)
}

// "Not ours" after a request without an answer means that the lost one did it.
func TestReleaseIsIdempotentAfterUnsure(t *testing.T) {
	r := core.NewRelease(at(5000))
	r.Start(0)
	wantBack(t, r.Failed(at(10), false), core.Sleep, at(35))
	wantBack(t, r.Resume(at(35)), core.Send, at(1035))
	wantBack(t, r.Failed(at(40), true), core.Sleep, at(90)) // LOADING does not make it sure again
	wantBack(t, r.Done(false), core.Freed, 0)
}

// A server that proved to have done nothing leaves no doubt.
func TestReleaseAfterErrorWithoutEffect(t *testing.T) {
	r := core.NewRelease(at(5000))
	r.Start(0)
	wantBack(t, r.Failed(at(10), true), core.Sleep, at(35))
	r.Resume(at(35))
	wantBack(t, r.Done(false), core.NotOur, 0)
}

func TestReleaseIsCappedByBelief(t *testing.T) {
	r := core.NewRelease(at(700))
	wantBack(t, r.Start(0), core.Send, at(700))
	var tries int
	now := at(0)
	for {
		tries++
		s := r.Failed(now, false)
		if s.Do == core.Leave {
			break
		}
		if s.Do != core.Sleep || s.Until <= now || s.Until >= at(700) {
			t.Fatalf("after %s: %+v", time.Duration(now), s)
		}
		now = s.Until
		if s := r.Resume(now); s.Do != core.Send || s.Until != at(700) {
			t.Fatalf("at %s: %+v", time.Duration(now), s)
		}
	}
	if tries != 5 { // at 0, 25, 75, 175, 375; the next would be at 775
		t.Errorf("%d tries, want 5", tries)
	}
	late := core.NewRelease(at(10))
	late.Start(at(20))
	wantBack(t, late.Failed(at(20), false), core.Leave, 0)
}

// loose are lost requests that may run until notAfter, the last of them given up at 1 s.
func loose(count int, notAfter int64) core.Loose {
	return core.Loose{Count: count, Bound: at(1000), NotAfter: notAfter}
}

// The lost request may run until the server's clock says 5,000,000 us, and was
// given up at 1 s on ours.
func TestUndoWaitsForNotAfter(t *testing.T) {
	u := core.NewUndo(0, loose(1, 5_000_000), time.Second)
	wantBack(t, u.Start(at(990)), core.Send, at(1990))
	wantBack(t, u.Done(at(1000), false, 4_900_000), core.Sleep, at(1110)) // and 10 ms
	wantBack(t, u.Resume(at(1110)), core.Send, at(2110))
	wantBack(t, u.Done(at(1111), false, 5_000_000), core.Sleep, at(1121)) // it may run at 5,000,000
	wantBack(t, u.Done(at(1122), false, 5_000_001), core.Freed, 0)
}

func TestUndoLooksMoreThanOnce(t *testing.T) {
	u := core.NewUndo(0, loose(1, 5_000_000), 10*time.Second)
	u.Start(0)
	wantBack(t, u.Done(0, false, 2_000_000), core.Sleep, at(500)) // 3 s are left
	// A server's clock that has gone back an hour does not end it either.
	wantBack(t, u.Done(at(500), false, -3_600_000_000), core.Sleep, at(1000))
}

func TestUndoEndsWhenItDeleted(t *testing.T) {
	for _, notAfter := range []int64{0, 5_000_000} {
		only := loose(1, notAfter)
		only.Only = true
		u := core.NewUndo(0, only, time.Second)
		u.Start(0)
		wantBack(t, u.Done(at(10), true, 0), core.Freed, 0)
		// It may also have been another request, or a hand-off, that took what is deleted.
		u = core.NewUndo(0, loose(1, notAfter), time.Second)
		u.Start(0)
		wantBack(t, u.Done(at(10), true, 0), core.Sleep, at(60))
	}
}

// Nothing bounds the request on the server: the undo looks for a second TTL.
func TestUndoUnbounded(t *testing.T) {
	u := core.NewUndo(0, loose(1, 0), time.Second)
	now, tries := at(1000), 0
	for s := u.Start(now); s.Do != core.Leave; s = u.Resume(now) {
		tries++
		if s.Do != core.Send {
			t.Fatalf("at %s: %+v", time.Duration(now), s)
		}
		s = u.Done(now, false, 9_000_000)
		if s.Do == core.Leave {
			break
		}
		if s.Do != core.Sleep || s.Until < now.Add(25*ms) || s.Until > now.Add(500*ms) {
			t.Fatalf("at %s: %+v", time.Duration(now), s)
		}
		now = s.Until
	}
	if now < at(2500) || now >= at(3000) || tries > 12 {
		t.Errorf("gave up at %s after %d tries, want just before 3s", time.Duration(now), tries)
	}
}

func TestUndoWithoutAnswers(t *testing.T) {
	u := core.NewUndo(0, loose(1, 5_000_000), time.Second)
	u.Start(0)
	for i, want := range []float64{25, 50, 100, 200, 400, 500, 500} {
		wantBack(t, u.Failed(at(0)), core.Sleep, at(want))
		if s := u.Resume(at(want)); s.Do != core.Send {
			t.Errorf("try %d: %+v", i, s)
		}
	}
	wantBack(t, u.Failed(at(1500)), core.Leave, 0) // by 2 s the key is gone
	wantBack(t, u.Resume(at(2000)), core.Leave, 0)
}

// When the client closes, an undo waits for nothing that may never come.
func TestUndoHurries(t *testing.T) {
	u := core.NewUndo(0, loose(1, 5_000_000), time.Second)
	u.Start(0)
	u.Hurry()
	wantBack(t, u.Done(at(1000), false, 4_900_000), core.Sleep, at(1110)) // this is sure to end
	wantBack(t, u.Failed(at(1200)), core.Leave, 0)

	unbounded := core.NewUndo(0, loose(1, 0), time.Second)
	unbounded.Start(0)
	unbounded.Hurry()
	wantBack(t, unbounded.Done(at(10), false, 1), core.Leave, 0)
}

// Nothing is loose: one answer ends it, whatever it says.
func TestUndoOfWhatIsAnswered(t *testing.T) {
	for _, deleted := range []bool{true, false} {
		u := core.NewUndo(at(500), core.Loose{}, time.Second)
		wantBack(t, u.Start(at(500)), core.Send, at(1500))
		wantBack(t, u.Failed(at(600)), core.Sleep, at(625)) // the place may still be there
		wantBack(t, u.Resume(at(625)), core.Send, at(1625))
		wantBack(t, u.Done(at(630), deleted, 1), core.Freed, 0)
	}
	u := core.NewUndo(at(500), core.Loose{}, time.Second)
	wantBack(t, u.Resume(at(1500)), core.Leave, 0) // what there was has expired
}

// Of several requests one has taken the lock: the others may still run.
func TestUndoOfSeveral(t *testing.T) {
	u := core.NewUndo(0, loose(2, 5_000_000), 10*time.Second)
	u.Start(0)
	wantBack(t, u.Done(at(10), true, 0), core.Sleep, at(60))
	wantBack(t, u.Resume(at(60)), core.Send, at(1060))
	wantBack(t, u.Done(at(70), false, 4_900_000), core.Sleep, at(180))
	wantBack(t, u.Done(at(180), true, 0), core.Sleep, at(280))
	wantBack(t, u.Done(at(280), false, 5_000_001), core.Freed, 0)

	u = core.NewUndo(0, loose(2, 5_000_000), 10*time.Second)
	u.Hurry()
	wantBack(t, u.Done(at(10), true, 0), core.Leave, 0) // no time was promised
}

// An undo that begins late looks for as long as one that begins at once.
func TestUndoThatBeginsLate(t *testing.T) {
	u := core.NewUndo(at(4000), loose(1, 5_000_000), time.Second)
	wantBack(t, u.Start(at(4000)), core.Send, at(5000))
	wantBack(t, u.Failed(at(4980)), core.Leave, 0)
	wantBack(t, u.Resume(at(4999)), core.Send, at(5999))
	wantBack(t, u.Resume(at(5000)), core.Leave, 0)
}

// A loose request is answered while the undo waits for it: the next answer ends the undo,
// but for that of a request that was on its way already.
func TestUndoIsToldOfTheAnswer(t *testing.T) {
	loose := core.Loose{Count: 1, Bound: at(3000), NotAfter: 3_000_000}
	u := core.NewUndo(0, loose, terms.TTL)
	u.Start(0)
	if got := u.Done(at(1), false, 1000); got.Do != core.Sleep {
		t.Fatalf("got %+v", got)
	}
	u.Answered()
	u.Resume(at(2))
	if got := u.Done(at(3), false, 3000); got.Do != core.Freed {
		t.Errorf("answered while it slept: %+v", got)
	}

	u = core.NewUndo(0, loose, terms.TTL)
	u.Start(0)
	u.Answered() // it may have run after ours
	if got := u.Done(at(1), false, 1000); got.Do != core.Sleep || got.Until != at(1) {
		t.Errorf("answered while its own request was out: %+v", got)
	}
	u.Resume(at(1))
	if got := u.Done(at(2), false, 2000); got.Do != core.Freed {
		t.Errorf("and then: %+v", got)
	}
}
