package store_test

import (
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/store"
	"github.com/lockkeeper/lockkeeper/flush"
	"github.com/lockkeeper/lockkeeper/goredisconn"
	"github.com/lockkeeper/lockkeeper/internal/redistest"
	"github.com/lockkeeper/lockkeeper/sqlfence"
)

// BenchmarkFlush brings 20,000 changed keys of three columns from a real server into a
// new file, in batches.
func BenchmarkFlush(b *testing.B) {
	const keys = 20000
	for _, batch := range []int{500, 2000, 5000} {
		b.Run(fmt.Sprint("batch=", batch), func(b *testing.B) {
			rdb := redis.NewClient(&redis.Options{Addr: redistest.Start(b).Addr(), ContextTimeoutEnabled: true})
			defer func() { _ = rdb.Close() }()
			conn := goredisconn.New(rdb)
			db, _, err := store.Open(b.Context(), "sqlite:"+b.TempDir()+"/bench.db")
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = db.Close() }()
			mappings := []flush.Mapping{players()}
			sink, err := flush.NewSQL(db, sqlfence.SQLite, mappings)
			if err != nil {
				b.Fatal(err)
			}
			if err := sink.Migrate(b.Context()); err != nil {
				b.Fatal(err)
			}
			engine, err := flush.New(conn, sink, flush.Config{Job: job, Mappings: mappings, Batch: batch})
			if err != nil {
				b.Fatal(err)
			}
			session, err := engine.Begin(b.Context(), newHold(1))
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				b.StopTimer()
				_, err := rdb.Pipelined(b.Context(), func(p redis.Pipeliner) error {
					for i := range keys {
						key := fmt.Sprintf("player:%d", i)
						p.HSet(b.Context(), key, "name", "Ann", "points", i)
						p.ZAdd(b.Context(), flush.KeysOf("", job).Dirty, redis.Z{Score: 1, Member: key})
					}
					return nil
				})
				if err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				if stats, err := session.Pass(b.Context()); err != nil || stats.Upserts != keys {
					b.Fatalf("%+v, %v", stats, err)
				}
			}
			b.ReportMetric(float64(keys*b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}
