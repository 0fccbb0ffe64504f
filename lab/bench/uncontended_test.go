package main

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/goredisconn"
	"github.com/lockkeeper/lockkeeper/internal/redistest"
	"github.com/lockkeeper/lockkeeper/rueidisconn"
)

// A cycle takes a free lock and gives it back.
type cycle func(ctx context.Context) error

// contestant is one client library, with the raw commands and with Lockkeeper.
type contestant struct {
	raw  cycle
	lock cycle
}

func BenchmarkUncontended(b *testing.B) {
	b.Run("go-redis", func(b *testing.B) { compare(b, goRedis) })
	b.Run("rueidis", func(b *testing.B) { compare(b, rueidisClient) })
}

func goRedis(b *testing.B, addr string) contestant {
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	b.Cleanup(func() { _ = rdb.Close() })
	script, n := redis.NewScript(compareAndDelete), 0
	return contestant{
		raw: func(ctx context.Context) error {
			n++
			value := "owner-" + strconv.Itoa(n)
			if err := rdb.SetArgs(ctx, "raw", value, redis.SetArgs{Mode: "NX", TTL: 10 * time.Second}).Err(); err != nil {
				return err
			}
			return script.Run(ctx, rdb, []string{"raw"}, value).Err()
		},
		lock: lockCycle(b, goredisconn.New(rdb)),
	}
}

func rueidisClient(b *testing.B, addr string) contestant {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(client.Close)
	script, n := rueidis.NewLuaScript(compareAndDelete), 0
	return contestant{
		raw: func(ctx context.Context) error {
			n++
			value := "owner-" + strconv.Itoa(n)
			set := client.B().Set().Key("raw").Value(value).Nx().PxMilliseconds(10_000).Build()
			if err := client.Do(ctx, set).Error(); err != nil {
				return err
			}
			return script.Exec(ctx, client, []string{"raw"}, []string{value}).Error()
		},
		lock: lockCycle(b, rueidisconn.New(client)),
	}
}

func lockCycle(b *testing.B, conn lockkeeper.Conn) cycle {
	locks, err := lockkeeper.New(conn, lockkeeper.Config{TTL: 10 * time.Second})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = locks.Close(context.Background()) })
	mutex := locks.Mutex("bench")
	return func(ctx context.Context) error {
		lease, err := mutex.Acquire(ctx)
		if err != nil {
			return err
		}
		return lease.Release(ctx)
	}
}

// compare runs both in turns and reports the percentiles of each, their ratio, and
// what a cycle costs in requests and allocations.
func compare(b *testing.B, open func(b *testing.B, addr string) contestant) {
	server := redistest.Start(b)
	c := open(b, server.Addr())
	// The raw commands get a context that can't end, which is the faster for them;
	// the lock gets one that can, as a caller's does.
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	raw, lock := func() error { return c.raw(context.Background()) }, func() error { return c.lock(ctx) }
	for range 200 {
		must(b, raw())
		must(b, lock())
	}
	var rawTimes, lockTimes []time.Duration
	for b.Loop() {
		rawTimes = append(rawTimes, timed(b, raw))
		lockTimes = append(lockTimes, timed(b, lock))
	}
	rawP50, rawP99 := percentiles(rawTimes)
	lockP50, lockP99 := percentiles(lockTimes)
	b.ReportMetric(micros(rawP50), "raw-p50-us")
	b.ReportMetric(micros(rawP99), "raw-p99-us")
	b.ReportMetric(micros(lockP50), "lock-p50-us")
	b.ReportMetric(micros(lockP99), "lock-p99-us")
	b.ReportMetric(float64(lockP50)/float64(rawP50), "p50-ratio")
	b.ReportMetric(testing.AllocsPerRun(2000, func() { must(b, raw()) }), "raw-allocs")
	b.ReportMetric(testing.AllocsPerRun(2000, func() { must(b, lock()) }), "lock-allocs")
	b.ReportMetric(requests(b, server, lock), "lock-requests")
	b.ReportMetric(0, "ns/op") // one turn is two cycles: it says nothing
}

func must(b *testing.B, err error) {
	if err != nil {
		b.Fatal(err)
	}
}

func timed(b *testing.B, f func() error) time.Duration {
	start := time.Now()
	err := f()
	d := time.Since(start)
	must(b, err)
	return d
}

func percentiles(d []time.Duration) (p50, p99 time.Duration) {
	slices.Sort(d)
	return d[len(d)/2], d[len(d)*99/100]
}

// requests counts what one cycle of the lock sends. It sends nothing but scripts,
// and the commands inside of them are no requests.
func requests(b *testing.B, server *redistest.Server, lock func() error) float64 {
	const cycles = 1000
	server.ResetStats(b)
	for range cycles {
		must(b, lock())
	}
	counts := server.Commands(b)
	return float64(counts["evalsha"]+counts["eval"]) / cycles
}
