package rueidisconn

import (
	"context"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/redistest"
)

// BenchmarkEvalSha compares a call of the Conn, of the size that taking a lock has,
// with the same call of rueidis.
func BenchmarkEvalSha(b *testing.B) {
	server := redistest.Start(b)
	sha := server.Do(b, "SCRIPT", "LOAD", `return {1, ARGV[1], redis.call('TIME')[1]}`).(string)
	keys := []string{"{orders}", "{orders}:fence", "{orders}:line"}
	args := []string{"0123456789abcdef01234567", "10000", "host/4711", "604800000", "1700000000000"}
	// A context without a deadline would end the fast path of the connection.
	ctx, cancel := context.WithTimeout(b.Context(), time.Hour)
	defer cancel()

	client := connect(b, options(redistest.Target{Addr: server.Addr()}))
	b.Run("rueidis", func(b *testing.B) {
		measure(b, func() error {
			_, err := client.Do(ctx, client.B().Evalsha().Sha1(sha).Numkeys(int64(len(keys))).
				Key(keys...).Arg(args...).Build()).ToArray()
			return err
		})
	})
	conn := New(client)
	b.Run("Conn", func(b *testing.B) {
		measure(b, func() error {
			_, err := conn.EvalSha(ctx, sha, keys, args)
			return err
		})
	})
	b.Run("Conn in parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.SetParallelism(32)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, err := conn.EvalSha(ctx, sha, keys, args); err != nil {
					b.Error(err)
				}
			}
		})
	})
}

func measure(b *testing.B, call func() error) {
	b.ReportAllocs()
	for b.Loop() {
		if err := call(); err != nil {
			b.Fatal(err)
		}
	}
}
