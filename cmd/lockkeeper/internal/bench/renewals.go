package bench

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lockkeeper/lockkeeper"
)

// takers is how many goroutines take the leases whose renewals are measured.
const takers = 16

// maxBatch is how many renewals the library puts into one request.
const maxBatch = 128

// terms returns how many leases to hold, and their TTL: short, for many renewals, and
// long enough, with few enough batches one after the other, that a renewal is in time.
func (b *bench) terms(d time.Duration) (leases int, term time.Duration) {
	var rtt time.Duration
	if t := b.out.RoundTrip; t != nil {
		rtt = time.Duration(t.P50 * 1000)
	}
	term = max(min(d/2, 2*time.Second), time.Second, 10*rtt).Truncate(time.Millisecond)
	batches := max(1, int(term/8/(rtt+time.Millisecond)))
	return min(b.o.Leases, batches*maxBatch), term
}

// renewals holds many leases, which the client renews in batches, and measures what the
// batches take and use.
func (b *bench) renewals(ctx context.Context, d time.Duration) error {
	n, term := b.terms(d)
	if n < b.o.Leases {
		b.note("%s for the renewals, and not %s: at this round trip more would not be renewed in time, one batch after the other",
			count(n, "lease", "leases"), grouped(float64(b.o.Leases)))
	}
	return b.with(ctx, 1, term, func(clients []*client) error {
		c := clients[0]
		begun := time.Now()
		names := b.uses("held", n)
		leases, err := takeMany(ctx, c.locks, names, d/4)
		if err != nil || ctx.Err() != nil {
			return err
		}
		// The counters are not needed any more. Should this process die, they are gone
		// within a minute.
		expiring, cancel := context.WithTimeout(ctx, closeWithin)
		defer cancel()
		if err := b.onKeys(expiring, c.meter, expireFences, names); err != nil {
			return err
		}
		return b.watchRenewals(ctx, d-time.Since(begun), clients, leases, term)
	})
}

// takeMany takes a lock of each name, or as many as it can in the time.
func takeMany(ctx context.Context, locks *lockkeeper.Client, names []string, within time.Duration) ([]*lockkeeper.Lease, error) {
	leases := make([]*lockkeeper.Lease, len(names))
	var next atomic.Int64
	var workers []worker
	for range takers {
		workers = append(workers, func(ctx context.Context, log *samples) error {
			for log.goesOn() {
				i := int(next.Add(1)) - 1
				if i >= len(names) {
					return nil
				}
				lease, err := locks.Mutex(names[i]).Acquire(ctx)
				if err != nil {
					return unlessEnded(ctx, err)
				}
				leases[i] = lease
			}
			return nil
		})
	}
	_, err := crew(ctx, within, workers)
	return slices.DeleteFunc(leases, func(l *lockkeeper.Lease) bool { return l == nil }), err
}

// watchRenewals lets the client renew for d. The renewals go out one after the other, as
// over one connection.
func (b *bench) watchRenewals(ctx context.Context, d time.Duration, clients []*client, leases []*lockkeeper.Lease, term time.Duration) error {
	meter, log := clients[0].meter, newRenewalLog()
	before := b.measure(ctx, clients)
	begun := time.Now()
	meter.renewals.Store(log)
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	meter.renewals.Store(nil)
	reading, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeWithin)
	defer cancel()
	seen, err := log.read(reading)
	if err != nil {
		return err
	}
	elapsed := time.Since(begun)
	after := b.measure(ctx, clients)
	r := &Renewals{
		Complete: ctx.Err() == nil, Leases: len(leases), TTL: *rounded(term.Seconds()), Seconds: *rounded(elapsed.Seconds()),
		Count: seen.renewed, Batches: int(seen.took.n), Failed: seen.failed,
	}
	for _, lease := range leases {
		if lease.Err() != nil {
			r.Lost++
		}
	}
	if r.Count == 0 {
		if seen.err == nil && ctx.Err() == nil {
			b.note("no renewal was due within %s: measure for longer", d.Round(time.Millisecond))
		}
		return seen.err
	}
	r.PerBatch = *rounded(float64(r.Count) / float64(r.Batches))
	r.BatchP50, r.BatchP99 = micros(seen.took.percentile(0.50)), micros(seen.took.percentile(0.99))
	r.Cost = after.cost(before, r.Count)
	r.project(seen.busy)
	b.out.Renewals = r
	if r.Lost == r.Leases { // it says little
		r.Complete = false
		return seen.err
	}
	return nil
}
