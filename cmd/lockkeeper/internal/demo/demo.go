package demo

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/store"
	"github.com/lockkeeper/lockkeeper/flush"
	"github.com/lockkeeper/lockkeeper/goredisconn"
)

// A stage is what a show runs on: the server, the database, and the parent's own
// connections to them.
type stage struct {
	options *Options
	dir     string // temporary; for logs, and for the database unless it has its own path
	dbPath  string
	redis   string // which server, in words
	server  server
	prefix  string // of the data keys
	job     string
	data    *dataset
	mapping flush.Mapping

	embedded *embedded
	rdb      *redis.Client
	conn     *goredisconn.Conn
	db       *sql.DB
	engine   *flush.Engine
	locks    *lockkeeper.Client
}

// Run runs the show and returns what came out. An error means that it could not be
// run; a show that was run and failed is a Summary with OK false.
func Run(ctx context.Context, o Options) (*Summary, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	if !canStop {
		return nil, errNoStop
	}
	s, err := build(ctx, &o)
	if s != nil {
		defer s.close()
	}
	if err != nil {
		return nil, err
	}
	return s.play(ctx)
}

var errNoStop = errors.New("demo: it stops and continues processes, which this system can't; use Linux, macOS or WSL")

// build sets the stage.
func build(ctx context.Context, o *Options) (*stage, error) {
	run := strings.ToLower(rand.Text()[:8])
	s := &stage{options: o, prefix: "lockkeeper-demo:" + run, job: "demo-" + run, data: madeUp(400)}
	var err error
	if o.Input != "" {
		if s.data, err = loadInput(o.Input); err != nil {
			return nil, err
		}
	}
	s.mapping = s.data.mapping(s.prefix)
	if s.dir, err = os.MkdirTemp("", "lockkeeper-demo-"); err != nil {
		return nil, err
	}
	if s.dbPath = o.DB; s.dbPath == "" {
		s.dbPath = filepath.Join(s.dir, "demo.db")
	}
	if err := s.connectRedis(ctx); err != nil {
		return s, err
	}
	return s, s.connectDB(ctx)
}

func (s *stage) connectRedis(ctx context.Context) error {
	if s.options.Redis != nil {
		s.server, s.redis = serverOf(s.options.Redis), s.options.Redis.Addr
	} else {
		e, err := startEmbedded()
		if err != nil {
			return err
		}
		s.embedded, s.redis = e, "embedded"
		s.server = server{Network: "tcp", Addr: e.server.Addr()}
	}
	s.rdb = s.server.client()
	ping, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := s.rdb.Ping(ping).Err(); err != nil {
		return &lockkeeper.UnavailableError{Op: "reach", Name: s.redis, Err: err}
	}
	s.conn = goredisconn.New(s.rdb)
	return nil
}

// redisName names the server in a sentence.
func (s *stage) redisName() string {
	if s.embedded != nil {
		return "the embedded Redis"
	}
	return "Redis at " + s.redis
}

// A DatabaseError is that the database can't be opened.
type DatabaseError struct{ Err error }

func (e *DatabaseError) Error() string { return e.Err.Error() }

// Unwrap returns what the database said.
func (e *DatabaseError) Unwrap() error { return e.Err }

func (s *stage) connectDB(ctx context.Context) error {
	db, dialect, err := store.Open(ctx, "sqlite:"+s.dbPath)
	if err != nil {
		return &DatabaseError{err}
	}
	s.db = db
	mappings := []flush.Mapping{s.mapping}
	sink, err := flush.NewSQL(db, dialect, mappings)
	if err != nil {
		return err
	}
	if err := sink.Migrate(ctx); err != nil {
		return err
	}
	if err := s.wantEmpty(ctx); err != nil {
		return err
	}
	if s.engine, err = flush.New(s.conn, sink, flush.Config{Job: s.job, Mappings: mappings}); err != nil {
		return err
	}
	s.locks, err = lockkeeper.New(s.conn, lockkeeper.Config{TTL: s.options.TTL})
	return err
}

// wantEmpty refuses a database with rows of another run: they would be differences.
func (s *stage) wantEmpty(ctx context.Context) error {
	n, err := s.rows(ctx)
	if err == nil && n > 0 {
		err = fmt.Errorf("%w: --db %s: its table %s has %d rows already; name a new file", ErrUsage, s.dbPath, s.mapping.Table, n)
	}
	return err
}

func (s *stage) rows(ctx context.Context) (n int, err error) {
	err = s.db.QueryRowContext(ctx, `SELECT count(*) FROM "`+s.mapping.Table+`"`).Scan(&n)
	return n, err
}

// play runs the show on its stage.
func (s *stage) play(ctx context.Context) (*Summary, error) {
	producer, err := flush.NewProducer(s.conn, "", s.job)
	if err != nil {
		return nil, err
	}
	fleet, err := startFleet(s.options, s.dir, assignment{
		Server: s.server, DB: s.dbPath, Job: s.job, Mapping: s.mapping, TTL: s.options.TTL,
	})
	if err != nil {
		return nil, err
	}
	show := &show{
		stage:  s,
		fleet:  fleet,
		board:  newBoard(fleet.names()),
		writer: newWriter(producer, s.prefix, s.data, s.options.Rate),
		pulse:  newPulse(func(ctx context.Context) error { return s.rdb.Ping(ctx).Err() }),
	}
	return show.run(ctx)
}

