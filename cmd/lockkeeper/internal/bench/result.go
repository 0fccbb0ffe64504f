package bench

import (
	"math"
	"time"
)

// A Result is what a run has measured. Its JSON is part of the program's interface; null
// is what was not measured.
type Result struct {
	Redis          string   `json:"redis"`
	RedisVersion   *string  `json:"redis_version"`
	Complete       bool     `json:"complete"` // false: interrupted or failed, and the rest is what was measured until then
	Error          string   `json:"error"`    // why it is not complete
	Seconds        float64  `json:"seconds"`
	KeyPattern     string   `json:"key_pattern"`
	Goroutines     int      `json:"goroutines"`
	CommandsBefore *float64 `json:"commands_per_second_before"` // of others, when the run began

	RoundTrip        *Timing   `json:"round_trip"`
	FreeLock         *Timing   `json:"free_lock"`
	FreeLockParallel *Timing   `json:"free_lock_parallel"`
	HandOff          *Timing   `json:"hand_off"`
	HandOffInProcess *Timing   `json:"hand_off_in_process"`
	Renewals         *Renewals `json:"renewals"`

	Notes []string `json:"notes"`
}

// A Timing is what many operations of one kind have taken. p50_us and p99_us are right to
// within 2 percent.
type Timing struct {
	Complete    bool    `json:"complete"`
	Goroutines  int     `json:"goroutines"`
	Clients     int     `json:"clients"`
	Connections int     `json:"connections"` // of all clients, without subscriptions
	Count       int     `json:"count"`
	Seconds     float64 `json:"seconds"`
	P50         float64 `json:"p50_us"`
	P99         float64 `json:"p99_us"`
	Max         float64 `json:"max_us"`
	PerSecond   float64 `json:"per_second"`
	Cost
}

// A Cost is what each operation has used. What Redis used has what others asked of it in
// it; null is not known.
type Cost struct {
	Requests      float64  `json:"requests_per_op"`
	ProcessCPU    *float64 `json:"process_cpu_us_per_op"`
	ServerCPU     *float64 `json:"server_cpu_us_per_op"`
	ServerScripts *float64 `json:"server_scripts_us_per_op"` // within its CPU
}

// Renewals is what it takes to keep many leases. The operation of its Cost is the renewal
// of one lease.
type Renewals struct {
	Complete   bool    `json:"complete"`
	Leases     int     `json:"leases"`
	Lost       int     `json:"leases_lost"`
	TTL        float64 `json:"ttl_seconds"`
	Seconds    float64 `json:"seconds"`
	Count      int     `json:"count"`
	Batches    int     `json:"batches"`
	Failed     int     `json:"batches_failed"`
	PerBatch   float64 `json:"leases_per_batch"`
	BatchP50   float64 `json:"batch_p50_us"`
	BatchP99   float64 `json:"batch_p99_us"`
	Connection float64 `json:"per_connection_per_second"` // one batch after the other
	Cost

	Core   *float64 `json:"per_core_per_second"`        // that one core of this process could carry
	Server *float64 `json:"per_server_core_per_second"` // that one core of Redis could

	LeasesConnection float64  `json:"leases_per_connection_at_ttl_10s"`
	LeasesCore       *float64 `json:"leases_per_core_at_ttl_10s"`
	LeasesServer     *float64 `json:"leases_per_server_core_at_ttl_10s"`
}

// renewEvery is how often a lease with a TTL of 10 s is renewed.
const renewEvery = 10.0 / 3

// newTiming makes one of what a crew has noted, or none if that is nothing.
func newTiming(t *tally, clients []*client, workers int, cost Cost) *Timing {
	if t.took.n == 0 || t.elapsed <= 0 {
		return nil
	}
	connections := 0
	for _, c := range clients {
		connections += int(c.Redis.PoolStats().TotalConns)
	}
	return &Timing{
		Complete: !t.early, Goroutines: workers, Clients: len(clients), Connections: connections,
		Count: int(t.took.n), Seconds: *rounded(t.elapsed.Seconds()),
		P50: micros(t.took.percentile(0.50)), P99: micros(t.took.percentile(0.99)), Max: micros(t.took.most),
		PerSecond: *rounded(float64(t.took.n) / t.elapsed.Seconds()),
		Cost:      cost,
	}
}

// project says how much one connection, core and server can carry.
func (r *Renewals) project(busy time.Duration) {
	r.Connection = *rounded(float64(r.Count) / busy.Seconds())
	r.LeasesConnection = math.Floor(r.Connection * renewEvery)
	of := func(cpu *float64) (perSecond, leases *float64) {
		if cpu == nil || *cpu <= 0 {
			return nil, nil
		}
		n := math.Floor(1e6 / *cpu * renewEvery)
		return rounded(1e6 / *cpu), &n
	}
	r.Core, r.LeasesCore = of(r.ProcessCPU)
	r.Server, r.LeasesServer = of(r.ServerCPU)
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

// rounded returns a number with at most three decimals.
func rounded(n float64) *float64 {
	n = math.Round(n*1000) / 1000
	return &n
}
