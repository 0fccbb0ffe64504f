package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/lockkeeper/lockkeeper/flush"
)

// job is the name of the job that is measured.
const job = "bench"

// table is the table that the rows go into.
const table = "player"

// players is what is flushed: hashes of 7 fields, about 150 bytes of values.
func players() []flush.Mapping {
	return []flush.Mapping{{
		Keys: "p:{id}", Table: table, Create: true,
		Key: []flush.Column{{Name: "id", Type: flush.Int64}},
		Columns: []flush.Column{
			{Name: "name", Type: flush.Text}, {Name: "email", Type: flush.Text}, {Name: "points", Type: flush.Int64},
			{Name: "balance", Type: flush.Decimal(12, 2)}, {Name: "active", Type: flush.Bool},
			{Name: "seen", Type: flush.Timestamp}, {Name: "note", Type: flush.Text},
		},
	}}
}

// fields are those of the hashes, and the columns after the key.
var fields = [...]string{"name", "email", "points", "balance", "active", "seen", "note"}

// first is the ID of the first row: all keys have 11 bytes.
const first = 100_000_000

func key(i int) string { return "p:" + strconv.Itoa(first+i) }

// values are those of a row. Another edition has others of the same length.
func values(i, edition int) [len(fields)]string {
	h := uint32(i)*2654435761 + uint32(edition)*40503
	return [...]string{
		fmt.Sprintf("Player %08d", h%1e8),
		fmt.Sprintf("player.%08d@example.com", i),
		fmt.Sprint(1_000_000 + h%8_000_000),
		fmt.Sprintf("%d.%02d", 10_000+h%80_000, h%100),
		strconv.Itoa(int(h >> 7 & 1)),
		fmt.Sprintf("2026-11-%02dT12:34:56.%06dZ", 1+h%28, h%1e6),
		fmt.Sprintf("joined on a %08x day, and has not complained ever since then", h),
	}
}

// hash returns the arguments of an HSET after the key.
func hash(i, edition int) []any {
	args := make([]any, 0, 2*len(fields))
	for j, v := range values(i, edition) {
		args = append(args, fields[j], v)
	}
	return args
}

// pipeline is how many writes go into a pipeline, where they are not what is measured.
const pipeline = 500

// fill writes n hashes without marks.
func fill(ctx context.Context, rdb *redis.Client, n, edition int) error {
	return inPipelines(ctx, rdb, pipeline, n, func(p redis.Pipeliner, i int) { p.HSet(ctx, key(i), hash(i, edition)...) })
}

// fillMarked writes n hashes, with a mark each, as producers do.
func fillMarked(ctx context.Context, rdb *redis.Client, n, edition int) error {
	return markInPipelines(ctx, rdb, pipeline, n, edition)
}

func markInPipelines(ctx context.Context, rdb *redis.Client, each, n, edition int) error {
	sha, err := rdb.ScriptLoad(ctx, flush.MarkScript()).Result()
	if err != nil {
		return err
	}
	keys := flush.KeysOf("", job)
	return inPipelines(ctx, rdb, each, n, func(p redis.Pipeliner, i int) {
		p.EvalSha(ctx, sha, keys.Mark(key(i)), append([]any{"U", "HSET"}, hash(i, edition)...)...)
	})
}

// inPipelines adds commands for n keys, those of so many keys in one pipeline.
func inPipelines(ctx context.Context, rdb *redis.Client, each, n int, add func(p redis.Pipeliner, i int)) error {
	for start := 0; start < n; start += each {
		p := rdb.Pipeline()
		for i := start; i < min(n, start+each); i++ {
			add(p, i)
		}
		if _, err := p.Exec(ctx); err != nil {
			return fmt.Errorf("write to Redis: %w", err)
		}
	}
	return nil
}
