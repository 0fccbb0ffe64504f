package lockkeeper_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/internal/redistest"
)

// leastRights is what the user of a client with the default prefix needs, as
// docs/PROTOCOL.md has it. Client libraries need some more to connect (HELLO, CLIENT
// SETINFO, PING and the like), which does not concern the locks.
var leastRights = []string{
	"resetkeys", "~lockkeeper:*", "~{lockkeeper:*", // the locks, and what derives from them
	"resetchannels", "&lockkeeper:wake:*",
	"-@all", "+eval", "+evalsha", "+time", "+get", "+set", "+del", "+exists", "+pttl", "+pexpire",
	"+zadd", "+zrem", "+zrange", "+zcard", "+zrank", "+hset", "+hget", "+hdel", "+publish", "+subscribe",
	"+pubsub|numsub", "+info", // to know whether a waiter is dead
	"+scan", // for List only
}

// connectRights is what redistest.Conn needs besides: it pings a silent subscription.
const connectRights = "+ping"

func TestLeastRightsAreEnough(t *testing.T) {
	t.Parallel()
	denied, err := useWith(t, append([]string{connectRights}, leastRights...))
	if err != nil || len(denied) > 0 {
		t.Errorf("%v; denied: %v", err, denied)
	}
}

func TestEachRightIsNeeded(t *testing.T) {
	t.Parallel()
	for i, right := range leastRights {
		if right[0] != '+' && right[0] != '~' && right[0] != '&' {
			continue
		}
		t.Run(right, func(t *testing.T) {
			t.Parallel()
			rest := slices.Delete(slices.Clone(leastRights), i, i+1)
			denied, _ := useWith(t, append([]string{connectRights}, rest...))
			if right[0] == '+' {
				if !slices.Contains(denied, "command "+right[1:]) {
					t.Errorf("nobody missed it; denied: %v", denied)
				}
			} else if len(denied) == 0 {
				t.Error("nobody missed it")
			}
		})
	}
}

