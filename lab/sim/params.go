package sim

import (
	"time"

	"github.com/lockkeeper/lockkeeper/internal/core"
)

// Params are what a world is like. They are drawn from its seed.
type Params struct {
	InModel   bool // it keeps to the assumptions of docs/GUARANTEES.md
	Processes int
	Keys      int
	Callers   int // goroutines of a process that call
	Terms     core.Terms
	Latency   time.Duration // one way to the server, about
	Storage   time.Duration // to the database and back, about
	Think     time.Duration // between two calls, at most
	Work      time.Duration // of a turn, at most
	Long      int           // one turn in so many takes as long as that of an elected process
	Tries     int           // so many calls of a hundred do not wait
	Fenced    int           // so many turns of a hundred change something in the database
	Labels    bool          // calls differ in their label, and with that in their kind
	TTLs      bool          // calls differ in their TTL, and change that of their leases
	Limit     int           // places of a line on the server; 0: any number
	Block     uint64        // fences in a grant that is no fast one
	Mute      int           // one process in so many has no right to listen; 0: all have it
	Late      time.Duration // how late what is late may be
	Rates     [5]int64      // how much faster the processes' clocks are, in millionths
	Lasts     time.Duration // how long there is work
	Lasts0    time.Duration // that, before a variant makes it shorter: faults keep their times

	Faults [faults]float64 // how many of each kind there are to be in that time
}

// paramsOf draws the parameters of a seed.
func paramsOf(seed uint64, calm bool) Params {
	d := roll(seed, 1<<60)
	p := Params{
		InModel:   !d.one(5),
		Processes: 1 + d.n(5),
		Keys:      1 + d.n(3),
		Callers:   1 + d.n(4),
		Storage:   d.spread(50*time.Microsecond, 10*ms),
		Tries:     []int{0, 10, 20, 50}[d.n(4)],
		Fenced:    []int{30, 60, 90, 100}[d.n(4)],
		Long:      []int{10, 30, 100, 1000}[d.n(4)],
		Labels:    d.one(4),
		TTLs:      d.one(6),
		Limit:     []int{0, 0, 0, 2}[d.n(4)],
		Block:     []uint64{1 << 16, 1 << 16, uint64(1 + d.n(10))}[d.n(3)],
		Mute:      []int{0, 0, 3}[d.n(3)],
	}
	ttl := d.spread(100*ms, 2*time.Second).Truncate(ms)
	if d.one(12) {
		ttl = d.spread(3*time.Second, 8*time.Second).Truncate(ms) // so long that a hand-off is shorter
	}
	p.Terms = core.Terms{TTL: ttl, Margin: ttl / 10}
	if d.one(5) {
		p.Terms.Margin = ttl / 5
	}
	p.Latency = d.spread(20*time.Microsecond, min(40*ms, ttl/5))
	p.Work = d.spread(max(200*time.Microsecond, p.Latency/4), ttl/2)
	p.Think = d.spread(ms, 400*ms)
	p.Late = min(2*ttl, 3*time.Second)
	p.Lasts = 3*time.Second + d.upTo(3*time.Second)
	if calm {
		p.quiet()
	} else {
		p.clocks(&d)
		p.plague(&d)
	}
	p.Lasts0 = p.Lasts
	return p
}

// quiet makes it a world on a fast network in which nothing goes wrong.
func (p *Params) quiet() {
	p.InModel, p.Mute, p.Limit, p.TTLs = true, 0, 0, false
	p.Latency, p.Storage = 150*time.Microsecond, 200*time.Microsecond
	p.Terms = core.Terms{TTL: 900 * ms, Margin: 90 * ms}
	p.Work, p.Think = 3*ms, 40*ms
	p.Long = 1000
}

// clocks draws how the clocks of the processes run.
func (p *Params) clocks(d *dice) {
	allowed := p.allowed()
	most := []int64{0, 10_000, 19_000, allowed}[d.n(4)]
	for i := range p.Rates {
		p.Rates[i] = []int64{-most, most, 0}[d.n(3)]
	}
	if !p.InModel && d.one(3) {
		p.Rates[d.n(len(p.Rates))] = -allowed - int64(10_000+d.n(400_000))
	}
}

// allowed is how wrong a clock may be, a little less than the margin, in millionths.
func (p *Params) allowed() int64 {
	return int64(p.Terms.Margin) * 950_000 / int64(p.Terms.TTL)
}

// plague draws how many faults of each kind there are: many of some kinds, and none of
// others.
func (p *Params) plague(d *dice) {
	total := 0.0
	for f := range beyond {
		if !d.one(4) {
			p.Faults[f] = weights[f] * (0.2 + 2*d.part())
		}
		total += p.Faults[f]
	}
	much := float64(45+d.n(40)) / max(total, 1)
	for f := range beyond {
		p.Faults[f] *= much
	}
	if p.InModel {
		return
	}
	for f := beyond; f < faults; f++ {
		if d.one(2) {
			p.Faults[f] = weights[f] * (0.5 + 1.5*d.part())
		}
	}
}

// reduce takes in what a variant has less.
func (p *Params) reduce(v variant) {
	if v.steady {
		p.Rates = [5]int64{}
	}
	if v.lasts > 0 {
		p.Lasts = min(p.Lasts, v.lasts)
	}
}
