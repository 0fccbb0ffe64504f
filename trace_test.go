package lockkeeper_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper"
)

// A traceLog is all that a Trace was told, in words.
type traceLog struct {
	mu    sync.Mutex
	lines []string
	late  []time.Duration
	on    map[string]func() // called besides
}

func (l *traceLog) add(hook, format string, args ...any) {
	l.mu.Lock()
	l.lines = append(l.lines, strings.TrimSpace(hook+" "+fmt.Sprintf(format, args...)))
	also := l.on[hook]
	l.mu.Unlock()
	if also != nil {
		also()
	}
}

// take returns what was told since.
func (l *traceLog) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := l.lines
	l.lines = nil
	return lines
}

func (l *traceLog) want(t *testing.T, want ...string) {
	t.Helper()
	if got := l.take(); !slices.Equal(got, want) {
		t.Errorf("told:\n\t%s\nwant:\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// kindOf says what an error matches.
func kindOf(err error) string {
	for _, target := range []error{lockkeeper.ErrQueueFull, lockkeeper.ErrHeld, lockkeeper.ErrLost, lockkeeper.ErrUnavailable, lockkeeper.ErrClosed} {
		if errors.Is(err, target) {
			return strings.TrimPrefix(target.Error(), "lockkeeper: ")
		}
	}
	return fmt.Sprint(err)
}

func leased(lease *lockkeeper.Lease) string {
	if lease == nil {
		return "no lease"
	}
	return lease.Name()
}

func (l *traceLog) trace() *lockkeeper.Trace {
	return &lockkeeper.Trace{
		Acquire: func(a lockkeeper.AcquireTrace) {
			l.add("acquire", "%s wait=%t took=%s %s %s", a.Name, a.Wait, a.Took, leased(a.Lease), kindOf(a.Err))
		},
		Wait:  func(w lockkeeper.WaitTrace) { l.add("wait", "%s", w.Name) },
		Grant: func(g lockkeeper.GrantTrace) { l.add("grant", "%s passed=%t", leased(g.Lease), g.Passed) },
		Renew: func(r lockkeeper.RenewTrace) { l.add("renew", "%d took=%s %s", r.Leases, r.Took, kindOf(r.Err)) },
		Lose:  func(r lockkeeper.LoseTrace) { l.add("lose", "%s %s", leased(r.Lease), kindOf(r.Err)) },
		Release: func(r lockkeeper.ReleaseTrace) {
			l.add("release", "%s passed=%t took=%s %s", leased(r.Lease), r.Passed, r.Took, kindOf(r.Err))
		},
		Late: func(by time.Duration) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.late = append(l.late, by)
		},
	}
}

// traced is a party whose first process has a trace.
func traced(t *testing.T) (*party, *traceLog, *lockkeeper.Client) {
	t.Helper()
	p, log := newParty(t), &traceLog{on: make(map[string]func())}
	c := newClient(t, p.wire, lockkeeper.Config{Trace: log.trace()})
	p.lock = c.Mutex("orders")
	return p, log, c
}

func TestTraceOfOneLease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, log, c := traced(t)
		p.wire.breaks(slow(2*ms, 3*ms))
		lease := mustTry(t, p.lock)
		log.want(t, "grant orders passed=false", "acquire orders wait=false took=5ms orders <nil>")
		more := mustTry(t, c.Mutex("more"))
		log.take()
		settled(3500 * ms)
		log.want(t, "renew 2 took=5ms <nil>")
		mustRelease(t, more)
		log.want(t, "release more passed=false took=5ms <nil>")
		if err := lease.Extend(t.Context(), 20*time.Second); err != nil {
			t.Fatal(err)
		}
		log.want(t, "renew 1 took=5ms <nil>")
		mustRelease(t, lease)
		log.want(t, "release orders passed=false took=5ms <nil>")
		mustRelease(t, lease)
		log.want(t, "release orders passed=false took=0s <nil>")
	})
}

func TestTraceOfFailures(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, log, c := traced(t)
		held := mustTry(t, p.holder)
		_, _ = p.lock.Try(t.Context())
		log.want(t, "acquire orders wait=false took=0s no lease held by another")
		_, _ = c.Mutex("orders", lockkeeper.WithMaxWait(time.Second)).Acquire(t.Context())
		log.want(t, "wait orders", "acquire orders wait=true took=1s no lease held by another")
		ctx, cancel := context.WithTimeout(t.Context(), 300*ms)
		defer cancel()
		_ = p.lock.Do(ctx, func(context.Context, *lockkeeper.Lease) error { return nil })
		log.want(t, "wait orders", "acquire orders wait=true took=300ms no lease held by another")
		settled(0)
		p.wire.breaks(fails(replies("NOPERM x")))
		_, _ = p.lock.Acquire(t.Context())
		log.want(t, "acquire orders wait=true took=0s no lease Redis gave no usable answer")
		p.wire.breaks(nil)
		_, _ = c.Mutex("").Try(t.Context()) // invalid input is no acquisition
		log.want(t)
		mustRelease(t, held)
	})
}

