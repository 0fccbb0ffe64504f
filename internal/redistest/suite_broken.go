package redistest

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

// overrun makes a call that nobody answers, with a deadline after d, and returns by
// how much it came later than that.
func overrun(t *testing.T, conn lockkeeper.Conn, d time.Duration) time.Duration {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	deadline, _ := ctx.Deadline()
	got, err := conn.Eval(ctx, `return 1`, nil, nil)
	over := time.Since(deadline)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, %v; want an error that is context.DeadlineExceeded", got, err)
	}
	if over < 0 || over > soon {
		t.Errorf("a call with a deadline of %s took %s", d, d+over)
	}
	return over
}

func (s *suite) deadline(t *testing.T) {
	server := Start(t)
	conn := s.open(t, Target{Addr: server.Addr()})
	mustEval(t, conn, `return 1`)
	server.Pause()
	defer server.Resume()
	// The best of some, since the machine has other things to do.
	var overruns []time.Duration
	for range 5 {
		overruns = append(overruns, overrun(t, conn, 100*time.Millisecond))
	}
	if best := slices.Min(overruns); best > 100*time.Millisecond {
		t.Errorf("calls came back %s after their deadline at best", best)
	}
}

// A call with a short deadline must not wait for one with a long deadline that is
// connecting, or has all connections.
func (s *suite) deadlineWhileConnecting(t *testing.T) {
	_, proxy, conn := s.proxied(t)
	inHole := func() bool { return proxy.count((*link).isLossy) > 0 }
	proxy.Swallow()
	proxy.CutAll()
	ctx, cancel := context.WithTimeout(t.Context(), 2*soon)
	defer cancel()
	short, cancelShort := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancelShort()
	_, _ = conn.Eval(short, `return 1`, nil, nil) // finds the old connection broken

	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { _, _ = conn.Eval(ctx, `return 1`, nil, nil) })
	Until(t, "the long call connects", inHole)
	for range 5 {
		overrun(t, conn, 50*time.Millisecond)
	}
	proxy.Heal()
}

// A reply that comes after its caller has left must not become another call's.
func (s *suite) lateReply(t *testing.T) {
	server := Start(t)
	conn := s.open(t, Target{Addr: server.Addr()})
	mustEval(t, conn, `return 1`)
	server.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := conn.Eval(ctx, `return 'late'`, nil, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("on a paused server: %v", err)
	}
	server.Resume()
	for i := range 10 {
		want := fmt.Sprint("reply ", i)
		if got := evalAgain(t, conn, fmt.Sprintf(`return '%s'`, want)); got != want {
			t.Errorf("got %v, want %v", got, want)
		}
	}
}

// evalAgain runs a script until a connection is found that works.
func evalAgain(t *testing.T, conn lockkeeper.Conn, src string) (reply any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	Until(t, src, func() (ok bool) {
		var err error
		reply, err = conn.Eval(ctx, src, nil, nil)
		return err == nil
	})
	return reply
}

// An error that is not due to the caller's context must not look as if it were:
// the caller would take it for its own timeout.
func (s *suite) plainErrors(t *testing.T) {
	server, proxy, conn := s.proxied(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	check := func(what string) {
		t.Helper()
		_, err := conn.Eval(ctx, `return 1`, nil, nil)
		if err == nil || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
			t.Errorf("%s: error %v", what, err)
		}
		if _, isReply := replyCode(err); isReply {
			t.Errorf("%s: error %v is said to be the server's", what, err)
		}
	}
	server.Kill()
	check("killed")
	check("killed, new connection")
	server.Restart()
	evalAgain(t, conn, `return 1`)

	// Others give up, and maybe the connection with them.
	proxy.Swallow()
	long := make(chan error)
	go func() {
		_, err := conn.Eval(ctx, `return 1`, nil, nil)
		long <- err
	}()
	overrun(t, conn, 50*time.Millisecond)
	overrun(t, conn, 50*time.Millisecond)
	proxy.Heal()
	if err := <-long; errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		t.Errorf("a call whose context is not over: %v", err)
	}
}

// A request whose reply is lost has been run once, and stays that way, even when
// the network is fine again before the caller is told.
func (s *suite) noRetry(t *testing.T) {
	server, proxy, conn := s.proxied(t)
	proxy.SwallowReplies()
	result := make(chan error)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	go func() {
		_, err := conn.Eval(ctx, `return redis.call('INCR', KEYS[1])`, []string{"count"}, nil)
		result <- err
	}()
	Until(t, "the request has run", func() bool { return server.Do(t, "GET", "count") == "1" })
	Until(t, "the reply is lost", func() bool { return proxy.count((*link).isLossy) > 0 })
	proxy.Heal()
	if err := <-result; err == nil {
		t.Error("the call was answered")
	}
	evalAgain(t, conn, `return 1`)
	if got := server.Do(t, "GET", "count"); got != "1" {
		t.Errorf("the request has run %v times", got)
	}
}

