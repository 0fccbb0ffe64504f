package main

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockkeeper/lockkeeper/flush"
	"github.com/lockkeeper/lockkeeper/goredisconn"
	"github.com/lockkeeper/lockkeeper/lab/flushbench/rig"
)

// A producing is a way of writing a hash to Redis.
type producing struct {
	name string
	run  func(ctx context.Context, b *bench, n, edition int) error
}

// together is how many writes go into a pipeline.
const together = 100

var producings = []producing{
	{"HSET, no mark", func(ctx context.Context, b *bench, n, edition int) error {
		return each(n, func(i int) error { return b.rdb.HSet(ctx, key(i), hash(i, edition)...).Err() })
	}},
	{"HSET and SADD in MULTI", func(ctx context.Context, b *bench, n, edition int) error {
		changed := flush.KeysOf("", job).Changed
		return each(n, func(i int) error {
			_, err := b.rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
				p.HSet(ctx, key(i), hash(i, edition)...)
				p.SAdd(ctx, changed, key(i))
				return nil
			})
			return err
		})
	}},
	{"Producer.Set", func(ctx context.Context, b *bench, n, edition int) error {
		producer, err := flush.NewProducer(goredisconn.New(b.rdb), "", job)
		if err != nil {
			return err
		}
		pairs := make([]string, 2*len(fields))
		return each(n, func(i int) error {
			for j, v := range values(i, edition) {
				pairs[2*j], pairs[2*j+1] = fields[j], v
			}
			return producer.Set(ctx, key(i), pairs...)
		})
	}},
	{"HSET, no mark, pipelined", func(ctx context.Context, b *bench, n, edition int) error {
		return inPipelines(ctx, b.rdb, together, n, func(p redis.Pipeliner, i int) { p.HSet(ctx, key(i), hash(i, edition)...) })
	}},
	{"HSET and SADD in MULTI, pipelined", func(ctx context.Context, b *bench, n, edition int) error {
		changed := flush.KeysOf("", job).Changed
		return inPipelines(ctx, b.rdb, together, n, func(p redis.Pipeliner, i int) {
			// With Do, whose reply may be QUEUED.
			p.Do(ctx, "MULTI")
			p.Do(ctx, append([]any{"HSET", key(i)}, hash(i, edition)...)...)
			p.Do(ctx, "SADD", changed, key(i))
			p.Do(ctx, "EXEC")
		})
	}},
	{"mark script, pipelined", func(ctx context.Context, b *bench, n, edition int) error {
		return markInPipelines(ctx, b.rdb, together, n, edition)
	}},
}

func each(n int, f func(i int) error) error {
	for i := range n {
		if err := f(i); err != nil {
			return err
		}
	}
	return nil
}

// produce measures what a write costs, in rounds in which all ways take turns.
func (b *bench) produce(ctx context.Context) error {
	n := min(b.rows, 100_000)
	r := &report{}
	edition := 0
	for round := range b.rounds {
		b.say("producers, round %d of %d", round+1, b.rounds)
		for _, p := range producings {
			if err := b.rdb.FlushAll(ctx).Err(); err != nil {
				return err
			}
			if err := fill(ctx, b.rdb, n, edition); err != nil {
				return err
			}
			edition++
			c := cell{result: result{Rows: n}}
			redis, own, busy, start := b.redis.CPU(), rig.OwnCPU(), rig.Busy(), time.Now()
			if err := p.run(ctx, b, n, edition); err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			c.Took, c.CPU, c.redis = time.Since(start), rig.OwnCPU()-own, b.redis.CPU()-redis
			c.others = float64(rig.Busy()-busy-c.CPU-c.redis) / float64(c.Took) / float64(runtime.NumCPU())
			r.add(0, p.name, c)
		}
	}
	fmt.Fprintf(b.out, "\n## Producers: one client, %s hashes that are there get other values, pipelines of %d\n\n", thousands(float64(n)), together)
	r.writes(b.out)
	fmt.Fprintf(b.out, "\n%s\n", r.busy())
	return nil
}
