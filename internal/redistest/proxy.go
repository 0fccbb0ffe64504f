package redistest

import (
	"errors"
	"net"
	"sync"
	"testing"
	"time"
)

// A Proxy is a TCP connection to a server that can be broken in the ways in which
// networks break. Clients connect to Addr. It is safe for concurrent use.
type Proxy struct {
	target string
	listen net.Listener
	wg     sync.WaitGroup // every goroutine of the proxy

	mu      sync.Mutex
	closed  bool
	refuse  bool
	lose    [2]bool // by direction: what arrives is lost
	delay   time.Duration
	streams map[*link]struct{}
}

// The two directions of a link.
const (
	requests = iota // from the client to the server
	replies
)

// NewProxy starts a proxy in front of target, and stops it when the test ends.
func NewProxy(tb testing.TB, target string) *Proxy {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatalf("redistest: %v", err)
	}
	p := &Proxy{target: target, listen: l, streams: make(map[*link]struct{})}
	p.wg.Go(p.accept)
	tb.Cleanup(p.close)
	return p
}

// Addr returns host and port, for clients.
func (p *Proxy) Addr() string { return p.listen.Addr().String() }

// Swallow is the silent hole: from now on what either side sends is lost, while
// every connection stays open. New ones are accepted, and lost as well; so is the
// news that a side has closed its end.
func (p *Proxy) Swallow() { p.set(true, true) }

// SwallowReplies lets requests reach the server, and loses its replies, so that no
// client knows what became of its request.
func (p *Proxy) SwallowReplies() { p.set(false, true) }

// Heal ends Swallow, SwallowReplies and RefuseNew. Connections that have lost
// something are closed, since nobody can go on with them.
func (p *Proxy) Heal() {
	p.set(false, false)
	p.RefuseNew(false)
	p.cut(func(l *link) bool { return l.isLossy() })
}

// CutAll breaks every connection at once, with a reset for both sides.
func (p *Proxy) CutAll() { p.cut(func(*link) bool { return true }) }

// Delay makes everything that is sent from now on arrive later by d, in each
// direction. It delays bytes, not the making of a connection.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// RefuseNew makes every new connection break at once, or ends that. Those that
// there are go on.
func (p *Proxy) RefuseNew(refuse bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = refuse
}

func (p *Proxy) set(loseRequests, loseReplies bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lose[requests], p.lose[replies] = loseRequests, loseReplies
}

func (p *Proxy) cut(which func(*link) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.streams {
		if which(l) {
			l.reset()
		}
	}
}

func (p *Proxy) count(which func(*link) bool) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for l := range p.streams {
		if which(l) {
			n++
		}
	}
	return n
}

func (p *Proxy) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	_ = p.listen.Close() // accept sees it
	p.CutAll()
	p.wg.Wait()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listen.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			p.serve(client)
		}
	}
}

// serve decides what becomes of a new connection.
func (p *Proxy) serve(client net.Conn) {
	l := &link{proxy: p, done: make(chan struct{})}
	l.ends[requests] = client
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.refuse {
		l.reset()
		return
	}
	p.streams[l] = struct{}{}
	if p.lose[requests] {
		// It never reaches the server, so that it can't be healed.
		l.markLossy()
		p.wg.Go(func() {
			defer p.forget(l)
			l.read(requests, nil)
			l.close()
		})
		return
	}
	p.wg.Go(l.connect)
}

// state returns what holds now for one direction.
func (p *Proxy) state(direction int) (lose bool, delay time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lose[direction], p.delay
}

func (p *Proxy) forget(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.streams, l)
}

// A link is one connection through the proxy. Its end [requests] is where requests
// come from, the client; its end [replies] is the server.
type link struct {
	proxy *Proxy
	done  chan struct{} // closed by reset

	mu    sync.Mutex
	ends  [2]net.Conn
	lossy bool
	over  bool
}

// A chunk is what one read has brought, or, with no data, the end of the stream.
type chunk struct {
	data []byte
	due  time.Time
}

// connect dials the server and moves bytes until either side ends.
func (l *link) connect() {
	defer l.proxy.forget(l)
	server, err := net.DialTimeout("tcp", l.proxy.target, patience)
	if err != nil || !l.join(server) {
		l.reset()
		return
	}
	var wg sync.WaitGroup
	for _, direction := range []int{requests, replies} {
		chunks := make(chan chunk, 1024)
		wg.Go(func() { l.read(direction, chunks) })
		wg.Go(func() { l.write(direction, chunks) })
	}
	wg.Wait()
	l.reset()
}

// join adds the server's end, unless the link is over.
func (l *link) join(server net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		_ = server.Close() // unused
		return false
	}
	l.ends[replies] = server
	return true
}

// read takes what comes from one end. Without chunks all of it is lost.
func (l *link) read(direction int, chunks chan<- chunk) {
	if chunks != nil {
		defer close(chunks)
	}
	from := l.ends[direction]
	for {
		buf := make([]byte, 32<<10)
		n, err := from.Read(buf)
		lose, delay := l.proxy.state(direction)
		switch {
		case lose || chunks == nil:
			l.markLossy()
		case n > 0 || err != nil:
			l.deliver(chunks, chunk{buf[:n], time.Now().Add(delay)})
		}
		if err != nil {
			return
		}
	}
}

func (l *link) deliver(chunks chan<- chunk, c chunk) {
	select {
	case chunks <- c:
	case <-l.done:
	}
}

// write brings each chunk to the other end when it is due. The end of the stream
// ends the link, so that the other side notices; a lost one is not noticed.
func (l *link) write(direction int, chunks <-chan chunk) {
	to := l.ends[1-direction]
	for c := range chunks {
		l.wait(c.due)
		if lose, _ := l.proxy.state(direction); lose {
			l.markLossy()
			continue
		}
		if len(c.data) == 0 {
			l.close()
			return
		}
		if _, err := to.Write(c.data); err != nil {
			l.close()
			return
		}
	}
}

// wait returns at the time due, or when the link is over.
func (l *link) wait(due time.Time) {
	d := time.Until(due)
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.done:
	}
}

func (l *link) markLossy() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lossy = true
}

func (l *link) isLossy() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lossy
}

// reset breaks both ends with a TCP reset; close ends them in order.
func (l *link) reset() { l.end(true) }
func (l *link) close() { l.end(false) }

func (l *link) end(reset bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return
	}
	l.over = true
	close(l.done)
	for _, conn := range l.ends {
		if conn == nil {
			continue
		}
		if tcp, ok := conn.(*net.TCPConn); ok && reset {
			_ = tcp.SetLinger(0)
		}
		_ = conn.Close() // it is given up, whatever it says
	}
}
