package rueidisconn

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// pingEvery is how often a subscription is asked whether it still lives, and how
// long it may take to answer.
const pingEvery = 3 * time.Second

// linger is how long Listen waits for rueidis to let go of a subscription.
const linger = 100 * time.Millisecond

// Listen implements lockkeeper.Conn, on a connection of its own: one that shares it
// with requests would cost them the fast path. It pings the server every 3 s, and
// returns an error when that is not answered within 3 s, so that a network that
// lost the connection silently is noticed. With RESP2 a subscription has a second
// connection, which only rueidis itself pings.
//
// It calls ready and message one at a time, message from the goroutine that reads the
// connection, so that no switch to another delays it: while one of them blocks, neither
// the end of ctx nor that of the connection is noticed. When ctx ends while
// rueidis still connects, that goes on in the background for at most the client's
// own timeouts.
func (c *Conn) Listen(ctx context.Context, channel string, ready func(), message func(payload string)) error {
	if err := ctx.Err(); err != nil {
		return contextual(ctx, err)
	}
	subscribed, cancel := context.WithCancel(ctx)
	s := &subscription{
		ready:     ready,
		message:   message,
		confirmed: make(chan struct{}),
		failed:    make(chan error, 1),
	}
	defer s.end()
	// It runs in a goroutine, because rueidis has calls that heed no context: to
	// connect, and to close.
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.run(subscribed, c.client, channel, c.ping)
	}()
	defer func() {
		cancel()
		select {
		case <-ended:
		case <-time.After(linger):
		}
	}()

	confirmed := s.confirmed
	for {
		select {
		case <-ctx.Done():
			return contextual(ctx, ctx.Err())
		case err := <-s.failed:
			return failure(ctx, err)
		case <-confirmed:
			confirmed = nil // which is never chosen any more
			s.getReady()
		}
	}
}

// A subscription is what goes on behind Listen.
type subscription struct {
	confirmed chan struct{} // closed when the server has confirmed it
	failed    chan error    // what has ended it, if it was not ctx

	mu      sync.Mutex // held while a function is called
	over    bool       // Listen returns: no function is called any more
	isReady bool
	calling atomic.Bool   // message is being called: nobody reads the connection
	calls   atomic.Uint64 // of message that have ended
	ready   func()
	message func(string)
}

// getReady calls ready, once.
func (s *subscription) getReady() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.beReady()
}

func (s *subscription) beReady() {
	if !s.over && !s.isReady {
		s.isReady = true
		s.ready()
	}
}

// receive calls message. It may be there before the confirmation has been noticed.
func (s *subscription) receive(m rueidis.PubSubMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.beReady()
	if s.over {
		return
	}
	s.calling.Store(true)
	s.message(m.Message)
	s.calls.Add(1)
	s.calling.Store(false)
}

func (s *subscription) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
}

// run subscribes and passes on what comes until the connection fails or ctx ends.
func (s *subscription) run(ctx context.Context, client rueidis.Client, channel string, every time.Duration) {
	conn, _ := client.Dedicate()
	// Not back to the pool, which would first wait for the end of the subscription.
	defer conn.Close()

	ctx, cancel := context.WithCancel(ctx)
	// Receive would do the same in one call, but with RESP2 it doesn't end when its
	// connection breaks, and tries for ever.
	broken := conn.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: s.receive})
	subscribed := make(chan error, 1)
	var calls sync.WaitGroup
	defer calls.Wait()
	defer cancel()
	calls.Go(func() {
		err := conn.Do(ctx, conn.B().Subscribe().Channel(channel).Build()).Error()
		if err == nil {
			close(s.confirmed)
			err = s.keepAlive(ctx, conn, every)
		}
		subscribed <- err
	})
	select {
	case err := <-broken:
		s.fail(err)
	case err := <-subscribed:
		s.fail(err)
	case <-ctx.Done():
	}
}

// fail tells Listen what has ended the subscription, once.
func (s *subscription) fail(err error) {
	if err == nil {
		err = errors.New("the subscription has ended")
	}
	s.failed <- err
}

// keepAlive pings at every interval until ctx ends or no answer comes, though somebody
// reads the connection. An error of the server is an answer.
func (s *subscription) keepAlive(ctx context.Context, conn rueidis.DedicatedClient, every time.Duration) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		calls := s.calls.Load()
		limited, cancel := context.WithTimeout(ctx, every)
		err := conn.Do(limited, conn.B().Ping().Build()).NonRedisError()
		cancel()
		unread := s.calling.Load() || s.calls.Load() != calls
		if err != nil && ctx.Err() == nil && !unread {
			return fmt.Errorf("a subscription does not answer a ping: %w", err)
		}
	}
}
