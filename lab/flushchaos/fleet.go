package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/flush"
	"github.com/lockkeeper/lockkeeper/internal/redistest"
	"github.com/lockkeeper/lockkeeper/lab/flushbench/rig"
)

// A fleet is the workers, and what they have said.
type fleet struct {
	dir   string
	redis string // its address, which the proxies have
	db    *rig.Database
	plant string
	slots []*slot
	host  host
	logs  []string

	mu      sync.Mutex
	changed chan struct{} // closed and made anew when something below has changed
	active  *slot         // who has claimed last
	epoch   int64
	ended   bool // the active one's term
	heard   heard
}

// heard are figures of what the workers have said.
type heard struct {
	terms, batches, refusedDB, refusedAck, freezes int
	stats                                          flush.Stats
}

// A slot is one place for a worker. The process in it dies and is replaced; its proxies
// stay.
type slot struct {
	index   int
	started int
	redis   *redistest.Proxy
	db      *redistest.Proxy // nil for SQLite
	url     string
	child   *rig.Child
	deaf    bool
	said    chan string
}

// A host is what redistest.NewProxy asks of a test, where there is none.
type host struct {
	testing.TB // nil: what is not below is not called
	cleanups   []func()
}

func (h *host) Helper()                           {}
func (h *host) Cleanup(f func())                  { h.cleanups = append(h.cleanups, f) }
func (h *host) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// start starts the workers.
func (f *fleet) start(workers int) error {
	f.changed = make(chan struct{})
	for i := range workers {
		s := &slot{index: i, redis: redistest.NewProxy(&f.host, f.redis), url: f.db.URL}
		if f.db.Server != nil {
			s.db = redistest.NewProxy(&f.host, f.db.Server.Addr())
			s.url = strings.Replace(f.db.URL, f.db.Server.Addr(), s.db.Addr(), 1)
		}
		f.slots = append(f.slots, s)
		if err := f.fill(s, i > 0); err != nil {
			return err
		}
	}
	return nil
}

// fill starts a process in a slot.
func (f *fleet) fill(s *slot, deaf bool) error {
	s.started++
	name := fmt.Sprintf("worker-%d.%d", s.index+1, s.started)
	path := filepath.Join(f.dir, name+".log")
	log, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the child has its own
	f.logs = append(f.logs, path)
	child, err := rig.StartChild(asWorker, log)
	if err != nil {
		return err
	}
	said := make(chan string, 64)
	f.mu.Lock()
	s.child, s.deaf, s.said = child, deaf, said
	f.mu.Unlock()
	child.Tell(assignment{Name: name, Redis: s.redis.Addr(), Kind: f.db.Kind, URL: s.url, Deaf: deaf, Plant: f.plant})
	go func() { // ends with the child
		for line := range child.Heard {
			var e event
			if json.Unmarshal(line, &e) == nil { // a killed one may end in half a line
				f.hear(s, child, e)
			}
			select {
			case said <- e.Kind:
			default: // only who waits for something reads it
			}
		}
		f.hear(s, child, event{Kind: ended})
	}()
	return nil
}

// hear keeps account of what a worker says.
func (f *fleet) hear(s *slot, child *rig.Child, e event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch e.Kind {
	case began:
		f.heard.terms++
		f.active, f.epoch, f.ended = s, e.Epoch, false
	case wrote:
		f.heard.batches++
		f.heard.stats.Add(e.Stats)
	case refusedDB:
		f.heard.refusedDB++
	case refusedAck:
		f.heard.refusedAck++
	case freezing:
		f.heard.freezes++
	case ended:
		if f.active == s && s.child == child && (e.Epoch == 0 || e.Epoch == f.epoch) {
			f.ended = true
		}
	}
	close(f.changed)
	f.changed = make(chan struct{})
}

// current returns the active worker and its epoch, or nil.
func (f *fleet) current() (*slot, int64, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return nil, f.epoch, f.changed
	}
	return f.active, f.epoch, f.changed
}

// refusedBoth reports whether the database and Redis have each refused somebody.
func (f *fleet) refusedBoth() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.heard.refusedDB > 0 && f.heard.refusedAck > 0
}

// await waits until a worker has claimed that is none of the epochs up to one. It
// returns nil if that takes too long.
func (f *fleet) await(ctx context.Context, after int64, within time.Duration) (*slot, int64) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for {
		s, epoch, changed := f.current()
		if s != nil && epoch > after {
			return s, epoch
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, 0
		}
	}
}

// says waits until a worker says one of some kinds, and returns which; "" is that it
// took too long.
func (s *slot) says(ctx context.Context, within time.Duration, kinds ...string) string {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for {
		select {
		case kind := <-s.said:
			if slices.Contains(kinds, kind) {
				return kind
			}
		case <-ctx.Done():
			return ""
		}
	}
}

// replace kills the process in a slot, and starts another.
func (f *fleet) replace(s *slot, deaf bool) error {
	s.child.Kill()
	return f.fill(s, deaf)
}

// heal lets all go on.
func (f *fleet) heal() {
	for _, s := range f.slots {
		s.redis.Delay(0)
		s.redis.Heal()
		if s.db != nil {
			s.db.Delay(0)
			s.db.Heal()
		}
		s.child.Tell(neverMind)
		s.child.Resume()
	}
}

// endWithin bounds the end of a worker.
const endWithin = 20 * time.Second

// end asks all workers to end, and returns what is wrong with how they did.
func (f *fleet) end() (wrong []string) {
	for _, s := range f.slots {
		s.child.End()
	}
	for _, s := range f.slots {
		select {
		case <-s.child.Exited():
		case <-time.After(endWithin):
			wrong = append(wrong, fmt.Sprintf("worker %d did not end within %s", s.index+1, endWithin))
		}
	}
	f.destroy()
	for _, path := range f.logs {
		text, err := os.ReadFile(path)
		if err != nil {
			wrong = append(wrong, err.Error())
		}
		for _, sign := range []string{"DATA RACE", "panic:", "fatal error:", "flushchaos: worker:"} {
			if _, after, found := strings.Cut(string(text), sign); found {
				wrong = append(wrong, fmt.Sprintf("%s has a %s%.1500s", path, sign, after))
				break
			}
		}
	}
	return wrong
}

// destroy ends all at once, whatever state they are in.
func (f *fleet) destroy() {
	for _, s := range f.slots {
		if s.child != nil {
			s.child.Kill()
		}
	}
	for _, cleanup := range f.host.cleanups {
		cleanup()
	}
	f.host.cleanups = nil
}
