package pipe

import (
	"bufio"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockkeeper/lockkeeper"
)

// A session is one connection as the server has it.
type session struct {
	s    *server
	l    *link
	end  *wire
	in   *bufio.Reader
	gone atomic.Bool // it was cut: what has not run never will
	dead atomic.Bool // nothing gets through any more, and neither side knows

	writing sync.Mutex
	proto   int

	subscribed atomic.Int32
	listening  sync.WaitGroup
	ctx        context.Context // ends with the session
	stop       context.CancelFunc
}

func newSession(s *server, l *link, end *wire) *session {
	c := &session{s: s, l: l, end: end, in: bufio.NewReaderSize(end, 512), proto: 2}
	c.ctx, c.stop = context.WithCancel(context.Background())
	return c
}

// kill resets the connection.
func (c *session) kill() {
	c.gone.Store(true)
	c.end.cut()
	c.stop()
}

func (c *session) deaden() { c.dead.Store(true) }

func (c *session) isSubscribed() bool { return c.subscribed.Load() > 0 }

// serve answers requests until the client is gone.
func (c *session) serve() {
	defer c.l.remove(c)
	for {
		args, err := readCommand(c.in)
		if err != nil || len(args) == 0 || !c.answer(args) {
			break
		}
	}
	if c.isSubscribed() {
		c.linger()
	}
	_ = c.end.Close()
	c.stop()
	c.listening.Wait()
}

// linger waits until the server hears that the client is gone: until then it counts as
// one that listens.
func (c *session) linger() {
	for !c.gone.Load() && (c.dead.Load() || c.l.silent() > 0) {
		if c.dead.Load() {
			<-c.ctx.Done()
			return
		}
		if sleep(c.ctx, c.l.silent()) != nil {
			return
		}
	}
}

// answer deals with one command. It returns false when the connection is over.
func (c *session) answer(args []string) bool {
	verb := strings.ToUpper(args[0])
	isScript := verb == "EVAL" || verb == "EVALSHA"
	var f fault
	if isScript {
		f, _ = c.l.take(kindOfScript(args))
		if f.Kind != "" {
			c.s.w.happened(f)
		}
	}
	if isScript || verb == "HELLO" || verb == "PING" {
		if !c.arrive(f) {
			return false
		}
	}
	switch {
	case c.gone.Load():
		return false
	case f.Kind == cutRequest:
		c.kill()
		return false
	case f.Kind == lostRequest:
		c.deaden() // what came after it could not be told from its answer
	}
	if c.dead.Load() {
		return true // and no answer, for ever
	}
	var reply any
	switch {
	case f.Kind == errorReply:
		reply = errorLine(f.Line)
	case isScript && c.l.is(trouble):
		reply = errorLine(c.l.line)
	case isScript:
		reply = c.s.run(verb, args)
		if !c.replies(f) {
			return !c.gone.Load()
		}
	default:
		reply = c.other(verb, args)
	}
	return c.send(reply, f.Kind == cutReply)
}

// arrive waits until the request is at the server.
func (c *session) arrive(f fault) bool {
	d := c.l.delay() + c.s.lags()
	if f.Kind == lateRequest {
		d += f.Lasts
	}
	// A request that was given up arrives all the same.
	time.Sleep(d)
	for !c.gone.Load() {
		left := max(c.l.silent(), c.s.left(stopped))
		if left <= 0 {
			return true
		}
		if c.l.silent() > time.Minute { // crashed
			return false
		}
		time.Sleep(left)
	}
	return false
}

// replies waits until the reply is at the client, or returns false if it will not be.
func (c *session) replies(f fault) bool {
	d := c.l.delay()
	if f.Kind == lateReply {
		d += f.Lasts
	}
	time.Sleep(d)
	if f.Kind == lostReply || c.l.is(repliesLost) {
		c.deaden()
		return false
	}
	for left := c.l.silent(); left > 0 && left < time.Minute && !c.gone.Load(); left = c.l.silent() {
		time.Sleep(left)
	}
	return !c.gone.Load() && !c.dead.Load()
}

