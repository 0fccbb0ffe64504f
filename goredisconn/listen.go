package goredisconn

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// pingEvery is how often a subscription is asked whether it still lives. When
// nothing has come for two such intervals, it does not.
const pingEvery = 3 * time.Second

// linger is how long Listen waits for go-redis to let go of a subscription.
const linger = 100 * time.Millisecond

// Listen implements lockkeeper.Conn, on a connection of its own. It pings the
// server every 3 s, and returns an error when it has heard nothing for 6 s, so that
// a network that lost the connection silently is noticed.
//
// It calls ready and message from its own goroutine: while one of them blocks,
// neither the end of ctx nor that of the connection is noticed. When ctx ends while
// go-redis still connects, that goes on in the background for at most the client's
// own timeouts.
func (c *Conn) Listen(ctx context.Context, channel string, ready func(), message func(payload string)) error {
	if err := ctx.Err(); err != nil {
		return failure(ctx, err)
	}
	// The subscription runs in a goroutine, because go-redis has calls that heed no
	// context: to connect, to close while connecting, and to receive.
	subscribed, cancel := context.WithCancel(ctx)
	events := make(chan any)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.receive(subscribed, channel, events)
	}()
	defer func() {
		cancel()
		select {
		case <-ended:
		case <-time.After(linger):
		}
	}()

	patience := 2 * c.ping
	silence := time.NewTimer(patience)
	defer silence.Stop()
	for {
		select {
		case <-ctx.Done():
			return failure(ctx, ctx.Err())
		case <-silence.C:
			return fmt.Errorf("goredisconn: subscription to %s: silent for %s", channel, patience)
		case event := <-events:
			switch event := event.(type) {
			case *redis.Subscription:
				ready()
			case *redis.Message:
				message(event.Payload)
			case error:
				return failure(ctx, event)
			}
		}
		silence.Reset(patience) // only now: a slow message is no silence
	}
}

// receive sends everything that comes on a subscription to events, and at last the
// error that has ended it. It returns after ctx has ended, or that error was taken.
func (c *Conn) receive(ctx context.Context, channel string, events chan<- any) {
	send := func(event any) {
		select {
		case events <- event:
		case <-ctx.Done():
		}
	}
	sub, err := c.subscribe(ctx, channel)
	if err != nil {
		send(err)
		return
	}
	defer sub.Close()
	// Closing it is what ends a call of Receive.
	defer context.AfterFunc(ctx, func() { _ = sub.Close() })()

	// When a subscription breaks, go-redis makes a new one before it returns the
	// error, and what was published in between is lost without a word. A context
	// that has ended spares that; it ends nothing else.
	spent, cancel := context.WithCancel(context.Background())
	cancel()
	var pings sync.WaitGroup
	pings.Go(func() { keepAlive(ctx, spent, sub, c.ping) })
	defer pings.Wait()
	for {
		event, err := sub.Receive(spent)
		if err != nil {
			send(err)
			return
		}
		send(event)
	}
}

// subscribe connects and sends the subscription; the server's answer comes later.
func (c *Conn) subscribe(ctx context.Context, channel string) (*redis.PubSub, error) {
	if ring, ok := c.rdb.(*redis.Ring); ok {
		// It wants the channel at once, to choose the shard by it. If it can't
		// connect, Receive says so.
		return ring.Subscribe(ctx, channel), nil
	}
	sub := c.rdb.Subscribe(ctx)
	if err := sub.Subscribe(ctx, channel); err != nil {
		_ = sub.Close() // has no connection
		return nil, err
	}
	return sub, nil
}

// keepAlive asks for an answer at every interval until ctx ends. Whether one comes
// is for Listen to see.
func keepAlive(ctx, spent context.Context, sub *redis.PubSub, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			_ = sub.Ping(spent) // Receive fails as well
		}
	}
}
