package goredisconn

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockkeeper/lockkeeper/internal/redistest"
)

// BenchmarkEvalSha compares a call of the Conn, of the size that taking a lock has,
// with the same call of go-redis.
func BenchmarkEvalSha(b *testing.B) {
	rdb := connect(b, &redis.Options{Addr: redistest.Start(b).Addr()})
	sha, err := rdb.ScriptLoad(b.Context(), `return {1, ARGV[1], redis.call('TIME')[1]}`).Result()
	if err != nil {
		b.Fatal(err)
	}
	keys := []string{"{orders}", "{orders}:fence", "{orders}:line"}
	args := []string{"0123456789abcdef01234567", "10000", "host/4711", "604800000", "1700000000000"}
	raw := func() error {
		boxed := make([]any, len(args))
		for i, arg := range args {
			boxed[i] = arg
		}
		return rdb.EvalSha(b.Context(), sha, keys, boxed...).Err()
	}
	b.Run("go-redis", func(b *testing.B) { measure(b, raw) })
	conn := New(rdb)
	b.Run("Conn", func(b *testing.B) {
		measure(b, func() error {
			_, err := conn.EvalSha(b.Context(), sha, keys, args)
			return err
		})
	})
	other := New(opaque{rdb})
	b.Run("Conn that may leave", func(b *testing.B) {
		measure(b, func() error {
			_, err := other.EvalSha(b.Context(), sha, keys, args)
			return err
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
