package core_test

import (
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/core"
)

// holding returns a line that has the lock since 0, with one call that waits.
func holding(t *testing.T, g core.Grant, next core.Kind) (*desk, *core.Waiter) {
	d := newDesk(t)
	w, q := d.open(0, kind)
	d.win(0, q, w, g)
	return d, d.come(0, next)
}

func TestDonePasses(t *testing.T) {
	shared := core.Grant{Fence: 1, Last: 100, Others: true, Hears: true}
	other := core.Kind{Terms: terms, Label: "other"}
	longer := core.Kind{Terms: core.Terms{TTL: terms.TTL + ms, Margin: terms.Margin}}
	for _, tt := range []struct {
		name  string
		grant core.Grant
		next  core.Kind
		now   core.Instant
		pass  bool
	}{
		{"at once", block(1), kind, 0, true},
		{"with just enough belief", block(1), kind, at(675), true},
		{"with too little belief", block(1), kind, at(675) + 1, false},
		{"with no belief", block(1), kind, at(900), false},
		{"another label", block(1), other, 0, false},
		{"another TTL", block(1), longer, 0, false},
		{"the last fence in reserve", core.Grant{Fence: 1, Last: 2, Hears: true}, kind, 0, true},
		{"no fence in reserve", core.Grant{Fence: 1, Last: 1, Hears: true}, kind, 0, false},
		{"no fence in reserve ever", core.Grant{Fence: 1, Hears: true}, kind, 0, false},
		{"shared", shared, kind, at(10) - 1, true},
		{"shared for too long", shared, kind, at(10), false},
		{"deaf", core.Grant{Fence: 1, Last: 100}, kind, at(10) - 1, true},
		{"deaf for too long", core.Grant{Fence: 1, Last: 100}, kind, at(10), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d, w := holding(t, tt.grant, tt.next)
			h := d.l.Hold()
			next, again := d.l.Done(tt.now)
			if (next == w) != tt.pass || again == tt.pass || d.l.Hold() != h {
				t.Fatalf("passed is %t, again is %t", next != nil, again)
			}
			if tt.pass {
				if h.Fence() != 2 || h.Turns() != 1 || h.Used() != 2 || d.l.Len() != 0 {
					t.Errorf("hold is %+v", h)
				}
				if _, ok := d.l.Leave(w); ok {
					t.Error("who has the turn leaves")
				}
				return
			}
			// The new place waits since its call came, and is asked for with its kind.
			want := core.Question{Owner: "o2", Kind: tt.next, Sent: tt.now, Bound: tt.now.Add(tt.next.Terms.TTL - tt.next.Terms.Margin)}
			if q := d.ask(tt.now); q != want {
				t.Errorf("question is %+v, want %+v", q, want)
			}
		})
	}
}

// Renewals carry a hold through many turns, but not for ever.
func TestDoneAlone(t *testing.T) {
	d := newDesk(t)
	w, q := d.open(0, core.Kind{Terms: long})
	d.win(0, q, w, block(1))
	for range 2000 {
		d.come(0, core.Kind{Terms: long})
	}
	for i := range 999 {
		if next, _ := d.l.Done(at(float64(i))); next == nil {
			t.Fatalf("not passed at %dms", i)
		}
	}
	if next, again := d.l.Done(at(1000)); next != nil || !again {
		t.Error("passed on beside the server for more than a second")
	}
}

// Eight passes, and 10 ms from when the process got the lock, not from when it was told.
func TestDoneShared(t *testing.T) {
	d, _ := holding(t, block(1), kind)
	for range 20 {
		d.come(0, kind)
	}
	for range 12 {
		if next, _ := d.l.Done(at(1)); next == nil {
			t.Fatal("not passed while alone")
		}
	}
	d.l.Wanted("o1")
	if next, again := d.l.Done(at(1)); next != nil || !again {
		t.Error("passed on more than 8 times though others wait")
	}

	d, _ = holding(t, block(1), kind)
	d.l.Wanted("o1")
	if next, _ := d.l.Done(at(10)); next != nil {
		t.Error("passed on after 10 ms though others wait")
	}
}

