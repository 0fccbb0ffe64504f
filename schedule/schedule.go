package schedule

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/internal/script"
)

// ErrNoJob is returned for a job that the schedule does not have.
var ErrNoJob = errors.New("schedule: no such job")

// Config says how a Scheduler works.
type Config struct {
	// Name names the schedule: all processes that use the same one, under the same prefix, share
	// its jobs. 1 to 100 bytes without braces, slashes, white space and control characters.
	Name string

	// Label says which process this is, to people. "" is the host's name and the process's
	// number. At most 256 bytes, without control characters.
	Label string

	// Runs is how many runs of each job are kept in its history. 0 is 100; at most 10,000.
	Runs int

	// Logger hears of runs, of what failed, and of processes with other jobs. nil logs nothing.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.Label == "" {
		host, _ := os.Hostname() // "" is no reason to fail
		c.Label = fmt.Sprintf("%s/%d", host, os.Getpid())
	}
	if c.Runs == 0 {
		c.Runs = 100
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c *Config) check() error {
	errs := []error{checkName("schedule: name", c.Name, "{}/")}
	if len(c.Label) > 256 || strings.ContainsFunc(c.Label, unicode.IsControl) {
		errs = append(errs, fmt.Errorf("schedule: label %q: at most 256 bytes, without control characters", c.Label))
	}
	if c.Runs < 1 || c.Runs > 10_000 {
		errs = append(errs, fmt.Errorf("schedule: %d runs in the history: 1 to 10,000", c.Runs))
	}
	return errors.Join(errs...)
}

// A Scheduler runs the jobs of a schedule together with the other processes that do. It is safe
// for concurrent use, but for Run, of which there is one at a time.
type Scheduler struct {
	locks   *lockkeeper.Client
	conn    lockkeeper.Conn
	cfg     Config
	jobs    []*runner
	dialect script.Dialect
	now     func() time.Time // the wall clock of this process
	id      string           // among the members
	hash    string           // of the jobs
	running atomic.Bool
}

// New makes a scheduler. It sends nothing. Everything that can't be right with the config and
// the jobs is an error, all of it at once; no job at all is none, for those who only ask.
func New(locks *lockkeeper.Client, cfg Config, jobs ...Job) (*Scheduler, error) {
	if locks == nil {
		return nil, errors.New("schedule: nil Client")
	}
	cfg = cfg.withDefaults()
	errs := []error{cfg.check()}
	s := &Scheduler{
		locks: locks,
		conn:  locks.Conn(),
		cfg:   cfg,
		now:   time.Now,
		id:    rand.Text()[:13],
		hash:  hashOf(jobs),
	}
	for _, j := range jobs {
		errs = append(errs, j.Check())
		if s.job(j.Name) != nil {
			errs = append(errs, fmt.Errorf("schedule: job %q: there are two of this name", j.Name))
		}
		s.jobs = append(s.jobs, newRunner(s, j))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return s, nil
}

// job returns the job of a name, or nil.
func (s *Scheduler) job(name string) *runner {
	for _, r := range s.jobs {
		if r.Name == name {
			return r
		}
	}
	return nil
}

// errRunning is returned by a second Run.
var errRunning = errors.New("schedule: it runs already")

// Run runs the jobs until ctx ends; then the contexts of runs end, it waits for them to return,
// and gives up what this process leads, so that another takes over at once. It returns ctx's
// error, or one that waiting can't mend: that the client is closed, or that Redis refuses, at
// the start, what it asks for. What comes later is waited out.
func (s *Scheduler) Run(ctx context.Context) error {
	if !s.running.CompareAndSwap(false, true) {
		return errRunning
	}
	defer s.running.Store(false)
	work, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for _, r := range s.jobs {
		wg.Go(func() {
			if err := r.run(work); err != nil {
				cancel(err)
			}
		})
	}
	wg.Go(func() { s.report(work) })
	wg.Go(func() { s.listen(work) })
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	return context.Cause(work)
}

// listen hears what operators want, as long as it may subscribe. Without, processes look every
// some seconds.
func (s *Scheduler) listen(ctx context.Context) {
	for failures := 0; ctx.Err() == nil; failures++ {
		err := s.conn.Listen(ctx, channelOf(s.locks.Prefix(), s.cfg.Name), func() {
			failures = 0
			for _, r := range s.jobs {
				r.nudge() // something may have been said before
			}
		}, func(name string) {
			if r := s.job(name); r != nil {
				r.nudge()
			}
		})
		if isRefusal(err) && failures == 0 {
			s.cfg.Logger.Warn("can't subscribe; triggers and pauses are seen some seconds late", "schedule", s.cfg.Name, "error", err)
		}
		if rest(ctx, backoff(failures)) != nil {
			return
		}
	}
}

// isRefusal reports whether Redis has refused a request in a way that waiting can't mend.
func isRefusal(err error) bool {
	var reply *lockkeeper.ReplyError
	return errors.As(err, &reply) && !reply.Transient()
}
