package goredisconn

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockkeeper/lockkeeper/internal/redistest"
	"github.com/lockkeeper/lockkeeper/lockkeepertest"
)

// TestConformance runs the suite that every adapter has to pass, also those of
// others. TestSuite is about the client library in particular.
func TestConformance(t *testing.T) {
	t.Parallel()
	lockkeepertest.Conformance(t, func(t *testing.T) lockkeepertest.Fixture {
		server := redistest.Start(t)
		proxy := redistest.NewProxy(t, server.Addr())
		plain := connect(t, &redis.Options{Addr: server.Addr()})
		return lockkeepertest.Fixture{
			Conn:    New(connect(t, &redis.Options{Addr: proxy.Addr()})),
			Cut:     proxy.CutAll,
			Swallow: proxy.Swallow,
			Set: func(key, value string, ttl time.Duration) {
				if err := plain.Set(t.Context(), key, value, ttl).Err(); err != nil {
					t.Error(err)
				}
			},
			Get: func(key string) (string, bool) {
				value, err := plain.Get(t.Context(), key).Result()
				if err != nil && !errors.Is(err, redis.Nil) {
					t.Error(err)
				}
				return value, err == nil
			},
			Del: func(key string) {
				if err := plain.Del(t.Context(), key).Err(); err != nil {
					t.Error(err)
				}
			},
		}
	})
}
