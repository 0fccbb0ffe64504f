package core_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/core"
)

// long has a hand-off that is shorter than its TTL: 4 s, of which 3 s are believed.
var long = core.Terms{TTL: 10 * time.Second, Margin: time.Second}

var kind = core.Kind{Terms: terms}

// A desk drives one line. The server's clock is its own, in microseconds, and a second
// ahead.
type desk struct {
	t      *testing.T
	l      core.Line
	owners int
}

// newDesk returns a line whose owners are o1, o2 and so on, and whose first pause has no
// spread: 0.882 and the golden ratio make 0.5.
func newDesk(t *testing.T) *desk {
	d := &desk{t: t}
	d.l = core.NewLine(func() string { d.owners++; return "o" + strconv.Itoa(d.owners) }, 0.8819660112501051)
	return d
}

func micros(i core.Instant) int64 { return time.Duration(i).Microseconds() + 1_000_000 }

// ask sends the request that is wanted.
func (d *desk) ask(now core.Instant) core.Question {
	q := d.l.Question(now, false)
	d.l.Asked(now, q.Bound, micros(q.Bound))
	return q
}

// come takes in a call, which must wait behind others.
func (d *desk) come(now core.Instant, k core.Kind) *core.Waiter {
	d.t.Helper()
	w := &core.Waiter{Kind: k}
	if m := d.l.Come(now, w); m != (core.Move{}) {
		d.t.Errorf("a call that comes second makes %+v", m)
	}
	return w
}

// open takes in the first call, and sends its request.
func (d *desk) open(now core.Instant, k core.Kind) (*core.Waiter, core.Question) {
	d.t.Helper()
	w := &core.Waiter{Kind: k}
	if m := d.l.Come(now, w); m != (core.Move{Ask: true}) {
		d.t.Errorf("the first call makes %+v", m)
	}
	return w, d.ask(now)
}

// reply answers the question of the present place.
func (d *desk) reply(now core.Instant, q core.Question, r core.Reply) core.Move {
	d.t.Helper()
	m, current := d.l.Replied(now, q, r)
	if !current {
		d.t.Errorf("the answer to %s is not taken", q.Owner)
	}
	return m
}

// win answers with a grant, and w must have it.
func (d *desk) win(now core.Instant, q core.Question, w *core.Waiter, g core.Grant) *core.Hold {
	d.t.Helper()
	if m := d.reply(now, q, granted(g)); m != (core.Move{Win: w}) {
		d.t.Fatalf("a grant makes %+v", m)
	}
	return d.l.Hold()
}

// park lets the first call wait in a place on the server from 0 on.
func (d *desk) park(k core.Kind) (*core.Waiter, core.Question) {
	d.t.Helper()
	w, q := d.open(0, k)
	d.want(d.reply(at(1), q, held(0)), core.Move{})
	return w, q
}

func (d *desk) want(got, want core.Move) {
	d.t.Helper()
	if got != want {
		d.t.Errorf("move is %+v, want %+v", got, want)
	}
}

// dropped checks that a place is given up, with these loose requests.
func (d *desk) dropped(m core.Move, owner string, loose int) {
	d.t.Helper()
	if !m.Drop || m.Place.Owner != owner || m.Place.Loose.Count != loose || m.Ask || m.Win != nil {
		d.t.Errorf("move is %+v, want that %s is dropped with %d loose requests", m, owner, loose)
	}
}

func (d *desk) due(want core.Instant) {
	d.t.Helper()
	if off := time.Duration(d.l.Due() - want); off.Abs() > time.Microsecond {
		d.t.Errorf("due at %s, want %s", time.Duration(d.l.Due()), time.Duration(want))
	}
}

func granted(g core.Grant) core.Reply { return core.Reply{Answer: core.Granted, Grant: g} }

func held(before int) core.Reply {
	return core.Reply{Answer: core.Held, Left: time.Hour, Before: before, Server: 5_000_000}
}

// block is a grant with fences in reserve, to a client that hears, and nobody else waits.
func block(fence uint64) core.Grant {
	return core.Grant{Fence: fence, Last: fence + 65535, Hears: true, Server: 1 << 50}
}

func TestLineIsEmptyAtFirst(t *testing.T) {
	d := newDesk(t)
	if !d.l.IsEmpty() || d.l.IsAsking() || d.l.Len() != 0 || d.l.First() != nil || d.l.Hold() != nil || d.l.Due() != core.Never {
		t.Error("a new line is not empty")
	}
	d.want(d.l.Resume(), core.Move{})
	d.want(d.l.Close(), core.Move{})
	d.want(d.l.Lost(0, nil), core.Move{})
}

