package bench

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/goredisconn"
)

// A Link is one client of Redis with connections of its own. Run closes it.
type Link struct {
	Redis *redis.Client
	Conn  *goredisconn.Conn // over it
}

// Options say what to measure, and how much load to make.
type Options struct {
	Open       func() (Link, error)
	Address    string        // of the server, for people
	Prefix     string        // of Lockkeeper's keys, as lockkeeper.Config has it
	Duration   time.Duration // of all steps together
	Goroutines int           // how many ask at a time
	Leases     int           // how many are held for the renewals
	Logger     *slog.Logger

	Tell func(text string)                                  // hears what will be done, before it is; may be nil
	Step func(number, of int, name string, d time.Duration) // hears of each step as it begins; may be nil
}

// The errors that callers tell apart.
var (
	ErrUsage       = errors.New("bench: invalid options")
	ErrInterrupted = errors.New("interrupted")
)

// Check returns what is wrong with the options.
func (o *Options) Check() error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: "+format, append([]any{ErrUsage}, args...)...))
	}
	if o.Duration < 2*time.Second || o.Duration > 10*time.Minute {
		bad("--duration %s: 2s to 10m", o.Duration)
	}
	if o.Goroutines < 1 || o.Goroutines > 256 {
		bad("--goroutines %d: 1 to 256", o.Goroutines)
	}
	if o.Leases < 1 || o.Leases > 20000 {
		bad("--leases %d: 1 to 20000", o.Leases)
	}
	return errors.Join(errs...)
}

// A RightsError is that the user of Redis lacks rights that locks need.
type RightsError struct {
	Missing []string // of those that locks use, as ACL SETUSER takes them
	Err     error    // what was refused; nil: nothing was tried
}

func (e *RightsError) Error() string {
	lacks := "this user lacks " + strings.Join(e.Missing, " ")
	if e.Err == nil {
		return lacks
	}
	var reply *lockkeeper.ReplyError
	if errors.As(e.Err, &reply) {
		return reply.Error() + "; " + lacks
	}
	return e.Err.Error() + "; " + lacks
}

// Unwrap returns what was refused.
func (e *RightsError) Unwrap() error { return e.Err }

// ttl of the locks that are not held for long. It also bounds how long a release is
// tried when the server has stopped answering.
const ttl = 5 * time.Second

// closeWithin bounds what is left to do when a step is over, or the run.
const closeWithin = 10 * time.Second

// A bench is one run.
type bench struct {
	o     Options
	run   string // in all names of the run
	stop  context.CancelCauseFunc
	now   string   // the step that runs
	blind bool     // INFO is not to be had
	used  []string // names of locks whose keys may be there
	out   Result
}

// A step is one thing to measure.
type step struct {
	name   string
	weight int // its share of the time
	run    func(ctx context.Context, d time.Duration) error
}

func (b *bench) steps() []step {
	crowd := count(b.o.Goroutines, "goroutine", "goroutines")
	return []step{
		{rowRoundTrip, 2, b.roundTrip},
		{rowFreeLock + ", 1 goroutine", 2, b.freeLock},
		{rowFreeLock + ", " + crowd, 3, b.freeLocks},
		{rowHandOff + ", " + strconv.Itoa(handOffClients) + " clients", 3, b.handOff},
		{rowHandOff + " in one process, " + crowd, 2, b.handOffInProcess},
		{rowRenewals, 4, b.renewals},
	}
}

// Run measures. A run that has begun has a Result, also when it ends with an error: with
// what was measured until then. ErrInterrupted says that ctx has ended it.
func Run(ctx context.Context, o Options) (*Result, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	b := &bench{o: o, run: strings.ToLower(rand.Text()[:10])}
	outer := ctx
	ctx, b.stop = context.WithCancelCause(ctx)
	defer b.stop(nil)
	b.out = Result{
		Redis: o.Address, KeyPattern: b.keyPrefix() + b.name("") + "*",
		Goroutines: o.Goroutines, Notes: []string{},
	}
	begun := time.Now()
	if err := b.why(outer, ctx, b.prepare(ctx)); err != nil {
		return nil, err
	}
	err := b.why(outer, ctx, b.perform(ctx))
	b.out.Complete, b.out.Seconds = err == nil, *rounded(time.Since(begun).Seconds())
	if err != nil {
		b.out.Error = err.Error()
	}
	return &b.out, err
}

