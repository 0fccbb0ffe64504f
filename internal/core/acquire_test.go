package core_test

import (
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/core"
)

// acquiring starts an acquisition at 0 whose pauses have no spread: a jitter j
// such that j plus the golden ratio is 0.5 makes the first one 100 percent.
func acquiring(wait bool) (core.Acquire, core.Step) {
	a := core.NewAcquire(terms, wait, 0.8819660112501051)
	return a, a.Start(0)
}

func wantStep(t *testing.T, got core.Step, do core.Do, undo bool) {
	t.Helper()
	if got.Do != do || got.Undo != undo {
		t.Errorf("step is %+v, want do %d, undo %t", got, do, undo)
	}
}

// near allows for the rounding of a float.
func near(t *testing.T, got, want core.Instant) {
	t.Helper()
	if d := time.Duration(got - want); d.Abs() > time.Microsecond {
		t.Errorf("until %s, want %s", time.Duration(got), time.Duration(want))
	}
}

func TestAcquireBoundsRequests(t *testing.T) {
	long := core.Terms{TTL: 10 * time.Second, Margin: time.Second}
	for _, tt := range []struct {
		terms         core.Terms
		wait          bool
		first, second time.Duration
	}{
		{long, false, 3 * time.Second, 3 * time.Second},
		{long, true, 500 * ms, 3 * time.Second},
		{terms, false, 900 * ms, 900 * ms},
		{terms, true, 500 * ms, 900 * ms},
		{core.Terms{TTL: 100 * ms, Margin: 10 * ms}, true, 90 * ms, 90 * ms},
	} {
		a := core.NewAcquire(tt.terms, tt.wait, 0)
		if s := a.Start(at(1000)); s.Do != core.Ask || s.Undo || s.Until != at(1000).Add(tt.first) {
			t.Errorf("%+v: first step %+v", tt, s)
		}
		if s := a.Resume(at(2000)); s.Do != core.Ask || s.Undo || s.Until != at(2000).Add(tt.second) {
			t.Errorf("%+v: second step %+v", tt, s)
		}
	}
}

// Every answer, for a caller that waits and for one that does not.
func TestAcquireAnswers(t *testing.T) {
	for _, tt := range []struct {
		name       string
		reply      core.Reply
		tryDo      core.Do
		waitDo     core.Do
		undo       bool
		pauseMilli float64
	}{
		{"granted", core.Reply{Answer: core.Granted}, core.Win, core.Win, false, 0},
		{"granted after its belief", core.Reply{Answer: core.Granted, Sent: at(-890)}, core.Fail, core.Park, true, 25},
		{"held", core.Reply{Answer: core.Held, Left: 5 * time.Second}, core.Fail, core.Park, false, 1000},
		{"held, nobody listens", core.Reply{Answer: core.Held, Left: 5 * time.Second, Deaf: true}, core.Fail, core.Park, false, 200},
		{"held, free soon", core.Reply{Answer: core.Held, Left: 40 * ms}, core.Fail, core.Park, false, 41},
		{"held, free now", core.Reply{Answer: core.Held, Left: 0}, core.Fail, core.Park, false, 1},
		{"held without a TTL", core.Reply{Answer: core.Held, Left: -ms}, core.Fail, core.Park, false, 1000},
		{"trouble", core.Reply{Answer: core.Trouble}, core.Fail, core.Park, true, 25},
		{"trouble without effect", core.Reply{Answer: core.Trouble, NoEffect: true}, core.Fail, core.Park, false, 25},
		{"no answer", core.Reply{Answer: core.NoAnswer}, core.Fail, core.Park, true, 25},
		{"rejected", core.Reply{Answer: core.Rejected}, core.Fail, core.Fail, true, 0},
		{"rejected without effect", core.Reply{Answer: core.Rejected, NoEffect: true}, core.Fail, core.Fail, false, 0},
		{"cancelled", core.Reply{Answer: core.Cancelled}, core.Fail, core.Fail, true, 0},
		{"cancelled before it was sent", core.Reply{Answer: core.Cancelled, NoEffect: true}, core.Fail, core.Fail, false, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			try, _ := acquiring(false)
			wantStep(t, try.Replied(at(10), tt.reply), tt.tryDo, tt.undo)
			wait, _ := acquiring(true)
			s := wait.Replied(at(10), tt.reply)
			wantStep(t, s, tt.waitDo, tt.undo)
			if s.Do == core.Park {
				near(t, s.Until, at(10+tt.pauseMilli))
			}
		})
	}
}

func TestGrantIsJudgedFromSending(t *testing.T) {
	a, _ := acquiring(false)
	wantStep(t, a.Replied(at(900)-1, core.Reply{Answer: core.Granted, Sent: 0}), core.Win, false)
	b, _ := acquiring(false)
	wantStep(t, b.Replied(at(900), core.Reply{Answer: core.Granted, Sent: 0}), core.Fail, true)
}

func TestLateIsAskedAgainAFewTimes(t *testing.T) {
	for _, wait := range []bool{false, true} {
		a, _ := acquiring(wait)
		for range 3 {
			wantStep(t, a.Replied(at(10), core.Reply{Answer: core.Late}), core.Ask, false)
		}
		s := a.Replied(at(10), core.Reply{Answer: core.Late})
		if wait {
			wantStep(t, s, core.Park, false)
			near(t, s.Until, at(35))
		} else {
			wantStep(t, s, core.Fail, false)
		}
	}
}

func TestTroubleBacksOffUntilAnAnswer(t *testing.T) {
	a, _ := acquiring(true)
	pause := func(answer core.Answer) time.Duration {
		return a.Replied(0, core.Reply{Answer: answer, Left: time.Hour}).Until.Sub(0)
	}
	for i, want := range []time.Duration{25 * ms, 50 * ms, 100 * ms, 200 * ms, 400 * ms, 800 * ms, time.Second, time.Second} {
		if got := pause(core.NoAnswer); got < want*3/4 || got > want*5/4 {
			t.Errorf("pause %d is %s, want about %s", i, got, want)
		}
	}
	pause(core.Held)
	if got := pause(core.Trouble); got > 32*ms {
		t.Errorf("after an answer the pause is %s, want about 25ms", got)
	}
}

// The pauses of one waiter, and of many, do not fall together.
func TestPausesAreSpread(t *testing.T) {
	seen := make(map[time.Duration]bool)
	lowest, highest := time.Hour, time.Duration(0)
	for i := range 50 {
		a := core.NewAcquire(terms, true, float64(i)/50)
		for range 20 {
			got := a.Replied(0, core.Reply{Answer: core.Held, Left: time.Hour}).Until.Sub(0)
			seen[got.Round(time.Microsecond)] = true
			lowest, highest = min(lowest, got), max(highest, got)
		}
	}
	if lowest < 750*ms || highest > 1250*ms || lowest > 760*ms || highest < 1240*ms {
		t.Errorf("polls are between %s and %s, want 750ms and 1.25s", lowest, highest)
	}
	if len(seen) < 900 {
		t.Errorf("1000 polls of 50 waiters have only %d pauses", len(seen))
	}
}
