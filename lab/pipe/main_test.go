package pipe

import (
	"context"
	"os"
	"runtime/debug"
	"testing"

	"github.com/redis/go-redis/v9"
)

// quiet is a logger for go-redis, which would tell of every connection that we refuse.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

func TestMain(m *testing.M) {
	redis.SetLogger(quiet{})
	debug.SetGCPercent(400) // histories make much that is soon gone
	os.Exit(m.Run())
}