// why returns what has really ended a run: the first trouble with the server, or the
// caller.
func (b *bench) why(outer, ctx context.Context, err error) error {
	var trouble *troubleError
	switch {
	case errors.As(context.Cause(ctx), &trouble):
		return trouble.err
	case outer.Err() != nil:
		return ErrInterrupted
	}
	return err
}

// perform runs all steps.
func (b *bench) perform(ctx context.Context) error {
	steps := b.steps()
	sum := 0
	for _, s := range steps {
		sum += s.weight
	}
	for i, s := range steps {
		d := b.o.Duration * time.Duration(s.weight) / time.Duration(sum)
		b.now = s.name
		if b.o.Step != nil {
			b.o.Step(i+1, len(steps), s.name, d)
		}
		if err := s.run(ctx, d); err != nil {
			return err
		}
		if ctx.Err() != nil { // with what was measured until then
			return context.Cause(ctx)
		}
	}
	return nil
}

// prepare passes one lock from a client to another, so that what can't work is said
// before anything is asked for many times.
func (b *bench) prepare(ctx context.Context) error {
	return b.with(ctx, 2, ttl, func(clients []*client) error {
		asking, cancel := context.WithTimeout(ctx, closeWithin)
		defer cancel()
		missing, err := b.missingRights(asking, clients[0].Conn)
		if err != nil {
			return err
		}
		if slices.Contains(missing, "+del") { // keys would be left
			return &RightsError{Missing: missing}
		}
		if err := b.rehearse(asking, clients[0], clients[1]); err != nil {
			if noPermission(err) && len(missing) > 0 {
				return &RightsError{Missing: missing, Err: err}
			}
			return err
		}
		b.noteMissing(missing, b.isForWaking, "nobody is woken, and who waits for a lock polls")
		b.noteMissing(missing, isForTheDead, "a waiter that has died is given the lock once, for a few seconds")
		b.askServer(asking, clients[0].Redis)
		b.tell()
		return nil
	})
}

// noteMissing notes what the lack of some rights means.
func (b *bench) noteMissing(missing []string, is func(string) bool, meaning string) {
	var lacks []string
	for _, right := range missing {
		if is(right) {
			lacks = append(lacks, right)
		}
	}
	if len(lacks) > 0 {
		b.note("the user of Redis lacks %s: %s", strings.Join(lacks, " "), meaning)
	}
}

// rehearse has one client take a lock and another wait for it.
func (b *bench) rehearse(ctx context.Context, first, second *client) error {
	name := b.use("check")
	lease, err := first.locks.Mutex(name).Try(ctx)
	if err != nil {
		return err
	}
	waiting := make(chan error, 1)
	go func() {
		lease, err := second.locks.Mutex(name).Acquire(ctx)
		if err == nil {
			err = lease.Release(ctx)
		}
		waiting <- err
	}()
	within(100*time.Millisecond, ctx.Done()) // it is in line then, most likely
	err = lease.Release(ctx)
	return cmp.Or(<-waiting, err)
}

// tell says what the run will do.
func (b *bench) tell() {
	if b.o.Tell == nil {
		return
	}
	b.o.Tell(fmt.Sprintf("about %.0f s on Redis at %s, with up to %s at a time, which can keep one core of it busy for a fifth of that, and up to %s; "+
		"the keys are %s, and are deleted",
		b.o.Duration.Seconds(), b.o.Address, count(max(b.o.Goroutines, handOffClients), "request", "requests"),
		count(b.o.Leases, "lock", "locks"), b.out.KeyPattern))
}

func (b *bench) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	for _, said := range b.out.Notes {
		if said == text {
			return
		}
	}
	b.out.Notes = append(b.out.Notes, text)
}

// count says a number of things.
func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%s %s", grouped(float64(n)), many)
}