// What the turns before used counts for the server only if it can't know.
func TestUsedAndRaise(t *testing.T) {
	for _, tt := range []struct {
		name        string
		grant       core.Grant
		do          func(d *desk)
		fence, used uint64
		pass        bool
	}{
		{"no reserve", core.Grant{Fence: 5}, func(*desk) {}, 5, 0, false},
		{"a reserve, untouched", core.Grant{Fence: 5, Last: 9}, func(*desk) {}, 5, 5, true},
		{"used up", core.Grant{Fence: 5, Last: 6}, func(d *desk) { d.l.Done(0) }, 6, 6, false},
		{"a last that is too small", core.Grant{Fence: 5, Last: 3}, func(*desk) {}, 5, 0, false},
		{"raised", core.Grant{Fence: 5, Last: 9}, func(d *desk) { d.l.Hold().Raise(70, true) }, 70, 0, false},
		{"raised in the second turn", core.Grant{Fence: 5, Last: 9}, func(d *desk) { d.l.Done(0); d.l.Hold().Raise(70, true) }, 70, 70, false},
		{"raised to less", core.Grant{Fence: 5, Last: 9}, func(d *desk) { d.l.Hold().Raise(5, true) }, 5, 5, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d, _ := holding(t, tt.grant, kind)
			d.come(0, kind)
			tt.do(d)
			h := d.l.Hold()
			if h.Fence() != tt.fence || h.Used() != tt.used {
				t.Errorf("fence %d, used %d; want %d, %d", h.Fence(), h.Used(), tt.fence, tt.used)
			}
			if next, _ := d.l.Done(0); (next != nil) != tt.pass {
				t.Errorf("passed is %t, want %t", next != nil, tt.pass)
			}
		})
	}
}

// gave returns a line whose release is on its way with a new place, of o2, for one call.
func gave(t *testing.T) (*desk, *core.Waiter, core.Question) {
	d, w := holding(t, core.Grant{Fence: 1}, kind)
	if next, again := d.l.Done(at(10)); next != nil || !again {
		t.Fatal("no new place")
	}
	return d, w, d.ask(at(10))
}

// What the answer to a release makes of the new place.
func TestGaveAgain(t *testing.T) {
	for _, tt := range []struct {
		name  string
		reply core.Reply
		win   bool
		ask   bool
		fail  bool
		pause float64
		loose int
	}{
		{name: "taken again", reply: granted(block(9)), win: true},
		{name: "in line", reply: held(0), pause: 300},
		{name: "given up alone", reply: core.Reply{Answer: core.Late}, ask: true},
		{name: "no answer", reply: core.Reply{Answer: core.NoAnswer}, pause: 25, loose: 1},
		{name: "trouble", reply: core.Reply{Answer: core.Trouble, NoEffect: true}, pause: 25},
		{name: "refused", reply: core.Reply{Answer: core.Rejected, NoEffect: true}, fail: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d, w, q := gave(t)
			m := d.l.Gave(at(20), "o1", q, tt.reply)
			if (m.Win == w) != tt.win || m.Ask != tt.ask || m.Fail != tt.fail {
				t.Fatalf("move is %+v", m)
			}
			if tt.win {
				h := d.l.Hold()
				wantUntil(t, &h.Lease, at(910))
				if h.Owner != "o2" || h.Fence() != 9 || h.Turns() != 0 {
					t.Errorf("hold is %+v", h)
				}
				return
			}
			if d.l.Hold() != nil || d.l.IsEmpty() != tt.fail {
				t.Error("the hold is kept, or the line")
			}
			if tt.pause > 0 {
				d.due(at(20 + tt.pause))
				m, _ := d.l.Leave(w)
				d.dropped(m, "o2", tt.loose)
			}
		})
	}
}

// Who comes during a release asks after it, or uses the place that it makes.
func TestGaveToWhoCameMeanwhile(t *testing.T) {
	d := newDesk(t)
	a, q := d.open(0, kind)
	d.win(0, q, a, block(1))
	if next, again := d.l.Done(at(1)); next != nil || again {
		t.Fatal("it is passed on to nobody")
	}
	b := d.come(at(2), kind)
	d.want(d.l.Gave(at(3), "o1", core.Question{}, core.Reply{Answer: core.Late}), core.Move{Ask: true})
	q = d.ask(at(3))
	if q.Owner != "o2" || d.l.Hold() != nil {
		t.Errorf("question is %+v", q)
	}
	d.win(at(4), q, b, block(9))

	d, w, q := gave(t)
	d.l.Leave(w)
	c := d.come(at(12), kind)
	if m := d.l.Gave(at(13), "o1", q, granted(block(9))); m.Win != c {
		t.Errorf("move is %+v", m)
	}
}