// A listening runs Listen, and has what it says on its channels.
type listening struct {
	ready    chan struct{}
	messages chan string
	err      chan error
	cancel   context.CancelFunc
}

func listenTo(t *testing.T, conn lockkeeper.Conn, channel string) *listening {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	l := &listening{make(chan struct{}, 1), make(chan string, 100), make(chan error, 1), cancel}
	go func() {
		l.err <- conn.Listen(ctx, channel, func() { l.ready <- struct{}{} }, func(m string) { l.messages <- m })
	}()
	t.Cleanup(cancel)
	return l
}

// mustEnd waits for the end of Listen and returns its error.
func (l *listening) mustEnd(t *testing.T) error {
	t.Helper()
	select {
	case err := <-l.err:
		return err
	case <-time.After(patience):
		t.Fatal("Listen does not end")
		return nil
	}
}

func (l *listening) cancelled(t *testing.T) {
	t.Helper()
	start := time.Now()
	l.cancel()
	if err := l.mustEnd(t); !errors.Is(err, context.Canceled) || time.Since(start) > soon {
		t.Errorf("Listen ended with %v %s after its context", err, time.Since(start))
	}
}

func (l *listening) mustBeReady(t *testing.T) {
	t.Helper()
	select {
	case <-l.ready:
	case err := <-l.err:
		t.Fatalf("Listen ended before it was ready: %v", err)
	case <-time.After(patience):
		t.Fatal("Listen does not get ready")
	}
}

func (s *suite) listen(t *testing.T) {
	server := Start(t)
	conn := s.open(t, Target{Addr: server.Addr()})
	for range 3 {
		l := listenTo(t, conn, "news")
		l.mustBeReady(t)
		for i := range 50 {
			if n := server.Do(t, "PUBLISH", "news", fmt.Sprint("message ", i)); n != int64(1) {
				t.Fatalf("%v subscribers, want 1", n)
			}
			server.Do(t, "PUBLISH", "other", "not for us")
		}
		for i := range 50 {
			if got, want := <-l.messages, fmt.Sprint("message ", i); got != want {
				t.Fatalf("got %q, want %q", got, want)
			}
		}
		mustEval(t, conn, `return 1`)
		l.cancelled(t)
		Until(t, "the subscription is gone", func() bool {
			return server.Do(t, "PUBLISH", "news", "nobody") == int64(0)
		})
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := conn.Listen(over, "news", nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("Listen with a context that is over: %v", err)
	}
}

func (s *suite) listenBroken(t *testing.T) {
	server, proxy, conn := s.proxied(t)
	for _, fail := range []func(){proxy.CutAll, server.Kill, func() {
		server.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
	}} {
		l := listenTo(t, conn, "news")
		l.mustBeReady(t)
		fail()
		if err := l.mustEnd(t); err == nil || errors.Is(err, context.Canceled) {
			t.Errorf("Listen on a broken connection ended with %v", err)
		}
		server.Restart()
	}
	server.Kill()
	if err := listenTo(t, conn, "news").mustEnd(t); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("Listen on a server that is down ended with %v", err)
	}
}

// The end of the context is noticed whatever Listen is about to do.
func (s *suite) listenInHole(t *testing.T) {
	_, proxy, conn := s.proxied(t)
	l := listenTo(t, conn, "news")
	l.mustBeReady(t)
	proxy.Swallow()
	connecting := listenTo(t, conn, "news")
	Until(t, "both connections are in the hole", func() bool { return proxy.count((*link).isLossy) >= 1 })
	l.cancelled(t)
	connecting.cancelled(t)
	if len(connecting.ready) != 0 {
		t.Error("ready was called in a silent hole")
	}
}

func (s *suite) scan(t *testing.T) {
	server := Start(t)
	conn := s.open(t, Target{Addr: server.Addr()})
	scanner, ok := conn.(lockkeeper.Scanner)
	if !ok {
		t.Fatal("not a Scanner")
	}
	mustEval(t, conn, `for i = 1, 2000 do redis.call('SET', 'scan:' .. i, 1) end redis.call('SET', 'other', 1)`)
	found := make(map[string]bool)
	for key, err := range scanner.Scan(t.Context(), "scan:*") {
		if err != nil || !strings.HasPrefix(key, "scan:") {
			t.Fatal(key, err)
		}
		found[key] = true
	}
	if len(found) != 2000 {
		t.Errorf("found %d keys, want 2000", len(found))
	}
	for range scanner.Scan(t.Context(), "*") {
		break // yields nothing more
	}
	server.Kill()
	errs := 0
	for _, err := range scanner.Scan(t.Context(), "*") {
		if err == nil {
			t.Error("Scan of a killed server found a key")
		}
		errs++
	}
	if errs != 1 {
		t.Errorf("Scan of a killed server yielded %d errors, want 1", errs)
	}
}
