package redistest

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"iter"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockkeeper/lockkeeper"
)

// pingEvery is after which silence Listen asks whether the connection still lives,
// and how long it waits for an answer.
const pingEvery = 3 * time.Second

// A Conn is a plain Redis client over RESP2: a pool of connections, each with one
// request at a time. It is as strict as a lockkeeper.Conn can be: a deadline and
// a cancellation end a call at once, and a connection on which anything went
// wrong is closed and never used again. It sends what it is told, once.
//
// It is safe for concurrent use. The fields are set before the first call.
type Conn struct {
	User     string // empty means the default user
	Password string // empty means no AUTH
	DB       int
	TLS      *tls.Config

	addr     string
	ping     time.Duration // pingEvery, but in tests
	requests atomic.Int64

	mu     sync.Mutex
	closed bool
	idle   []*wire
	open   map[*wire]struct{} // also those that are in use
}

var (
	_ lockkeeper.Conn    = (*Conn)(nil)
	_ lockkeeper.Scanner = (*Conn)(nil)
)

var errClosed = errors.New("redistest: client is closed")

// NewConn returns a client of the server at addr. It connects when it has to.
func NewConn(addr string) *Conn {
	return &Conn{addr: addr, ping: pingEvery, open: make(map[*wire]struct{})}
}

// Close closes all connections; calls in progress fail.
func (c *Conn) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for w := range c.open {
		_ = w.Close() // it is given up, whatever it says
	}
	c.idle, c.open = nil, nil
}

// Requests returns how many commands were sent by EvalSha, Eval, Scan and Do;
// AUTH, SELECT and what Listen sends are not counted.
func (c *Conn) Requests() int64 { return c.requests.Load() }

// EvalSha implements lockkeeper.Conn.
func (c *Conn) EvalSha(ctx context.Context, sha string, keys, args []string) (any, error) {
	return c.script(ctx, "EVALSHA", sha, keys, args)
}

// Eval implements lockkeeper.Conn.
func (c *Conn) Eval(ctx context.Context, src string, keys, args []string) (any, error) {
	return c.script(ctx, "EVAL", src, keys, args)
}

func (c *Conn) script(ctx context.Context, verb, script string, keys, args []string) (any, error) {
	cmd := make([]string, 0, 3+len(keys)+len(args))
	cmd = append(cmd, verb, script, strconv.Itoa(len(keys)))
	cmd = append(append(cmd, keys...), args...)
	return c.Do(ctx, cmd...)
}

// Do runs one command. Its reply is nil, int64, string or []any of these; an error
// of the server, also one inside of an array, is a *lockkeeper.ReplyError. When ctx
// ends first the error is ctx's, and what the server did is unknown.
func (c *Conn) Do(ctx context.Context, args ...string) (any, error) {
	w, err := c.get(ctx)
	if err != nil {
		return nil, contextError(ctx, err)
	}
	stop := w.bind(ctx)
	c.requests.Add(1)
	reply, err := w.roundTrip(args)
	// A stop that came too late may still set the deadline of a connection that
	// has got its reply in time, so that connection can't be used again either.
	_, isReply := replyCode(err)
	c.put(w, stop() && (err == nil || isReply))
	if isReply || err == nil {
		return reply, err
	}
	return nil, contextError(ctx, err)
}

// Scan implements lockkeeper.Scanner for one server.
func (c *Conn) Scan(ctx context.Context, match string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for cursor := "0"; ; {
			reply, err := c.Do(ctx, "SCAN", cursor, "MATCH", match, "COUNT", "512")
			if err != nil {
				yield("", err)
				return
			}
			page := reply.([]any)
			for _, key := range page[1].([]any) {
				if !yield(key.(string), nil) {
					return
				}
			}
			if cursor = page[0].(string); cursor == "0" {
				return
			}
		}
	}
}

// Listen implements lockkeeper.Conn, on a connection of its own. A connection that
// has been silent for a while is asked whether it lives, and given up when it does
// not answer.
func (c *Conn) Listen(ctx context.Context, channel string, ready func(), message func(payload string)) error {
	w, err := c.dial(ctx)
	if err != nil {
		return contextError(ctx, err)
	}
	defer c.put(w, false)
	defer w.bind(ctx)()
	return contextError(ctx, w.listen(ctx, c.ping, channel, ready, message))
}

// get returns an idle connection or a new one.
func (c *Conn) get(ctx context.Context) (*wire, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	if n := len(c.idle); n > 0 {
		w := c.idle[n-1]
		c.idle = c.idle[:n-1]
		c.mu.Unlock()
		return w, nil
	}
	c.mu.Unlock()
	return c.dial(ctx)
}

// put takes a connection back, or closes it. When one is broken the idle ones most
// likely are as well: they go too, rather than fail one call each.
func (c *Conn) put(w *wire, sound bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return // and so is w
	}
	if sound {
		c.idle = append(c.idle, w)
		return
	}
	for _, w := range append(c.idle, w) {
		_ = w.Close() // it is given up, whatever it says
		delete(c.open, w)
	}
	c.idle = nil
}

// dial makes a connection that is ready for use.
func (c *Conn) dial(ctx context.Context) (*wire, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", c.addr)
	if err != nil {
		return nil, err
	}
	if c.TLS != nil {
		conn = tls.Client(conn, c.TLS)
	}
	w := &wire{Conn: conn, r: bufio.NewReader(conn)}
	if err := c.register(w); err != nil {
		return nil, err
	}
	stop := w.bind(ctx)
	err = c.hello(w)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		c.put(w, false)
		return nil, err
	}
	return w, nil
}

// hello does what the fields want of every connection.
func (c *Conn) hello(w *wire) error {
	auth := []string{"AUTH", c.Password}
	if c.User != "" {
		auth = []string{"AUTH", c.User, c.Password}
	}
	if c.Password != "" {
		if _, err := w.roundTrip(auth); err != nil {
			return err
		}
	}
	if c.DB != 0 {
		if _, err := w.roundTrip([]string{"SELECT", strconv.Itoa(c.DB)}); err != nil {
			return err
		}
	}
	return nil
}

// register makes Close close w as well, or closes it when that has happened.
func (c *Conn) register(w *wire) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		_ = w.Close() // unused
		return errClosed
	}
	c.open[w] = struct{}{}
	return nil
}

// replyCode returns the code of an error that the server sent.
func replyCode(err error) (code string, isReply bool) {
	var reply *lockkeeper.ReplyError
	if !errors.As(err, &reply) {
		return "", false
	}
	return reply.Code, true
}

// contextError returns the error of a call that failed with err: ctx's own, with
// what happened as text, when ctx is over. The network's deadline can come a moment
// before ctx's.
func contextError(ctx context.Context, err error) error {
	cause := ctx.Err()
	if deadline, ok := ctx.Deadline(); cause == nil && ok && !time.Now().Before(deadline) {
		cause = context.DeadlineExceeded
	}
	if cause == nil || errors.Is(err, cause) {
		return err
	}
	if _, isReply := replyCode(err); isReply {
		return err
	}
	return fmt.Errorf("%w (%v)", cause, err)
}
