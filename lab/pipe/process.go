package pipe

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/goredisconn"
	"github.com/lockkeeper/lockkeeper/lab/oracle"
	"github.com/lockkeeper/lockkeeper/rueidisconn"
)

// A told is what a process was told about a lock last.
type told uint8

const (
	toldNothing told = iota
	toldHeld
	toldGranted
	toldTrouble // no usable answer
)

// A process is one client of the library, with a Redis client of its own.
type process struct {
	w      *world
	name   string
	margin time.Duration // as configured
	link   *link
	client *lockkeeper.Client
	hangUp func() // closes the Redis client

	onRueidis bool

	// Guarded by the world's mutex.
	known   map[string]*knowledge // by key
	live    bool                  // it listens
	closing bool
	dead    bool
}

// A knowledge is what the calls of a process that wait for a lock know of it.
type knowledge struct {
	told    told
	at      oracle.Time          // of told
	asking  int                  // requests on their way
	failed  oracle.Time          // told any error by a request of the line or a release
	refused oracle.Time          // told an error that waiting does not mend
	holds   int                  // turns of the process that are not given back
	until   oracle.Time          // the last one was
	leave   []context.CancelFunc // of calls that leave with the next hand-off
}

// on returns what the process knows of a lock. w.mu must be held.
func (p *process) on(lock string) *knowledge {
	k := p.known[lock]
	if k == nil {
		k = new(knowledge)
		p.known[lock] = k
	}
	return k
}

// tells takes in what the process was told about a lock. w.mu must be held.
func (p *process) tells(lock string, t told) {
	k := p.on(lock)
	k.told, k.at = t, p.w.now()
}

// hears takes in that the subscription is there, or not.
func (p *process) hears(live bool) {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	p.live = live
	if live {
		p.w.note(p.name, "listens", "", "")
	} else {
		p.w.note(p.name, "listens no more", "", "")
	}
}

// A slot has one process after the other.
type slot struct {
	w     *world
	index int
	mu    sync.Mutex
	now   *process
	count int // of processes until now; that of whoever replaces them
}

func (s *slot) current() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// replace starts a new process in the slot. It holds no mutex while it connects: who waits
// for one makes time stand still.
func (s *slot) replace() {
	w := s.w
	s.count++
	p := &process{
		w: w, name: fmt.Sprintf("p%d.%d", s.index, s.count), margin: w.margins[s.index],
		known: make(map[string]*knowledge),
	}
	p.link = w.server.link(p.name, source(w.seed, 4, uint64(s.index), uint64(s.count)))
	conn := p.connect(w.rueidis[s.index])
	client, err := lockkeeper.New(&tap{conn: conn, p: p}, lockkeeper.Config{
		Prefix: prefix, Margin: p.margin, Label: p.name,
	})
	if err != nil {
		panic(err) // the config is a constant but for margins that are right
	}
	p.client = client
	w.mu.Lock()
	w.all = append(w.all, p)
	w.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = p
}

// connect makes the Redis client of a process: go-redis, or rather rueidis. That connects
// at once, and where it can't now, it is go-redis after all.
func (p *process) connect(rather bool) lockkeeper.Conn {
	if s := p.w.server; rather && !s.isDown() && s.left(stopped) <= 0 {
		client, err := rueidis.NewClient(rueidis.ClientOption{
			InitAddress: []string{address},
			DialCtxFn: func(ctx context.Context, _ string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
				return p.link.dial(ctx, "", "")
			},
			AlwaysRESP2: p.w.proto == 2, DisableCache: true, ForceSingleClient: true,
			ConnWriteTimeout:  2 * time.Second, // as rueidisconn advises
			RingScaleEachConn: 6, ReadBufferEachConn: small, WriteBufferEachConn: small,
		})
		if err == nil {
			p.hangUp, p.onRueidis = client.Close, true
			return rueidisconn.New(client)
		}
	}
	rdb := redis.NewClient(&redis.Options{
		Addr: address, Protocol: p.w.proto, Dialer: p.link.dial,
		ReadBufferSize: small, WriteBufferSize: small,
		PoolSize: 100, // its queue for connections keeps timers, which belong to a bubble
	})
	p.hangUp = func() { _ = rdb.Close() }
	return goredisconn.New(rdb)
}

// address is where the server is. A name would be looked up.
const address = "127.0.0.1:6379"

// small is the size of a buffer. There are many connections, and each says little.
const small = 1 << 11

// close closes the present client in its time, and starts another.
func (s *slot) close() {
	p := s.current()
	s.end(p, false)
	go func() { // closeAll waits for what this begins
		_ = p.client.Close(context.Background())
	}()
	s.replace()
}

// crash makes the present process one that nobody hears of any more. Its goroutines
// can't be stopped, but the server can't tell.
func (s *slot) crash(f fault) {
	p := s.current()
	p.link.apply(f)
	s.end(p, true)
	over, cancel := context.WithCancel(context.Background())
	cancel()
	_ = p.client.Close(over)
	s.replace()
}

func (s *slot) end(p *process, dead bool) {
	w := s.w
	w.mu.Lock()
	defer w.mu.Unlock()
	p.closing, p.dead = true, dead
	what := "closes"
	if dead {
		what = "crashes"
	}
	w.note(p.name, what, "", "")
	now := w.now()
	for _, o := range w.order {
		if o.p == p && o.place != nil {
			o.place.Gone = min(o.place.Gone, now)
		}
	}
}
