package goredisconn

import (
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockkeeper/lockkeeper"
)

// A Conn is a go-redis client in the form that Lockkeeper asks for. It is safe for
// concurrent use. It has no connections of its own, and nothing to close: they are
// the client's, whom the caller closes after Lockkeeper.
type Conn struct {
	rdb redis.UniversalClient
	// leave is set for a client that may stay in a call after its context's
	// deadline: then the call is left to end on its own.
	leave bool
	ping  time.Duration
}

var (
	_ lockkeeper.Conn    = (*Conn)(nil)
	_ lockkeeper.Scanner = (*Conn)(nil)
)

// New returns a Conn that sends its requests through rdb, with its hooks and its
// pool. Call it once for a client, after adding hooks to it.
//
// For a *redis.Client, also one that redis.NewFailoverClient returned, New adds a
// hook that lets everything pass except the requests of this Conn. Those it sends
// over the same pool with options that respect the deadline of a context, which
// go-redis does not let a single request ask for. With Options.ContextTimeoutEnabled
// there is no need for it, and no hook. Hooks that are added later than New don't
// see the requests of this Conn.
//
// For any other client, such as a *redis.ClusterClient, a call whose context ends
// returns at once, while go-redis goes on with it and keeps its connection for at
// most the client's own timeouts. The same goes for a *redis.Client whose
// ReadTimeout or WriteTimeout is -2, which forbids deadlines.
func New(rdb redis.UniversalClient) *Conn {
	c := &Conn{rdb: rdb, leave: true, ping: pingEvery}
	client, ok := rdb.(*redis.Client)
	if !ok {
		return c
	}
	opts := client.Options()
	if opts.ReadTimeout < 0 || opts.WriteTimeout < 0 {
		// A deadline that a request of ours has left on a connection would
		// strike requests of the client's other users, who never set one.
		return c
	}
	if !opts.ContextTimeoutEnabled {
		client.AddHook(deadlineHook{punctual(client)})
	}
	c.leave = false
	return c
}

// punctual returns a client over the same pool that respects the deadlines of
// contexts. WithTimeout is the one way to a client with options of its own on the
// pool of another. Options are read at each call, so that these can be changed
// before the first one; TestSuite fails when go-redis no longer does that.
func punctual(rdb *redis.Client) *redis.Client {
	own := rdb.WithTimeout(rdb.Options().ReadTimeout)
	opts := own.Options()
	opts.WriteTimeout = rdb.Options().WriteTimeout
	opts.ContextTimeoutEnabled = true
	opts.MaxRetries = 0 // also of the commands that open a connection
	return own
}

// A deadlineHook sends requests of this package through another client. It is
// needed because that client, made by WithTimeout, has lost the hooks of the one
// it was made from: this way they run first.
type deadlineHook struct{ own *redis.Client }

func (h deadlineHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if r, ok := cmd.(*request); ok {
			return h.own.Process(ctx, r)
		}
		return next(ctx, cmd)
	}
}

func (deadlineHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (deadlineHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// A request is a command that go-redis doesn't retry.
type request struct {
	*redis.Cmd
	script string
	few    [16]any // backs the arguments, when they are not more
}

// NoRetry is what go-redis asks before it sends a command again, whatever
// Options.MaxRetries is.
func (*request) NoRetry() bool { return true }

// Clone keeps go-redis from making a plain command of a request.
func (r *request) Clone() redis.Cmder {
	return &request{Cmd: r.Cmd.Clone().(*redis.Cmd), script: r.script}
}

// EvalSha implements lockkeeper.Conn. Hooks, such as those of tracing, see the
// script's SHA-1 and the keys, but only pointers in place of args: that spares an
// allocation for each, and keeps the owners' tokens out of logs.
func (c *Conn) EvalSha(ctx context.Context, sha string, keys, args []string) (any, error) {
	return c.script(ctx, "evalsha", sha, keys, args)
}

// Eval implements lockkeeper.Conn; as to hooks, see EvalSha.
func (c *Conn) Eval(ctx context.Context, src string, keys, args []string) (any, error) {
	return c.script(ctx, "eval", src, keys, args)
}

// script runs one. Its verb is an any because a constant becomes one for nothing.
func (c *Conn) script(ctx context.Context, verb any, script string, keys, args []string) (any, error) {
	if c.leave {
		args = slices.Clone(args) // a call that was left still reads them
	}
	r := &request{script: script}
	list := r.few[:0]
	if n := 3 + len(keys) + len(args); n > len(r.few) {
		list = make([]any, 0, n)
	}
	list = append(list, verb, &r.script, len(keys))
	for _, key := range keys {
		list = append(list, key)
	}
	for i := range args {
		list = append(list, &args[i])
	}
	r.Cmd = redis.NewCmd(ctx, list...)
	return c.do(ctx, r)
}

// do runs one request.
func (c *Conn) do(ctx context.Context, r *request) (any, error) {
	var err error
	if c.leave {
		err = orLeave(ctx, func() error { return c.rdb.Process(ctx, r) })
	} else {
		err = c.rdb.Process(ctx, r)
	}
	if err != nil {
		return nil, failure(ctx, err)
	}
	return reply(r.Val())
}

// orLeave runs f, but returns the error of ctx when that ends first. Then f ends on
// its own; what it touches must not be used any more.
func orLeave(ctx context.Context, f func() error) error {
	if ctx.Done() == nil {
		return f()
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	result := make(chan error, 1)
	go func() { result <- f() }()
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
