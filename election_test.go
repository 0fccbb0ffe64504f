package lockkeeper_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper"
)

// A fleet is some processes of which one is to be active.
type fleet struct {
	server  *server
	members []*member
	results chan error

	mu     sync.Mutex
	active map[*member]time.Time // since when
	twice  bool                  // two were active at a time
	terms  []string
}

type member struct {
	name   string
	wire   *wire
	client *lockkeeper.Client
	stop   context.CancelFunc
}

func newFleet(t *testing.T, size int) *fleet {
	t.Helper()
	f := &fleet{server: newServer(), results: make(chan error, size), active: make(map[*member]time.Time)}
	for i := range size {
		m := &member{name: fmt.Sprint("m", i), wire: f.server.wire()}
		m.client = newClient(t, m.wire, lockkeeper.Config{Label: m.name})
		ctx, stop := context.WithCancel(t.Context())
		m.stop = stop
		f.members = append(f.members, m)
		go func() { f.results <- m.client.Election("job").Run(ctx, f.lead(m)) }()
	}
	synctest.Wait()
	return f
}

// lead works until it is told to stop, and counts who does.
func (f *fleet) lead(m *member) func(context.Context, *lockkeeper.Lease) error {
	return func(ctx context.Context, lease *lockkeeper.Lease) error {
		f.mu.Lock()
		f.active[m] = time.Now()
		f.twice = f.twice || len(f.active) > 1
		f.terms = append(f.terms, m.name)
		f.mu.Unlock()
		<-ctx.Done()
		f.mu.Lock()
		delete(f.active, m)
		f.mu.Unlock()
		return context.Cause(ctx)
	}
}

// leader returns who is active, and since when.
func (f *fleet) leader(t *testing.T) (*member, time.Time) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.twice {
		t.Fatalf("two were active at a time: %v", f.terms)
	}
	for m, since := range f.active {
		return m, since
	}
	return nil, time.Time{}
}

// next waits until somebody else than old is active.
func (f *fleet) next(t *testing.T, old *member) (*member, time.Time) {
	t.Helper()
	for range 100_000 {
		if m, since := f.leader(t); m != nil && m != old {
			return m, since
		}
		time.Sleep(ms)
	}
	t.Fatal("nobody became active")
	return nil, time.Time{}
}

func TestElectionSurvivesAKill(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 5)
		leader, _ := f.next(t, nil)
		for range 4 {
			time.Sleep(17 * time.Second)
			killed := time.Now()
			leader.wire.breaks(hangs) // for good
			expires := time.Now().Add(f.server.TTL("lockkeeper:job"))
			next, since := f.next(t, leader)
			if since.Before(expires) || since.Sub(expires) > 5*ms {
				t.Errorf("%s took over %s after the end of the TTL", next.name, since.Sub(expires))
			}
			if since.Sub(killed) > lockkeeper.DefaultTTL+time.Second {
				t.Errorf("it took %s", since.Sub(killed))
			}
			leader = next
		}
	})
}

func TestElectionHandsOverAtACleanStop(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 5)
		leader, _ := f.next(t, nil)
		for range 4 {
			time.Sleep(17 * time.Second)
			stopped := time.Now()
			leader.stop()
			next, since := f.next(t, leader)
			if took := since.Sub(stopped); took > 10*ms {
				t.Errorf("the hand-over took %s", took)
			}
			wantErr(t, <-f.results, context.Canceled)
			leader = next
		}
	})
}

// A leader whose connection is bad for a time stands by again, and can lead again.
func TestElectionAfterALoss(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 2)
		a, _ := f.next(t, nil)
		a.wire.breaks(hangs)
		b, _ := f.next(t, a)
		a.wire.breaks(nil)
		time.Sleep(time.Minute)
		if m, _ := f.leader(t); m != b {
			t.Fatal("leadership moved without a reason")
		}
		b.stop()
		if m, _ := f.next(t, b); m != a {
			t.Error("the first leader did not stand by again")
		}
	})
}

// Standbys go on through an outage, whatever its length.
func TestElectionThroughAnOutage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 3)
		f.next(t, nil)
		for _, m := range f.members {
			m.wire.breaks(fails(replies("LOADING Redis is loading the dataset in memory")))
		}
		f.server.Flush()
		time.Sleep(time.Hour)
		if m, _ := f.leader(t); m != nil {
			t.Error("somebody leads without Redis")
		}
		for _, m := range f.members {
			m.wire.breaks(nil)
		}
		healed := time.Now()
		_, since := f.next(t, nil)
		if took := since.Sub(healed); took > 2*time.Second {
			t.Errorf("it took %s after the outage", took)
		}
		if len(f.results) != 0 {
			t.Errorf("somebody gave up: %v", <-f.results)
		}
	})
}

func TestElectionIgnoresMaxWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newServer()
		w := s.wire()
		c := newClient(t, w, lockkeeper.Config{})
		s.Set("lockkeeper:job", "somebody", time.Minute)
		start := time.Now()
		err := c.Election("job", lockkeeper.WithMaxWait(ms)).Run(t.Context(), func(context.Context, *lockkeeper.Lease) error { return nil })
		if took := time.Since(start); err != nil || took < time.Minute {
			t.Errorf("after %s: %v", took, err)
		}
	})
}

