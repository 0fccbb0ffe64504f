package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/redistest"
)

// A round is a part of a run, with a server, a database and workers of its own: some
// time of faults and quiet in turns, and an end in good order. Its history is in a
// folder, which can be judged without it.
type round struct {
	Seed    uint64        `json:"seed"`
	Lossy   bool          `json:"lossy"` // the server loses its memory now and then
	Lasts   time.Duration `json:"lasts"`
	Workers int           `json:"workers"`
	Loops   int           `json:"loops"` // of each worker
	Locks   []lockSpec    `json:"locks"`
	// Linger is the longest TTL that a key may have that outlives the last worker.
	Linger time.Duration `json:"linger"`
	// Overtakes is how many later calls may get a lock before a waiter does, in a time
	// without faults; 0 is any number. Who comes to the end of the line is overtaken by
	// the turns that the processes before it take in a row, and by nobody else.
	Overtakes int `json:"overtakes"`

	dir     string
	journal *journal
	server  *server
	fleet   *fleet
}

// The files of a round.
const (
	roundFile  = "round.json"
	parentName = "parent"
	parentFile = parentName + journalSuffix
)

// fewLocks are few, so that there is always somebody who waits, and have short TTLs, so
// that faults outlast them.
var fewLocks = []lockSpec{
	{Name: "soak-300", TTL: 300 * time.Millisecond},
	{Name: "soak-450", TTL: 450 * time.Millisecond, Slow: true},
	{Name: "soak-700", TTL: 700 * time.Millisecond},
	{Name: "soak-1000", TTL: time.Second, Slow: true},
}

// Times of a round: how long it does harm at a stretch, and how long it then leaves
// everybody in peace. That is longer than anybody may be stranded.
const (
	spellLeast = 9 * time.Second
	spellMost  = 16 * time.Second
)

func (r *round) peace() time.Duration {
	longest := time.Duration(0)
	for _, lock := range r.Locks {
		longest = max(longest, strandedAfter(lock.TTL))
	}
	return longest + time.Second
}

// run runs the round. An error is one of the soak itself, or of ctx; what the oracles
// say is in the files.
func (r *round) run(ctx context.Context) (err error) {
	if err := r.prepare(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.journal.close()) }()
	if r.server, err = startServer(ctx, r.dir); err != nil {
		return err
	}
	defer r.server.close()
	r.fleet = &fleet{dir: r.dir, journal: r.journal, locks: r.Locks, loops: r.Loops, seed: r.Seed}
	defer r.fleet.destroy()
	if err := r.fleet.start(r.Workers, r.server.addr()); err != nil {
		return err
	}
	if err := r.harm(ctx); err != nil {
		return err
	}
	pause(ctx, time.Second) // the end comes into full work
	r.stop(ctx)
	return r.checkKeys(ctx)
}

// prepare makes the files.
func (r *round) prepare(ctx context.Context) error {
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		return err
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(r.dir, roundFile), text, 0o600); err != nil {
		return err
	}
	if r.journal, err = openJournal(filepath.Join(r.dir, parentFile)); err != nil {
		return err
	}
	return createLedger(ctx, filepath.Join(r.dir, databaseFile), r.Locks)
}

// harm has spells of faults and of peace, in turns, and ends in peace.
func (r *round) harm(ctx context.Context) error {
	n := newNemesis(r)
	end := time.Now().Add(r.Lasts)
	for i := 0; ; i++ {
		left := time.Until(end) - r.peace()
		spell := spellLeast + time.Duration(n.rng.Int64N(int64(spellMost-spellLeast)))
		if left < spell+r.peace()+spellLeast {
			spell = max(left, spellLeast) // the last one
		}
		spellCtx, cancel := context.WithTimeout(ctx, spell)
		err := n.strike(spellCtx)
		cancel()
		if err != nil {
			return err
		}
		if i%2 == 1 || r.Lossy {
			// In a lull nobody makes new calls: whoever is stranded is not hidden by
			// others then, who come and get the lock.
			r.fleet.tell(lullLine)
			if err := n.lastBlow(ctx); err != nil {
				return err
			}
		}
		if err := r.rest(ctx); err != nil {
			return err
		}
		if err := r.checkTTLs(ctx); err != nil {
			return err
		}
		r.fleet.tell(goOnLine)
		if time.Until(end) < spellLeast {
			return nil
		}
	}
}

// rest leaves everybody in peace for a while. It notes when the server, or the machine,
// is slow to answer a plain write.
func (r *round) rest(ctx context.Context) error {
	conn := redistest.NewConn(r.server.addr())
	defer conn.Close()
	from := monotonic()
	for now := from; time.Duration(now-from) < r.peace(); {
		pause(ctx, pulseEvery)
		asked := monotonic()
		_, err := conn.Do(ctx, "SET", "soak-pulse", "", "PX", "100")
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if now = monotonic(); err != nil || now-asked > int64(pulseLate) {
			r.journal.write(event{At: asked, What: stall, Text: "answer from the server", N: now - asked})
		}
	}
	r.journal.write(event{What: quiet, At: from, Until: monotonic()})
	return nil
}

// stop ends all workers, at the same time. Each has had some seconds of peace, and closes
// its client: nothing of it may be left on the server when it has ended.
func (r *round) stop(ctx context.Context) {
	var wg sync.WaitGroup
	for _, s := range r.fleet.slots {
		wg.Go(func() {
			name := s.current.name
			r.fleet.end(s)
			if held := r.heldBy(ctx, name); held != "" {
				r.journal.write(event{What: keys, Text: held})
			}
		})
	}
	wg.Wait()
}
