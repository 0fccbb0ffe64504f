package core_test

import (
	"cmp"
	"container/heap"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/core"
)

// A sim drives several processes, each with what the shell does around a line, against a
// model of the server. Time is the sim's own; everything that happens is an event.
type sim struct {
	r      *rand.Rand
	now    core.Instant // on no process's clock
	queue  simQueue
	seq    int
	server simServer
	procs  []*simProc
	faults bool
	rare   int // how rare they are
	calm   bool
	err    error
	log    []string

	fence    uint64 // of the last turn that began
	turns    int
	passed   int
	handOffs int
	calls    int
	slowest  time.Duration // from a turn's end to the next, while somebody waits for long
	ended    core.Instant  // when the last turn ended with such a waiter; Never without
}

type simEvent struct {
	at  core.Instant
	seq int
	p   *simProc // whose process has to run for it
	do  func()
}

type simQueue []simEvent

func (q simQueue) Len() int { return len(q) }
func (q simQueue) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(q[i].at, q[j].at), cmp.Compare(q[i].seq, q[j].seq)) < 0
}
func (q simQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *simQueue) Push(x any)   { *q = append(*q, x.(simEvent)) }
func (q *simQueue) Pop() any {
	x := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return x
}

func (s *sim) after(d time.Duration, p *simProc, do func()) { s.at(s.now.Add(max(d, 0)), p, do) }

func (s *sim) at(i core.Instant, p *simProc, do func()) {
	s.seq++
	heap.Push(&s.queue, simEvent{at: i, seq: s.seq, p: p, do: do})
}

func (s *sim) fail(format string, args ...any) {
	if s.err == nil {
		s.note(format, args...)
		s.err = fmt.Errorf(format, args...)
	}
}

func (s *sim) note(format string, args ...any) {
	s.log = append(s.log, fmt.Sprintf("%12s ", time.Duration(s.now))+fmt.Sprintf(format, args...))
	if len(s.log) > 20000 {
		s.log = slices.Clone(s.log[10000:])
	}
}

// chance is true once in n times, while there are faults.
func (s *sim) chance(n int) bool { return s.faults && s.r.IntN(n*s.rare) == 0 }

func (s *sim) upTo(d time.Duration) time.Duration { return time.Duration(s.r.Int64N(int64(d) + 1)) }

// run runs what comes until then, and checks after each event.
func (s *sim) run(until core.Instant) {
	for s.err == nil && len(s.queue) > 0 && s.queue[0].at <= until {
		e := heap.Pop(&s.queue).(simEvent)
		s.now = max(s.now, e.at)
		if e.p != nil && s.now < e.p.stopped {
			s.at(e.p.stopped, e.p, e.do)
			continue
		}
		e.do()
		s.server.expire()
		s.believed()
		if e.p != nil {
			e.p.wake()
		}
	}
	s.now = max(s.now, until)
}

// believed checks that not more than one turn is believed in, and that by who has the
// lock on the server.
func (s *sim) believed() {
	n := 0
	for _, p := range s.procs {
		for _, h := range p.holds {
			if h.turn == nil || h.core.Lease.End() != core.NotEnded || p.now() >= h.core.Lease.Until() {
				continue
			}
			if n++; n > 1 {
				s.fail("%s believes in %s beside another", p.name, h.core.Owner)
			}
			if most := s.server.expires.Add(time.Duration(p.offset) - h.core.Kind.Terms.Margin); h.core.Lease.Until() > most && s.server.owner == h.core.Owner {
				s.fail("%s believes in %s for %s too long", p.name, h.core.Owner, h.core.Lease.Until().Sub(most))
			}
			if s.server.owner != h.core.Owner {
				s.fail("%s believes in %s until %s, and %q has the lock", p.name, h.core.Owner, time.Duration(h.core.Lease.Until()-p.offset), s.server.owner)
			}
		}
	}
}

// tell publishes a message, and returns whether somebody listens as far as the server
// knows.
func (s *sim) tell(p *simProc, what, owner string, g core.Grant, server int64) bool {
	if !p.subscribed {
		return false
	}
	copies := 1
	if s.chance(8) {
		copies = s.r.IntN(3) // or lost
	}
	for range copies {
		delay := 50*time.Microsecond + s.upTo(300*time.Microsecond)
		if s.chance(8) {
			delay = s.upTo(3 * time.Second)
		}
		s.after(delay, p, func() { p.told(what, owner, g, server) })
	}
	return true
}