func TestGaveToNobody(t *testing.T) {
	d := newDesk(t)
	a, q := d.open(0, kind)
	d.win(0, q, a, block(1))
	d.l.Done(at(1))
	d.want(d.l.Gave(at(3), "o1", core.Question{}, core.Reply{Answer: core.NoAnswer}), core.Move{})
	if !d.l.IsEmpty() || d.l.Hold() != nil {
		t.Error("the line does not end")
	}

	d, w, q := gave(t)
	d.l.Leave(w)
	m := d.l.Gave(at(13), "o1", q, granted(block(9)))
	if !m.Drop || m.Place.Owner != "o2" || m.Win != nil || !d.l.IsEmpty() || d.l.Hold() != nil {
		t.Errorf("move is %+v", m)
	}
}

// The next hold is faster than the answer to the release before: it stays.
func TestGaveIsStale(t *testing.T) {
	for _, answer := range []core.Answer{core.Granted, core.Held, core.NoAnswer, core.Late} {
		d, w, q := gave(t)
		if m, ours := d.l.Granted(at(12), "o2", block(50)); !ours || m.Win != w {
			t.Fatalf("a hand-off during the release: %+v, %t", m, ours)
		}
		h := d.l.Hold()
		wantUntil(t, &h.Lease, at(910)) // from when the release was sent
		if h.Owner != "o2" || h.Loose.Count != 1 {
			t.Errorf("hold is %+v", h)
		}
		d.want(d.l.Gave(at(13), "o1", q, core.Reply{Answer: answer}), core.Move{})
		if d.l.Hold() != h || d.l.IsEmpty() {
			t.Fatal("the hold is gone")
		}
		if want := map[bool]int{true: 1}[answer == core.NoAnswer]; h.Loose.Count != want {
			t.Errorf("%d are loose after %d, want %d", h.Loose.Count, answer, want)
		}
		if next, again := d.l.Done(at(14)); next != nil || again {
			t.Error("it is passed on to nobody")
		}
		// And its own release is not taken for the former one.
		d.want(d.l.Gave(at(15), "o1", q, core.Reply{Answer: answer}), core.Move{})
		if d.l.IsEmpty() {
			t.Error("the line ends with a stale answer")
		}
		d.l.Gave(at(16), "o2", core.Question{}, core.Reply{})
		if !d.l.IsEmpty() || d.l.Hold() != nil {
			t.Error("the line does not end")
		}
	}
}

// A hand-off to a place that everybody has left is undone with it.
func TestHandOffWhileGivingToNobody(t *testing.T) {
	d, w, q := gave(t)
	d.l.Leave(w)
	if m, ours := d.l.Granted(at(12), "o2", block(50)); !ours || m != (core.Move{}) {
		t.Errorf("move is %+v, %t", m, ours)
	}
	if m := d.l.Gave(at(13), "o1", q, held(0)); !m.Drop || m.Place.Owner != "o2" || !d.l.IsEmpty() {
		t.Errorf("move is %+v", m)
	}
}

func TestLost(t *testing.T) {
	d, w := holding(t, block(1), kind)
	h := d.l.Hold()
	d.want(d.l.Lost(at(5), nil), core.Move{})
	d.want(d.l.Lost(at(900), h), core.Move{Ask: true})
	q := d.ask(at(900))
	if q.Owner != "o2" || d.l.Hold() != nil {
		t.Errorf("question is %+v", q)
	}
	d.want(d.l.Lost(at(901), h), core.Move{}) // once
	if m, ours := d.l.Granted(at(902), "o1", block(1)); ours || m != (core.Move{}) {
		t.Error("a message for the lost hold is taken")
	}
	d.win(at(903), q, w, block(9))
	d.want(d.l.Lost(at(904), h), core.Move{}) // it is another one
	if d.l.Hold() == nil {
		t.Error("the next hold is lost with the former")
	}

	d = newDesk(t)
	a, q := d.open(0, kind)
	d.win(0, q, a, block(1))
	d.want(d.l.Lost(at(900), d.l.Hold()), core.Move{})
	if !d.l.IsEmpty() || d.l.Hold() != nil {
		t.Error("the line does not end")
	}

	d, _, q = gave(t) // the release goes on
	d.want(d.l.Lost(at(11), d.l.Hold()), core.Move{})
	d.want(d.l.Gave(at(12), "o1", q, held(0)), core.Move{})
}

