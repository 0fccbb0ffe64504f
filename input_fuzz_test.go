package lockkeeper_test

import (
	"context"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper"
)

// Keys of a Redis Cluster are in the slot of what is between the first brace and the first
// closing one after it, if that is not empty, else in that of all of it.
func hashed(key string) string {
	if open := strings.IndexByte(key, '{'); open >= 0 {
		if length := strings.IndexByte(key[open+1:], '}'); length > 0 {
			return key[open+1 : open+1+length]
		}
	}
	return key
}

// keysFor returns the keys that a name's lock is asked for with, or nil if the name is
// refused.
func keysFor(t *testing.T, prefix, name string) []string {
	t.Helper()
	wire := newServer().wire()
	var keys []string
	wire.breaks(func(_ context.Context, c call, run func() (any, error)) (any, error) {
		keys = c.Keys
		return run()
	})
	c := newClient(t, wire, lockkeeper.Config{Prefix: prefix})
	lease, err := c.Mutex(name).Try(t.Context())
	if err != nil {
		wantErr(t, err, lockkeeper.ErrInvalid)
		return nil
	}
	mustRelease(t, lease)
	return keys
}

// FuzzNames: a name is refused, or its keys are in one slot, it is found again by Inspect
// and by List under the same name, and no other name has any of its keys.
func FuzzNames(f *testing.F) {
	for _, names := range [][2]string{
		{"orders", "order"}, {"{user:7}:cart", "user:7"}, {"a}b{c}", "c"}, {"x", "{x}"}, {"{}", "{}x"}, {"x:lk-fence", "x"},
		{"{x}:lk-line", "x"}, {"a*?[b]\\", "a*"}, {"\x00\xff", "\xff"}, {"a/b", "a\x00b"}, {"{a}{b}", "{b}{a}"}, {strings.Repeat("n", 502), "n"},
	} {
		for i := range prefixes {
			f.Add(i, names[0], names[1])
		}
	}
	f.Fuzz(func(t *testing.T, prefix int, a, b string) {
		synctest.Test(t, func(t *testing.T) {
			prefix := prefixes[(prefix%len(prefixes)+len(prefixes))%len(prefixes)]
			keys := keysFor(t, prefix, a)
			if keys == nil {
				return
			}
			for _, key := range keys {
				if hashed(key) != hashed(keys[0]) {
					t.Errorf("%q of %q is hashed by %q, the lock by %q", key, a, hashed(key), hashed(keys[0]))
				}
			}
			for _, key := range keysFor(t, prefix, b) {
				if a != b && slices.Contains(keys, key) {
					t.Errorf("%q and %q both have the key %q", a, b, key)
				}
			}
			isFound(t, prefix, a)
		})
	})
}

var prefixes = []string{"", lockkeeper.NoPrefix, "{app}:", "a{b}", "x*[y", "lockkeeper:wake:"}

// isFound checks that a name that is held is found under it.
func isFound(t *testing.T, prefix, name string) {
	t.Helper()
	s := newServer()
	s.Set("something else", "x", 0)
	c := newClient(t, s.wire(), lockkeeper.Config{Prefix: prefix})
	lease := mustTry(t, c.Mutex(name))
	state, err := c.Inspect(t.Context(), name)
	if err != nil || state.Name != name || !state.Held || state.Holder.Owner != lease.Owner() || state.Holder.Fence != lease.Fence() {
		t.Errorf("%q is inspected as %+v, %v", name, state, err)
	}
	var listed []string
	for state, err := range c.List(t.Context(), "*") {
		if err != nil {
			t.Fatal(err)
		}
		if state.Name != "something else" { // without a prefix it is a lock, of somebody else
			listed = append(listed, state.Name)
		}
	}
	if !slices.Equal(listed, []string{name}) {
		t.Errorf("%q is listed as %q", name, listed)
	}
}