func TestQuestion(t *testing.T) {
	for _, tt := range []struct {
		terms        core.Terms
		direct, bg   time.Duration
		handOff      time.Duration
		poll, placed time.Duration
	}{
		{long, 500 * ms, 3 * time.Second, 4 * time.Second, time.Second, 4 * time.Second},
		{terms, 500 * ms, 900 * ms, 999 * ms, 300 * ms, 1900 * ms},
		{core.Terms{TTL: time.Hour, Margin: 6 * time.Minute}, 500 * ms, 3 * time.Second, 4 * time.Second, time.Second, 4 * time.Second},
		{core.Terms{TTL: 100 * ms, Margin: 10 * ms}, 90 * ms, 90 * ms, 100 * ms, 50 * ms, 1150 * ms},
	} {
		d := newDesk(t)
		w := &core.Waiter{Kind: core.Kind{Terms: tt.terms, Label: "x"}}
		d.l.Come(at(3), w)
		q := d.l.Question(at(5), true)
		want := core.Question{Owner: "o1", Kind: w.Kind, Sent: at(5), Bound: at(5).Add(tt.direct)}
		if q != want {
			t.Errorf("question is %+v, want %+v", q, want)
		}
		if q := d.l.Question(at(5), false); q.Bound != at(5).Add(tt.bg) {
			t.Errorf("in the background it is given up after %s, want %s", q.Bound.Sub(at(5)), tt.bg)
		}
		if got := tt.terms.HandOff().TTL; got != tt.handOff {
			t.Errorf("a hand-off of %+v gives %s, want %s", tt.terms, got, tt.handOff)
		}
		if got := tt.terms.Poll(); got != tt.poll {
			t.Errorf("a poll of %+v is %s, want %s", tt.terms, got, tt.poll)
		}
		if got := tt.terms.PlaceLease(); got != tt.placed {
			t.Errorf("a place of %+v lives for %s, want %s", tt.terms, got, tt.placed)
		}
	}
}

// What each answer makes of a line with one call.
func TestLineAnswers(t *testing.T) {
	for _, tt := range []struct {
		name  string
		reply core.Reply
		sent  core.Instant // the answer comes at 10
		pause float64      // 0: it does not park
		win   bool
		ask   bool
		fail  bool
		drop  bool
	}{
		{name: "granted", reply: granted(block(7)), win: true},
		{name: "granted in the last moment", reply: granted(block(7)), sent: at(-890) + 1, win: true},
		{name: "granted after its belief", reply: granted(block(7)), sent: at(-890), pause: 25},
		{name: "held", reply: core.Reply{Answer: core.Held, Left: time.Hour}, pause: 300},
		{name: "held, nobody listens", reply: core.Reply{Answer: core.Held, Left: time.Hour, Deaf: true}, pause: 200},
		{name: "held, free soon", reply: core.Reply{Answer: core.Held, Left: 40 * ms}, pause: 41},
		{name: "held, free soon, third in line", reply: core.Reply{Answer: core.Held, Left: 40 * ms, Before: 2}, pause: 51},
		{name: "held, free now", reply: core.Reply{Answer: core.Held}, pause: 1},
		{name: "held without a TTL", reply: core.Reply{Answer: core.Held, Left: -ms}, pause: 300},
		{name: "held, far back", reply: core.Reply{Answer: core.Held, Left: time.Hour, Before: 64}, pause: 600},
		{name: "held, not so far back", reply: core.Reply{Answer: core.Held, Left: time.Hour, Before: 63}, pause: 300},
		{name: "held, at the very end", reply: core.Reply{Answer: core.Held, Left: time.Hour, Before: 1 << 20}, pause: 3000},
		{name: "late", reply: core.Reply{Answer: core.Late}, ask: true},
		{name: "trouble", reply: core.Reply{Answer: core.Trouble}, pause: 25},
		{name: "no answer", reply: core.Reply{Answer: core.NoAnswer}, pause: 25},
		{name: "rejected", reply: core.Reply{Answer: core.Rejected}, fail: true, drop: true},
		{name: "rejected without effect", reply: core.Reply{Answer: core.Rejected, NoEffect: true}, fail: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := newDesk(t)
			w, q := d.open(tt.sent, kind)
			m := d.reply(at(10), q, tt.reply)
			if (m.Win == w) != tt.win || m.Ask != tt.ask || m.Fail != tt.fail || m.Drop != tt.drop {
				t.Errorf("move is %+v", m)
			}
			if tt.drop {
				d.dropped(m, "o1", 0)
			}
			if tt.pause > 0 {
				d.due(at(10 + tt.pause))
				d.want(d.l.Resume(), core.Move{Ask: true})
			} else {
				d.due(core.Never)
			}
			if d.l.IsEmpty() != tt.fail || d.l.IsAsking() != (tt.ask || tt.pause > 0) {
				t.Errorf("empty is %t, asking is %t", d.l.IsEmpty(), d.l.IsAsking())
			}
		})
	}
}

