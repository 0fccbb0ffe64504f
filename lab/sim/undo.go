package sim

import (
	"time"

	"github.com/lockkeeper/lockkeeper/internal/core"
	"github.com/lockkeeper/lockkeeper/lab/oracle"
)

// An undoing is an undo on its way, as in undo.go of the root package.
type undoing struct {
	p       *process
	way     *way
	used    uint64
	machine core.Undo
	whole   bool // when it is done, nothing of the way is left, nor will be
	sleeps  int  // which sleep it is in; another event may end it
	asleep  bool
}

// undoes takes back what a way may have, which has used fences up to used.
// whole says that it is all that there is of the way.
func (p *process) undoes(y *way, loose core.Loose, ttl time.Duration, used uint64, whole bool) {
	u := &undoing{p: p, way: y, used: used, whole: whole, machine: core.NewUndo(p.now(), loose, ttl)}
	if loose.Count > 0 {
		y.undo = u
	}
	if p.w.trace {
		p.w.note(p.name, "%s gives up what it has of %s, with %d requests that may still run", y.owner, p.w.name(y.key), loose.Count)
	}
	u.step(u.machine.Start(p.now()))
}

// answered takes in the answer to a question of a way that nobody uses any more.
func (p *process) answered(ln *line, y *way, r core.Reply) {
	u := y.undo
	switch {
	case r.Answer == core.NoAnswer:
	case u != nil:
		u.machine.Answered()
		if u.asleep {
			u.wake()
		}
	case r.Answer == core.Granted && !y.giving:
		// Its undo has overtaken it, and found nothing.
		p.undoes(y, core.Loose{}, ln.terms.TTL, 0, false)
	}
}

// step does what the machine says.
func (u *undoing) step(b core.GiveBack) {
	p := u.p
	switch b.Do {
	case core.Send:
		u.send(b.Until)
	case core.Sleep:
		u.sleeps++
		u.asleep = true
		n := u.sleeps
		p.w.at(p.world(b.Until), p, func() {
			if u.asleep && u.sleeps == n {
				u.wake()
			}
		})
	default:
		if b.Do == core.Freed && u.whole {
			p.freed(u.way)
		}
		if u.way.undo == u {
			u.way.undo = nil
		}
	}
}

func (u *undoing) wake() {
	u.asleep = false
	u.step(u.machine.Resume(u.p.now()))
}

func (u *undoing) send(bound core.Instant) {
	p, sent := u.p, u.p.now()
	p.giveUp(u.way, u.used, nil, bound, func(r released, f fate) {
		if !f.answered() {
			u.step(u.machine.Failed(p.now()))
			return
		}
		p.sample(sent, r.server)
		u.step(u.machine.Done(p.now(), r.deleted, r.server))
	})
}

// giveUp sends one request that gives up whatever a way has.
func (p *process) giveUp(y *way, used uint64, again *ask, bound core.Instant, done func(released, fate)) {
	w := p.w
	seen := w.history.asks(oracle.Release, y, 0)
	send(p, bound, func() released {
		r := w.server.release(y, used, again)
		seen.runs(r.deleted)
		return r
	}, func(r released, f fate) {
		if f.answered() {
			seen.answered(r.deleted)
		} else {
			seen.unanswered()
		}
		done(r, f)
	})
}

// freed says that a way has nothing on the server, and won't have.
func (p *process) freed(y *way) {
	w := p.w
	y.done = true
	if !w.InModel || w.server.back > 0 {
		return
	}
	if k := w.server.look(y.key); k.holder == y || k.place(y) >= 0 {
		w.wrong(w.name(y.key), "%s is done with, and has something", y.owner)
	}
}