// A hold that was got past the line is passed on like others, if it has a reserve.
func TestTake(t *testing.T) {
	d := newDesk(t)
	h := core.NewHold("t1", kind, at(-100), core.Grant{Fence: 4, Last: 9, Hears: true})
	d.l.Take(0, h)
	wantUntil(t, &h.Lease, at(800))
	if d.l.IsEmpty() || d.l.Hold() != h || h.Fence() != 4 {
		t.Errorf("hold is %+v", h)
	}
	w := d.come(at(1), kind)
	if next, _ := d.l.Done(at(2)); next != w || h.Fence() != 5 {
		t.Error("it is not passed on")
	}
	d.come(at(3), kind)
	d.l.Wanted("t1")
	if next, again := d.l.Done(at(10)); next != nil || !again {
		t.Error("the 10 ms do not count from when it was taken")
	}
	if q := d.ask(at(10)); q.Owner != "o1" {
		t.Errorf("question is %+v", q)
	}
	if core.NewHold("t1", kind, 0, core.Grant{Fence: 4}).Used() != 0 {
		t.Error("the fence in the key's value is told")
	}
}

// A turn's own limit does not keep the next one short, nor the other way round.
func TestLimitIsForOneTurn(t *testing.T) {
	k, l := hold(100 * ms)
	k.Limit(l, at(50), 0)
	wantUntil(t, l, at(900))
	if renew, ended := k.Tick(at(50)); len(renew) != 1 || len(ended) != 0 {
		t.Errorf("renewed %d, ended %d: a lease that was not to be renewed has to catch up", len(renew), len(ended))
	}
	k.Renewal(l, l.Terms(), at(50), at(51), core.Renewed)
	wantUntil(t, l, at(950))
	k.Limit(l, at(60), 20*ms)
	wantUntil(t, l, at(80))
	k.Limit(l, at(70), 20*ms)
	wantUntil(t, l, at(90))
	if got := k.Wake(at(89)); got != at(90) {
		t.Errorf("wakes at %s, want 90ms", time.Duration(got))
	}
	if _, ended := k.Tick(at(90)); len(ended) != 1 {
		t.Error("not ended with the turn's limit")
	}
	wantEnd(t, l.End(), core.HeldMost)
}

// One may run until 900 and a good estimate of the server's clock, the other until 850
// and a better one. All of them bound what is loose.
func TestLooseKeepsTheLatestNotAfter(t *testing.T) {
	d := newDesk(t)
	w := &core.Waiter{Kind: kind}
	d.l.Come(0, w)
	q := d.l.Question(0, false)
	d.l.Asked(0, q.Bound, 900_000)
	d.reply(at(1), q, core.Reply{Answer: core.NoAnswer})
	d.l.Resume()
	q = d.l.Question(at(26), false)
	d.l.Asked(at(26), q.Bound, 850_000)
	m, _ := d.l.Leave(w)
	if got := m.Place.Loose.NotAfter; got != 900_000 {
		t.Errorf("they may run until %dus, want 900000us", got)
	}
}

// The lock that is given up came by a hand-off, or by an answered request: the loose one
// may still run.
func TestUndoKnowsAHandOffFromTheLooseRequest(t *testing.T) {
	d := newDesk(t)
	w, _ := d.park(kind)
	d.l.Resume()
	d.ask(at(300)) // slow; and now the lock is handed to o1
	m, _ := d.l.Leave(w)
	u := core.NewUndo(at(301), m.Place.Loose, terms.TTL)
	u.Start(at(301))
	if got := u.Done(at(302), true, 0); got.Do == core.Freed {
		t.Error("the undo ends, and the request of 300ms may run until 1200ms")
	}
}

// The place that was there stays there when a later request is refused without effect.
func TestRefusalDropsThePlace(t *testing.T) {
	d := newDesk(t)
	d.park(kind)
	d.l.Resume()
	m := d.reply(at(301), d.ask(at(300)), core.Reply{Answer: core.Rejected, NoEffect: true})
	if !m.Fail || !m.Drop || m.Place.Owner != "o1" {
		t.Errorf("the line fails, and o1 keeps its place: %+v", m)
	}

	d = newDesk(t)
	_, q := d.open(0, kind)
	d.reply(at(900), q, granted(block(1))) // too late to be believed
	d.l.Resume()
	m = d.reply(at(926), d.ask(at(925)), core.Reply{Answer: core.Rejected, NoEffect: true})
	if !m.Fail || !m.Drop {
		t.Errorf("the line fails, and o1 keeps the lock: %+v", m)
	}
}

