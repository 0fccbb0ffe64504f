package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/flush"
)

// A console is what the verbs of people work with: one job, as Redis knows it. None of
// them needs the database, but those that open a sink besides.
type console struct {
	*job
	server *server
	locks  *lockkeeper.Client
	engine *flush.Engine
}

// noSink stands for the database, which most verbs do not need.
type noSink struct{ flush.Sink }

// openConsole reads the file of a command and makes a console for it. It sends nothing.
func (a *app) openConsole(c *cobra.Command) (*console, error) {
	j, err := a.loadJob(c)
	if err != nil {
		return nil, err
	}
	s, err := a.connect()
	if err != nil {
		return nil, err
	}
	locks, err := a.locks(s.conn, j.TTL)
	if err != nil {
		s.close()
		return nil, err
	}
	engine, err := flush.New(&blamedConn{s.conn}, noSink{}, a.engineConfig(j))
	if err != nil {
		s.close()
		return nil, err
	}
	return &console{job: j, server: s, locks: locks, engine: engine}, nil
}

func (c *console) close() {
	_ = c.locks.Close(context.Background()) // it holds nothing
	c.server.close()
}

// askMost bounds one question to Redis.
const askMost = 5 * time.Second

// status asks Redis how the job is, and who has its lock.
func (c *console) status(ctx context.Context) (flush.Status, lockkeeper.State, error) {
	ctx, cancel := context.WithTimeout(ctx, askMost)
	defer cancel()
	lock, err := c.locks.Inspect(ctx, flush.LockName(c.Job))
	if err != nil {
		return flush.Status{}, lock, c.server.explain(err)
	}
	s, err := c.engine.Status(ctx)
	return s, lock, c.explain(err)
}

// A redisError is an error of Redis, among errors that can be those of the database too.
type redisError struct{ error }

func (e redisError) Unwrap() error { return e.error }

// A blamedConn makes errors of Redis known as such.
type blamedConn struct{ lockkeeper.Conn }

func (c *blamedConn) EvalSha(ctx context.Context, sha string, keys, args []string) (any, error) {
	reply, err := c.Conn.EvalSha(ctx, sha, keys, args)
	return reply, blame(err)
}

func (c *blamedConn) Eval(ctx context.Context, src string, keys, args []string) (any, error) {
	reply, err := c.Conn.Eval(ctx, src, keys, args)
	return reply, blame(err)
}

func blame(err error) error {
	if err == nil {
		return nil
	}
	return redisError{err}
}

// explain says whether it was Redis or the database, and what to do.
func (c *console) explain(err error) error {
	var ofRedis redisError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &ofRedis):
		return c.server.explain(ofRedis.error)
	}
	return unavailableError{fmt.Errorf("%s: %w", c.database, err)}
}

// stopped returns the error for work that a signal or an error has ended, with how far it
// came. Nothing of what is done is undone.
func (c *console) stopped(ctx context.Context, err error, far string) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("interrupted: %s", far)
	}
	err = c.explain(err)
	var unavailable unavailableError
	if errors.As(err, &unavailable) {
		return unavailableError{fmt.Errorf("%w (%s)", err, far)}
	}
	return err
}

// whoAsks returns the name of who runs this, for others to see.
func (a *app) whoAsks() string {
	name := a.env["USER"]
	if u, err := user.Current(); err == nil && u.Username != "" {
		name = u.Username
	}
	host, err := os.Hostname()
	switch {
	case name == "" && err != nil:
		return "somebody"
	case err != nil:
		return name
	}
	return name + "@" + host
}
