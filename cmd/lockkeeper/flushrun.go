package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/flush"
)

func (a *app) flushRunCommand() *cobra.Command {
	var o runOptions
	c := &cobra.Command{
		Use:   "run -f FILE",
		Short: "Flush while this process is the active one, stand by while it is not",
		Long: `Flush while this process is the active one of its job, and stand by while it is not.
Start as many as you like: when the active one ends, the next one goes on at once; when
it dies, after the TTL of its lock. What it may still want to write then, the database
refuses.

SIGINT, SIGTERM or SIGHUP finishes the batch that is on its way, acknowledges it, gives
the lock to the next one, says what is left, and ends with exit code 0. While Redis or
the database can't be reached it waits, and says so; changes are kept in Redis.

A Redis that may evict any key when its memory is full (maxmemory-policy allkeys-...) is
refused with exit code 69: it could evict changes that are not flushed. Set noeviction
there, or say --allow-eviction.

A process whose database is not the one that the job was flushed into before does not
work: its URL may be wrong. If the database is to be a new one, start with
--adopt-database, and have it filled with flush resync.`,
		Example: `  lockkeeper flush run -f players.yaml
  lockkeeper flush run -f players.yaml --migrate
  lockkeeper flush run -f players.yaml --redis rediss://redis.example.com:6380/2 --log-format json`,
		RunE: func(c *cobra.Command, _ []string) error {
			j, err := a.loadJob(c)
			if err != nil {
				return err
			}
			return a.flushRun(c.Context(), j, o)
		},
	}
	c.Flags().BoolVar(&o.migrate, "migrate", false, "make the tables first, as flush migrate does")
	c.Flags().BoolVar(&o.allowEviction, "allow-eviction", false, "work with a Redis that may evict changes which are not flushed")
	c.Flags().BoolVar(&o.adopt, "adopt-database", false, "from now on flush into this database, where it was another one")
	return c
}

type runOptions struct{ migrate, allowEviction, adopt bool }

// flushRun works or stands by until ctx ends.
func (a *app) flushRun(ctx context.Context, j *job, o runOptions) error {
	server, err := a.connect()
	if err != nil {
		return err
	}
	defer server.close()
	s, err := j.open(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	if o.migrate {
		if err := s.Migrate(ctx); err != nil {
			return fmt.Errorf("%s: %w", j.database, err)
		}
	}
	conn := &watchedConn{Conn: server.conn, log: a.log, address: server.address}
	locks, err := a.locks(conn, j.TTL)
	if err != nil {
		return err
	}
	memory := &memoryCheck{app: a, server: server, allow: o.allowEviction}
	ctx, refuse := context.WithCancelCause(ctx)
	defer refuse(nil)
	cfg := a.engineConfig(j)
	cfg.AdoptDatabase = o.adopt
	cfg.Trace.Began = func(int64) {
		if err := memory.check(ctx); err != nil { // Redis did not answer before
			refuse(err)
		}
	}
	engine, err := flush.New(conn, s, cfg)
	if err != nil {
		return err
	}
	if err := memory.check(ctx); err != nil {
		return err
	}
	a.log.Info("started; stands by until it is elected", "job", j.Job, "redis", server.address, "database", j.database)
	a.warnOfTables(ctx, j, s)
	a.warnOfForeign(ctx, locks, j)
	err = engine.Run(ctx, locks)
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := locks.Close(closing); err != nil {
		a.log.Warn("not everything has ended", "error", err)
	}
	var refused unavailableError
	switch {
	case errors.As(context.Cause(ctx), &refused):
		return refused
	case ctx.Err() != nil:
		a.tellRest(closing, j, engine)
		return nil
	}
	return server.explain(err)
}

// tellRest says what is left to flush, for who stops the last process of a job.
func (a *app) tellRest(ctx context.Context, j *job, engine *flush.Engine) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	s, err := engine.Status(ctx)
	if err != nil {
		a.log.Info("stopped; Redis does not say what is left", "job", j.Job, "error", root(err))
		return
	}
	a.log.Info("stopped", "job", j.Job, "dirty", s.Dirty, "oldest", s.Oldest.Round(time.Millisecond), "parked", s.Parked)
}

// warnOfTables says so when a table does not fit its mapping. The mapping is paused when
// it comes to that; others go on.
func (a *app) warnOfTables(ctx context.Context, j *job, s *sink) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := s.CheckTables(ctx); err != nil && ctx.Err() == nil {
		a.log.Warn("a table does not fit its mapping", "job", j.Job, "error", err, "see", j.command("migrate"))
	}
}

// warnOfForeign says so when the lock is held by something else, which may never give it
// back. Whether Redis answers at all is told by others.
func (a *app) warnOfForeign(ctx context.Context, locks *lockkeeper.Client, j *job) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	lock, err := locks.Inspect(ctx, flush.LockName(j.Job))
	if err != nil || !lock.Holder.Foreign {
		return
	}
	left := "no TTL: it stays until somebody deletes the key"
	if lock.Left >= 0 {
		left = lock.Left.String()
	}
	a.log.Warn("the lock is held by something that is not Lockkeeper; waiting for it to be free",
		"job", j.Job, "key", a.prefix+flush.LockName(j.Job), "left", left)
}

func (a *app) engineConfig(j *job) flush.Config {
	cfg := j.Flush()
	cfg.Prefix = a.keyPrefix()
	cfg.Logger = a.log
	return cfg
}
