package bench

import (
	"cmp"
	"context"
	"time"

	"github.com/lockkeeper/lockkeeper"
)

// A client is a lock client with connections of its own.
type client struct {
	Link
	locks *lockkeeper.Client
	meter *meter
}

// with runs f with n clients, closes them, and deletes the keys that were used, also
// when ctx has ended. What f returns is told before what that returns.
func (b *bench) with(ctx context.Context, n int, ttl time.Duration, f func(clients []*client) error) (err error) {
	clients := make([]*client, 0, n)
	defer func() {
		for _, c := range clients {
			err = cmp.Or(err, c.close(ctx))
		}
		if len(clients) > 0 {
			err = cmp.Or(err, b.sweep(ctx, clients[0].Conn))
		}
		for _, c := range clients {
			_ = c.Redis.Close() // nothing is on its way any more
		}
	}()
	for range n {
		c, err := b.open(ttl)
		if err != nil {
			return err
		}
		clients = append(clients, c)
	}
	return f(clients)
}

func (b *bench) open(ttl time.Duration) (*client, error) {
	link, err := b.o.Open()
	if err != nil {
		return nil, err
	}
	m := &meter{Conn: link.Conn, stop: b.stop}
	locks, err := lockkeeper.New(m, lockkeeper.Config{Prefix: b.o.Prefix, TTL: ttl, Logger: b.o.Logger, Label: "lockkeeper bench"})
	if err != nil {
		_ = link.Redis.Close() // it has sent nothing
		return nil, err
	}
	return &client{Link: link, locks: locks, meter: m}, nil
}

// close gives back what the client holds, also when ctx has ended. What can't be given
// back expires soon, and its keys are deleted after this.
func (c *client) close(ctx context.Context) error {
	c.meter.closing.Store(true)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*closeWithin)
	defer cancel()
	return c.locks.Close(ctx)
}