// What lead returns while it is elected is Run's, also when it looks like an error
// of this package: from another lock.
func TestElectionReturnsWhatLeadReturns(t *testing.T) {
	for name, want := range map[string]error{
		"nil":        nil,
		"error":      errWork,
		"held":       &lockkeeper.HeldError{Name: "other"},
		"lost":       &lockkeeper.LostError{Name: "other"},
		"not held":   lockkeeper.ErrNotHeld,
		"down":       lockkeeper.ErrUnavailable,
		"cancelled":  context.Canceled,
		"same name":  fmt.Errorf("wrapped: %w", &lockkeeper.LostError{Name: "job"}),
		"after loss": lockkeeper.ErrLost,
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newServer()
				c := newClient(t, s.wire(), lockkeeper.Config{})
				terms := 0
				err := c.Election("job").Run(t.Context(), func(context.Context, *lockkeeper.Lease) error {
					if terms++; terms > 1 {
						return errors.New("led again")
					}
					return want
				})
				if err != want {
					t.Errorf("got %v", err)
				}
				wantKey(t, s, "lockkeeper:job", false)
			})
		})
	}
}

// After a loss Run goes on, whatever lead returned: nil, its own error, the cause.
func TestElectionGoesOnAfterALoss(t *testing.T) {
	for name, returns := range map[string]func(context.Context) error{
		"nil":   func(context.Context) error { return nil },
		"error": func(context.Context) error { return errWork },
		"cause": context.Cause,
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newServer()
				c := newClient(t, s.wire(), lockkeeper.Config{})
				var fences []lockkeeper.Fence
				err := c.Election("job").Run(t.Context(), func(ctx context.Context, lease *lockkeeper.Lease) error {
					fences = append(fences, lease.Fence())
					if len(fences) == 3 {
						return nil
					}
					s.Del("lockkeeper:job")
					if len(fences) == 1 {
						<-ctx.Done() // the second is found out at the release only
					}
					return returns(ctx)
				})
				if err != nil || len(fences) != 3 || fences[0] >= fences[1] || fences[1] >= fences[2] {
					t.Errorf("terms %v, %v", fences, err)
				}
			})
		})
	}
}

func TestElectionReturnsWhatWaitingCantMend(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newServer()
		w := s.wire()
		c := newClient(t, w, lockkeeper.Config{})
		s.Set("lockkeeper:job", "somebody", 0)
		go func() {
			time.Sleep(time.Minute)
			w.breaks(fails(replies("NOPERM this user has no permissions")))
		}()
		lead := func(context.Context, *lockkeeper.Lease) error { return nil }
		wantErr(t, c.Election("job").Run(t.Context(), lead), lockkeeper.ErrUnavailable)

		w.breaks(nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := c.Election("job").Run(ctx, lead)
		wantErr(t, err, context.DeadlineExceeded)
		wantNotErr(t, err, lockkeeper.ErrHeld, lockkeeper.ErrUnavailable)
	})
}

func TestElectionLeader(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 3)
		leader, _ := f.next(t, nil)
		watcher := newClient(t, f.server.wire(), lockkeeper.Config{}).Election("job")
		holder, err := watcher.Leader(t.Context())
		if err != nil || holder.Label != leader.name || !holder.Fence.Valid() {
			t.Errorf("leader %+v, %v; want %s", holder, err, leader.name)
		}
		f.server.Set("lockkeeper:job", "x", 0)
		if holder, err = watcher.Leader(t.Context()); err != nil || !holder.Foreign {
			t.Errorf("leader %+v, %v; want a foreign one", holder, err)
		}
		f.server.Del("lockkeeper:job")
		for _, m := range f.members {
			m.wire.breaks(hangs)
		}
		_, err = watcher.Leader(t.Context())
		wantErr(t, err, lockkeeper.ErrNotHeld)
	})
}

func TestElectionObserve(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newServer()
		w := s.wire()
		c := newClient(t, w, lockkeeper.Config{})
		job := c.Mutex("job", lockkeeper.WithLabel("me"))
		var seen []string
		ctx, cancel := context.WithCancel(t.Context())
		done := goes(func() int {
			for holder, err := range c.Election("job").Observe(ctx) {
				if err != nil {
					seen = append(seen, "error")
				} else {
					seen = append(seen, holder.String()[:2])
				}
			}
			return 0
		})
		step := func(f func()) { time.Sleep(3 * time.Second); f() }
		var lease *lockkeeper.Lease
		time.Sleep(100 * ms) // between two looks
		step(func() { lease = mustTry(t, job) })
		step(func() { mustRelease(t, lease) })
		step(func() { lease = mustTry(t, job) })
		step(func() { w.breaks(on(fails(errNetwork), "state")) })
		time.Sleep(600 * ms) // one look
		w.breaks(nil)        // the same holder is told again after an error
		step(func() { mustRelease(t, lease); s.Set("lockkeeper:job", "x", 0) })
		time.Sleep(time.Second)
		cancel()
		<-done
		want := []string{"no", "me", "no", "me", "error", "me", "a "}
		if fmt.Sprint(seen) != fmt.Sprint(want) {
			t.Errorf("seen %v, want %v", seen, want)
		}
	})
}

func TestElectionObserveEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newServer().wire()
		c := newClient(t, w, lockkeeper.Config{})
		for range c.Election("job").Observe(t.Context()) {
			break // at the first
		}
		for _, err := range c.Election("").Observe(t.Context()) {
			wantErr(t, err, lockkeeper.ErrInvalid)
			break
		}
		errs := goes(func() (errs []error) {
			for _, err := range c.Election("job").Observe(context.Background()) {
				errs = append(errs, err)
			}
			return errs
		})
		time.Sleep(10 * time.Second)
		closes(t, c)
		if got := <-errs; len(got) != 2 || got[0] != nil || got[1] != lockkeeper.ErrClosed {
			t.Errorf("yielded %v, want nobody, and then ErrClosed as the last", got)
		}
	})
}
