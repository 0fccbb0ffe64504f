package pipe

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// A wire is one end of a connection in memory. Unlike net.Pipe it has buffers, so that
// who writes does not wait for who reads, as with a socket.
type wire struct{ in, out *stream }

var _ net.Conn = (*wire)(nil)

// newWires returns both ends of a connection.
func newWires() (a, b *wire) {
	x, y := newStream(), newStream()
	return &wire{x, y}, &wire{y, x}
}

func (w *wire) Read(b []byte) (int, error)  { return w.in.read(b) }
func (w *wire) Write(b []byte) (int, error) { return w.out.write(b) }

// Close ends this end. The other one reads what was sent, and then the end.
func (w *wire) Close() error {
	w.in.end(net.ErrClosed, true)
	w.out.end(io.EOF, false)
	return nil
}

// cut resets the connection for both ends; what is on its way is lost.
func (w *wire) cut() {
	w.in.end(syscall.ECONNRESET, true)
	w.out.end(syscall.ECONNRESET, true)
}

func (w *wire) LocalAddr() net.Addr  { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }
func (w *wire) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 6379} }

// SetWriteDeadline does nothing: writing never waits.
func (w *wire) SetWriteDeadline(time.Time) error { return nil }

func (w *wire) SetDeadline(t time.Time) error { return w.SetReadDeadline(t) }

func (w *wire) SetReadDeadline(t time.Time) error {
	w.in.setDeadline(t)
	return nil
}

// A stream is one direction of a connection. It has one reader.
type stream struct {
	mu       sync.Mutex
	buf      []byte
	err      error // what the reader gets after the buffer
	deadline time.Time
	news     chan struct{} // gets one when the reader has to look again
	timer    *time.Timer   // of the deadline; the reader's
}

func newStream() *stream { return &stream{news: make(chan struct{}, 1)} }

func (s *stream) tell() {
	select {
	case s.news <- struct{}{}:
	default:
	}
}

func (s *stream) write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return 0, syscall.EPIPE
	}
	s.buf = append(s.buf, b...)
	s.tell()
	return len(b), nil
}

// end is the end of the stream; the first reason counts.
func (s *stream) end(err error, lose bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if lose {
		s.buf = nil
	}
	if s.err == nil {
		s.err = err
	}
	s.tell()
}

func (s *stream) setDeadline(t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deadline = t
	s.tell()
}

func (s *stream) read(b []byte) (int, error) {
	for {
		n, until, err := s.take(b)
		if n > 0 || err != nil {
			return n, err
		}
		if until.IsZero() {
			<-s.news
			continue
		}
		left := time.Until(until)
		if left <= 0 {
			return 0, os.ErrDeadlineExceeded
		}
		if s.timer == nil {
			s.timer = time.NewTimer(left)
		} else {
			s.timer.Reset(left)
		}
		select {
		case <-s.news:
			s.timer.Stop()
		case <-s.timer.C:
		}
	}
}

// take reads what is there, and until when there may be more.
func (s *stream) take(b []byte) (n int, until time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.buf) == 0 {
		return 0, s.deadline, s.err
	}
	n = copy(b, s.buf)
	if s.buf = s.buf[n:]; len(s.buf) == 0 {
		s.buf = nil
	}
	return n, s.deadline, nil
}
