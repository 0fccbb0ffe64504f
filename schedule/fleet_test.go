package schedule

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A fleet is five processes with clocks that are off by up to 3 s, on a network that takes its
// time, of which any is stopped, killed or cut off at any time, and another one started in the
// place of those that ended. It has one job of each kind, with a tick every 40 s.
type fleet struct {
	t      *testing.T
	rnd    *rand.Rand
	server *fakeServer
	slots  [5]*process // nil while there is none
	wg     sync.WaitGroup
	serial int

	mu      sync.Mutex
	active  map[string]*process // who runs the job
	starts  map[int64]int       // of guarded ticks
	effects map[int64][]effect
	cutOff  map[*process]time.Time // until when nothing comes through, from and to whom
	faults  []string
}

// An effect is the work of a leader's tick that was done.
type effect struct {
	by    *process
	alone bool // it was cut off then
}

const fleetEvery = 40 * time.Second

func (f *fleet) fault(format string, args ...any) {
	f.faults = append(f.faults, fmt.Sprintf(format, args...))
}

// dice returns a number below n by chance. Whom it falls to depends on the goroutines as well.
func (f *fleet) dice(n int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rnd.IntN(n)
}

func (f *fleet) span(most time.Duration) time.Duration { return time.Duration(f.dice(int(most))) }

// body is the work of a job in a process: it takes up to 5 s, and has its effect at the end.
func (f *fleet) body(p **process) func(context.Context, Tick) error {
	return func(ctx context.Context, t Tick) error {
		me, number := *p, t.Scheduled.UnixMilli()
		takes := f.span(5 * time.Second)
		f.mu.Lock()
		if me.dead.Load() {
			f.mu.Unlock()
			return errDead
		}
		if other := f.active[t.Job]; other != nil && !other.dead.Load() {
			f.fault("%s: %s and %s at a time", t.Job, other.name, me.name)
		}
		f.active[t.Job] = me
		if t.Job == "guarded" {
			f.starts[number]++
		}
		f.mu.Unlock()
		err := rest(ctx, takes)
		f.mu.Lock()
		defer f.mu.Unlock()
		if me.dead.Load() {
			return errDead
		}
		if f.active[t.Job] == me {
			f.active[t.Job] = nil
		}
		if err == nil && t.Job == "leader" {
			f.effects[number] = append(f.effects[number], effect{me, time.Now().Before(f.cutOff[me])})
		}
		return err
	}
}

func (f *fleet) start(slot int) {
	var p *process
	run := f.body(&p)
	f.serial++
	p = newProcess(f.t, f.server, fmt.Sprint("process ", f.serial), f.span(6*time.Second)-3*time.Second,
		Job{Name: "guarded", When: Every(fleetEvery), Run: run},
		Job{Name: "leader", When: Every(fleetEvery), Run: run, Leader: true})
	p.s.cfg.Runs = 10_000
	alive := p.conn.before
	lag := func(ctx context.Context, name string) error {
		if err := alive(ctx, name); err != nil {
			return err
		}
		f.mu.Lock()
		silence := time.Until(f.cutOff[p]) // what is on its way then arrives late
		f.mu.Unlock()
		if name != "join" && name != "member" { // those are most requests, and decide nothing
			silence = max(0, silence) + f.span(20*time.Millisecond)
		}
		if silence <= 0 {
			return nil
		}
		if err := rest(ctx, silence); err != nil {
			return err
		}
		return alive(ctx, name)
	}
	p.conn.before, p.conn.after = lag, lag
	f.slots[slot] = p.start()
}

// strike stops, kills or cuts off one of at least two that live.
func (f *fleet) strike() {
	var living []int
	for i, p := range f.slots {
		if p != nil {
			living = append(living, i)
		}
	}
	if len(living) < 2 {
		return
	}
	slot := living[f.dice(len(living))]
	p := f.slots[slot]
	if f.dice(3) == 0 {
		f.mu.Lock()
		f.cutOff[p] = time.Now().Add(time.Duration(f.rnd.IntN(25)) * time.Second)
		f.mu.Unlock()
		return
	}
	f.slots[slot] = nil
	if f.dice(2) == 0 {
		f.wg.Go(p.stop)
		return
	}
	f.mu.Lock() // not between an effect and its note
	p.kill()
	f.mu.Unlock()
	f.wg.Go(p.bury)
}