// A show is one run: workers, writer, director, screen.
type show struct {
	*stage
	fleet  *fleet
	board  *board
	writer *writer
	pulse  *pulse
}

// run runs all parts until the time is up and the faults have had their effects, then
// drains and compares. A show that is ended before has proved nothing, and says only
// that: what is not flushed yet is not lost.
func (s *show) run(ctx context.Context) (*Summary, error) {
	events := make(chan struct{})
	go func() { // ends when fleet.stop closes the events
		defer close(events)
		for r := range s.fleet.events {
			s.board.take(r)
		}
	}()
	screen := newScreen(s)
	var parts sync.WaitGroup
	watching, blind := context.WithCancel(context.WithoutCancel(ctx))
	parts.Go(func() { screen.run(watching) })
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	parts.Go(func() { s.pulse.run(watching, func() { end(&silenceError{s.redisName()}) }) })

	sum := &Summary{Redis: s.redis, Database: s.dbPath}
	sum.fail(s.perform(ctx))
	if halted(ctx) == nil {
		sum.fail(s.drain(ctx, sum))
	}

	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), 15*time.Second)
	defer cancel()
	sum.fail(s.fleet.stop(stopping))
	<-events

	var c *Comparison
	if halted(ctx) == nil {
		var err error
		c, err = compare(ctx, s.rdb, s.db, s.prefix, &s.mapping)
		sum.fail(err)
	}
	reason := halted(ctx)
	blind()
	parts.Wait()
	if reason != nil {
		sum.Failures, c = []string{reason.Error()}, nil
	}
	s.leave(ctx, sum, reason)
	sum.finish(s, c, reason != nil)
	return sum, nil
}

// leave deletes this run's keys, or says what stays behind.
func (s *show) leave(ctx context.Context, sum *Summary, reason error) {
	const keys = "keys in Redis: %s:* and %s*"
	lock := lockkeeper.DefaultPrefix + flush.LockName(s.job)
	if s.options.Keep {
		sum.left("the database is %s; the workers' logs are in %s", s.dbPath, s.dir)
		if s.embedded == nil {
			sum.left(keys, s.prefix, lock)
		}
		return
	}
	cleaning, cancel := context.WithTimeout(context.WithoutCancel(ctx), 15*time.Second)
	defer cancel()
	if err := s.clean(cleaning); err != nil {
		if reason == nil {
			sum.fail(err)
		}
		sum.left(keys, s.prefix, lock)
	}
}

// perform writes and makes the faults.
func (s *show) perform(ctx context.Context) error {
	total := time.Duration(s.options.Seconds * float64(time.Second))
	enough, stop := context.WithCancel(ctx)
	defer stop()
	var writer sync.WaitGroup
	writer.Go(func() { s.writer.run(ctx, enough) })
	d := &director{board: s.board, fleet: s.fleet, ttl: s.options.TTL, total: total}
	err := d.run(ctx)
	if err == nil {
		d.at(ctx, total)
		err = context.Cause(ctx)
	}
	stop()
	writer.Wait()
	if reason := halted(ctx); reason != nil {
		s.board.tell("the show ends: %s", reason)
	} else {
		s.board.tell("the writer stops; what is left is flushed")
	}
	return err
}

// drain waits until no key is dirty.
func (s *show) drain(ctx context.Context, sum *Summary) error {
	const most = time.Minute
	start, dirty := time.Now(), -1
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for {
		status, err := s.engine.Status(ctx)
		if err == nil {
			dirty = status.Dirty
		}
		if err == nil && status.Dirty == 0 {
			sum.drained, sum.DrainMS, sum.Parked = true, millis(time.Since(start)), status.Parked
			return nil
		}
		switch {
		case ctx.Err() == nil:
		case dirty < 0:
			return fmt.Errorf("it is not known what was not flushed: no answer to that in %s: %w", most, err)
		default:
			return fmt.Errorf("%d keys were not flushed %s after the last write", dirty, most)
		}
		pause(ctx, 20*time.Millisecond)
	}
}

// clean deletes the keys of this run from a server that is not ours.
func (s *show) clean(ctx context.Context) error {
	if s.embedded != nil {
		return nil
	}
	keys := flush.KeysOf("", s.job)
	lock := lockkeeper.DefaultPrefix + flush.LockName(s.job)
	all := []string{
		keys.Dirty, keys.Versions, keys.Clock, keys.Epoch, keys.Parked, keys.Control, keys.Members,
		lock, lock + ":lk-fence", lock + ":lk-line", lock + ":lk-places",
	}
	iter := s.rdb.Scan(ctx, 0, s.prefix+":*", 1000).Iterator()
	for iter.Next(ctx) {
		all = append(all, iter.Val())
	}
	for len(all) > 0 && iter.Err() == nil {
		n := min(len(all), 1000)
		if err := s.rdb.Unlink(ctx, all[:n]...).Err(); err != nil {
			return fmt.Errorf("delete this run's keys: %w", err)
		}
		all = all[n:]
	}
	return iter.Err()
}

// close takes the stage down.
func (s *stage) close() {
	if s.locks != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = s.locks.Close(ctx) // it holds nothing
	}
	if s.db != nil {
		_ = s.db.Close()
	}
	if s.rdb != nil {
		_ = s.rdb.Close()
	}
	if s.embedded != nil {
		s.embedded.close()
	}
	if s.options.Keep {
		_ = os.Remove(s.dir) // only if nothing is in it
		return
	}
	_ = os.RemoveAll(s.dir)
}
