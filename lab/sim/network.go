package sim

import (
	"time"

	"github.com/lockkeeper/lockkeeper/internal/core"
)

// A fate is what became of a request, for who sent it.
type fate struct {
	silent bool   // no answer
	code   string // of an error that the server answered with
}

var silence = fate{silent: true}

func (f fate) answered() bool { return !f.silent && f.code == "" }

// noEffect reports whether the answer proves that the script wrote nothing.
func (f fate) noEffect() bool { return !f.silent && core.NoEffect(f.code, f.code) }

// isRefused reports whether asking again is of no use.
func (f fate) isRefused() bool { return f.code != "" && core.Classify(f.code, f.code) == core.Refused }

// reply is what the core is told where there is no usable answer.
func (f fate) reply() core.Reply {
	switch {
	case f.silent:
		return core.Reply{Answer: core.NoAnswer}
	case f.isRefused():
		return core.Reply{Answer: core.Rejected, NoEffect: f.noEffect()}
	}
	return core.Reply{Answer: core.Trouble, NoEffect: f.noEffect()}
}

var errorCodes = [...]string{"LOADING", "BUSY", "READONLY", "OOM", "MISCONF", "MASTERDOWN", "NOREPLICAS"}

// trip is how long something takes from a process to the server, or back.
func (p *process) trip() time.Duration {
	l := p.w.Latency
	return l/2 + time.Duration(p.r.Int64N(int64(l)))
}

// send sends a request. It runs on the server after a while, or late, or not at all; its
// answer arrives, or not. done is called once, at bound at the latest.
func send[T any](p *process, bound core.Instant, run func() T, done func(T, fate)) {
	w, v := p.w, &p.w.server
	var none T
	over := false
	finish := func(r T, f fate) {
		if !over {
			over = true
			done(r, f)
		}
	}
	there, back, epoch := p.trip(), p.trip(), v.epoch
	if _, yes := p.strikes(ScriptsLost); yes {
		there += 2 * there // NOSCRIPT, and again with the text
	}
	if d, yes := p.strikes(RequestLate); yes {
		there += d.upTo(w.Late)
	}
	w.at(p.world(bound), p, func() { finish(none, silence) })
	if d, yes := p.strikes(ConnectionBroken); yes {
		w.after(d.upTo(2*there), p, func() { finish(none, silence) })
	}
	if _, yes := p.strikes(RequestLost); yes {
		return
	}
	var arrive func()
	arrive = func() {
		switch {
		case v.epoch != epoch || w.now < v.down:
			w.after(back, p, func() { finish(none, silence) })
			return
		case w.now < v.free:
			w.at(v.free, nil, arrive)
			return
		}
		r, f := none, fate{}
		if d, yes := p.strikes(ErrorAnswer); yes {
			f.code = errorCodes[d.n(len(errorCodes))]
		} else if _, yes := p.strikes(Refusal); yes {
			f.code = "NOPERM"
		} else {
			r = run()
		}
		if _, yes := p.strikes(AnswerLost); yes {
			return
		}
		if d, yes := p.strikes(AnswerLate); yes {
			back += d.upTo(w.Late)
		}
		w.after(back, p, func() {
			if v.epoch != epoch {
				f = silence
			}
			finish(r, f)
		})
	}
	w.after(there, nil, arrive)
}

// A message is published by a script.
type message struct {
	kind  messageKind
	way   *way // who has got the lock, or for whose lock somebody waits
	grant core.Grant
	ran   Time // for the oracles: when the hand-off was made
	ttl   time.Duration
}

type messageKind uint8

const (
	grant messageKind = iota
	wanted
)

// publish sends a message to a way's process.
func (w *world) publish(m message) {
	p := m.way.p
	if !p.subscribed {
		return
	}
	if _, yes := p.strikes(MessageLost); yes {
		w.history.deafen(p)
		return
	}
	copies := 1
	if _, yes := p.strikes(MessageTwice); yes {
		copies = 2
	}
	for range copies {
		delay := p.trip()
		if d, yes := p.strikes(MessageLate); yes {
			delay += d.upTo(w.Late)
		}
		w.after(delay, p, func() { p.told(m) })
	}
}