// A grant counts from when the question was sent, with the TTL that it asked for.
func TestGrantCountsFromSending(t *testing.T) {
	d := newDesk(t)
	w, q := d.open(at(100), kind)
	h := d.win(at(900), q, w, block(7))
	wantUntil(t, &h.Lease, at(1000))
	if h.Owner != "o1" || h.Kind != kind || h.Fence() != 7 || h.Turns() != 0 || h.Loose != (core.Loose{}) || d.l.Len() != 0 {
		t.Errorf("hold is %+v", h)
	}
}

func TestLineIsLateAFewTimes(t *testing.T) {
	d := newDesk(t)
	_, q := d.open(0, kind)
	for range 3 {
		d.want(d.reply(at(10), q, core.Reply{Answer: core.Late}), core.Move{Ask: true})
		q = d.ask(at(10))
	}
	d.want(d.reply(at(10), q, core.Reply{Answer: core.Late}), core.Move{})
	d.due(at(35))
	d.l.Resume()
	d.want(d.reply(at(40), d.ask(at(40)), held(0)), core.Move{}) // makes it forget
	d.l.Resume()
	d.want(d.reply(at(50), d.ask(at(50)), core.Reply{Answer: core.Late}), core.Move{Ask: true})
}

func TestTroubleBacksOffUntilAnAnswer(t *testing.T) {
	d := newDesk(t)
	_, q := d.open(0, kind)
	pause := func(r core.Reply) time.Duration {
		d.want(d.reply(0, q, r), core.Move{})
		due := d.l.Due()
		d.want(d.l.Resume(), core.Move{Ask: true})
		q = d.ask(0)
		return due.Sub(0)
	}
	for i, want := range []time.Duration{25 * ms, 50 * ms, 100 * ms, 200 * ms, 400 * ms, 800 * ms, time.Second, time.Second} {
		if got := pause(core.Reply{Answer: []core.Answer{core.NoAnswer, core.Trouble}[i%2]}); got < want*3/4 || got > want*5/4 {
			t.Errorf("pause %d is %s, want about %s", i, got, want)
		}
	}
	pause(held(0))
	if got := pause(core.Reply{Answer: core.Trouble}); got > 32*ms {
		t.Errorf("after an answer the pause is %s, want about 25ms", got)
	}
}