// A call that waits, and turns that are passed on.
func TestTraceOfTurns(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, log, _ := traced(t)
		lease := p.served(t)
		log.want(t, "wait orders", "grant orders passed=false", "acquire orders wait=true took=300ms orders <nil>")
		next := waits(t.Context(), p.lock)
		settled(ms)
		log.want(t, "wait orders")
		mustRelease(t, lease)
		second := must(t, "the next", next)
		got := log.take()
		slices.Sort(got) // two goroutines
		if want := []string{
			"acquire orders wait=true took=1ms orders <nil>", "grant orders passed=true", "release orders passed=true took=0s <nil>",
		}; !slices.Equal(got, want) {
			t.Errorf("told %q, want %q", got, want)
		}
		mustRelease(t, second)
		log.want(t, "release orders passed=false took=0s <nil>")
	})
}

func TestTraceOfALoss(t *testing.T) {
	for _, how := range []string{"no answer", "taken", "longest hold"} {
		t.Run(how, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				p, log, c := traced(t)
				lock := p.lock
				if how == "longest hold" {
					lock = c.Mutex("orders", lockkeeper.WithMaxHold(time.Second))
				}
				lease := mustTry(t, lock)
				log.take()
				over := false
				log.on["lose"] = func() { over = lease.Err() != nil }
				switch how {
				case "no answer":
					p.wire.breaks(on(fails(errNetwork), "renew"))
				case "taken":
					p.server.Set(ordersKey, "x", 0)
				}
				<-lease.Done()
				settled(0)
				if !over {
					t.Error("it was told before the lease had ended")
				}
				got := log.take()
				if n := len(got); n == 0 || !slices.Contains(got, "lose orders lease lost") {
					t.Fatalf("told %q", got)
				}
				if n := len(got); how == "no answer" && (n < 3 || got[0] != "renew 1 took=0s "+errNetwork.Error()) {
					t.Errorf("told %q", got)
				}
				if how == "taken" && !slices.Contains(got, "renew 1 took=0s <nil>") {
					t.Errorf("told %q", got)
				}
				wantErr(t, lease.Release(t.Context()), lockkeeper.ErrLost)
				log.want(t, "release orders passed=false took=0s lease lost")
			})
		})
	}
}

// The keeper is late: a hook that takes its time keeps it from its work.
func TestTraceOfALateKeeper(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, log, c := traced(t)
		short := mustTry(t, c.Mutex("short", lockkeeper.WithMaxHold(time.Second)))
		long := mustTry(t, c.Mutex("long"))
		log.on["lose"] = func() { time.Sleep(3 * time.Second) }
		<-short.Done()
		settled(5 * time.Second)
		if len(log.late) == 0 || log.late[0] < 50*ms || log.late[0] > 3*time.Second {
			t.Errorf("late by %v", log.late)
		}
		if long.Err() != nil {
			t.Error(long.Err())
		}
	})
}

func TestTraceOfAFullLine(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, log := newParty(t), &traceLog{}
		c := newClient(t, p.wire, lockkeeper.Config{Trace: log.trace(), MaxQueue: 1})
		lease := mustTry(t, p.holder)
		first := waits(t.Context(), c.Mutex("orders"))
		settled(ms)
		log.take()
		_, err := c.Mutex("orders").Acquire(t.Context())
		wantErr(t, err, lockkeeper.ErrQueueFull)
		log.want(t, "acquire orders wait=true took=0s no lease the waiting line is full")
		mustRelease(t, lease)
		mustRelease(t, must(t, "the first", first))
	})
}

// Hooks that are not set are no trouble, each alone and all together.
func TestTraceUnset(t *testing.T) {
	all := (&traceLog{}).trace()
	traces := map[string]*lockkeeper.Trace{
		"nil": nil, "none": {}, "acquire": {Acquire: all.Acquire}, "wait": {Wait: all.Wait}, "grant": {Grant: all.Grant},
		"renew": {Renew: all.Renew}, "lose": {Lose: all.Lose}, "release": {Release: all.Release}, "late": {Late: all.Late},
	}
	for name, trace := range traces {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				p := newParty(t)
				p.lock = newClient(t, p.wire, lockkeeper.Config{Trace: trace}).Mutex("orders")
				lease := p.served(t)
				next := waits(t.Context(), p.lock)
				settled(5 * time.Second)
				mustRelease(t, lease)
				second := must(t, "the next", next)
				p.server.Set(ordersKey, "x", time.Second)
				<-second.Done()
				wantErr(t, second.Release(t.Context()), lockkeeper.ErrLost)
			})
		})
	}
}
