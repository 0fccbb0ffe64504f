package pipe

import (
	"context"
	"math/rand/v2"
	"net"
	"sync"
	"syscall"
	"time"
)

// A link is the network between one process and the server, with what is wrong with it.
type link struct {
	s   *server
	who string

	mu       sync.Mutex
	rng      *rand.Rand
	armed    []fault // each strikes one request
	until    map[kind]time.Time
	line     string // what errors say while there are some
	crashed  bool
	sessions map[*session]struct{}
}

func newLink(s *server, who string, rng *rand.Rand) *link {
	return &link{s: s, who: who, rng: rng, until: make(map[kind]time.Time), sessions: make(map[*session]struct{})}
}

// dial is the dialer of the process.
func (l *link) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(l.s.ctx, stop)()
	if err := sleep(ctx, l.delay()); err != nil {
		return nil, err
	}
	for left := l.silent(); left > 0; left = l.silent() {
		if err := sleep(ctx, left); err != nil {
			return nil, err
		}
	}
	if l.is(refused) || l.s.isDown() || l.s.ctx.Err() != nil {
		return nil, syscall.ECONNREFUSED
	}
	client, server := newWires()
	l.s.accept(l, server)
	return client, nil
}

// delay is how long something is on its way in one direction.
func (l *link) delay() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	most := l.s.w.latency
	if l.rng.IntN(50) == 0 {
		most *= 10
	}
	return upTo(l.rng, most)
}

// is reports whether something is wrong now.
func (l *link) is(k kind) bool { return l.left(k) > 0 }

func (l *link) left(k kind) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at, ok := l.until[k]; ok {
		return time.Until(at)
	}
	return 0
}

// silent is for how long nothing arrives, either way.
func (l *link) silent() time.Duration {
	l.mu.Lock()
	dead := l.crashed
	l.mu.Unlock()
	if dead {
		return time.Hour
	}
	return max(l.left(hole), l.left(deadHole))
}

// take returns the fault that strikes a request of this kind, if there is one.
func (l *link) take(of string) (fault, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, f := range l.armed {
		if f.Of == "" || f.Of == of {
			l.armed = append(l.armed[:i:i], l.armed[i+1:]...)
			return f, true
		}
	}
	return fault{}, false
}

// apply makes a fault of this process happen, or wait for a request that it strikes.
func (l *link) apply(f fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch f.Kind {
	case lostRequest, lostReply, cutRequest, cutReply, lateRequest, lateReply, errorReply:
		l.armed = append(l.armed, f)
		return
	case trouble:
		l.line = f.Line
	case refused, killed:
		l.each(func(c *session) { c.kill() })
	case deadHole:
		l.each(func(c *session) { c.deaden() })
	case subCut:
		l.each(func(c *session) {
			if c.isSubscribed() {
				c.kill()
			}
		})
	case subDead:
		l.each(func(c *session) {
			if c.isSubscribed() {
				c.deaden()
			}
		})
	case crashed:
		l.crashed = true
		l.each(func(c *session) { c.kill() })
	}
	if f.Lasts > 0 {
		l.until[f.Kind] = time.Now().Add(f.Lasts)
	}
}

func (l *link) each(do func(*session)) {
	for c := range l.sessions {
		do(c)
	}
}

// heal ends everything that is wrong; what is late still comes, and connections that are
// dead stay so.
func (l *link) heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.armed = nil
	clear(l.until)
}

func (l *link) add(c *session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sessions[c] = struct{}{}
}

func (l *link) remove(c *session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.sessions, c)
}

// sleep waits, or returns the context's error.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