// The pauses of one waiter, and of many, do not fall together.
func TestPausesAreSpread(t *testing.T) {
	seen := make(map[time.Duration]bool)
	lowest, highest := time.Hour, time.Duration(0)
	for i := range 50 {
		d := newDesk(t)
		d.l = core.NewLine(func() string { return "o" }, float64(i)/50)
		_, q := d.open(0, core.Kind{Terms: long})
		for range 20 {
			d.reply(0, q, held(0))
			got := d.l.Due().Sub(0)
			d.l.Resume()
			q = d.ask(0)
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

// What of a place is told to the server stays what it is while the place is asked for:
// its owner, and since when it waits.
func TestPlaceKeepsOwnerAndSince(t *testing.T) {
	d := newDesk(t)
	_, q := d.open(at(7), kind)
	if q.Since != 0 {
		t.Errorf("the first question is %+v", q)
	}
	d.reply(at(8), q, core.Reply{Answer: core.NoAnswer})
	d.l.Resume()
	if q = d.ask(at(33)); q.Since != 0 || q.Owner != "o1" {
		t.Errorf("before there was an answer the question is %+v", q)
	}
	d.reply(at(34), q, core.Reply{Answer: core.Held, Server: 77})
	for i := range 3 {
		d.l.Resume()
		if q = d.ask(at(100)); q.Since != 77 || q.Owner != "o1" {
			t.Errorf("question %d is %+v", i, q)
		}
		d.reply(at(100), q, core.Reply{Answer: core.Held, Server: 99, Left: time.Hour})
	}
}

// Calls are served in the order in which they came.
func TestLineIsFIFO(t *testing.T) {
	d := newDesk(t)
	a, q := d.open(0, kind)
	b, c, e := d.come(0, kind), d.come(0, kind), d.come(0, kind)
	if d.l.Len() != 4 || d.l.First() != a {
		t.Fatalf("%d wait", d.l.Len())
	}
	d.win(at(1), q, a, block(1))
	if m, ok := d.l.Leave(c); !ok || m != (core.Move{}) {
		t.Errorf("a call in the middle leaves: %+v, %t", m, ok)
	}
	for i, want := range []*core.Waiter{b, e} {
		got, again := d.l.Done(at(2))
		if got != want || again || d.l.Hold().Fence() != uint64(i+2) || d.l.Hold().Turns() != i+1 {
			t.Errorf("turn %d is not that of who came then", i+1)
		}
	}
	if next, again := d.l.Done(at(3)); next != nil || again || d.l.Len() != 0 {
		t.Error("a turn of nobody")
	}
}

func TestLeave(t *testing.T) {
	t.Run("asking", func(t *testing.T) {
		d := newDesk(t)
		a, _ := d.open(0, kind)
		b := d.come(0, kind)
		if m, ok := d.l.Leave(a); !ok || m != (core.Move{}) || d.l.First() != b {
			t.Errorf("the first of two leaves: %+v, %t", m, ok)
		}
		m, ok := d.l.Leave(b)
		if d.dropped(m, "o1", 1); !ok || !d.l.IsEmpty() {
			t.Error("the last has not left")
		}
		if m.Place.Loose != (core.Loose{Count: 1, Bound: at(900), NotAfter: micros(at(900))}) {
			t.Errorf("loose is %+v", m.Place.Loose)
		}
		if m, ok := d.l.Leave(b); ok || m != (core.Move{}) {
			t.Errorf("it leaves twice: %+v", m)
		}
	})
	t.Run("parked", func(t *testing.T) {
		d := newDesk(t)
		a, _ := d.park(kind)
		b := d.come(at(2), kind)
		if m, ok := d.l.Leave(b); !ok || m != (core.Move{}) {
			t.Errorf("the last of two leaves: %+v, %t", m, ok)
		}
		m, ok := d.l.Leave(a)
		if d.dropped(m, "o1", 0); !ok || !d.l.IsEmpty() || d.l.Due() != core.Never {
			t.Error("it has not left")
		}
	})
	t.Run("after the grant", func(t *testing.T) {
		d := newDesk(t)
		a, q := d.open(0, kind)
		d.win(at(1), q, a, block(1))
		if m, ok := d.l.Leave(a); ok || m != (core.Move{}) {
			t.Errorf("who has the lock leaves: %+v", m)
		}
	})
	t.Run("held and giving", func(t *testing.T) {
		d := newDesk(t)
		a, q := d.open(0, kind)
		d.win(at(1), q, a, core.Grant{Fence: 1})
		b, c := d.come(at(2), kind), d.come(at(2), kind)
		if m, ok := d.l.Leave(b); !ok || m != (core.Move{}) {
			t.Errorf("a call leaves beside a hold: %+v, %t", m, ok)
		}
		if _, again := d.l.Done(at(3)); !again {
			t.Fatal("no new place")
		}
		q = d.ask(at(3))
		if m, ok := d.l.Leave(c); !ok || m != (core.Move{}) || d.l.IsEmpty() {
			t.Errorf("a call leaves during a release: %+v, %t", m, ok)
		}
		m := d.l.Gave(at(4), "o1", q, core.Reply{Answer: core.NoAnswer})
		if d.dropped(m, "o2", 1); !d.l.IsEmpty() || d.l.Hold() != nil {
			t.Error("the line does not end")
		}
	})
}

func TestCloseDropsThePlace(t *testing.T) {
	d := newDesk(t)
	w, _ := d.open(0, kind)
	d.dropped(d.l.Close(), "o1", 1)
	if m, ok := d.l.Leave(w); !ok || m != (core.Move{}) || !d.l.IsEmpty() {
		t.Errorf("leaves with %+v, %t", m, ok)
	}
	d = newDesk(t)
	d.park(kind)
	d.dropped(d.l.Close(), "o1", 0)
	d = newDesk(t)
	w, q := d.open(0, kind)
	d.win(at(1), q, w, block(1))
	d.want(d.l.Close(), core.Move{}) // the hold is released by its turn
	d.l.Done(at(2))
	d.want(d.l.Gave(at(3), "o1", core.Question{}, core.Reply{}), core.Move{})
	if !d.l.IsEmpty() {
		t.Error("the line does not end")
	}
}

// A reason to ask that comes while a question is out is kept for after its answer.
func TestResume(t *testing.T) {
	d := newDesk(t)
	w, q := d.open(0, kind)
	d.want(d.l.Resume(), core.Move{})
	d.want(d.reply(at(1), q, held(0)), core.Move{Ask: true})
	q = d.ask(at(1))
	d.want(d.reply(at(2), q, held(0)), core.Move{}) // once
	d.want(d.l.Resume(), core.Move{Ask: true})
	q = d.ask(at(3))
	d.win(at(4), q, w, block(1))
	d.want(d.l.Resume(), core.Move{})
	d.due(core.Never)
}

// Answers to former owners are told apart.
func TestStaleAnswers(t *testing.T) {
	d := newDesk(t)
	w, q := d.open(0, kind)
	d.l.Leave(w)
	for _, r := range []core.Reply{granted(block(1)), held(0), {Answer: core.NoAnswer}} {
		if m, current := d.l.Replied(at(1), q, r); current || m != (core.Move{}) {
			t.Errorf("%+v to an empty line: %+v, %t", r, m, current)
		}
	}
	_, q2 := d.open(at(2), kind)
	if m, current := d.l.Replied(at(3), q, granted(block(1))); current || m != (core.Move{}) {
		t.Errorf("the grant of a former owner: %+v, %t", m, current)
	}
	if m, mine := d.l.Granted(at(3), "o1", block(1)); mine || m != (core.Move{}) {
		t.Errorf("the hand-off to a former owner: %+v, %t", m, mine)
	}
	if q2.Owner != "o2" || !d.l.IsAsking() {
		t.Error("they have changed something")
	}
}

// Belief in a hand-off counts from when the last question was sent that was answered
// "held", and lasts as long as a hand-off gives.
func TestHandOffCountsFromProof(t *testing.T) {
	k := core.Kind{Terms: long}
	for _, tt := range []struct {
		name       string
		sent, held core.Instant // the second question; 0 if it has no answer
		now, until core.Instant
	}{
		{"from the first question, unanswered", 0, 0, at(1500), at(3000)},
		{"from the first question, in the last moment", 0, 0, at(2000), at(3000)},
		{"too little is left", 0, 0, at(2000) + 1, 0},
		{"from the second", at(1000), at(1100), at(3000), at(4000)},
		{"from the second, too little is left", at(1000), at(1100), at(3001), 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := newDesk(t)
			w, q := d.open(0, k)
			if tt.held > 0 {
				d.reply(at(1), q, held(0))
				d.l.Resume()
				q = d.ask(tt.sent)
				d.reply(tt.held, q, held(0))
				d.l.Resume()
				d.ask(tt.held)
			}
			m, ours := d.l.Granted(tt.now, "o1", block(5))
			if !ours || (m.Win == w) != (tt.until > 0) {
				t.Fatalf("move is %+v, %t", m, ours)
			}
			if tt.until == 0 {
				if d.l.Hold() != nil || !d.l.IsAsking() {
					t.Error("it does not ask")
				}
				return
			}
			h := d.l.Hold()
			wantUntil(t, &h.Lease, tt.until)
			if h.Fence() != 5 || h.Owner != "o1" || h.Loose.Count != 1 {
				t.Errorf("hold is %+v", h)
			}
		})
	}
}

// The same where the server's clock went back in between: the next holder's fence tells.
func TestOldMessageIsKnownByItsFence(t *testing.T) {
	for fence, believed := range map[uint64]bool{5: false, 70005: false, 70006: true} {
		d := newDesk(t)
		_, q := d.open(0, kind)
		d.reply(at(1), q, core.Reply{Answer: core.Held, Left: time.Hour, Server: micros(at(2000)), Fence: 4})
		d.l.Resume()
		q = d.ask(at(1100))
		d.reply(at(1101), q, core.Reply{Answer: core.Held, Left: time.Hour, Server: micros(at(1100)), Fence: 70005})
		m, _ := d.l.Granted(at(1102), "o1", core.Grant{Fence: fence, Last: fence + 65535, Hears: true, Server: micros(at(2010))})
		if got := m.Win != nil; got != believed {
			t.Errorf("a message with fence %d is believed: %t", fence, got)
		}
	}
}

// The hand-off was over before the last "held" was said: its message can't be proof of
// another one after that.
func TestOldMessageIsNotBelieved(t *testing.T) {
	d := newDesk(t)
	_, q := d.open(0, kind)
	d.reply(at(1), q, core.Reply{Answer: core.Held, Left: time.Hour, Server: micros(0)})
	// At 10 the lock is handed to o1, with fence 5; the message is stuck, the process too.
	// At 1009 its key expires, and somebody else has it.
	d.l.Resume()
	q = d.ask(at(1100))
	d.reply(at(1101), q, core.Reply{Answer: core.Held, Left: time.Hour, Server: micros(at(1100))})
	m, ours := d.l.Granted(at(1102), "o1", core.Grant{Fence: 5, Last: 70000, Hears: true, Server: micros(at(10))})
	if !ours || m.Win != nil || d.l.Hold() != nil {
		t.Errorf("a hand-off of 10ms is believed at 1102ms: %+v", m)
	}
}

// The hand-off gives what the last question has asked for, and not what the first has.
func TestHandOffOfAnotherKind(t *testing.T) {
	d := newDesk(t)
	a, q := d.open(0, core.Kind{Terms: long}) // a hand-off would give 4 s
	d.come(0, kind)                           // 999 ms
	d.reply(at(1), q, held(0))
	d.l.Leave(a)
	d.l.Resume()
	q = d.ask(at(100))
	d.reply(at(101), q, held(0))
	d.l.Granted(at(200), "o1", block(5))
	if h := d.l.Hold(); h != nil && h.Lease.Until() > at(1000) {
		t.Errorf("believed until %s, and the key lives for 999ms from 100ms on at the least", time.Duration(h.Lease.Until()))
	}
}

// While nobody has said which of two questions ran last, the shorter hand-off counts.
func TestHandOffOfTheShorterKind(t *testing.T) {
	d := newDesk(t)
	a, q := d.open(0, kind)                // 999 ms
	b := d.come(0, core.Kind{Terms: long}) // 4 s
	d.reply(at(1), q, core.Reply{Answer: core.NoAnswer})
	d.l.Leave(a)
	d.l.Resume()
	d.ask(at(26)) // may come before the other
	m, _ := d.l.Granted(at(30), "o1", block(5))
	if h := d.l.Hold(); m.Win == b && h.Lease.Until() > at(900) {
		t.Errorf("believed until %s, and the key may live for 999ms from 0 on", time.Duration(h.Lease.Until()))
	}
}

// The TTL of a hand-off bounds belief where it is the shorter one.
func TestHandOffWithAShortTTL(t *testing.T) {
	d := newDesk(t)
	d.park(kind)
	d.l.Granted(at(100), "o1", block(5))
	wantUntil(t, &d.l.Hold().Lease, at(900))
	if d.l.Hold().Loose.Count != 0 {
		t.Error("an answered request is loose")
	}
}

// The message, and the answer to a question that was out: whichever comes first.
func TestHandOffBesideAnAnswer(t *testing.T) {
	for _, r := range []core.Reply{granted(block(9)), held(0), {Answer: core.Trouble}, {Answer: core.NoAnswer}, {Answer: core.Late}} {
		d := newDesk(t)
		w, _ := d.park(kind)
		d.l.Resume()
		q := d.ask(at(300))
		if m, ours := d.l.Granted(at(301), "o1", block(5)); !ours || m.Win != w {
			t.Fatalf("move is %+v", m)
		}
		h := d.l.Hold()
		d.want(d.reply(at(302), q, r), core.Move{})
		if want := map[bool]int{true: 1}[r.Answer == core.NoAnswer]; h.Loose.Count != want || d.l.Hold() != h || h.Fence() != 5 {
			t.Errorf("after %d %d requests are loose, want %d", r.Answer, h.Loose.Count, want)
		}
		if m, ours := d.l.Granted(at(303), "o1", block(5)); !ours || m != (core.Move{}) {
			t.Errorf("the message again: %+v, %t", m, ours)
		}
	}
	d := newDesk(t)
	w, q := d.open(0, kind)
	d.win(at(1), q, w, block(5))
	if m, ours := d.l.Granted(at(2), "o1", block(5)); !ours || m != (core.Move{}) {
		t.Errorf("the message after the answer: %+v, %t", m, ours)
	}
}

// A hand-off that comes too late to be believed while a question is out makes it ask
// again when that says that somebody else has it: the question was the older one.
func TestLateHandOffIsNotForgotten(t *testing.T) {
	d := newDesk(t)
	w, _ := d.park(kind)
	d.l.Resume()
	q := d.ask(at(700))
	if m, ours := d.l.Granted(at(701), "o1", block(5)); !ours || m != (core.Move{}) {
		t.Fatalf("move is %+v", m)
	}
	d.want(d.reply(at(702), q, held(0)), core.Move{Ask: true})
	d.win(at(703), d.ask(at(702)), w, block(5))
}

// Who is too slow for three hand-offs goes to the end of the line.
func TestMissedHandOffs(t *testing.T) {
	d := newDesk(t)
	d.park(kind) // Proof is 0
	for i, want := range []int64{5_000_000, 5_000_000, 0} {
		now := at(700 + 1000*float64(i))
		m, _ := d.l.Granted(now, "o1", block(uint64(i)))
		d.want(m, core.Move{Ask: true})
		q := d.ask(now)
		if q.Since != want || q.Owner != "o1" {
			t.Errorf("after %d hand-offs the question is %+v", i+1, q)
		}
		d.reply(now, q, core.Reply{Answer: core.Trouble})
	}
	d.l.Resume()
	d.reply(at(3000), d.ask(at(3000)), core.Reply{Answer: core.Held, Left: time.Hour, Server: 8_000_000})
	d.l.Resume()
	if q := d.ask(at(3300)); q.Since != 8_000_000 {
		t.Errorf("at the end of the line the question is %+v", q)
	}
}

// That others wait is not forgotten, whenever it is told.
func TestWanted(t *testing.T) {
	passes := func(d *desk) (n int) {
		for range 20 {
			d.come(at(2), kind)
		}
		for {
			if next, _ := d.l.Done(at(2)); next == nil {
				return n
			}
			n++
		}
	}
	for _, tt := range []struct {
		name string
		tell func(d *desk, w *core.Waiter, q core.Question)
		want int
	}{
		{"never", func(d *desk, w *core.Waiter, q core.Question) { d.win(at(1), q, w, block(1)) }, 20},
		{"of another owner", func(d *desk, w *core.Waiter, q core.Question) {
			d.l.Wanted("o0")
			d.win(at(1), q, w, block(1))
			d.l.Wanted("o2")
			d.l.Wanted("")
		}, 20},
		{"before the answer", func(d *desk, w *core.Waiter, q core.Question) {
			d.l.Wanted("o1")
			d.win(at(1), q, w, block(1))
		}, 8},
		{"before the hand-off", func(d *desk, w *core.Waiter, q core.Question) {
			d.reply(at(1), q, held(0))
			d.l.Wanted("o1")
			d.l.Granted(at(1), "o1", block(1))
		}, 8},
		{"after the answer", func(d *desk, w *core.Waiter, q core.Question) {
			d.win(at(1), q, w, block(1))
			d.l.Wanted("o1")
		}, 8},
		{"in the answer", func(d *desk, w *core.Waiter, q core.Question) {
			d.win(at(1), q, w, core.Grant{Fence: 1, Last: 65536, Hears: true, Others: true})
		}, 8},
		{"nobody would hear it", func(d *desk, w *core.Waiter, q core.Question) {
			d.win(at(1), q, w, core.Grant{Fence: 1, Last: 65536})
		}, 8},
		{"deaf since", func(d *desk, w *core.Waiter, q core.Question) {
			d.win(at(1), q, w, block(1)).Deaf()
		}, 8},
		{"of the place before", func(d *desk, w *core.Waiter, _ core.Question) {
			d.l.Wanted("o1")
			d.l.Leave(w)
			next, q := d.open(0, kind)
			d.win(at(1), q, next, block(1))
		}, 20},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := newDesk(t)
			w, q := d.open(0, kind)
			tt.tell(d, w, q)
			if got := passes(d); got != tt.want {
				t.Errorf("%d turns are passed on, want %d", got, tt.want)
			}
		})
	}
}

