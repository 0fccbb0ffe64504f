package core_test

import (
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/core"
)

// Each test here is of a fault that is not mended yet. Take the skip away with the fault.
const found = "optional: fault reported"

// The hand-off was over before the last "held" was said: its message can't be proof of
// another one after that.
func TestFoundOldMessageIsBelieved(t *testing.T) {
	t.Skip(found)
	d := newDesk(t)
	_, q := d.open(0, kind)
	d.reply(at(1), q, core.Reply{Answer: core.Held, Left: time.Hour, Server: micros(0)})
	// At 10 the lock is handed to o1, with fence 5; the message is stuck, the process too.
	// At 1009 its key expires, and somebody else has it.
	d.l.Resume()
	q = d.ask(at(1100))
	d.reply(at(1101), q, core.Reply{Answer: core.Held, Left: time.Hour, Server: micros(at(1100))})
	m, ours := d.l.Granted(at(1102), "o1", block(5)) // says that it is of 10: micros(at(10))
	if !ours || m.Win != nil || d.l.Hold() != nil {
		t.Errorf("a hand-off of 10ms is believed until %s: %+v", time.Duration(d.l.Hold().Lease.Until()), m)
	}
}

// The hand-off gives what the last question has asked for, and not what the first has.
func TestFoundHandOffOfAnotherKind(t *testing.T) {
	t.Skip(found)
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

// One may run until 900 and a good estimate of the server's clock, the other until 850
// and a better one. All of them bound what is loose.
func TestFoundLooseForgetsALaterNotAfter(t *testing.T) {
	t.Skip(found)
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
func TestFoundUndoTakesAHandOffForTheLooseRequest(t *testing.T) {
	t.Skip(found)
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
func TestFoundRefusalLeavesThePlace(t *testing.T) {
	t.Skip(found)
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
func TestFoundAnswerDuringARelease(t *testing.T) {
	t.Skip(found)
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
func TestFoundHintDuringARelease(t *testing.T) {
	t.Skip(found)
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
func TestFoundGaveCountsAnAnsweredRequest(t *testing.T) {
	t.Skip(found)
	d, w, q := gave(t)
	d.l.Leave(w)
	m := d.l.Gave(at(13), "o1", q, held(0))
	d.dropped(m, "o2", 0)
}

// The same in worlds that need the faults mended. Each finds its own within some seconds.
func TestFoundInWorlds(t *testing.T) {
	t.Skip(found)
	for name, opt := range map[string]simOptions{
		"stale": {stale: true}, "kinds": {kinds: true}, "clocks": {clocks: true},
		"undo": {undo: true}, "late": {late: true}, "refuse": {refuse: true},
		"all": {stale: true, kinds: true, clocks: true, undo: true, late: true, refuse: true},
	} {
		t.Run(name, func(t *testing.T) { simulateAll(t, 1000, opt) })
	}
}
