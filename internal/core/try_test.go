package core_test

import (
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/core"
)

// Every answer for who does not wait.
func TestTryAnswers(t *testing.T) {
	for _, tt := range []struct {
		name  string
		reply core.Reply
		sent  core.Instant
		do    core.Do
		undo  bool
	}{
		{"granted", core.Reply{Answer: core.Granted}, 0, core.Win, false},
		{"granted in the last moment", core.Reply{Answer: core.Granted}, at(-890) + 1, core.Win, false},
		{"granted after its belief", core.Reply{Answer: core.Granted}, at(-890), core.Fail, true},
		{"held", core.Reply{Answer: core.Held, Left: time.Second}, 0, core.Fail, false},
		{"late", core.Reply{Answer: core.Late}, 0, core.Ask, false},
		{"trouble", core.Reply{Answer: core.Trouble}, 0, core.Fail, true},
		{"trouble without effect", core.Reply{Answer: core.Trouble, NoEffect: true}, 0, core.Fail, false},
		{"rejected", core.Reply{Answer: core.Rejected}, 0, core.Fail, true},
		{"rejected without effect", core.Reply{Answer: core.Rejected, NoEffect: true}, 0, core.Fail, false},
		{"no answer", core.Reply{Answer: core.NoAnswer}, 0, core.Fail, true},
	} {
		try := core.NewTry(terms)
		if do, undo := try.Replied(at(10), tt.sent, tt.reply); do != tt.do || undo != tt.undo {
			t.Errorf("%s: do %d, undo %t; want %d, %t", tt.name, do, undo, tt.do, tt.undo)
		}
	}
}

func TestTryIsLateAFewTimes(t *testing.T) {
	try := core.NewTry(terms)
	for range 3 {
		if do, undo := try.Replied(at(10), 0, core.Reply{Answer: core.Late}); do != core.Ask || undo {
			t.Errorf("do %d, undo %t, want to ask again", do, undo)
		}
	}
	if do, undo := try.Replied(at(10), 0, core.Reply{Answer: core.Late}); do != core.Fail || undo {
		t.Errorf("do %d, undo %t after the fourth, want to fail", do, undo)
	}
}

func TestTryBound(t *testing.T) {
	for _, tt := range []struct {
		terms core.Terms
		want  time.Duration
	}{
		{terms, 900 * ms},
		{core.Terms{TTL: 10 * time.Second, Margin: time.Second}, 3 * time.Second},
	} {
		try := core.NewTry(tt.terms)
		if got := try.Bound(at(50)); got != at(50).Add(tt.want) {
			t.Errorf("%+v: bound %s, want %s after 50ms", tt.terms, time.Duration(got), tt.want)
		}
	}
}