func (f *fleet) run(ticks int) {
	for i := range f.slots {
		f.start(i)
	}
	for end := time.Now().Add(time.Duration(ticks)*fleetEvery + ten); time.Now().Before(end); {
		time.Sleep(f.span(30 * time.Second))
		if slot := f.dice(len(f.slots)); f.slots[slot] == nil {
			f.start(slot)
		}
		f.strike()
	}
	time.Sleep(time.Minute) // the last takeover
	ask := newProcess(f.t, f.server, "ask", 0, Job{Name: "guarded", When: Every(fleetEvery), Run: f.body(nil)}, Job{Name: "leader", When: Every(fleetEvery), Run: f.body(nil)})
	for _, p := range f.slots {
		if p != nil {
			f.wg.Go(p.stop)
		}
	}
	f.wg.Wait()
	f.check(ask.s, ticks)
	_ = ask.locks.Close(f.t.Context())
}

// check looks at each tick.
func (f *fleet) check(s *Scheduler, ticks int) {
	done, cut := make(map[string]int), make(map[string]int) // runs in the history, by job and tick
	id := func(job string, tick int64) string { return fmt.Sprint(job, " ", tick) }
	for _, job := range []string{"guarded", "leader"} {
		runs, err := s.History(f.t.Context(), job, 10_000)
		if err != nil {
			f.t.Fatal(err)
		}
		for _, r := range runs {
			list := done
			if job == "leader" && (r.Outcome == Lost || r.Outcome == Stopped) {
				list = cut
			}
			list[id(job, r.Scheduled.UnixMilli())]++
		}
	}
	killed, cutOff, folded := 0, 0, 0
	for i := range ticks {
		n := fleetStart.Add(time.Duration(i+1) * fleetEvery).UnixMilli()
		if f.starts[n] > 1 || done[id("guarded", n)] != 1 {
			f.fault("guarded tick %d was begun %d times, and is %d times in the history", i, f.starts[n], done[id("guarded", n)])
		}
		finished, e := done[id("leader", n)], f.effects[n]
		switch {
		case finished == 1 && len(e) == 1:
		case finished == 1 && len(e) == 2 && e[0].alone:
			cutOff++ // for longer than its lock lived
		case finished == 1 && len(e) == 2 && e[0].by.dead.Load():
			killed++ // before it could tell
		case finished == 0 && cut[id("leader", n)] >= 2:
			folded++ // into the next one: one leader after the other has been struck, until then
		default:
			f.fault("leader's tick %d was done %d times, and is %d times in the history as done, %d times as cut short", i, len(e), finished, cut[id("leader", n)])
		}
	}
	if killed > 1+ticks/200 || cutOff > 5+ticks/25 || folded > 1+ticks/500 {
		f.fault("too many ticks were done twice, or folded")
	}
	if len(cut) < ticks/100 {
		f.fault("only %d ticks were cut short: the test is too gentle", len(cut))
	}
	f.t.Logf("%d processes; %d of the leader's ticks cut short, %d and %d done twice, as a process was killed or cut off before it could tell, %d folded into the next",
		f.serial, len(cut), killed, cutOff, folded)
}

// fleetStart is when a bubble begins.
var fleetStart = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// Each guarded tick runs at most once. Each tick of a leader is done, and once, if its process can
// tell of it. None is lost at a takeover.
func TestFleet(t *testing.T) {
	ticks := 2000
	if testing.Short() {
		ticks = 200
	}
	synctest.Test(t, func(t *testing.T) {
		f := &fleet{
			t: t, rnd: rand.New(rand.NewPCG(6, 5)), server: newFakeServer(),
			active: make(map[string]*process), starts: make(map[int64]int), effects: make(map[int64][]effect),
			cutOff: make(map[*process]time.Time),
		}
		f.run(ticks)
		f.server.checkTTLs(t)
		for _, fault := range f.faults[:min(len(f.faults), 20)] {
			t.Error(fault)
		}
	})
}
