package lockkeeper

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/lockkeeper/lockkeeper/internal/core"
	"github.com/lockkeeper/lockkeeper/internal/script"
)

// Defaults of Config.
const (
	DefaultPrefix = "lockkeeper:"
	DefaultTTL    = 10 * time.Second

	// DefaultMaxQueue bounds how many wait for one name.
	DefaultMaxQueue = 10_000

	// NoPrefix, as Config.Prefix, makes the lock's key its name and nothing else,
	// so that plain clients can share it: SET name value NX PX ttl.
	NoPrefix = "\x00"
)

// Limits of what can be asked for.
const (
	minTTL       = 10 * time.Millisecond
	maxNameBytes = 512
)

// Config says how a Client works. The zero value is good.
type Config struct {
	// Prefix comes before each name to make the lock's key. "" is DefaultPrefix;
	// NoPrefix is none.
	Prefix string

	// TTL is how long a lock outlives its holder's last sign of life: at least
	// 10 ms, in whole milliseconds. 0 is DefaultTTL. A dead holder's lock is free
	// after at most this time; renewals are sent at a third of it.
	TTL time.Duration

	// Margin is taken off the TTL: a lease counts as lost that long before the
	// key can expire, for differences between clock rates and for work to stop.
	// It must be below TTL/3. 0 is a tenth of the TTL, and at least 2 ms.
	Margin time.Duration

	// Label names this process to people, in errors and in Inspect. "" is
	// host/pid. At most 256 bytes.
	Label string

	// MaxQueue is how many may wait for one name: places in the line on the server, of
	// which each waiting process has one, and calls in the line of one process. One more
	// gets an error that matches ErrQueueFull. 0 is DefaultMaxQueue.
	MaxQueue int

	// Trace is told what the client does. nil costs nothing.
	Trace *Trace

	// Logger hears of what no caller hears of: a background release that failed,
	// a subscription that is refused. nil logs nothing.
	Logger *slog.Logger
}

// withDefaults returns the config with its zero values replaced, or what is wrong
// with it.
func (cfg Config) withDefaults() (Config, error) {
	switch cfg.Prefix {
	case "":
		cfg.Prefix = DefaultPrefix
	case NoPrefix:
		cfg.Prefix = ""
	}
	if cfg.TTL == 0 {
		cfg.TTL = DefaultTTL
	}
	if cfg.Label == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown-host"
		}
		cfg.Label = host + "/" + strconv.Itoa(os.Getpid())
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.MaxQueue == 0 {
		cfg.MaxQueue = DefaultMaxQueue
	}
	if cfg.MaxQueue < 0 {
		return cfg, invalidf("max queue %d: it can't be negative", cfg.MaxQueue)
	}
	if err := checkTTL(cfg.TTL); err != nil {
		return cfg, err
	}
	if err := checkLabel(cfg.Label); err != nil {
		return cfg, err
	}
	if cfg.Margin < 0 || cfg.Margin >= cfg.TTL/3 {
		return cfg, invalidf("margin %s: it must be at least 0 and below a third of the TTL (%s)", cfg.Margin, cfg.TTL)
	}
	return cfg, nil
}

func checkTTL(ttl time.Duration) error {
	if ttl < minTTL {
		return invalidf("TTL %s: it must be at least %s", ttl, minTTL)
	}
	if ttl%time.Millisecond != 0 {
		return invalidf("TTL %s: Redis counts in whole milliseconds", ttl)
	}
	return nil
}

func checkLabel(label string) error {
	if len(label) > 256 {
		return invalidf("label of %d bytes: at most 256", len(label))
	}
	if strings.ContainsFunc(label, unicode.IsControl) {
		return invalidf("label %q: it is printed, and can't have control characters", label)
	}
	return nil
}

// margin returns the margin to use with a TTL.
func (cfg *Config) margin(ttl time.Duration) time.Duration {
	if cfg.Margin > 0 && cfg.Margin < ttl/3 {
		return cfg.Margin
	}
	return max(ttl/10, 2*time.Millisecond)
}

// A Client holds locks on one Redis server. It is safe for concurrent use, and a
// process normally has one. It runs at most two goroutines of its own, whatever
// the number of leases: the keeper, which renews all leases, ends the lost
// ones and makes waiters ask in time, and, once something has waited, the listener for
// messages; and it starts short ones for requests on their way. Close joins them all.
type Client struct {
	conn    Conn
	cfg     Config
	clock   *clock
	dialect script.Dialect
	id      string // begins each owner, and ends the name of the channel that it listens on

	// server is the server's clock in microseconds at the origin of ours, at
	// the most; 0 while it is not known.
	server atomic.Int64

	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	flights sync.WaitGroup // goroutines of this client
	ended   chan struct{}  // closed when everything has ended

	late atomic.Uint64 // wake-ups of the keeper that were late

	mu       sync.Mutex
	closed   bool
	pending  int           // calls, what is left to do of them, and bodies of Do
	idle     chan struct{} // closed when none is pending; nil unless Close waits for that
	keeper   core.Keeper
	keeping  bool // the keeper's goroutine runs
	asleep   core.Instant
	nudge    chan struct{} // wakes the keeper
	lines    map[string]*line
	undos    map[string]*undoing // that wait for an answer, by owner
	giving   map[string]struct{} // owners whose release is being tried again
	listener listener
}

