package schedule

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/lockkeeper/lockkeeper"
)

// CatchUp says what becomes of ticks that were missed: because no process lived or could reach
// Redis, the job ran for longer than to its next tick, or whoever led had died.
type CatchUp int

const (
	// CatchUpOne runs the latest of them, once, as soon as possible. It is the default.
	CatchUpOne CatchUp = iota

	// CatchUpNone drops a tick that can't begin within 5 seconds of its time.
	CatchUpNone
)

// lateMost is how late a tick may begin that is not caught up.
const lateMost = 5 * time.Second

// A Job is what to run, and when.
type Job struct {
	// Name names the job within its schedule: 1 to 100 bytes without braces, white space and
	// control characters.
	Name string

	// When says at which instants it runs, see Every and Cron.
	When When

	// Run does the work. It should return soon after ctx has ended, which it does before the job
	// can be run elsewhere, when Timeout or MaxHold have passed, and when the process stops; and it
	// must return an error if it has not done the work then. A panic counts as an error.
	Run func(ctx context.Context, t Tick) error

	// Leader keeps one process active for the job, for as long as it lives, and the others
	// standing by. A tick whose run was cut short, because its process died, stopped or lost the
	// lock, is run again by the next leader, with CatchUpOne: at least once. Without Leader,
	// each tick is run by whichever process comes first, and at most once, whatever happens.
	Leader bool

	// CatchUp says what becomes of ticks that were missed.
	CatchUp CatchUp

	// Timeout ends the context of a run. 0 is no limit.
	Timeout time.Duration

	// MinHold is for how long after the start of a run no other begins, on any machine; ticks
	// that come in that time are missed. 0 is none.
	MinHold time.Duration

	// MaxHold is how long a run may keep the job: after that it can be run elsewhere, even if Run
	// has not returned. A leader resigns then. The run's context ends before, by a tenth, at most a
	// second. 0 is twice the Timeout, or no limit without one: then a run that hangs keeps its
	// job for as long as its process lives. A process in which a run hangs runs the job no more.
	MaxHold time.Duration

	// Jitter delays each tick by a part of it that is by chance but the same on all machines, and
	// by less than the time to the next tick. 0 is none.
	Jitter time.Duration

	// Detail is what else must be the same on all machines, such as the command that Run starts.
	// It is only compared, see Status.
	Detail string
}

// A Tick is one run of a job, as the job itself sees it.
type Tick struct {
	Job string

	// Scheduled is the instant for which it runs. Of one that was triggered it is when that was
	// asked for.
	Scheduled time.Time
	Triggered bool

	// Lease is the hold of the job's lock: a leader's is the same for many ticks. Its fence
	// is for stores that check it, see package sqlfence. Run must not release it.
	Lease *lockkeeper.Lease
}

// Check returns what is wrong with the job, all of it, or nil. New checks jobs as well.
func (j Job) Check() error {
	errs := []error{checkName("job name", j.Name, "{}")}
	switch w := j.When.(type) {
	case nil:
		errs = append(errs, errors.New("it has no When: use Every or Cron"))
	case interface{ check() error }:
		errs = append(errs, w.check())
	}
	if j.Run == nil {
		errs = append(errs, errors.New("it has no Run"))
	}
	if j.CatchUp != CatchUpOne && j.CatchUp != CatchUpNone {
		errs = append(errs, fmt.Errorf("catch up %d: CatchUpOne and CatchUpNone are known", j.CatchUp))
	}
	for _, d := range []struct {
		name string
		d    time.Duration
	}{{"timeout", j.Timeout}, {"min hold", j.MinHold}, {"max hold", j.MaxHold}, {"jitter", j.Jitter}} {
		if d.d < 0 {
			errs = append(errs, fmt.Errorf("%s %s: it can't be negative", d.name, d.d))
		}
	}
	if j.MaxHold > 0 && j.MaxHold < j.Timeout {
		errs = append(errs, fmt.Errorf("max hold %s: it can't be below the timeout (%s)", j.MaxHold, j.Timeout))
	}
	for i, err := range errs {
		if err != nil {
			errs[i] = fmt.Errorf("schedule: job %q: %w", j.Name, err)
		}
	}
	return errors.Join(errs...)
}

// checkName refuses names that can't be part of a key.
func checkName(what, name, not string) error {
	if name == "" || len(name) > 100 || strings.ContainsAny(name, not) || strings.ContainsFunc(name, func(r rune) bool {
		return unicode.IsControl(r) || unicode.IsSpace(r)
	}) {
		return fmt.Errorf("%s %q: 1 to 100 bytes without white space and the characters %s", what, name, not)
	}
	return nil
}

func (j *Job) maxHold() time.Duration {
	if j.MaxHold == 0 {
		return 2 * j.Timeout
	}
	return j.MaxHold
}

// delay returns the jitter of a tick.
func (j *Job) delay(tick time.Time) time.Duration {
	most := j.Jitter
	if next := j.When.Next(tick); most > 0 && !next.IsZero() {
		most = min(most, next.Sub(tick))
	}
	if most <= 0 {
		return 0
	}
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %d", j.Name, tick.UnixMilli())
	return time.Duration(h.Sum64() % uint64(most))
}

// hashOf returns a short hash of what must be the same on all machines.
func hashOf(jobs []Job) string {
	h := sha256.New()
	for _, j := range slices.SortedFunc(slices.Values(jobs), func(a, b Job) int { return cmp.Compare(a.Name, b.Name) }) {
		if j.When != nil {
			fmt.Fprintf(h, "%q %q %t %d %d %d %d %d %q\n", j.Name, j.When.String(), j.Leader, j.CatchUp, j.Timeout, j.MinHold, j.MaxHold, j.Jitter, j.Detail)
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:6])
}
