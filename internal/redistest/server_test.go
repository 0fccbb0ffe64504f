package redistest

import (
	"runtime"
	"strings"
	"testing"
)

func TestServerAnswers(t *testing.T) {
	t.Parallel()
	s := Start(t, Args("--maxmemory", "64mb"))
	if got := s.Do(t, "PING"); got != "PONG" {
		t.Errorf("PING = %v, want PONG", got)
	}
	if got := s.Do(t, "CONFIG", "GET", "maxmemory").([]any)[1]; got != "67108864" {
		t.Errorf("maxmemory = %v, want 64 MiB", got)
	}
	if got, want := s.URL(), "redis://"+s.Addr(); got != want {
		t.Errorf("URL = %q, want %q", got, want)
	}
}

func TestServersAreApart(t *testing.T) {
	t.Parallel()
	a, b := Start(t), Start(t)
	a.Do(t, "SET", "key", "a")
	if got := b.Do(t, "GET", "key"); got != nil {
		t.Errorf("the other server has %v", got)
	}
	if a.Port() == b.Port() {
		t.Errorf("both servers use port %d", a.Port())
	}
}

func TestServerWithPassword(t *testing.T) {
	t.Parallel()
	s := Start(t, Args("--requirepass", "secret"))
	s.Do(t, "SET", "key", "value")
	c := NewConn(s.Addr())
	defer c.Close()
	_, err := c.Do(t.Context(), "GET", "key")
	wantCode(t, err, "NOAUTH")
}

func TestServerWithTLS(t *testing.T) {
	t.Parallel()
	s := Start(t, TLS())
	if got := s.Do(t, "PING"); got != "PONG" {
		t.Errorf("PING = %v, want PONG", got)
	}
	if !strings.HasPrefix(s.URL(), "rediss://") {
		t.Errorf("URL = %q", s.URL())
	}
	plain := NewConn(s.Addr())
	defer plain.Close()
	if reply, err := plain.Do(t.Context(), "PING"); err == nil {
		t.Errorf("PING without TLS = %v", reply)
	}
}

func TestServerRestart(t *testing.T) {
	t.Parallel()
	for name, persistent := range map[string]bool{"in memory": false, "with AOF": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var opts []Option
			var want any
			if persistent {
				opts, want = append(opts, Args("--appendonly", "yes", "--appendfsync", "always")), "value"
			}
			s := Start(t, opts...)
			s.Do(t, "SET", "key", "value")
			port := s.Port()
			s.Kill()
			s.Kill() // does nothing
			c := NewConn(s.Addr())
			defer c.Close()
			if reply, err := c.Do(t.Context(), "PING"); err == nil {
				t.Errorf("PING of a killed server = %v", reply)
			}
			s.Restart()
			if s.Port() != port {
				t.Errorf("the port went from %d to %d", port, s.Port())
			}
			if got := s.Do(t, "GET", "key"); got != want {
				t.Errorf("after the restart GET = %v, want %v", got, want)
			}
		})
	}
}

func TestServerCountsCommands(t *testing.T) {
	t.Parallel()
	s := Start(t)
	s.Do(t, "SET", "a", "1")
	s.ResetStats(t)
	s.Do(t, "SET", "a", "1")
	s.Do(t, "SET", "b", "1")
	got := s.Commands(t)
	if got["set"] != 2 || got["config|resetstat"] != 1 || got["get"] != 0 {
		t.Errorf("Commands = %v, want 2 set, 1 config|resetstat", got)
	}
}

// A fakeTB is a test that ends in its own way, and remembers how.
type fakeTB struct {
	testing.TB
	skipped, failed bool
}

func (f *fakeTB) Helper()               {}
func (f *fakeTB) Skip(...any)           { f.skipped = true; runtime.Goexit() }
func (f *fakeTB) Fatalf(string, ...any) { f.failed = true; runtime.Goexit() }

func TestServerIsMissing(t *testing.T) {
	t.Setenv("LOCKKEEPER_REDIS_SERVER", "no-such-program")
	for _, ci := range []string{"", "true"} {
		t.Setenv("CI", ci)
		f := &fakeTB{TB: t}
		done := make(chan struct{})
		go func() {
			defer close(done)
			Start(f)
		}()
		<-done
		if want := ci == "true"; f.failed != want || f.skipped == want {
			t.Errorf("CI=%q: failed %t, skipped %t", ci, f.failed, f.skipped)
		}
	}
}
