package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper"
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
	// Linger is how long keys may outlive the last worker.
	Linger time.Duration `json:"linger"`
	// Overtakes is how many later calls may get a lock before a waiter does, in a time
	// without faults; 0 is any number.
	Overtakes int `json:"overtakes"`

	dir     string
	journal *journal
	server  *server
	fleet   *fleet
}

// The files of a round.
const (
	roundFile  = "round.json"
	parentFile = "parent" + journalSuffix
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
	defer r.server.kill()
	r.fleet = &fleet{dir: r.dir, journal: r.journal, locks: r.Locks, loops: r.Loops, seed: r.Seed}
	defer r.fleet.destroy()
	if err := r.fleet.start(r.Workers, r.server.addr()); err != nil {
		return err
	}
	if err := r.harm(ctx); err != nil {
		return err
	}
	r.fleet.stop()
	return r.awaitKeys(ctx)
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
		// In a lull nobody makes new calls: whoever is stranded is not hidden by others
		// then, who come and get the lock.
		if err := r.rest(ctx, i%2 == 1 || r.Lossy); err != nil {
			return err
		}
		if time.Until(end) < spellLeast {
			return nil
		}
	}
}

// rest lets everybody in peace for a while.
func (r *round) rest(ctx context.Context, lull bool) error {
	from := monotonic()
	if lull {
		if err := r.fleet.tell(lullLine); err != nil {
			return err
		}
	}
	pause(ctx, r.peace())
	if ctx.Err() != nil {
		return ctx.Err()
	}
	r.journal.write(event{What: quiet, At: from, Until: monotonic()})
	return r.fleet.tell(goOnLine)
}

// awaitKeys waits until nothing is left on the server but the fence counters, and
// writes down what is there when that takes too long. Of the locks themselves nothing
// may be there at all: all workers had some seconds of peace, and have closed their
// clients since.
func (r *round) awaitKeys(ctx context.Context) error {
	began := time.Now()
	for {
		all, err := r.server.keys(ctx)
		if err != nil {
			return fmt.Errorf("list the keys: %w", err)
		}
		left, locked := r.leftOf(all)
		took := time.Since(began)
		if len(left) == 0 || locked || took > r.Linger {
			r.journal.write(event{What: keys, Text: strings.Join(left, " "), N: int64(took)})
			return nil
		}
		pause(ctx, 20*time.Millisecond)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// leftOf returns the keys that have no right to be there for ever, and whether a lock is
// among them.
func (r *round) leftOf(all []string) (left []string, locked bool) {
	for _, key := range all {
		if strings.HasSuffix(key, fenceSuffix) {
			continue
		}
		left = append(left, key)
		for _, lock := range r.Locks {
			locked = locked || key == lockkeeper.DefaultPrefix+lock.Name
		}
	}
	return left, locked
}
