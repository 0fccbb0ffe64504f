package redistest

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"
)

func start(t *testing.T) (*Server, *Proxy, *Conn) {
	t.Helper()
	s := Start(t)
	p := NewProxy(t, s.Addr())
	c := connTo(t, p.Addr())
	ping(t, c)
	return s, p, c
}

func ping(t *testing.T, c *Conn) {
	t.Helper()
	if got, err := c.Do(t.Context(), "PING"); got != "PONG" || err != nil {
		t.Fatalf("PING = %v, %v", got, err)
	}
}

// silent checks that a call waits until its context ends.
func silent(t *testing.T, c *Conn, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if reply, err := c.Do(ctx, args...); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v = %v, %v; want no answer", args, reply, err)
	}
}

func TestProxySwallow(t *testing.T) {
	t.Parallel()
	s, p, c := start(t)
	p.Swallow()
	silent(t, c, "SET", "key", "1") // on the connection that there was
	silent(t, c, "SET", "key", "1") // on a new one
	if got := s.Do(t, "GET", "key"); got != nil {
		t.Errorf("the server got the request: key = %v", got)
	}
	p.Heal()
	ping(t, c)
}

func TestProxySwallowReplies(t *testing.T) {
	t.Parallel()
	s, p, c := start(t)
	p.SwallowReplies()
	silent(t, c, "INCR", "key")
	silent(t, c, "INCR", "key")
	if got := s.Do(t, "GET", "key"); got != "2" {
		t.Errorf("key = %v, want 2: both requests arrive", got)
	}
	p.Heal()
	ping(t, c)
}

// Heal closes what has lost bytes, and only that.
func TestProxyHeal(t *testing.T) {
	t.Parallel()
	_, p, untouched := start(t)
	lossy := connTo(t, p.Addr())
	ping(t, lossy)
	p.Swallow()
	err := make(chan error)
	go func() {
		_, e := lossy.Do(t.Context(), "PING")
		err <- e
	}()
	Until(t, "the request is lost", func() bool { return p.count((*link).isLossy) == 1 })
	p.Heal()
	if e := <-err; e == nil || errors.Is(e, context.Canceled) {
		t.Errorf("the request that was lost: %v", e)
	}
	before := maps.Clone(untouched.open)
	ping(t, untouched)
	if !maps.Equal(untouched.open, before) {
		t.Error("the connection that has lost nothing was not kept")
	}
}

// The end of a connection doesn't pass through the hole either.
func TestProxySwallowsTheEnd(t *testing.T) {
	t.Parallel()
	s, p, c := start(t)
	p.Swallow()
	s.Kill()
	silent(t, c, "PING")
	s.Restart()
	p.Heal()
	ping(t, c)
}

func TestProxyCutAll(t *testing.T) {
	t.Parallel()
	s, p, c := start(t)
	s.Pause()
	err := make(chan error)
	go func() {
		_, e := c.Do(t.Context(), "PING")
		err <- e
	}()
	p.CutAll()
	if e := <-err; e == nil {
		t.Error("PING was answered")
	}
	s.Resume()
	ping(t, c)
}

func TestProxyRefuseNew(t *testing.T) {
	t.Parallel()
	_, p, c := start(t)
	p.RefuseNew(true)
	ping(t, c) // has its connection
	other := connTo(t, p.Addr())
	if reply, err := other.Do(t.Context(), "PING"); err == nil {
		t.Errorf("a new connection: PING = %v", reply)
	}
	p.RefuseNew(false)
	ping(t, other)
}

func TestProxyDelay(t *testing.T) {
	t.Parallel()
	_, p, c := start(t)
	const d = 30 * time.Millisecond
	p.Delay(d)
	begin := time.Now()
	ping(t, c)
	if took := time.Since(begin); took < 2*d || took > 2*d+soon {
		t.Errorf("PING took %s, want %s each way", took, d)
	}
	// Chunks are late by d each, not one after the other.
	w, err := c.get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.put(w, false)
	begin = time.Now()
	for range 20 {
		if err := w.send("PING"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond) // a chunk of its own
	}
	for range 20 {
		if _, err := w.read(); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(begin); took < 2*d || took > 20*d {
		t.Errorf("20 requests took %s, want about %s", took, 2*d)
	}
}

func TestProxyWithoutServer(t *testing.T) {
	t.Parallel()
	s, p, c := start(t)
	s.Kill()
	if reply, err := c.Do(t.Context(), "PING"); err == nil {
		t.Errorf("PING = %v", reply)
	}
	if reply, err := c.Do(t.Context(), "PING"); err == nil {
		t.Errorf("PING on a new connection = %v", reply)
	}
	Until(t, "no connection is left", func() bool { return p.count(func(*link) bool { return true }) == 0 })
}
