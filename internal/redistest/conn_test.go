package redistest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper"
)

func connTo(t *testing.T, addr string) *Conn {
	t.Helper()
	c := NewConn(addr)
	t.Cleanup(c.Close)
	return c
}

func TestConnSuite(t *testing.T) {
	t.Parallel()
	Suite(t, func(t *testing.T, to Target) lockkeeper.Conn {
		c := connTo(t, to.Addr)
		c.User, c.Password, c.DB, c.TLS = to.User, to.Password, to.DB, to.TLS
		return c
	})
}

func TestConnServerErrors(t *testing.T) {
	t.Parallel()
	c := connTo(t, Start(t).Addr())
	_, err := c.EvalSha(t.Context(), "ffffffffffffffffffffffffffffffffffffffff", nil, nil)
	wantCode(t, err, "NOSCRIPT")
	_, err = c.Eval(t.Context(), `return redis.error_reply('MINE not today')`, nil, nil)
	wantCode(t, err, "MINE")
	_, err = c.Eval(t.Context(), `return {1, redis.error_reply('NESTED x'), 2}`, nil, nil)
	wantCode(t, err, "NESTED")
	if got, err := c.Do(t.Context(), "PING"); got != "PONG" || err != nil {
		t.Errorf("after errors PING = %v, %v", got, err)
	}
	if got := len(c.open); got != 1 {
		t.Errorf("%d connections, want the one that was fine all the time", got)
	}
	if got := c.Requests(); got != 4 {
		t.Errorf("Requests = %d, want 4", got)
	}
}

func TestConnUser(t *testing.T) {
	t.Parallel()
	s := Start(t, Args("--user", "worker", "on", ">pw", "~lock:*", "&*", "+@all"))
	c := connTo(t, s.Addr())
	c.User, c.Password = "worker", "pw"
	if _, err := c.Do(t.Context(), "SET", "lock:a", "1"); err != nil {
		t.Errorf("SET lock:a: %v", err)
	}
	_, err := c.Do(t.Context(), "SET", "other", "1")
	wantCode(t, err, "NOPERM")
	bad := connTo(t, s.Addr())
	bad.User, bad.Password = "worker", "wrong"
	_, err = bad.Do(t.Context(), "PING")
	wantCode(t, err, "WRONGPASS")
}

func TestConnContext(t *testing.T) {
	t.Parallel()
	s := Start(t)
	c := connTo(t, s.Addr())
	if _, err := c.Do(t.Context(), "PING"); err != nil {
		t.Fatal(err)
	}
	s.Pause()
	defer s.Resume()

	// The first call takes the idle connection, the second has to dial.
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		start := time.Now()
		_, err := c.Do(ctx, "PING")
		cancel()
		if d := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || d < 50*time.Millisecond || d > soon {
			t.Errorf("deadline: %v after %s", err, d)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	start := time.Now()
	_, err := c.Do(ctx, "PING")
	if d := time.Since(start); !errors.Is(err, context.Canceled) || d > soon {
		t.Errorf("cancel: %v after %s", err, d)
	}
	if _, err := c.Do(ctx, "PING"); !errors.Is(err, context.Canceled) {
		t.Errorf("a call with a context that is over: %v", err)
	}
	if len(c.open) != 0 {
		t.Errorf("%d connections kept, want those of failed calls closed", len(c.open))
	}
}

func TestConnConcurrentUseAndClose(t *testing.T) {
	t.Parallel()
	c := connTo(t, Start(t).Addr())
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for j := range 100 {
				want := fmt.Sprint(i, " ", j)
				if got, err := c.Do(t.Context(), "ECHO", want); got != want || err != nil {
					t.Errorf("ECHO %s = %v, %v", want, got, err)
				}
			}
		})
	}
	wg.Wait()
	c.Close()
	c.Close() // does nothing
	if _, err := c.Do(t.Context(), "PING"); !errors.Is(err, errClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestConnListen(t *testing.T) {
	t.Parallel()
	s := Start(t)
	c := connTo(t, s.Addr())
	c.ping = 20 * time.Millisecond // several times in this test
	l := listenTo(t, c, "news")
	<-l.ready
	for i := range 5 {
		time.Sleep(15 * time.Millisecond) // sometimes longer than ping
		want := fmt.Sprint("message ", i)
		if n := s.Do(t, "PUBLISH", "news", want); n != int64(1) {
			t.Fatalf("%v subscribers, want 1", n)
		}
		if got := <-l.messages; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	start := time.Now()
	l.cancel()
	if err := <-l.err; !errors.Is(err, context.Canceled) || time.Since(start) > soon {
		t.Errorf("Listen ended with %v after %s", err, time.Since(start))
	}
	Until(t, "the connection is closed", func() bool {
		return s.Do(t, "PUBLISH", "news", "x") == int64(0)
	})
}

func TestConnListenBroken(t *testing.T) {
	t.Parallel()
	s := Start(t)
	p := NewProxy(t, s.Addr())
	c := connTo(t, p.Addr())
	c.ping = 50 * time.Millisecond
	for name, fail := range map[string]func(){
		"killed": s.Kill, "cut": p.CutAll, "swallowed": p.Swallow, "replies swallowed": p.SwallowReplies,
	} {
		t.Run(name, func(t *testing.T) {
			s.Restart()
			p.Heal()
			l := listenTo(t, c, "news")
			<-l.ready
			fail()
			if err := <-l.err; err == nil || errors.Is(err, context.Canceled) {
				t.Errorf("Listen ended with %v", err)
			}
		})
	}
}