// The requests of an owner that nobody has answered are counted until it is dropped.
func TestLoose(t *testing.T) {
	d := newDesk(t)
	w, q := d.open(0, kind) // given up at 900
	d.reply(at(100), q, core.Reply{Answer: core.NoAnswer})
	d.l.Resume()
	q = d.ask(at(130))
	d.reply(at(140), q, core.Reply{Answer: core.Trouble})
	d.l.Resume()
	q = d.ask(at(160))
	d.reply(at(170), q, core.Reply{Answer: core.NoAnswer})
	m, _ := d.l.Leave(w)
	d.dropped(m, "o1", 2)
	if m.Place.Loose != (core.Loose{Count: 2, Bound: at(1060), NotAfter: micros(at(1060))}) {
		t.Errorf("loose is %+v", m.Place.Loose)
	}
}

func TestLooseWithoutNotAfter(t *testing.T) {
	for _, notAfters := range [][]int64{{0, 500}, {500, 0}, {0, 0}} {
		d := newDesk(t)
		w := &core.Waiter{Kind: kind}
		d.l.Come(0, w)
		for i, notAfter := range notAfters {
			now := at(float64(100 * i))
			q := d.l.Question(now, false)
			d.l.Asked(now, q.Bound, notAfter)
			d.reply(now, q, core.Reply{Answer: core.NoAnswer})
			d.l.Resume()
		}
		m, _ := d.l.Leave(w)
		if m.Place.Loose != (core.Loose{Count: 2, Bound: at(1000)}) {
			t.Errorf("%v make %+v", notAfters, m.Place.Loose)
		}
	}
}

