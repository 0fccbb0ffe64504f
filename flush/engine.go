package flush

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/internal/script"
)

// Config says what an Engine flushes and how.
type Config struct {
	// Job names the job: its keys, its election, its row in the database. All
	// processes of a job use the same name. 1 to 200 bytes, no braces or spaces.
	Job string

	// Prefix is that of the keys on Redis, and must be the lock client's; "" is
	// lockkeeper.DefaultPrefix.
	Prefix string

	// Mappings say which keys become which rows; at least one.
	Mappings []Mapping

	// Batch is how many keys go into one transaction. 0 is 500; at most 5,000.
	Batch int

	// Interval is how long to rest when nothing is left to flush. 0 is a second.
	Interval time.Duration

	// MaxParked is the share of a mapping's keys in one pass, from 0 to 1, of which more
	// can't be parked if they are more than 20: the mapping is paused instead. 0 is a
	// twentieth; 1 parks whatever can't be written.
	MaxParked float64

	// AdoptDatabase lets the job be flushed into another database than before, such as one
	// that was made anew. Without it a process with another one does not work: its URL may
	// be wrong. What was flushed before is not in the new one until Engine.Resync.
	AdoptDatabase bool

	// Label says which process this is, to people who ask for the status; "" is the
	// host's name and the process's number.
	Label string

	// Logger hears of terms, parked keys and errors. nil logs nothing.
	Logger *slog.Logger

	// Trace is called at steps of the engine, in its goroutine.
	Trace Trace
}

// A Trace is called at steps of an engine. Each function may be nil, and holds up
// the engine while it runs.
type Trace struct {
	Began func(epoch int64)  // a term began: the job is claimed
	Read  func(keys int)     // a batch was read and is about to be written
	Wrote func(Stats)        // a batch was written and acknowledged
	Ended func(reason error) // the term is over
}

// Stats count what a batch or a pass did.
type Stats struct {
	Keys    int `json:"keys"`    // marks that were read
	Upserts int `json:"upserts"` // rows that were set
	Deletes int `json:"deletes"` // rows that were deleted
	Parked  int `json:"parked"`  // keys that can't be flushed
	Held    int `json:"held"`    // keys that were put aside
	Missing int `json:"missing"` // keys that had gone, and whose rows were kept
	Changed int `json:"changed"` // keys that changed again meanwhile, and stay marked
}

// Add counts o as well.
func (s *Stats) Add(o Stats) {
	s.Keys += o.Keys
	s.Upserts += o.Upserts
	s.Deletes += o.Deletes
	s.Parked += o.Parked
	s.Held += o.Held
	s.Missing += o.Missing
	s.Changed += o.Changed
}

// An Engine flushes one job. It is safe for concurrent use, but for Run, of which
// there is one at a time.
type Engine struct {
	conn    lockkeeper.Conn
	sink    Sink
	cfg     Config
	keys    Keys
	routes  []*route
	dialect script.Dialect
	self    self
}

// New makes an engine that reads from conn and writes to sink. It sends nothing. A
// config that can't be right is an error, with everything that is wrong.
func New(conn lockkeeper.Conn, sink Sink, cfg Config) (*Engine, error) {
	if conn == nil || sink == nil {
		return nil, errors.New("flush: nil Conn or Sink")
	}
	cfg = cfg.withDefaults()
	errs := []error{checkJob(cfg.Job)}
	if cfg.Batch < 1 || cfg.Batch > mostBatch {
		errs = append(errs, fmt.Errorf("flush: batch of %d: 1 to %d", cfg.Batch, mostBatch))
	}
	if cfg.Interval < 0 {
		errs = append(errs, fmt.Errorf("flush: interval %s: it can't be negative", cfg.Interval))
	}
	if !(cfg.MaxParked >= 0 && cfg.MaxParked <= 1) {
		errs = append(errs, fmt.Errorf("flush: at most a share of %v parked: 0 to 1", cfg.MaxParked))
	}
	if len(cfg.Mappings) == 0 {
		errs = append(errs, errors.New("flush: no mappings"))
	}
	e := &Engine{conn: conn, sink: sink, cfg: cfg, keys: KeysOf(cfg.Prefix, cfg.Job)}
	e.self.kick = make(chan struct{}, 1)
	for i := range cfg.Mappings {
		r, err := newRoute(&cfg.Mappings[i], i)
		errs = append(errs, err)
		e.routes = append(e.routes, r)
	}
	errs = append(errs, checkTables(cfg.Mappings))
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return e, nil
}

// mostBatch is bounded by how many arguments a Lua script can pass on.
const mostBatch = 5000

func (c Config) withDefaults() Config {
	if c.Batch == 0 {
		c.Batch = 500
	}
	if c.Interval == 0 {
		c.Interval = time.Second
	}
	if c.MaxParked == 0 {
		c.MaxParked = 0.05
	}
	if c.Label == "" {
		host, _ := os.Hostname() // "" is no reason to fail
		c.Label = fmt.Sprintf("%s/%d", host, os.Getpid())
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// checkTables refuses two mappings into one table: a row of both would be the one's or
// the other's by chance. And it refuses a mapping that would never have a key.
func checkTables(mappings []Mapping) error {
	var errs []error
	used := make(map[string]string)
	for i := range mappings {
		m := &mappings[i]
		table := strings.ToLower(m.Table)
		if other, taken := used[table]; taken {
			errs = append(errs, fmt.Errorf("flush: mapping of %q: the table %s is already that of %q", m.Keys, m.Table, other))
		}
		used[table] = m.Keys
		for i := range mappings[:i] {
			if mappings[i].Covers(m) {
				errs = append(errs, fmt.Errorf("flush: mapping of %q: no key is left for it: %q before it takes them all", m.Keys, mappings[i].Keys))
			}
		}
	}
	return errors.Join(errs...)
}