// send writes a reply, or half of it and then cuts the connection.
func (c *session) send(reply any, cut bool) bool {
	c.writing.Lock()
	defer c.writing.Unlock()
	if _, sent := reply.(sentAlready); sent {
		return true
	}
	b := appendReply(nil, c.proto, reply)
	if cut {
		_, _ = c.end.Write(b[:len(b)/2])
		c.gone.Store(true)
		_ = c.end.Close()
		return false
	}
	_, err := c.end.Write(b)
	return err == nil
}

// A sentAlready is the reply of a command that has answered by itself.
type sentAlready struct{}

// other is a command that is no script.
func (c *session) other(verb string, args []string) any {
	switch verb {
	case "HELLO":
		if len(args) > 1 && args[1] == "3" {
			c.writing.Lock()
			c.proto = 3
			c.writing.Unlock()
		}
		return []any{"server", "redis", "version", "7.4.0", "proto", int64(c.proto)}
	case "CLIENT":
		if len(args) > 1 && strings.EqualFold(args[1], "SETINFO") {
			return status("OK")
		}
		return errorLine("ERR unknown subcommand")
	case "PING":
		if c.proto == 2 && c.isSubscribed() {
			return []any{"pong", ""}
		}
		return status("PONG")
	case "UNSUBSCRIBE":
		return push{"unsubscribe", args[len(args)-1], int64(0)} // and the connection is closed next
	case "SUBSCRIBE":
		for _, channel := range args[1:] {
			c.listening.Go(func() { c.listen(channel) })
		}
		return sentAlready{}
	}
	return errorLine("ERR unknown command '" + verb + "'")
}

// listen is one subscription.
func (c *session) listen(channel string) {
	ready := func() {
		c.subscribed.Add(1)
		c.send(push{"subscribe", channel, int64(c.subscribed.Load())}, false)
	}
	_ = c.s.memory.Listen(c.ctx, channel, ready, func(payload string) { c.deliver(channel, payload) })
}

// deliver brings a message to the client, unless it is lost on the way.
func (c *session) deliver(channel, payload string) {
	d := c.l.delay()
	if late := c.l.left(messagesLate); late > 0 {
		d += late
	}
	if sleep(c.ctx, d) != nil {
		return
	}
	for left := max(c.l.silent(), c.s.left(stopped)); left > 0; left = max(c.l.silent(), c.s.left(stopped)) {
		if sleep(c.ctx, left) != nil {
			return
		}
	}
	if !c.dead.Load() && !c.l.is(messagesLost) {
		c.send(push{"message", channel, payload}, false)
	}
}

// An errorLine is an error as the server sends it.
type errorLine string

func (e errorLine) Error() string { return string(e) }

func replyError(err error) errorLine {
	var e *lockkeeper.ReplyError
	if errors.As(err, &e) {
		return errorLine(e.Line())
	}
	return errorLine("ERR " + err.Error())
}

func shaOf(script string) string {
	sum := sha1.Sum([]byte(script))
	return hex.EncodeToString(sum[:])
}

// splitScript takes EVAL or EVALSHA apart.
func splitScript(args []string) (script string, keys, rest []string, ok bool) {
	if len(args) < 3 {
		return "", nil, nil, false
	}
	n, err := strconv.Atoi(args[2])
	if err != nil || n < 0 || len(args) < 3+n {
		return "", nil, nil, false
	}
	return args[1], args[3 : 3+n], args[3+n:], true
}

// kindOfScript tells by the shape of its arguments which script a request runs.
func kindOfScript(args []string) string {
	_, keys, rest, ok := splitScript(args)
	if !ok {
		return ""
	}
	return scriptOf(keys, rest)
}

// scriptOf is which script has these keys and arguments, as docs/PROTOCOL.md has them; ""
// is one that changes no hold.
func scriptOf(keys, args []string) string {
	switch {
	case len(keys) == 4 && !isLock(keys[1]) && len(args) >= 4 && len(args) <= 6:
		return "acquire"
	case len(keys) == 4 && !isLock(keys[1]) && (len(args) == 2 || len(args) == 7 || len(args) == 8):
		return "release"
	case len(keys) > 0 && len(args) == 2*len(keys) && (len(keys) == 1 || isLock(keys[1])):
		return "renew"
	}
	return ""
}
