package lockkeeper

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/core"
	"github.com/lockkeeper/lockkeeper/internal/script"
)

//go:embed lua/*.lua
var luaFiles embed.FS

var (
	acquireScript = loadScript("acquire")
	releaseScript = loadScript("release")
	renewScript   = loadScript("renew")
	raiseScript   = loadScript("raise")
	breakScript   = loadScript("break")
	stateScript   = loadScript("state")
)

// loadScript reads an embedded file and puts the parts in that it includes; it can't
// fail for the names above.
func loadScript(name string) *script.Script {
	text := luaFile(name)
	for _, part := range []string{"join", "handoff"} {
		text = strings.Replace(text, "-- include: "+part+".lua\n", luaFile(part), 1)
	}
	return script.New(text)
}

func luaFile(name string) string {
	text, err := luaFiles.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err)
	}
	return string(text)
}

// run runs a script with a request of its own, given up at bound. The caller's
// context gives it values and, by bound, its deadline, but does not cancel it: a
// request on the wire can't be taken back, and a client that is told to give up
// its connection does more harm than good.
func (c *Client) run(ctx context.Context, s *script.Script, bound core.Instant, keys, args []string) (any, error) {
	r := &request{Context: ctx, deadline: c.clock.deadline(bound)}
	defer r.free()
	reply, err := s.Run(r, c.conn, &c.dialect, keys, args)
	return reply, r.sift(err)
}

// A request is the context of one request: the caller's values, and a deadline.
// The timer of the deadline is made only if somebody asks for Done; drivers that
// hand the deadline to the connection do not, and a timer for each request is
// what a fast path can do without.
type request struct {
	context.Context // the caller's, for its values
	deadline        time.Time

	once  sync.Once
	over  atomic.Bool // it has returned
	ended chan struct{}
	timer *time.Timer // closes ended; nil if nobody asked for Done before it was over
}

func (r *request) Deadline() (time.Time, bool) { return r.deadline, true }

func (r *request) Done() <-chan struct{} {
	r.once.Do(func() {
		ended := make(chan struct{})
		r.ended = ended
		r.timer = time.AfterFunc(time.Until(r.deadline), func() { close(ended) })
	})
	if r.ended == nil {
		ended := make(chan struct{})
		close(ended)
		return ended
	}
	return r.ended
}

// Err is never nil once Done is closed: package context panics at a parent that
// ends without an error, and its goroutines may look after the request is over.
func (r *request) Err() error {
	switch {
	case !time.Now().Before(r.deadline):
		return context.DeadlineExceeded
	case r.over.Load():
		return context.Canceled
	}
	return nil
}

// sift hides a context error that is of the request's own bound: callers ask errors.Is
// whether it was their context that ended.
func (r *request) sift(err error) error {
	if err == nil {
		return nil
	}
	theirs := r.Context.Err()
	// Their deadline is the request's then, and may be noticed a moment before.
	if at, ok := r.Context.Deadline(); theirs == nil && ok && !r.deadline.Before(at.Add(-time.Millisecond)) {
		theirs = context.DeadlineExceeded
	}
	for _, own := range []error{context.DeadlineExceeded, context.Canceled} {
		if own != theirs && errors.Is(err, own) {
			return &lateError{err}
		}
	}
	return err
}

// A lateError is a request that its bound has ended. It is a timeout as package net
// has it, and hides the context error that it comes from.
type lateError struct{ err error }

func (e *lateError) Error() string { return "no answer in time (" + e.err.Error() + ")" }
func (*lateError) Timeout() bool   { return true }
func (*lateError) Temporary() bool { return true }

// free ends the request and stops its timer.
func (r *request) free() {
	r.over.Store(true)
	r.once.Do(func() {})
	if r.timer != nil && r.timer.Stop() {
		close(r.ended) // for contexts that a driver has derived from it
	}
}

// sample takes in the server's clock, as it was at some time after sent.
func (c *Client) sample(sent core.Instant, serverMicros int64) {
	if serverMicros > 0 {
		c.server.Store(serverMicros - time.Duration(sent).Microseconds())
	}
}

// serverTime returns the server's clock at i, in microseconds, or later by the
// round trip of the last sample; 0 when nothing is known yet.
func (c *Client) serverTime(i core.Instant) int64 {
	offset := c.server.Load()
	if offset == 0 {
		return 0
	}
	return offset + time.Duration(i).Microseconds()
}

// number reads an integer of a reply, which comes as an integer or in digits; what
// is neither is 0, which is no right answer where this is used.
func number(reply any) int64 {
	switch v := reply.(type) {
	case int64:
		return v
	case string:
		if n, err := strconv.ParseInt(v, 10, 64); err == nil {
			return n
		}
	}
	return 0
}

func unexpected(reply any) error {
	return fmt.Errorf("unexpected reply %v (%T)", reply, reply)
}

// A notStartedError is a context that had ended before anything was sent: it says
// nothing about Redis.
type notStartedError struct{ err error }

func (e *notStartedError) Error() string { return e.err.Error() + ", before anything was sent" }
func (e *notStartedError) Unwrap() error { return e.err }

// notStarted returns an error if there is no use in sending anything.
func notStarted(ctx context.Context) error {
	if err := ended(ctx); err != nil {
		return &notStartedError{err}
	}
	return nil
}

// unavailable says what could not be done, or returns nil.
func unavailable(op, name string, err error) error {
	var unsent *notStartedError
	switch {
	case err == nil, errors.Is(err, ErrClosed):
		return err
	case errors.As(err, &unsent):
		return fmt.Errorf("lockkeeper: %s %q: %w", op, name, err)
	}
	return &UnavailableError{Op: op, Name: name, Err: err}
}

// noEffect reports whether err proves that the script wrote nothing.
func noEffect(err error) bool {
	var reply *ReplyError
	return errors.As(err, &reply) && core.NoEffect(reply.Code, reply.Message)
}