// broken are values that Break(5) may delete: those that the scripts can have written.
var broken = regexp.MustCompile(`(?s)^lk1:[^:]+:5:[1-9][0-9]*:`)

// FuzzValues: whatever stands under a lock's key, it is held by somebody, waited for, told,
// and still there, but for what an operator breaks by its fence.
func FuzzValues(f *testing.F) {
	for _, value := range []string{
		"", "somebody", "lk1:x.1:5:6:label", "lk1:x.1:6:5:label", "lk1:x.1:5:6:", "lk1:x.1:5:6", "lk1::5:6:y", "lk1:x:05:6:y",
		"lk1:x:5:0:y", "lk1:x:99999999999999999999:6:y", "lk1:x\n:5:6:y", "lk1:a:b:5:6:y", "LK1:x:5:6:y", "\xff",
	} {
		f.Add(value, uint16(0))
		f.Add(value, uint16(2500))
	}
	f.Fuzz(func(t *testing.T, value string, ttl uint16) {
		synctest.Test(t, func(t *testing.T) {
			s := newServer()
			c := newClient(t, s.wire(), lockkeeper.Config{})
			lives := time.Duration(ttl) * ms
			s.Set("lockkeeper:orders", value, lives)
			lock := c.Mutex("orders")
			held := wantHeld(t, lock)
			if again := "lk1:" + held.Holder.Owner + ":" + held.Holder.Fence.String() + ":"; !held.Holder.Foreign && !strings.HasPrefix(value, again) {
				t.Errorf("%q is read as %+v", value, held.Holder)
			}
			err := c.Break(t.Context(), "orders", 5)
			if _, there := s.Get("lockkeeper:orders"); there == (err == nil) || err == nil && !broken.MatchString(value) {
				t.Fatalf("break of %q: %v, and it is there: %t", value, err, there)
			}
			if err == nil {
				return
			}
			isWaitedFor(t, s, lock, value, lives)
		})
	})
}

// isWaitedFor checks that a wait ends with the TTL of a value, and not by touching it.
func isWaitedFor(t *testing.T, s *server, lock *lockkeeper.Lock, value string, lives time.Duration) {
	t.Helper()
	start := time.Now()
	got := goes(func() *lockkeeper.Lease { return mustAcquire(t, lock) })
	time.Sleep(max(lives-ms, 0))
	if is, _ := s.Get("lockkeeper:orders"); is != value {
		t.Fatalf("%q became %q before its time", value, is)
	}
	if lives == 0 {
		time.Sleep(time.Minute)
		if is, _ := s.Get("lockkeeper:orders"); is != value {
			t.Fatalf("%q became %q", value, is)
		}
		lives = time.Since(start)
		s.Del("lockkeeper:orders")
	}
	lease := <-got
	if took := time.Since(start); took > lives+1300*ms {
		t.Errorf("it was free after %s, and taken after %s", lives, took)
	}
	mustRelease(t, lease)
}

// FuzzMessages: what comes on the channel of a client that waits, or holds, neither makes
// it panic nor gives it a lock, unless it is, in every part, a hand-off of what it waits
// for; and it has the lock when it is its turn.
func FuzzMessages(f *testing.F) {
	for _, message := range []string{
		"g:lk1:OWNER:FENCE:SINCE:0:KEY", "g:lk1:OWNER:FENCE:SINCE:1:KEY", "w:lk1:OWNER:KEY", "w:lk1:HOLDER:KEY", "", "g", "g:", "w", "g:lk1:", "g:lk1::::",
		"g:lk1:OWNER:5:SINCE:0:KEY", "g:lk1:OWNER:FENCE:5:0:KEY", "g:lk1:OWNER:-1:SINCE:0:KEY", "g:lk1:OWNER:9223372036854775808:SINCE:0:KEY",
		"g:lk1:OWNER:9223372036854775807:9223372036854775807:0:KEY", "g:lk1:OWNER:FENCE:SINCE:0:KEY2", "g:lk1:HOLDER:FENCE:SINCE:0:KEY", "x:lk1:HOLDER:FENCE:SINCE:0:KEY", "g:lk1:HOLDER:FENCE:SINCE:0:KEY",
		"g:lk1:OWNER:FENCE:SINCE:KEY", "x:lk1:OWNER:FENCE:SINCE:0:KEY", "g:lk2:OWNER:FENCE:SINCE:0:KEY", "g:lk1:stranger.1:FENCE:SINCE:0:KEY",
		"g:lk1:OWNER:1.5:SINCE:0:KEY", "g:lk1:OWNER:FENCE:1e18:0:KEY", "w:lk1:OWNER:", "w:lk1:OWNER:nothing", "g:lk1:OWNER:FENCE:SINCE::KEY",
	} {
		f.Add(message, message)
	}
	f.Fuzz(func(t *testing.T, first, second string) {
		synctest.Test(t, func(t *testing.T) { getMessages(t, first, second) })
	})
}

