package redistest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/lockkeeper/lockkeeper"
)

// A wire is one connection.
type wire struct {
	net.Conn
	r   *bufio.Reader
	buf []byte
}

// long past: a deadline that ends what is in progress.
var past = time.Unix(1, 0)

// bind makes the end of ctx interrupt what w reads or writes, until stop is called.
// Stop reports whether that was in time: when not, w must not be used again.
func (w *wire) bind(ctx context.Context) (stop func() bool) {
	deadline, _ := ctx.Deadline()
	_ = w.SetDeadline(deadline) // fails on a closed connection, and so will its use
	return context.AfterFunc(ctx, func() { _ = w.SetDeadline(past) })
}

func (w *wire) roundTrip(args []string) (any, error) {
	if err := w.send(args...); err != nil {
		return nil, err
	}
	return w.read()
}

func (w *wire) send(args ...string) error {
	b := strconv.AppendInt(append(w.buf[:0], '*'), int64(len(args)), 10)
	for _, arg := range args {
		b = strconv.AppendInt(append(b, "\r\n$"...), int64(len(arg)), 10)
		b = append(append(b, "\r\n"...), arg...)
	}
	b = append(b, "\r\n"...)
	w.buf = b
	_, err := w.Write(b)
	return err
}

// read reads one reply. An error inside of an array is returned as the error of the
// whole, after all of it was read.
func (w *wire) read() (any, error) {
	line, err := w.r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	if len(line) < 3 || line[len(line)-2] != '\r' {
		return nil, fmt.Errorf("redistest: bad reply %q", line)
	}
	body := line[1 : len(line)-2]
	switch line[0] {
	case '+':
		return body, nil
	case '-':
		return nil, lockkeeper.NewReplyError(body)
	}
	n, err := strconv.ParseInt(body, 10, 64)
	switch {
	case err != nil:
		return nil, fmt.Errorf("redistest: bad reply %q", line)
	case line[0] == ':':
		return n, nil
	case n < 0 && (line[0] == '$' || line[0] == '*'):
		return nil, nil
	case line[0] == '$':
		b := make([]byte, n+2)
		_, err := io.ReadFull(w.r, b)
		return string(b[:n]), err
	case line[0] == '*':
		return w.readArray(n)
	}
	return nil, fmt.Errorf("redistest: bad reply %q", line)
}

func (w *wire) readArray(n int64) (any, error) {
	array := make([]any, n)
	var first error
	for i := range array {
		v, err := w.read()
		if _, isReply := replyCode(err); err != nil && !isReply {
			return nil, err
		}
		if first == nil {
			first = err
		}
		array[i] = v
	}
	if first != nil {
		return nil, first
	}
	return array, nil
}

// listen subscribes and receives until anything fails, or ctx ends.
func (w *wire) listen(ctx context.Context, ping time.Duration, channel string, ready func(), message func(string)) error {
	if err := w.send("SUBSCRIBE", channel); err != nil {
		return err
	}
	for {
		reply, err := w.receive(ctx, ping)
		if err != nil {
			return err
		}
		push, _ := reply.([]any)
		if len(push) == 0 {
			return fmt.Errorf("redistest: bad push %v", reply)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		switch push[0] {
		case "subscribe":
			ready()
		case "message":
			message(push[2].(string))
		}
	}
}

// receive reads the next push, however late it comes, as long as the other side
// answers a ping. Peek leaves a message whole whose first bytes came too late.
func (w *wire) receive(ctx context.Context, ping time.Duration) (any, error) {
	for pinged := false; ; pinged = true {
		_ = w.SetReadDeadline(time.Now().Add(ping)) // as in bind
		if ctx.Err() != nil {
			return nil, ctx.Err() // bind's deadline may have come before this one
		}
		_, err := w.r.Peek(1)
		if err == nil {
			return w.read()
		}
		var timeout net.Error
		if pinged || !errors.As(err, &timeout) || !timeout.Timeout() {
			return nil, err
		}
		if err := w.send("PING"); err != nil {
			return nil, err
		}
	}
}