// A second after the last one was given up, and refused by the server, none can run.
func TestLooseIsOver(t *testing.T) {
	for _, tt := range []struct {
		notAfter int64
		now      core.Instant
		want     int
	}{{500, at(1900), 2}, {500, at(1900) + 1, 1}, {0, at(5000), 2}} {
		d := newDesk(t)
		w := &core.Waiter{Kind: kind}
		d.l.Come(0, w)
		q := d.l.Question(0, false) // until 900
		d.l.Asked(0, q.Bound, tt.notAfter)
		d.reply(at(1), q, core.Reply{Answer: core.NoAnswer})
		d.l.Resume()
		q = d.l.Question(tt.now, false)
		d.l.Asked(tt.now, q.Bound, 900)
		m, _ := d.l.Leave(w)
		if got := m.Place.Loose.Count; got != tt.want {
			t.Errorf("at %s %d are loose, want %d", time.Duration(tt.now), got, tt.want)
		}
	}
}

// A rejection drops what may be left, and only then.
func TestRejectionDropsWhatIsLoose(t *testing.T) {
	d := newDesk(t)
	_, q := d.open(0, kind)
	d.reply(at(100), q, core.Reply{Answer: core.NoAnswer})
	d.l.Resume()
	m := d.reply(at(140), d.ask(at(130)), core.Reply{Answer: core.Rejected, NoEffect: true})
	if d.dropped(m, "o1", 1); !m.Fail || !d.l.IsEmpty() {
		t.Errorf("move is %+v", m)
	}
}