// A sent request runs after a while, or late, or not at all; its answer arrives, or
// not. done is called once, at the latest at bound on the process's clock.
func (s *sim) send(p *simProc, bound core.Instant, run func() any, done func(any)) {
	over := false
	finish := func(r any) {
		if !over {
			over = true
			done(r)
		}
	}
	there, back := 50*time.Microsecond+s.upTo(200*time.Microsecond), 50*time.Microsecond+s.upTo(200*time.Microsecond)
	lost, answered := s.chance(15), !s.chance(15)
	if s.chance(15) {
		there = s.upTo(3*time.Second + 500*ms)
	}
	if s.chance(15) {
		back = s.upTo(time.Second)
	}
	if !lost {
		s.after(there, nil, func() {
			r := run()
			if answered {
				s.after(back, p, func() { finish(r) })
			}
		})
	}
	s.at(max(s.now, bound.Add(-time.Duration(p.offset))), p, func() { finish(nil) })
	if s.chance(30) { // the connection breaks
		s.after(s.upTo(20*ms), p, func() { finish(nil) })
	}
}

// simulate runs one world with one seed.
func simulate(seed uint64, calm bool) *sim {
	s := &sim{r: rand.New(rand.NewPCG(seed, 7)), calm: calm, faults: !calm, ended: core.Never}
	s.server = simServer{s: s, block: uint64(1 + s.r.IntN(40)), freed: make(map[string]bool)}
	if s.r.IntN(4) == 0 {
		s.server.limit = 2
	}
	for i := range 1 + s.r.IntN(4) {
		s.procs = append(s.procs, newSimProc(s, i))
	}
	s.rare = []int{1, 3, 10, 40}[s.r.IntN(4)]
	arrive := time.Duration(2+s.r.IntN(40)) * ms
	const work = 12 * time.Second
	for _, p := range s.procs {
		for t := s.upTo(2 * arrive); t < work; t += s.upTo(2 * arrive) {
			burst := 1
			if s.r.IntN(8) == 0 {
				burst = s.r.IntN(12)
			}
			for range burst {
				s.after(t, p, p.call)
			}
		}
		pause := time.Duration(s.rare) * time.Second
		for t := s.upTo(pause); t < work && s.faults; t += s.upTo(pause) {
			s.after(t, nil, p.stop)
			s.after(s.upTo(work), p, p.flap)
		}
	}
	s.run(core.Instant(work))
	s.faults = false
	s.note("no faults from here")
	for _, p := range s.procs {
		p.setLive(true)
	}
	// All that is late has come, and all that was cut off has been found out about.
	s.run(s.now.Add(120 * time.Second))
	s.finish()
	return s
}

// finish checks that everybody was served and nothing is left.
func (s *sim) finish() {
	for _, p := range s.procs {
		if n := len(p.waiting); n > 0 {
			s.fail("%s: %d calls still wait", p.name, n)
		}
		if p.line != nil {
			s.fail("%s: a line is left", p.name)
		}
		if len(p.holds) > 0 {
			s.fail("%s: %d holds are left", p.name, len(p.holds))
		}
		if p.keeper.Len() > 0 || p.keeper.Wake(p.now()) != core.Never || p.keeper.DueLine(core.Never) != nil {
			s.fail("%s: the keeper has something", p.name)
		}
	}
	s.server.expire()
	if s.server.owner != "" {
		s.fail("%s has the lock for ever", s.server.owner)
	}
}

// story returns what the owners in the error went through, and what came last.
func (s *sim) story() string {
	var lines []string
	owners := regexp.MustCompile(`p\d\.\d+`).FindAllString(s.err.Error(), -1)
	for i, line := range s.log {
		about := slices.ContainsFunc(owners, func(o string) bool { return regexp.MustCompile(regexp.QuoteMeta(o) + `\b`).MatchString(line) })
		if about || i >= len(s.log)-30 || strings.Contains(line, "stands still") && i >= len(s.log)-500 {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

func simulateAll(t *testing.T, seeds uint64, calm bool) {
	t.Helper()
	var turns, passed, handOffs, calls int
	var slowest time.Duration
	for seed := range seeds {
		s := simulate(seed, calm)
		turns, passed, handOffs, calls = turns+s.turns, passed+s.passed, handOffs+s.handOffs, calls+s.calls
		slowest = max(slowest, s.slowest)
		if s.err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, s.err, s.story())
		}
	}
	t.Logf("%d calls, %d turns, of which %d were passed on, %d hand-offs; slowest %s", calls, turns, passed, handOffs, slowest)
	if passed < turns/20 || handOffs < turns/50 || turns < 100*int(seeds) {
		t.Errorf("%d turns, %d passed on, %d hand-offs: the worlds are too quiet", turns, passed, handOffs)
	}
}

// TestLinesThroughFaults runs worlds in which requests, answers and messages are lost,
// late and doubled, and processes stand still.
func TestLinesThroughFaults(t *testing.T) {
	simulateAll(t, 60, false)
}

// TestLinesWithoutFaults also measures how long the lock lies idle between two turns.
func TestLinesWithoutFaults(t *testing.T) {
	simulateAll(t, 20, true)
}
