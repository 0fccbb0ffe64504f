package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/flush"
)

// A sink is an open database.
type sink struct {
	*flush.SQL
	db *sql.DB
}

func (s *sink) close() { _ = s.db.Close() } // what was committed is on the disk

func (a *app) flushRunCommand() *cobra.Command {
	var migrate bool
	c := &cobra.Command{
		Use:   "run -f FILE",
		Short: "Flush while this process is the active one, stand by while it is not",
		Long: `Flush while this process is the active one of its job, and stand by while it is not.
Start as many as you like: when the active one ends, the next one goes on at once; when
it dies, after the TTL of its lock. What it may still want to write then, the database
refuses.

SIGINT, SIGTERM or SIGHUP finishes the batch that is on its way, gives the lock to the next one
and ends with exit code 0. While Redis or the database can't be reached it waits, and
says so; changes are kept in Redis.`,
		Example: `  lockkeeper flush run -f players.yaml
  lockkeeper flush run -f players.yaml --migrate
  lockkeeper flush run -f players.yaml --redis rediss://redis.example.com:6380/2 --log-format json`,
		RunE: func(c *cobra.Command, _ []string) error {
			j, err := a.loadJob(c)
			if err != nil {
				return err
			}
			return a.flushRun(c.Context(), j, migrate)
		},
	}
	c.Flags().BoolVar(&migrate, "migrate", false, "make the tables first, as flush migrate does")
	return c
}

// flushRun works or stands by until ctx ends.
func (a *app) flushRun(ctx context.Context, j *job, migrate bool) error {
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
	if migrate {
		if err := s.Migrate(ctx); err != nil {
			return fmt.Errorf("%s: %w", j.database, err)
		}
	}
	conn := &watchedConn{Conn: server.conn, log: a.log, address: server.address}
	locks, err := a.locks(conn, j.TTL)
	if err != nil {
		return err
	}
	engine, err := flush.New(conn, s, a.engineConfig(j))
	if err != nil {
		return err
	}
	a.log.Info("started; stands by until it is elected", "job", j.Job, "redis", server.address, "database", j.database)
	a.warnOfForeign(ctx, locks, j)
	err = engine.Run(ctx, locks)
	stopped := ctx.Err() != nil
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := locks.Close(closing); err != nil {
		a.log.Warn("not everything has ended", "error", err)
	}
	if stopped {
		a.log.Info("stopped", "job", j.Job)
		return nil
	}
	return server.explain(err)
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

func (a *app) flushStatusCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "status -f FILE",
		Short: "Show what waits to be flushed, and who is active",
		Long: `Show how many keys wait to be flushed and for how long, how many are parked because
they can't be, and which process is active. It asks Redis, and not the database.`,
		Example: `  lockkeeper flush status -f players.yaml
  lockkeeper flush status -f players.yaml --json | jq .dirty`,
		RunE: func(c *cobra.Command, _ []string) error {
			j, err := a.loadJob(c)
			if err != nil {
				return err
			}
			s, err := a.flushStatus(c.Context(), j)
			if err != nil {
				return err
			}
			if asJSON {
				encoder := json.NewEncoder(a.stdout)
				encoder.SetIndent("", "  ")
				return encoder.Encode(s)
			}
			return s.print(a.stdout, time.Now())
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// A jobStatus is what flush status shows; its JSON is part of the program's interface.
type jobStatus struct {
	Job           string     `json:"job"`
	Dirty         int        `json:"dirty"`          // keys that wait
	OldestSeconds float64    `json:"oldest_seconds"` // how long the first of them has
	Parked        int        `json:"parked"`
	Epoch         int64      `json:"epoch"`
	Active        *jobLeader `json:"active"` // null: nobody
}

type jobLeader struct {
	Label        string    `json:"label"`
	Fence        string    `json:"fence"` // digits; too large for some readers of numbers
	Since        time.Time `json:"since"`
	LeaseSeconds float64   `json:"lease_seconds"` // until another can take over, unless renewed; negative: for ever
}

// noSink stands for the database, which status does not need.
type noSink struct{ flush.Sink }

func (a *app) flushStatus(ctx context.Context, j *job) (*jobStatus, error) {
	server, err := a.connect()
	if err != nil {
		return nil, err
	}
	defer server.close()
	locks, err := a.locks(server.conn, j.TTL)
	if err != nil {
		return nil, err
	}
	defer func() { _ = locks.Close(context.WithoutCancel(ctx)) }() // it holds nothing
	engine, err := flush.New(server.conn, noSink{}, a.engineConfig(j))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	lock, err := locks.Inspect(ctx, flush.LockName(j.Job))
	if err != nil {
		return nil, server.explain(err)
	}
	waiting, err := engine.Status(ctx)
	if err != nil {
		return nil, server.explain(err)
	}
	return newJobStatus(j.Job, waiting, lock), nil
}

func newJobStatus(job string, waiting flush.Status, lock lockkeeper.State) *jobStatus {
	s := &jobStatus{
		Job:           job,
		Dirty:         waiting.Dirty,
		OldestSeconds: seconds(waiting.Oldest),
		Parked:        waiting.Parked,
		Epoch:         waiting.Epoch,
	}
	if lock.Held {
		s.Active = &jobLeader{
			Label:        lock.Holder.Label,
			Fence:        lock.Holder.Fence.String(),
			Since:        lock.Holder.Since.UTC(),
			LeaseSeconds: seconds(lock.Left),
		}
		if lock.Holder.Foreign {
			s.Active.Label = lock.Holder.String()
		}
	}
	return s
}

// seconds returns a time in seconds with three decimals; any negative one is -1.
func seconds(d time.Duration) float64 {
	if d < 0 {
		return -1
	}
	return float64(d.Round(time.Millisecond).Milliseconds()) / 1000
}

// print shows it to people.
func (s *jobStatus) print(w io.Writer, now time.Time) error {
	dirty := count(s.Dirty, "key waits", "keys wait")
	if s.Dirty > 0 {
		dirty += fmt.Sprintf(", the oldest for %gs", s.OldestSeconds)
	}
	parked := count(s.Parked, "key can't be flushed", "keys can't be flushed")
	active := "nobody"
	if l := s.Active; l != nil {
		active = l.Label
		if !l.Since.IsZero() {
			active += fmt.Sprintf(", for %s", now.Sub(l.Since).Round(time.Second))
		}
		if l.LeaseSeconds < 0 {
			active += ", without a TTL"
		} else {
			active += fmt.Sprintf("; %gs left unless renewed", l.LeaseSeconds)
		}
	}
	epoch := "none: nobody has worked yet"
	if s.Epoch > 0 {
		epoch = fmt.Sprint(s.Epoch)
	}
	_, err := fmt.Fprintf(w, "job     %s\ndirty   %s\nparked  %s\nepoch   %s\nactive  %s\n", s.Job, dirty, parked, epoch, active)
	return err
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