func getMessages(t *testing.T, messages ...string) {
	const key, line = "lockkeeper:orders", "{lockkeeper:orders}:lk-line"
	s := newServer()
	h := newClient(t, s.wire(), lockkeeper.Config{Label: "holder"})
	c := newClient(t, s.wire(), lockkeeper.Config{})
	holder := mustTry(t, h.Mutex("orders"))
	got := goes(func() *lockkeeper.Lease { return mustAcquire(t, c.Mutex("orders")) })
	time.Sleep(10 * ms) // it listens, and has asked again since
	owner := s.first(t, line)
	id, _, _ := strings.Cut(owner, ".")
	heldAt := time.Now().UnixMicro()
	fill := strings.NewReplacer("OWNER", owner, "HOLDER", holder.Owner(), "KEY", key,
		"FENCE", strconv.FormatInt(int64(holder.Fence())+10, 10), "SINCE", strconv.FormatInt(heldAt+1000, 10))
	forged := false
	for _, message := range messages {
		message = fill.Replace(message)
		forged = forged || isHandOff(message, owner, key, int64(holder.Fence()))
		s.Publish("lockkeeper:wake:"+id, message)
		synctest.Wait()
	}
	select {
	case lease := <-got:
		if !forged {
			t.Fatalf("%q gives the lock", messages)
		}
		// It believes what only the server's scripts say, and finds out with the first renewal.
		time.Sleep(200 * ms)
		wantErr(t, lease.Err(), lockkeeper.ErrLost)
		wantErr(t, lease.Release(t.Context()), lockkeeper.ErrLost)
		got = goes(func() *lockkeeper.Lease { return mustAcquire(t, c.Mutex("orders")) })
		synctest.Wait()
	default:
	}
	if err := holder.Err(); err != nil {
		t.Errorf("the holder's lease: %v", err)
	}
	mustRelease(t, holder)
	start := time.Now()
	lease := <-got
	if took := time.Since(start); took > 1300*ms {
		t.Errorf("the lock was free, and taken after %s", took)
	}
	for _, message := range messages { // to who holds
		s.Publish("lockkeeper:wake:"+id, fill.Replace(message))
	}
	time.Sleep(time.Second)
	if err := lease.Err(); err != nil {
		t.Errorf("its lease: %v", err)
	}
	mustRelease(t, lease)
	time.Sleep(time.Minute)
	wantKey(t, s, key, false)
	wantKey(t, s, line, false)
}

// isHandOff reports whether a message is what the script sends, and newer than the holder.
func isHandOff(message, owner, key string, fence int64) bool {
	rest, ok := strings.CutPrefix(message, "g:lk1:"+owner+":")
	part := strings.SplitN(rest, ":", 4)
	if !ok || len(part) != 4 || part[3] != key {
		return false
	}
	given, err := strconv.ParseInt(part[0], 10, 64)
	since, errSince := strconv.ParseInt(part[1], 10, 64)
	return err == nil && errSince == nil && given > fence && since > 0
}
