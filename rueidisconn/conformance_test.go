package rueidisconn

import (
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"

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
		plain := connect(t, options(redistest.Target{Addr: server.Addr()}))
		return lockkeepertest.Fixture{
			Conn:    New(connect(t, options(redistest.Target{Addr: proxy.Addr()}))),
			Cut:     proxy.CutAll,
			Swallow: proxy.Swallow,
			Set: func(key, value string, ttl time.Duration) {
				args := []string{"SET", key, value}
				if ttl > 0 {
					args = append(args, "PX", strconv.FormatInt(ttl.Milliseconds(), 10))
				}
				if err := plain.Do(t.Context(), plain.B().Arbitrary(args...).Build()).Error(); err != nil {
					t.Error(err)
				}
			},
			Get: func(key string) (string, bool) {
				value, err := plain.Do(t.Context(), plain.B().Get().Key(key).Build()).ToString()
				if err != nil && !rueidis.IsRedisNil(err) {
					t.Error(err)
				}
				return value, err == nil
			},
			Del: func(key string) {
				if err := plain.Do(t.Context(), plain.B().Del().Key(key).Build()).Error(); err != nil {
					t.Error(err)
				}
			},
		}
	})
}
