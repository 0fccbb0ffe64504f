package lockkeepertest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper"
)

// A Fixture is one server and one connection to it, for one test.
type Fixture struct {
	Conn lockkeeper.Conn

	// Cut breaks every connection there is; new ones work.
	Cut func()

	// Swallow makes a silent hole: from now on nothing arrives in either direction,
	// and no connection is closed.
	Swallow func()

	// Set, Get and Del do what a plain client does. A TTL of 0 is none.
	Set func(key, value string, ttl time.Duration)
	Get func(key string) (value string, ok bool)
	Del func(key string)
}

// Fixture returns a fixture on this server.
func (m *Memory) Fixture() Fixture {
	return Fixture{
		Conn: m,
		Cut:  m.BreakSubscriptions,
		Swallow: func() {
			m.SetHook(func(ctx context.Context, _ Call, _ func() (any, error)) (any, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			})
		},
		Set: m.Set,
		Get: m.Get,
		Del: m.Del,
	}
}

// Conformance runs the suite that every Conn has to pass: first the connection by
// itself, as its documentation promises, then locks on it. open makes a fresh
// server for each test. It takes some seconds.
func Conformance(t *testing.T, open func(t *testing.T) Fixture) {
	for _, c := range append(connCases(), lockCases()...) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(t, open(t))
		})
	}
}

type conformanceCase struct {
	name string
	run  func(t *testing.T, f Fixture)
}

func connCases() []conformanceCase {
	return []conformanceCase{
		{"unknown script", unknownScript},
		{"reply types", replyTypes},
		{"error reply", errorReply},
		{"arguments are bytes", argumentsAreBytes},
		{"concurrent calls", concurrentCalls},
		{"deadline ends a call", deadlineEndsCall},
		{"ended context", endedContext},
		{"listen delivers in order", listenDelivers},
		{"listen returns on cancel", listenReturnsOnCancel},
		{"listen returns when the wire breaks", listenReturnsWhenCut},
	}
}

func eval(t *testing.T, f Fixture, name string, keys, args []string) (any, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	return f.Conn.Eval(ctx, probe(name), keys, args)
}

func wantReply(t *testing.T, got any, err error, want any) {
	t.Helper()
	if err != nil || fmt.Sprintf("%#v", got) != fmt.Sprintf("%#v", want) {
		t.Errorf("got %#v, %v; want %#v", got, err, want)
	}
}

func wantCode(t *testing.T, err error, code string) {
	t.Helper()
	var reply *lockkeeper.ReplyError
	if !errors.As(err, &reply) || reply.Code != code {
		t.Errorf("got error %v; want a *ReplyError with code %s", err, code)
	}
}

func unknownScript(t *testing.T, f Fixture) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	_, err := f.Conn.EvalSha(ctx, strings.Repeat("0", 40), []string{"k"}, []string{"v"})
	wantCode(t, err, "NOSCRIPT")
}

func replyTypes(t *testing.T, f Fixture) {
	reply, err := eval(t, f, "types", nil, nil)
	wantReply(t, reply, err, []any{int64(1), "a", nil, []any{"b", int64(1<<53 - 1)}})
	reply, err = eval(t, f, "nothing", nil, nil)
	wantReply(t, reply, err, nil)
	reply, err = eval(t, f, "status", nil, nil)
	wantReply(t, reply, err, "FINE")
}

func errorReply(t *testing.T, f Fixture) {
	_, err := eval(t, f, "error", nil, nil)
	wantCode(t, err, "OOPS")
	if err != nil && !strings.Contains(err.Error(), "it went wrong") {
		t.Errorf("the server's words are lost: %v", err)
	}
}

func argumentsAreBytes(t *testing.T, f Fixture) {
	key, a, b := "k\x00\r\n {}", "\xff\xfe\x00 '\"", ""
	reply, err := eval(t, f, "echo", []string{key}, []string{a, b})
	wantReply(t, reply, err, []any{key, a, b})
}

func concurrentCalls(t *testing.T, f Fixture) {
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			for j := range 10 {
				key := fmt.Sprint("k", i, "-", j)
				reply, err := eval(t, f, "echo", []string{key}, []string{"a", "b"})
				wantReply(t, reply, err, []any{key, "a", "b"})
			}
		})
	}
	wg.Wait()
}

func deadlineEndsCall(t *testing.T, f Fixture) {
	if _, err := eval(t, f, "status", nil, nil); err != nil { // connect first
		t.Fatal(err)
	}
	f.Swallow()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err := f.Conn.Eval(ctx, probe("status"), nil, nil)
	if took := time.Since(start); took > time.Second {
		t.Errorf("the call took %s with a deadline of 100 ms", took)
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got error %v; want one that matches context.DeadlineExceeded", err)
	}
}

func endedContext(t *testing.T, f Fixture) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.Conn.Eval(ctx, probe("status"), nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("Eval: got error %v; want context.Canceled", err)
	}
	if err := f.Conn.Listen(ctx, "c", func() {}, func(string) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("Listen: got error %v; want context.Canceled", err)
	}
}

// listening runs Listen in the background and waits until it is ready.
func listening(t *testing.T, f Fixture) (messages chan string, result chan error, cancel context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	messages, result = make(chan string, 100), make(chan error, 1)
	ready := make(chan struct{}, 10)
	go func() {
		result <- f.Conn.Listen(ctx, "channel", func() { ready <- struct{}{} }, func(m string) { messages <- m })
	}()
	select {
	case <-ready:
	case err := <-result:
		cancel()
		t.Fatalf("Listen ended before it was ready: %v", err)
	case <-time.After(5 * time.Second):
		cancel()
		t.Fatal("Listen is not ready after 5 s")
	}
	return messages, result, cancel
}

func listenDelivers(t *testing.T, f Fixture) {
	messages, _, cancel := listening(t, f)
	defer cancel()
	for i := range 50 {
		if _, err := eval(t, f, "publish", []string{"channel"}, []string{fmt.Sprint("m", i)}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 50 {
		select {
		case got := <-messages:
			if got != fmt.Sprint("m", i) {
				t.Fatalf("message %d is %q", i, got)
			}
		case <-time.After(5 * time.Second):
			t.Fatalf("message %d did not come", i)
		}
	}
}

func listenReturnsOnCancel(t *testing.T, f Fixture) {
	_, result, cancel := listening(t, f)
	start := time.Now()
	cancel()
	select {
	case err := <-result:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got error %v; want context.Canceled", err)
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("Listen returned %s after its context ended", took)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("Listen did not return")
	}
}

func listenReturnsWhenCut(t *testing.T, f Fixture) {
	_, result, cancel := listening(t, f)
	defer cancel()
	f.Cut()
	select {
	case err := <-result:
		if err == nil {
			t.Error("Listen returned nil after its connection broke")
		}
	case <-time.After(10 * time.Second):
		t.Fatal("Listen did not notice that its connection broke")
	}
}
