package sim

import (
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/core"
	"github.com/lockkeeper/lockkeeper/lab/oracle"
)

// A process has one client, with what the root package does around the machines of the
// core: see client.go, keeper.go and listen.go there.
type process struct {
	w       *world
	slot    int
	lives   int // how many the slot has had before
	name    string
	r       *rand.Rand
	offset  core.Instant // of its clock
	rate    int64        // how much faster it is, in millionths
	stopped Time         // it does not run before
	dead    bool

	keeper core.Keeper
	woken  core.Instant // when the keeper is to run; Never if not
	owners int
	called int   // how many calls there were
	server int64 // the server's clock at 0 of ours, in us; 0: not known
	lines  []*line
	holds  []*hold

	mute       bool // it has no right to listen
	listening  bool // it wants to
	live       bool // it does, as it thinks
	broken     bool // it does not, and has not found out
	subscribed bool // as the server thinks
	pause      time.Duration
}

func newProcess(w *world, slot, life int) *process {
	name := "p" + strconv.Itoa(slot+1)
	if life > 0 {
		name += string(rune('a' + life%26))
	}
	p := &process{
		w: w, slot: slot, lives: life, name: name, rate: w.Rates[slot],
		r:     w.chance(uint64(slot)<<32 | uint64(life)),
		woken: core.Never, lines: make([]*line, w.Keys),
	}
	p.offset = core.Instant(p.r.Int64N(int64(time.Hour)))
	p.mute = w.Mute > 0 && p.r.IntN(w.Mute) == 0
	switch {
	case p.rate < -w.allowed():
		w.chaos.counts[ClockTooSlow]++
	case p.rate != 0:
		w.chaos.counts[ClockRate]++
	}
	return p
}

// chance is what a process draws from.
func (w *world) chance(stream uint64) *rand.Rand {
	pcg := rand.NewPCG(w.seed, stream)
	if w.data == nil {
		return rand.New(pcg)
	}
	return rand.New(&script{w, pcg})
}

// A script draws from the data that a fuzzer has made up, and when that is over from
// something that ends.
type script struct {
	w    *world
	then rand.Source
}

func (s *script) Uint64() uint64 {
	if len(s.w.data) == 0 {
		return s.then.Uint64()
	}
	b := s.w.data[0]
	s.w.data = s.w.data[1:]
	return uint64(b) * 0x0101010101010101 // small, large and in between, in all its bits
}

// start starts its callers.
func (p *process) start() {
	if p.w.absent&(1<<p.slot) != 0 {
		return
	}
	for range p.w.Callers {
		c := &caller{p: p}
		c.next()
	}
}

// now is the process's clock.
func (p *process) now() core.Instant { return p.local(p.w.now) }

// local returns what the process's clock shows at t.
func (p *process) local(t Time) core.Instant {
	return p.offset + core.Instant(int64(t)+int64(t)*p.rate/million)
}

const million = 1_000_000

// world returns when the process's clock shows i.
func (p *process) world(i core.Instant) Time {
	if i == core.Never {
		return oracle.Never
	}
	t := max(0, Time(int64(i-p.offset)*million/(million+p.rate))-3) // local rounds
	for p.local(t) < i {
		t++
	}
	return t
}

// fresh makes a new way, for which nothing has been sent.
func (p *process) fresh(key int) *way {
	p.owners++
	return &way{owner: p.name + "." + strconv.Itoa(p.owners), p: p, key: key, call: p.w.now, place: -1}
}

// sample takes in the server's clock, as it was at some time after sent.
func (p *process) sample(sent core.Instant, micros int64) {
	if micros > 0 {
		p.server = micros - time.Duration(sent).Microseconds()
	}
}

// serverTime is the server's clock at i, or a little later; 0 when it is not known.
func (p *process) serverTime(i core.Instant) int64 {
	if p.server == 0 {
		return 0
	}
	return p.server + time.Duration(i).Microseconds()
}

// wake makes the keeper run when it wants to.
func (p *process) wake() {
	at := p.keeper.Wake(p.now())
	if at == core.Never || p.woken <= at {
		return
	}
	p.woken = at
	p.w.at(p.world(at), p, func() {
		if p.woken == at {
			p.woken = core.Never
			p.tick()
		}
	})
}

// tick is what the keeper's goroutine does.
func (p *process) tick() {
	now := p.now()
	renew, ended := p.keeper.Tick(now)
	for due := p.keeper.DueLine(now); due != nil; due = p.keeper.DueLine(now) {
		due.Of.(*line).carry(due.Resume())
	}
	for _, l := range ended {
		l.Holder.(*hold).lose(l.End())
	}
	p.renewAll(renew)
}

// listen starts the subscription if need be.
func (p *process) listen() {
	if !p.listening && !p.mute {
		p.listening = true
		p.pause = listenFirst
		p.subscribe()
	}
}

// How a broken subscription is made again.
const (
	listenFirst = 100 * ms
	listenMost  = 2 * time.Second
)

// subscribe makes the subscription, and again until it is there.
func (p *process) subscribe() {
	w, v := p.w, &p.w.server
	w.after(2*p.trip(), nil, func() {
		if p.dead {
			return
		}
		if w.now < v.down {
			w.after(p.pause, p, p.subscribe)
			p.pause = min(2*p.pause, listenMost)
			return
		}
		p.subscribed = true
		epoch := v.epoch
		w.after(p.trip(), p, func() {
			if v.epoch != epoch {
				p.subscribe()
				return
			}
			p.pause = listenFirst
			p.setLive(true)
		})
	})
}

// cut breaks the subscription; the process finds out after a while. The server knows at
// once, or when the process makes another.
func (p *process) cut(known bool, after time.Duration) {
	if !p.live || p.broken {
		return
	}
	p.w.history.deafen(p)
	p.broken, p.subscribed = true, !known
	p.w.after(after, p, func() {
		p.broken = false
		p.setLive(false)
		p.w.after(p.pause, p, p.subscribe)
	})
}

// setLive takes in that the subscription is there or not.
func (p *process) setLive(live bool) {
	if p.live == live {
		return
	}
	if p.w.trace {
		p.w.note(p.name, "%s", map[bool]string{true: "listens", false: "finds that its subscription is broken"}[live])
	}
	p.live = live
	for _, ln := range p.lines {
		if ln == nil {
			continue
		}
		if h := ln.core.Hold(); h != nil {
			h.Deaf()
			h.Lease.Holder.(*hold).shared = true
		}
		ln.carry(ln.core.Resume())
	}
}

// finish checks that everybody was served and that nothing is left.
func (p *process) finish() {
	w := p.w
	for i, ln := range p.lines {
		if ln != nil {
			w.wrong(w.name(i), "%s: a line is left, with %d calls", p.name, ln.core.Len())
		}
	}
	for _, h := range p.holds {
		w.wrong(w.name(h.way.key), "%s: the hold of %s is left", p.name, h.way.owner)
	}
	if p.keeper.Len() > 0 || p.keeper.Wake(p.now()) != core.Never || p.keeper.DueLine(core.Never) != nil {
		w.wrong("", "%s: the keeper has something", p.name)
	}
}
