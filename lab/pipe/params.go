package pipe

import (
	"math/rand/v2"
	"time"
)

// params are what a history is like. They come from its seed, none is fixed: a mistake
// that shows on a fast network may not show on a slow one, and the other way round.
type params struct {
	clients    int
	workers    int // goroutines a client
	locks      int
	ttls       []time.Duration // by lock
	margins    []time.Duration // what is configured, by client; 0 is the default
	calls      int             // of all workers together
	until      time.Duration   // faults and new calls end
	latency    time.Duration   // of a request, and of a reply, about
	think      time.Duration   // between two calls of a worker, about
	length     time.Duration   // of a short hold, about
	faults     int
	ofRequests int // percent of them
	lossy      bool
	drift      int    // the server's clock is faster by so many thousandths
	proto      int    // RESP 2 or 3
	rueidis    []bool // by client; else it is go-redis
}

func newParams(rng *rand.Rand) params {
	p := params{
		clients:    2 + rng.IntN(4),
		workers:    1 + rng.IntN(4),
		locks:      1 + rng.IntN(3),
		calls:      150 + rng.IntN(100),
		until:      time.Second + upTo(rng, 3*time.Second),
		latency:    pick(rng, []time.Duration{20, 100, 500, 2000, 8000}) * time.Microsecond,
		think:      pick(rng, []time.Duration{1, 5, 20, 60}) * time.Millisecond,
		length:     pick(rng, []time.Duration{100, 1000, 5000}) * time.Microsecond,
		faults:     10 + rng.IntN(30),
		ofRequests: 30 + rng.IntN(50),
		lossy:      rng.IntN(8) == 0,
		proto:      2 + rng.IntN(2),
	}
	if rng.IntN(5) == 0 {
		p.faults = rng.IntN(4) // calm: order can be judged
	}
	if rng.IntN(3) == 0 {
		p.drift = rng.IntN(60)
	}
	for range p.locks {
		p.ttls = append(p.ttls, time.Duration(200+rng.IntN(1800))*time.Millisecond)
	}
	for range p.clients {
		margin := time.Duration(0)
		if p.drift == 0 && rng.IntN(4) == 0 { // it need not be above the drift then, as the default is
			margin = time.Duration(10+rng.IntN(100)) * time.Millisecond
		}
		p.margins = append(p.margins, margin)
		p.rueidis = append(p.rueidis, rng.IntN(3) == 0)
	}
	return p
}

// marginOf is the margin for a TTL, as Config says it.
func marginOf(configured, ttl time.Duration) time.Duration {
	if configured > 0 && configured < ttl/3 {
		return configured
	}
	return max(ttl/10, 2*time.Millisecond)
}

// source is a random source of its own for one part of a history, so that what one part
// does never depends on what another has thrown.
func source(seed uint64, part ...uint64) *rand.Rand {
	x := uint64(0x9e3779b97f4a7c15)
	for _, p := range part {
		x = (x ^ p) * 0xff51afd7ed558ccd
		x ^= x >> 33
	}
	return rand.New(rand.NewPCG(seed, x))
}