// A grant that came after its belief is asked for again, by its owner.
func TestLateGrantIsAskedForAgain(t *testing.T) {
	d := newDesk(t)
	w, q := d.open(0, kind)
	d.want(d.reply(at(900), q, granted(block(1))), core.Move{})
	d.want(d.l.Resume(), core.Move{Ask: true})
	q = d.ask(at(925))
	if q.Owner != "o1" {
		t.Errorf("asked for by %s", q.Owner)
	}
	h := d.win(at(926), q, w, block(1))
	wantUntil(t, &h.Lease, at(1825))
}

// Lines in a keeper are due in the order of their times.
func TestKeeperWatchesLines(t *testing.T) {
	k, _ := hold(0)
	var lines []*desk
	for i := range 5 {
		d := newDesk(t)
		_, q := d.open(0, kind)
		d.reply(0, q, core.Reply{Answer: core.Held, Left: []time.Duration{9, 3, 7, 5, 1}[i] * ms})
		k.Watch(&d.l)
		lines = append(lines, d)
	}
	if got := k.Wake(0); got != at(2) {
		t.Errorf("wakes at %s, want 2ms", time.Duration(got))
	}
	if k.DueLine(at(2)-1) != nil {
		t.Error("a line is due too early")
	}
	lines[1].l.Leave(lines[1].l.First()) // no more
	k.Watch(&lines[1].l)
	k.Watch(&lines[1].l)
	lines[0].l.Resume() // and due sooner
	lines[0].reply(at(1), lines[0].ask(at(1)), core.Reply{Answer: core.Held, Left: 2 * ms})
	k.Watch(&lines[0].l)
	for _, tt := range []struct {
		now  float64
		line int
	}{{2, 4}, {4, 0}, {6, 3}, {8, 2}} {
		if k.DueLine(at(tt.now)-1) != nil {
			t.Errorf("at %vms a line is due too early", tt.now)
		}
		if got := k.DueLine(at(tt.now)); got != &lines[tt.line].l {
			t.Errorf("at %vms line %d is not due", tt.now, tt.line)
		}
	}
	if k.DueLine(core.Never) != nil {
		t.Error("a line is due that is not parked")
	}
	if got := k.Wake(0); got != at(49.5) {
		t.Errorf("wakes at %s, want for the lease alone", time.Duration(got))
	}
	k.Drop(k.Leases()[0])
	if got := k.Wake(0); got != core.Never {
		t.Errorf("wakes at %s, want never", time.Duration(got))
	}
}