// New makes a client on a connection to Redis, which stays the caller's to close,
// after the client. It sends nothing. A config that can't be right is an error
// that matches ErrInvalid.
func New(conn Conn, cfg Config) (*Client, error) {
	if conn == nil {
		return nil, invalidf("nil Conn")
	}
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	return &Client{
		conn:   conn,
		cfg:    cfg,
		clock:  newClock(conn),
		id:     rand.Text()[:13],
		ctx:    ctx,
		cancel: cancel,
		asleep: core.Never,
		nudge:  make(chan struct{}, 1),
		ended:  make(chan struct{}),
		lines:  make(map[string]*line),
		undos:  make(map[string]*undoing),
		giving: make(map[string]struct{}),
	}, nil
}

// Conn returns the connection that the client was made on, for packages that keep keys of
// their own beside the locks.
func (c *Client) Conn() Conn { return c.conn }

// Prefix returns what comes before each name on the server; "" if nothing does.
func (c *Client) Prefix() string { return c.cfg.Prefix }

// Close ends everything that the client has: waits return ErrClosed, contexts of
// leases end with ErrClosed as the cause, bodies of Do and Election.Run are waited
// for, and what is held is released. It blocks until that is done and every
// goroutine of the client has ended, or until ctx ends; then it returns ctx's
// error, and what could not be released is freed by its TTL. The Conn is left
// open. What Redis does not answer for is left to its TTL, with a line in the log. A
// second Close waits as well.
func (c *Client) Close(ctx context.Context) error {
	leases, first := c.shut()
	if !first {
		return c.awaitClose(ctx)
	}
	for _, lease := range leases {
		lease.finish(ErrClosed)
	}
	go func() { // outlives Close only if a body or the server does not answer
		defer close(c.ended)
		c.releaseAll(ctx, leases)
		c.awaitIdle()
		c.stop()
		c.flights.Wait()
	}()
	return c.awaitClose(ctx)
}

// awaitClose waits for everything to have ended.
func (c *Client) awaitClose(ctx context.Context) error {
	select {
	case <-c.ended:
		return nil
	case <-ctx.Done():
		c.stop()
		return fmt.Errorf("lockkeeper: close: not all work has ended: %w", ended(ctx))
	}
}

// shut begins Close: nothing new is started, waits end. It returns what is held.
func (c *Client) shut() (leases []*Lease, first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, false
	}
	c.closed = true
	now := c.clock.now()
	for _, ln := range c.lines {
		ln.carry(now, ln.core.Close())
		ln.fail(func(*Lock) error { return ErrClosed })
	}
	for _, l := range c.keeper.Leases() {
		lease := l.Holder.(*hold).turn
		lease.released = lease.released || !lease.body // by releaseAll
		c.keeper.Drop(l)
		leases = append(leases, lease)
	}
	return leases, true
}

// stop ends the goroutines. It takes the lock because start does: none may be
// added while somebody waits for the last to end.
func (c *Client) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cancel()
}

// releaseAll gives back what Close found held, a few at a time. A lease that has a
// body is released by that, when the work has ended.
func (c *Client) releaseAll(ctx context.Context, leases []*Lease) {
	var wg sync.WaitGroup
	few := make(chan struct{}, 16)
	for _, lease := range leases {
		if lease.body {
			continue
		}
		few <- struct{}{}
		wg.Go(func() {
			defer func() { <-few }()
			if err := lease.hold.giveBack(ctx, lease, c.clock.now(), nil); errors.Is(err, ErrUnavailable) {
				c.cfg.Logger.Warn("lock not released at close; its TTL frees it", "error", err)
			}
		})
	}
	wg.Wait()
}

// start runs f in a goroutine that Close joins, unless the client is closed.
// c.mu must be held.
func (c *Client) start(f func()) bool {
	if c.ctx.Err() != nil {
		return false
	}
	c.flights.Go(f)
	return true
}

// enter counts a call that Close has to wait for, until done. It returns false when the
// client is closed.
func (c *Client) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.pending++
	return true
}

func (c *Client) done() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending--; c.pending == 0 && c.idle != nil {
		close(c.idle)
		c.idle = nil
	}
}

// awaitIdle waits until nothing is pending. Only the one Close that works may call it.
// It is no WaitGroup, because something may begin while it waits: an undo, say, of
// what a request has got that was on its way.
func (c *Client) awaitIdle() {
	c.mu.Lock()
	if c.pending == 0 {
		c.mu.Unlock()
		return
	}
	idle := make(chan struct{})
	c.idle = idle
	c.mu.Unlock()
	<-idle
}

// follow runs f in a goroutine as start does. Close waits for it before it ends the
// other goroutines.
func (c *Client) follow(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.follows(f)
}

// follows is follow with the mutex held.
func (c *Client) follows(f func()) bool {
	started := c.start(func() {
		defer c.done()
		f()
	})
	if started {
		c.pending++
	}
	return started
}

func (c *Client) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}
