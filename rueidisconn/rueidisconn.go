package rueidisconn

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockkeeper/lockkeeper"
)

// A Conn is a rueidis client in the form that Lockkeeper asks for. It is safe for
// concurrent use. It has no connections of its own, and nothing to close: they are
// the client's, whom the caller closes after Lockkeeper.
type Conn struct {
	client rueidis.Client
	start  time.Time
	ping   time.Duration

	// When, after start, the last call began that was answered; 0 after a call
	// that was not.
	answered atomic.Int64
}

var (
	_ lockkeeper.Conn    = (*Conn)(nil)
	_ lockkeeper.Scanner = (*Conn)(nil)
)

// New returns a Conn that sends its requests through client. It sends each request
// once: rueidis repeats only commands that are marked as read-only, which scripts
// are not.
//
// A call returns when its context's deadline passes. Rueidis has two places where
// it waits longer: for another call that is connecting, and for room in a full
// queue. Calls that may come to them, because none was answered within the last
// second, run in a goroutine of their own, which then ends on its own, within the
// client's timeouts.
func New(client rueidis.Client) *Conn {
	return &Conn{client: client, start: time.Now(), ping: pingEvery}
}

// EvalSha implements lockkeeper.Conn.
func (c *Conn) EvalSha(ctx context.Context, sha string, keys, args []string) (any, error) {
	return c.do(ctx, c.client.B().Evalsha().Sha1(sha).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build())
}

// Eval implements lockkeeper.Conn.
func (c *Conn) Eval(ctx context.Context, src string, keys, args []string) (any, error) {
	return c.do(ctx, c.client.B().Eval().Script(src).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build())
}

// How long an answer proves that the next call will not wait for a connection, and
// how often that is noted, so that concurrent calls don't all write it.
const (
	provenFor = int64(time.Second)
	noteEvery = int64(100 * time.Millisecond)
)

// do runs one command.
func (c *Conn) do(ctx context.Context, cmd rueidis.Completed) (any, error) {
	began, answered := int64(time.Since(c.start)), c.answered.Load()
	var result rueidis.RedisResult
	if proven := answered > 0 && began-answered < provenFor; proven || ctx.Done() == nil {
		result = c.client.Do(ctx, cmd)
	} else {
		result = c.orLeave(ctx, cmd)
	}
	if err := result.NonRedisError(); err != nil {
		c.answered.Store(0)
		return nil, failure(ctx, err)
	}
	if answered == 0 || began-answered > noteEvery {
		c.answered.Store(max(began, 1))
	}
	return reply(result)
}

// grace is how long after the end of its context a call is waited for. Most end by
// themselves then, and the next one finds a broken connection replaced.
const grace = 20 * time.Millisecond

// orLeave runs a command, but returns the error of ctx when that has ended and the
// command does not. Then the command ends on its own.
func (c *Conn) orLeave(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	if err := ctx.Err(); err != nil {
		return rueidis.NewErrorResult(err)
	}
	result := make(chan rueidis.RedisResult, 1)
	go func() { result <- c.client.Do(ctx, cmd) }()
	select {
	case r := <-result:
		return r
	case <-ctx.Done():
	}
	select {
	case r := <-result:
		return r
	case <-time.After(grace):
		return rueidis.NewErrorResult(ctx.Err())
	}
}
