package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/lockkeeper/lockkeeper/lab/flushbench/rig"
	"github.com/lockkeeper/lockkeeper/sqlfence"
)

// sizes are how many dirty keys a worker begins with.
func (o options) sizes() []int {
	switch {
	case o.rows < 10_000:
		return []int{o.rows}
	case o.quick:
		return []int{10_000, 100_000, 1_000_000}
	}
	return []int{10_000, 100_000, 1_000_000, 5_000_000}
}

// counts are how many dirty keys the memory of Redis is measured with. Its tables double,
// so that one key more than a power of two takes the most.
func (o options) counts() []int {
	switch {
	case o.rows < 10_000:
		return []int{o.rows}
	case o.quick:
		return []int{10_000, 100_000}
	}
	return []int{10_000, 100_000, 131_073, 262_144}
}

// peaks measures the most memory that a worker takes, from few dirty keys to many.
func (b *bench) peaks(ctx context.Context, kinds []sqlfence.Dialect) error {
	fmt.Fprintf(b.out, "\n## Peak memory of the worker, by dirty keys at its start\n\n")
	fmt.Fprintf(b.out, "| Database | keys | peak MiB | rows/s |\n|---|---:|---:|---:|\n")
	for _, kind := range kinds {
		if err := b.peaksOn(ctx, kind); err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
	}
	return nil
}

func (b *bench) peaksOn(ctx context.Context, kind sqlfence.Dialect) (err error) {
	db, err := b.start(ctx, kind)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	for _, n := range b.sizes() {
		b.say("%s, memory with %s dirty keys", kind, thousands(float64(n)))
		if err := empty(ctx, db); err != nil {
			return err
		}
		if err := fillMarked(ctx, b.rdb, n, 0); err != nil {
			return err
		}
		c, err := b.runWorker(db, order{Do: doFlush, Kind: kind, URL: db.URL, Redis: b.redis.Addr(), Rows: n, Batch: b.batch})
		if err != nil {
			return err
		}
		if err := b.flushedAll(ctx, db, n); err != nil {
			return err
		}
		fmt.Fprintf(b.out, "| %s | %s | %.0f | %s |\n", kind, thousands(float64(n)), float64(c.Peak)/(1<<20), thousands(c.perSecond()))
	}
	return nil
}

// start starts a database, and a Redis with nothing in it knows of no older one.
func (b *bench) start(ctx context.Context, kind sqlfence.Dialect) (*rig.Database, error) {
	if err := b.rdb.FlushAll(ctx).Err(); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(b.dir, "database-")
	if err != nil {
		return nil, err
	}
	return rig.StartDatabase(ctx, kind, dir)
}

// outageWrites is how often each key is written while nothing is flushed.
const outageWrites = 20

// marks measures what Redis needs for a dirty key beside its data, and that this does
// not grow while keys are written again and again.
func (b *bench) marks(ctx context.Context) error {
	fmt.Fprintf(b.out, "\n## Redis's memory for marks, keys of %d bytes\n\n", len(key(0)))
	fmt.Fprintf(b.out, "| keys | bytes a dirty key | and a write, after %d writes of each |\n|---:|---:|---:|\n", outageWrites)
	for _, n := range b.counts() {
		b.say("memory of %s marks", thousands(float64(n)))
		if err := b.rdb.FlushAll(ctx).Err(); err != nil {
			return err
		}
		if err := fill(ctx, b.rdb, n, 0); err != nil {
			return err
		}
		data, err := b.redis.UsedMemory(ctx)
		if err != nil {
			return err
		}
		if err := fillMarked(ctx, b.rdb, n, 0); err != nil {
			return err
		}
		marked, err := b.redis.UsedMemory(ctx)
		if err != nil {
			return err
		}
		for edition := 1; edition < outageWrites; edition++ {
			if err := fillMarked(ctx, b.rdb, n, edition); err != nil {
				return err
			}
		}
		after, err := b.redis.UsedMemory(ctx)
		if err != nil {
			return err
		}
		fmt.Fprintf(b.out, "| %s | %.0f | %.2f |\n", thousands(float64(n)), float64(marked-data)/float64(n),
			float64(after-marked)/float64(n*(outageWrites-1)))
	}
	return nil
}