// A question that runs after its owner's lock was released makes a place in the line, or
// takes the lock. Its answer comes before that of the release.
func TestAnswerDuringARelease(t *testing.T) {
	for _, r := range []core.Reply{held(0), granted(block(70))} {
		d := newDesk(t)
		d.park(kind)
		d.l.Resume()
		q := d.ask(at(300))
		d.l.Granted(at(301), "o1", block(5))
		h := d.l.Hold()
		d.l.Done(at(302))
		d.reply(at(303), q, r)
		d.l.Gave(at(304), "o1", core.Question{}, core.Reply{})
		if h.Loose.Count == 0 {
			t.Errorf("after %+v nothing of o1 is undone", r)
		}
	}
}

// A reason to ask that comes during a release is kept for after it.
func TestHintDuringARelease(t *testing.T) {
	t.Run("resumed", func(t *testing.T) {
		d, _, q := gave(t)
		d.want(d.l.Resume(), core.Move{}) // messages may have been missed
		d.want(d.l.Gave(at(20), "o1", q, held(0)), core.Move{Ask: true})
	})
	t.Run("handed over too late", func(t *testing.T) {
		d, _, q := gave(t)
		if m, ours := d.l.Granted(at(700), "o2", block(50)); !ours || m != (core.Move{}) {
			t.Fatalf("move is %+v, %t", m, ours)
		}
		d.want(d.l.Gave(at(701), "o1", q, held(0)), core.Move{Ask: true})
	})
	t.Run("handed over while nobody waited", func(t *testing.T) {
		d, w, q := gave(t)
		d.l.Leave(w)
		d.l.Granted(at(12), "o2", block(50))
		d.come(at(13), kind)
		d.want(d.l.Gave(at(14), "o1", q, held(0)), core.Move{Ask: true})
	})
	t.Run("of the place before", func(t *testing.T) {
		d := newDesk(t)
		w, q := d.open(0, kind)
		d.l.Resume()
		d.win(at(1), q, w, core.Grant{Fence: 1})
		d.come(at(2), kind)
		d.l.Done(at(3))
		q = d.ask(at(3))
		d.want(d.l.Gave(at(4), "o1", q, held(0)), core.Move{}) // no reason to ask
	})
}

// A place that all have left while its release was answered has nothing loose.
func TestGaveKnowsAnAnsweredRequest(t *testing.T) {
	d, w, q := gave(t)
	d.l.Leave(w)
	m := d.l.Gave(at(13), "o1", q, held(0))
	d.dropped(m, "o2", 0)
}

// What ran beside a release has been answered: it is undone, and not waited for, unless
// there is another request.
func TestLooseAfterAnAnswerDuringARelease(t *testing.T) {
	for _, tt := range []struct {
		lost  int
		reply core.Reply
		want  core.Loose
	}{
		{0, held(0), core.Loose{Count: 1, Bound: at(303), NotAfter: core.LongAgo}},
		{0, core.Reply{Answer: core.Trouble, NoEffect: true}, core.Loose{}},
		{0, core.Reply{Answer: core.NoAnswer}, core.Loose{Count: 1, Bound: at(1200), NotAfter: micros(at(1200))}},
		{1, held(0), core.Loose{Count: 2, Bound: at(1200), NotAfter: micros(at(1200))}},
	} {
		d := newDesk(t)
		d.park(kind)
		for range tt.lost {
			d.l.Resume()
			d.reply(at(200), d.ask(at(200)), core.Reply{Answer: core.NoAnswer})
		}
		d.l.Resume()
		q := d.ask(at(300))
		d.l.Granted(at(301), "o1", block(5))
		h := d.l.Hold()
		d.l.Done(at(302))
		d.reply(at(303), q, tt.reply)
		if h.Loose != tt.want {
			t.Errorf("after %+v and %d lost: %+v, want %+v", tt.reply, tt.lost, h.Loose, tt.want)
		}
	}
	u := core.NewUndo(at(304), core.Loose{Count: 1, Bound: at(303), NotAfter: core.LongAgo}, time.Second)
	u.Start(at(304))
	wantBack(t, u.Done(at(305), false, micros(at(305))), core.Freed, 0)
}