// useWith does everything that a client can do as a user with these rights, and
// returns what the server has denied.
func useWith(t *testing.T, rights []string) (denied []string, err error) {
	t.Helper()
	s := startReal(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	conns := []*redistest.Conn{s.user(t, rights...), redistest.NewConn(s.Addr())}
	conns[1].User, conns[1].Password = "locks", "pw"
	t.Cleanup(conns[1].Close)
	s.Do(t, "ACL", "LOG", "RESET")
	var log logBuffer
	cfg := lockkeeper.Config{TTL: time.Second, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	a, b := newClient(t, conns[0], cfg), newClient(t, conns[1], cfg)
	for _, use := range []func(context.Context, *lockkeeper.Client, *lockkeeper.Client) error{
		useLock, useLine, useTools, useAbandonedWait, s.useDeadWaiter,
	} {
		err = errors.Join(err, use(ctx, a, b))
	}
	closes(t, a)
	closes(t, b)
	if text := log.String(); text != "" {
		err = errors.Join(err, errors.New(text))
	}
	for _, entry := range s.Do(t, "ACL", "LOG").([]any) {
		fields := entry.([]any)
		var reason, object string
		for i := 0; i+1 < len(fields); i += 2 {
			switch fields[i] {
			case "reason":
				reason = fields[i+1].(string)
			case "object":
				object = fields[i+1].(string)
			}
		}
		denied = append(denied, reason+" "+object)
	}
	return denied, err
}

func useLock(ctx context.Context, a, b *lockkeeper.Client) error {
	lock := a.Mutex("orders")
	lease, err := lock.Try(ctx)
	if err != nil {
		return err
	}
	_, err = b.Mutex("orders").Try(ctx)
	if !errors.Is(err, lockkeeper.ErrHeld) {
		return fmt.Errorf("try of a held lock: %w", err)
	}
	return errors.Join(lease.Extend(ctx, 2*time.Second), lease.RaiseFence(ctx, lease.Fence()), lease.Release(ctx))
}

// useLine has b wait for a's release.
func useLine(ctx context.Context, a, b *lockkeeper.Client) error {
	lease, err := a.Mutex("{user:7}:cart").Try(ctx)
	if err != nil {
		return err
	}
	result := goes(func() error {
		lease, err := b.Mutex("{user:7}:cart").Acquire(ctx)
		if err == nil {
			err = lease.Release(ctx)
		}
		return err
	})
	time.Sleep(300 * ms) // in the line by then, or at its next try; either will do
	return errors.Join(lease.Release(ctx), <-result)
}

func useTools(ctx context.Context, a, b *lockkeeper.Client) error {
	lease, err := a.Mutex("orders").Try(ctx)
	if err != nil {
		return err
	}
	for state, err := range b.List(ctx, "*") {
		if err != nil || state.Name != "orders" {
			return fmt.Errorf("list: %+v, %w", state, err)
		}
	}
	if _, err := b.Inspect(ctx, "orders"); err != nil {
		return err
	}
	return b.Break(ctx, "orders", lease.Fence())
}

// useAbandonedWait has b stop waiting.
func useAbandonedWait(ctx context.Context, a, b *lockkeeper.Client) error {
	lease, err := a.Mutex("cart").Try(ctx)
	if err != nil {
		return err
	}
	short, cancel := context.WithTimeout(ctx, 300*ms)
	defer cancel()
	if _, err := b.Mutex("cart").Acquire(short); !errors.Is(err, lockkeeper.ErrHeld) {
		return fmt.Errorf("abandoned wait: %w", err)
	}
	return lease.Release(ctx)
}

// useDeadWaiter has a pass a waiter over that is not there any more.
func (r *real) useDeadWaiter(ctx context.Context, a, _ *lockkeeper.Client) error {
	lease, err := a.Mutex("orders").Try(ctx)
	if err != nil {
		return err
	}
	args := []string{"lk1:dead.x:", "10000", "", "0", "10000:4000:0:1:lockkeeper:wake:"}
	if _, err := r.conn.Eval(ctx, sources()["acquire"], ordersKeys, args); err != nil {
		return err
	}
	return lease.Release(ctx)
}

// A denied right is said in the log or by an error, never by a wrong answer: a lock
// that is free is not called held, and one that is held is not called lost.
func TestMissingRightIsNoWrongAnswer(t *testing.T) {
	t.Parallel()
	for _, right := range leastRights {
		if right[0] != '+' {
			continue
		}
		t.Run(right, func(t *testing.T) {
			t.Parallel()
			s := startReal(t)
			all := newClient(t, s.conn, lockkeeper.Config{TTL: time.Minute})
			conn := s.user(t, "+@all")
			c := newClient(t, conn, lockkeeper.Config{TTL: time.Minute})
			lease := mustTry(t, c.Mutex("held"))
			mustTry(t, all.Mutex("theirs"))
			s.Do(t, "ACL", "SETUSER", "locks", "-"+right[1:])

			if _, err := c.Mutex("free").Try(t.Context()); err != nil {
				wantErr(t, err, lockkeeper.ErrUnavailable)
				wantNotErr(t, err, lockkeeper.ErrHeld)
			}
			if _, err := c.Mutex("theirs").Try(t.Context()); !errors.Is(err, lockkeeper.ErrHeld) {
				wantErr(t, err, lockkeeper.ErrUnavailable)
			}
			if err := lease.Extend(t.Context(), 2*time.Minute); err != nil {
				wantErr(t, err, lockkeeper.ErrUnavailable)
				wantNotErr(t, err, lockkeeper.ErrLost)
			}
			if state, err := c.Inspect(t.Context(), "held"); err != nil {
				wantErr(t, err, lockkeeper.ErrUnavailable)
			} else if !state.Held || state.Holder.Owner != lease.Owner() {
				t.Errorf("inspect says %+v", state)
			}
			if err := lease.Release(t.Context()); err != nil {
				wantErr(t, err, lockkeeper.ErrUnavailable)
				wantNotErr(t, err, lockkeeper.ErrLost)
				if !strings.Contains(err.Error(), "the ACL user lacks a right") {
					t.Errorf("release: %q does not say what to do", err)
				}
			}
		})
	}
}

// Whatever right is missing, no key stays for ever.
func TestMissingRightLeavesNoKeyForEver(t *testing.T) {
	t.Parallel()
	for _, right := range leastRights {
		if right[0] != '+' || right == "+pexpire" { // without that one there is nothing to be done
			continue
		}
		t.Run(right, func(t *testing.T) {
			t.Parallel()
			s := startReal(t)
			mustTry(t, newClient(t, s.conn, lockkeeper.Config{TTL: time.Minute}).Mutex("orders"))
			// It waits, and dies: the connection takes no more requests.
			rights := slices.DeleteFunc(slices.Clone(leastRights), func(r string) bool { return r == right })
			conn := s.user(t, append([]string{connectRights}, rights...)...)
			args := []string{"lk1:w.1:", "10000", "", "0", "10000:4000:100:1:lockkeeper:wake:"}
			_, _ = conn.Eval(t.Context(), sources()["acquire"], ordersKeys, args)
			for _, key := range s.Do(t, "KEYS", "*").([]any) {
				if ttl := s.Do(t, "TTL", key.(string)).(int64); ttl < 0 {
					t.Errorf("key %s has TTL %d", key, ttl)
				}
			}
		})
	}
}

// Without the right to look at the line a release can't hand the lock on, and says so.
func TestMissingRightIsSaid(t *testing.T) {
	t.Parallel()
	for _, right := range []string{"zrange", "hget"} {
		s := startReal(t)
		conn := s.user(t, "+@all", "-"+right)
		lease := mustTry(t, newClient(t, conn, lockkeeper.Config{TTL: time.Minute}).Mutex("orders"))
		result := waits(t.Context(), newClient(t, s.conn, lockkeeper.Config{}).Mutex("orders"))
		redistest.Until(t, "somebody waits", func() bool { return s.exists(t, lineKey) })
		err := lease.Release(t.Context())
		wantErr(t, err, lockkeeper.ErrUnavailable)
		if err == nil || !strings.Contains(err.Error(), "lacks a right") {
			t.Errorf("without %s: %v", right, err)
		}
		s.Do(t, "DEL", ordersKey)
		mustRelease(t, soon(t, "the waiter", result).lease)
	}
}

// Whatever right is missing for a while, a lock that is free beside a line is not taken
// with a fence that was given before, and the counter does not go back.
func TestMissingRightTakesNoFenceBack(t *testing.T) {
	t.Parallel()
	const place = "100:4000:0:0:"
	acquire := []string{"lk1:w.1:", "10000", "", "0", place}
	for _, right := range leastRights {
		if right[0] != '+' {
			continue
		}
		t.Run(right, func(t *testing.T) {
			t.Parallel()
			s := startReal(t)
			conn := s.user(t, "+@all")
			eval := func(script string, args []string) {
				_, _ = conn.Eval(t.Context(), sources()[script], ordersKeys, args) // refused or not
			}
			for _, then := range [][]string{{"acquire"}, {"release"}, {"acquire", "release"}} {
				ahead := time.Now().Add(time.Hour).UnixMicro()
				s.Do(t, "SET", ordersKeys[1], strconv.FormatInt(ahead, 10), "PX", "600000")
				s.Do(t, "SET", ordersKey, "somebody", "PX", "10000")
				eval("acquire", []string{"lk1:dead.x:", "10000", "", "0", place})
				s.Do(t, "DEL", ordersKey)
				s.Do(t, "ACL", "SETUSER", "locks", "-"+right[1:])
				eval("acquire", acquire)
				s.Do(t, "ACL", "SETUSER", "locks", "+@all")
				for _, script := range then {
					eval(script, map[string][]string{"acquire": acquire, "release": {"lk1:w.1:", ""}}[script])
				}
				s.Do(t, "DEL", ordersKey, lineKey)
				lease := mustTry(t, newClient(t, s.conn, lockkeeper.Config{}).Mutex("orders"))
				if int64(lease.Fence()) <= ahead {
					t.Errorf("%s after it: fence %s, and %d was given before", then, lease.Fence(), ahead)
				}
				mustRelease(t, lease)
			}
		})
	}
}
