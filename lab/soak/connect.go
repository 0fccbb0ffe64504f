package main

import (
	"context"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/goredisconn"
	"github.com/lockkeeper/lockkeeper/rueidisconn"
)

// The adapters, half of the workers each.
const (
	onGoRedis = "go-redis"
	onRueidis = "rueidis"
)

// A link is a worker's connection to Redis.
type link struct {
	conn  lockkeeper.Conn
	close func()
}

// connect makes a client with the options that the adapters' documentation shows.
// Rueidis connects at once, and that is tried until it works; nil is that ctx has ended
// first.
func connect(ctx context.Context, adapter, addr string) (*link, error) {
	if adapter == onGoRedis {
		rdb := redis.NewClient(&redis.Options{Addr: addr, Username: workerUser, Password: password})
		return &link{goredisconn.New(rdb), func() { _ = rdb.Close() }}, nil // nothing is on its way any more
	}
	for ctx.Err() == nil {
		client, err := rueidis.NewClient(rueidis.ClientOption{
			InitAddress:      []string{addr},
			Username:         workerUser,
			Password:         password,
			Dialer:           net.Dialer{Timeout: 2 * time.Second, KeepAlive: time.Second},
			ConnWriteTimeout: 2 * time.Second, // as rueidisconn advises
		})
		if err == nil {
			return &link{rueidisconn.New(client), client.Close}, nil
		}
		pause(ctx, 50*time.Millisecond)
	}
	return nil, nil
}
