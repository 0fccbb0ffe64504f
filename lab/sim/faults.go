package sim

import (
	"math"
	"time"

	"github.com/lockkeeper/lockkeeper/lab/oracle"
)

// A Fault is a kind of fault.
type Fault uint8

const (
	// On the way between a process and the server.
	RequestLost Fault = iota
	RequestLate       // it runs late, mostly after the process has given it up
	AnswerLost
	AnswerLate
	ConnectionBroken // the process hears at once, and does not know whether the request ran
	ErrorAnswer      // LOADING, BUSY, READONLY, OOM, MISCONF and the like
	Refusal          // NOPERM: waiting can't mend it
	ScriptsLost
	MessageLost
	MessageTwice
	MessageLate // and so in another order

	// Of processes.
	ProcessPaused
	ProcessCrashed
	SubscriptionCut  // the server knows
	SubscriptionDead // the server thinks that it is there
	CallerGone       // it is cancelled while it waits, or just as it is served
	ClockRate        // a process's clock is faster or slower, as far as the margin allows

	// Of the server, which keeps its memory.
	ServerStopped
	ServerSlow // a long script
	ServerRestarted
	ClockBack // the server's wall clock is set back: keys live longer

	// Of the database and the way to it.
	WorkStalls // between the look at the lease and what was to be done in the database
	CommitLost // committed, and nobody is told

	// Beyond the assumptions of docs/GUARANTEES.md.
	MemoryLost // the server restarts with nothing
	WritesLost // a replica takes over that has not seen the last writes
	Evicted
	Flushed
	KeyDeleted
	ClockForward
	ClockTooSlow // a process's clock, by more than the margin

	faults // how many there are
)

// beyond is the first of those that the guarantees leave out.
const beyond = MemoryLost

var faultNames = [faults]string{
	"request lost", "request late", "answer lost", "answer late", "connection broken", "error answer", "refusal",
	"scripts lost", "message lost", "message twice", "message late",
	"process paused", "process crashed", "subscription cut", "subscription dead", "caller gone", "process clock rate",
	"server stopped", "slow script", "server restarted", "server clock back",
	"work stalls", "commit answer lost",
	"server memory lost", "last writes lost", "key evicted", "all flushed", "lock deleted", "server clock forward", "process clock too slow",
}

func (f Fault) String() string { return faultNames[f] }

// weights are how often the kinds happen beside each other, before the seed changes that.
// Those of the second part are drawn for their own number.
var weights = [faults]float64{
	RequestLost: 3, RequestLate: 4, AnswerLost: 5, AnswerLate: 4, ConnectionBroken: 3, ErrorAnswer: 3, Refusal: 0.3,
	ScriptsLost: 1, MessageLost: 3, MessageTwice: 2, MessageLate: 3,
	ProcessPaused: 4, ProcessCrashed: 1, SubscriptionCut: 1.5, SubscriptionDead: 1.5, CallerGone: 4,
	ServerStopped: 2, ServerSlow: 3, ServerRestarted: 1, ClockBack: 0.7,
	WorkStalls: 9, CommitLost: 2,
	MemoryLost: 1, WritesLost: 3, Evicted: 2, Flushed: 1, KeyDeleted: 2, ClockForward: 3,
}

// timed are the faults that come at their time, whatever happens then. The others come
// with the first thing after their time that they can happen to.
var timed = [...]Fault{
	ProcessPaused, ProcessCrashed, SubscriptionCut, SubscriptionDead,
	ServerStopped, ServerSlow, ServerRestarted, ClockBack,
	MemoryLost, WritesLost, Evicted, Flushed, KeyDeleted, ClockForward,
}

// A strike is one fault: the n-th of its kind. It has its time and its dice from the seed
// alone, so that it stays what it is when others are left out.
type strike struct {
	fault Fault
	n     int
}

// chaos decides when faults happen.
type chaos struct {
	w      *world
	due    [faults]Time
	drawn  [faults]int // how many have been due
	counts [faults]int // how many have happened
	struck []strike    // which, while there is a trace
}

func (c *chaos) begin(w *world) {
	c.w = w
	for f := range faults {
		c.due[f] = oracle.Never
		if w.Faults[f] > 0 {
			c.due[f] = 0
			c.next(f)
		}
	}
}

// next draws the time of the next fault of a kind.
func (c *chaos) next(f Fault) {
	mean := float64(c.w.Lasts0) / c.w.Faults[f]
	d := roll(c.w.seed, uint64(f)<<32|uint64(c.drawn[f])<<1)
	c.due[f] += Time(-math.Log(1-d.part()) * mean)
}

// strikes reports whether a fault happens to what a process does now, and if so gives its
// dice.
func (p *process) strikes(f Fault) (dice, bool) {
	w, c := p.w, &p.w.chaos
	if w.now < c.due[f] {
		return 0, false
	}
	d, yes := c.strike(f)
	if yes && w.trace {
		w.note(p.name, "FAULT: %s", f)
	}
	return d, yes
}

func (c *chaos) strike(f Fault) (dice, bool) {
	s := strike{f, c.drawn[f]}
	c.drawn[f]++
	c.next(f)
	if c.w.only != nil && !c.w.only[s] {
		return 0, false
	}
	c.happened(s)
	return roll(c.w.seed, uint64(f)<<32|uint64(s.n)<<1|1), true
}

func (c *chaos) happened(s strike) {
	c.counts[s.fault]++
	if c.w.trace {
		c.struck = append(c.struck, s)
	}
}

// end ends all faults.
func (c *chaos) end() {
	for f := range faults {
		c.due[f] = oracle.Never
	}
}

// dice are numbers that depend on nothing but what they were made from (splitmix64).
type dice uint64

func roll(seed, what uint64) dice {
	d := dice(seed*0x9e3779b97f4a7c15 ^ what)
	d.next()
	return d
}

func (d *dice) next() uint64 {
	*d += 0x9e3779b97f4a7c15
	z := uint64(*d)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// part is in [0, 1).
func (d *dice) part() float64 { return float64(d.next()>>11) / (1 << 53) }

func (d *dice) n(n int) int { return int(d.next() % uint64(n)) }

// one is true once in n times.
func (d *dice) one(n int) bool { return d.n(n) == 0 }

func (d *dice) upTo(most time.Duration) time.Duration {
	return time.Duration(d.next() % uint64(max(most, 0)+1))
}

// spread is between the two, such that each order of magnitude is as likely as the next.
func (d *dice) spread(least, most time.Duration) time.Duration {
	return time.Duration(float64(least) * math.Pow(float64(most)/float64(least), d.part()))
}
