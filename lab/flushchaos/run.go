package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockkeeper/lockkeeper/flush"
	"github.com/lockkeeper/lockkeeper/goredisconn"
	"github.com/lockkeeper/lockkeeper/lab/flushbench/rig"
	"github.com/lockkeeper/lockkeeper/sqlfence"
)

// A run is the chaos on one database.
type run struct {
	options
	out io.Writer
	dir string

	redis  *rig.Redis
	rdb    *redis.Client
	db     *rig.Database
	sql    *sql.DB
	sink   *flush.SQL
	engine *flush.Engine // for what an operator does
	fleet  *fleet
	choir  *choir

	mu      sync.Mutex // guards faults, and what is told
	faults  map[string]int
	drained time.Duration

	accepted []string // what should have been refused
}

// run does all of it: servers, writers, workers, faults, the end of these, the verdict.
func (r *run) run(ctx context.Context, kind sqlfence.Dialect) (v *verdict, err error) {
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		return nil, err
	}
	// What is acknowledged is on the disk, so that marks and values survive together.
	if r.redis, err = rig.StartRedis(ctx, r.dir, "--appendonly", "yes", "--appendfsync", "always"); err != nil {
		return nil, err
	}
	defer func() { r.redis.Kill() }()
	if r.db, err = rig.StartDatabase(ctx, kind, r.dir); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.db.Close()) }()
	if err := r.open(ctx); err != nil {
		return nil, err
	}
	defer func() { _ = errors.Join(r.rdb.Close(), r.sql.Close()) }() // they have only read
	r.fleet = &fleet{dir: r.dir, redis: r.redis.Addr(), db: r.db, plant: r.plant}
	defer r.fleet.destroy()
	if err := r.fleet.start(r.workers); err != nil {
		return nil, err
	}
	if r.choir, err = newChoir(r.redis.Addr(), r.writers, r.seed); err != nil {
		return nil, err
	}
	if err := r.storm(ctx); err != nil {
		return nil, err
	}
	undrained := r.drain(ctx)
	wrong := r.fleet.end()
	if v, err = r.judge(ctx); err != nil {
		return nil, err
	}
	if undrained != nil {
		v.violations = append([]string{"not drained: " + undrained.Error()}, v.violations...)
	}
	v.violations = append(v.violations, r.accepted...)
	for _, text := range wrong {
		v.wrong("worker: %s", text)
	}
	return v, nil
}

// open connects this process, and makes the tables.
func (r *run) open(ctx context.Context) (err error) {
	r.rdb = redis.NewClient(&redis.Options{Addr: r.redis.Addr()})
	if r.sql, err = rig.Open(r.db.Kind, r.db.URL); err != nil {
		return err
	}
	if r.sink, err = flush.NewSQL(r.sql, r.db.Kind, mappings()); err != nil {
		return err
	}
	r.engine, err = flush.New(goredisconn.New(r.rdb), r.sink, flush.Config{Job: job, Mappings: mappings(), MaxParked: 1})
	if err != nil {
		return err
	}
	return migrate(ctx, r.db.Kind, r.sql, r.sink)
}

// storm lets the writers write and the faults happen, for as long as it lasts.
func (r *run) storm(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r.choir.start(ctx)
	faulty, calm := context.WithCancel(ctx)
	defer calm()
	sorts := [][]fault{ofProcesses, ofConnections}
	if r.db.Server != nil {
		sorts[1] = append(append([]fault(nil), ofServers...), ofConnections...)
	}
	ends := make(chan error, len(sorts))
	var nemeses []*nemesis
	for i, faults := range sorts {
		n := &nemesis{
			fleet: r.fleet, redis: r.redis, engine: r.engine, say: r.say, mu: &r.mu, count: r.faults,
			rng: rand.New(rand.NewPCG(r.seed, uint64(1000+i))),
		}
		nemeses = append(nemeses, n)
		go func() { ends <- n.run(faulty, faults) }()
	}
	err := r.wait(ctx, ends)
	// The last writes are made while faults still happen.
	err = errors.Join(err, r.choir.finish())
	calm()
	for range sorts {
		err = errors.Join(err, <-ends)
	}
	for _, n := range nemeses {
		r.accepted = append(r.accepted, n.accepted...)
	}
	r.fleet.heal()
	return err
}

// overtime is how much longer it may last until both refusals have been seen, on a
// machine that is too slow to come to them in time.
const overtime = time.Minute

// wait waits for the end of the time. A nemesis that ends earlier has failed.
func (r *run) wait(ctx context.Context, ends chan error) error {
	half, end := time.After(r.duration/2), time.After(r.duration)
	last := time.Now().Add(r.duration + overtime)
	for {
		select {
		case <-half:
			close(r.choir.middle)
		case <-end:
			if r.fleet.refusedBoth() || time.Now().After(last) {
				return nil
			}
			end = time.After(time.Second)
		case err := <-ends:
			ends <- err // for who waits for all
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// drainWithin bounds the flushing of what is left. Processes rest for up to half a
// minute after errors in a row.
const drainWithin = 2 * time.Minute

// drain waits until nothing is dirty any more, or says what is.
func (r *run) drain(ctx context.Context) error {
	start := time.Now()
	ctx, cancel := context.WithTimeout(ctx, drainWithin)
	defer cancel()
	for {
		s, err := r.engine.Status(ctx)
		if err == nil && s.Dirty == 0 {
			r.drained = time.Since(start)
			return nil
		}
		if ctx.Err() == nil {
			_ = pause(ctx, 50*time.Millisecond) // the next Status sees it
			continue
		}
		r.drained = time.Since(start)
		return fmt.Errorf("after %s %d keys are dirty, %d of them wait, pauses %v, members %+v, error %w", drainWithin, s.Dirty, s.Waiting, s.Pauses, s.Members, err)
	}
}

func (r *run) say(format string, args ...any) {
	if !r.verbose {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.out, "%s "+format+"\n", append([]any{time.Now().Format("15:04:05.000")}, args...)...)
}
