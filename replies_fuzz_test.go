package lockkeeper_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper"
)

// A garbler stands for a server, or something on the way to it, that answers nonsense when
// the bytes say so. It keeps what it has answered that carries belief, reckoned by itself.
type garbler struct {
	mu    sync.Mutex
	bytes []byte

	grants map[string][]fences       // of each owner: what it was told to have
	proven map[string]time.Time      // of each owner: until when its proofs carry belief
	denied map[string]bool           // owners that were told that the lock is not theirs
	raised map[lockkeeper.Fence]bool // fences that a raise has answered
}

type fences struct{ first, last int64 }

func (g *garbler) byte() byte {
	if len(g.bytes) == 0 {
		return 0
	}
	b := g.bytes[0]
	g.bytes = g.bytes[1:]
	return b
}

func (g *garbler) pick(n int) int { return int(g.byte()) % n }

// Words and numbers that replies are made of, and some that only look so.
var (
	replyWords = []string{
		"", "0", "1", "-1", "5", "+7", "007", "1.5", "1e3", "nan", " 8", "held", "full", "late", "OK",
		"1796062911501180", "4503599627370496", "9007199254740993", "9223372036854775807", "9223372036854775808",
		"-9223372036854775808", "lk1:x.1:5:6:label", "lk1:x.1:0:0:y", "somebody", "\x00\xff",
	}
	replyNumbers = []int64{0, 1, -1, -2, 2, 5, 1000, 1796062911501180, math.MaxInt64, math.MinInt64}
	replyErrors  = []string{
		"LOADING Redis is loading", "OOM command not allowed", "NOPERM no permissions", "WRONGTYPE wrong kind", "ERR no", "", " ",
		"NOSCRIPT No matching script", "MOVED 1 127.0.0.1:1", "\xff\x00", "READONLY replica", "ERR max number of clients reached",
	}
)

// value makes a reply.
func (g *garbler) value(depth int) any {
	switch n := g.pick(8); {
	case n < 2:
		return replyWords[g.pick(len(replyWords))]
	case n == 2:
		return replyNumbers[g.pick(len(replyNumbers))]
	case n == 3:
		return nil
	case n == 4 && depth == 0:
		return []any{1.5, true, map[any]any{"a": 1}, []byte("x"), 7}[g.pick(5)] // what no Conn may return
	case n == 5:
		return strings.Repeat("9", g.pick(40))
	case depth > 2:
		return int64(g.byte())
	}
	v := make([]any, g.pick(7))
	for i := range v {
		v[i] = g.value(depth + 1)
	}
	return v
}

// bend changes one element of a right reply, or its length.
func (g *garbler) bend(reply any) any {
	v, ok := reply.([]any)
	if !ok || len(v) == 0 {
		return g.value(1)
	}
	v = slices.Clone(v)
	switch g.pick(4) {
	case 0:
		return v[:g.pick(len(v))]
	case 1:
		return append(v, g.value(1))
	}
	v[g.pick(len(v))] = g.value(1)
	return v
}

// answer is the fault: it runs the request or not, and answers, sooner or later.
func (g *garbler) answer(ctx context.Context, call call, run func() (any, error)) (any, error) {
	sent := time.Now()
	reply, late, err := g.think(run)
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(late):
	}
	if err == nil {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.note(call, sent, reply)
	}
	return reply, err
}

// think finds an answer, and how long it takes.
func (g *garbler) think(run func() (any, error)) (reply any, late time.Duration, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	kind := g.byte()
	late = []time.Duration{0, 0, 0, ms, 40 * ms, 150 * ms, 600 * ms, 2 * time.Second}[kind/8%8]
	switch kind % 8 {
	case 0, 1:
		reply, err = run()
	case 2, 3:
		if reply, err = run(); err == nil {
			reply = g.bend(reply)
		}
	case 4:
		_, _ = run()
		err = errNetwork
	case 5:
		err = lockkeeper.NewReplyError(replyErrors[g.pick(len(replyErrors))])
	default:
		reply = g.value(0)
	}
	return reply, late, err
}

// whole reads a positive number, as an integer or in digits.
func whole(v any) (int64, bool) {
	n, ok := v.(int64)
	if s, digits := v.(string); digits {
		var err error
		n, err = strconv.ParseInt(s, 10, 64)
		ok = err == nil
	}
	return n, ok && n > 0
}

// grantIn returns the fences that a reply gives, as the headers of the scripts have it.
func grantIn(reply any) (f fences, ok bool) {
	v, array := reply.([]any)
	switch {
	case !array:
		if _, digits := reply.(string); !digits {
			return f, false
		}
		v = []any{reply}
	case len(v) != 2 && len(v) != 4:
		return f, false
	}
	f.first, ok = whole(v[0])
	f.last = f.first
	if len(v) == 4 {
		last, _ := whole(v[2])
		f.last = max(f.first, last)
	}
	return f, ok
}

// note takes down what a reply carries.
func (g *garbler) note(call call, sent time.Time, reply any) {
	v, _ := reply.([]any)
	proves := func(owner, ttl string) {
		n, _ := strconv.Atoi(ttl)
		until := sent.Add(time.Duration(n) * ms * 9 / 10) // the margin is a tenth
		if until.After(g.proven[owner]) {
			g.proven[owner] = until
		}
	}
	switch call.Script {
	case "acquire":
		if f, ok := grantIn(reply); ok {
			g.grants[call.Args[0]] = append(g.grants[call.Args[0]], f)
			proves(call.Args[0], call.Args[1])
		}
	case "renew":
		for i := range v {
			switch owner := call.Args[min(2*i, len(call.Args)-2)]; {
			case 2*len(v) != len(call.Args):
			case v[i] == int64(0):
				g.denied[owner] = true
			case v[i] == int64(1) && time.Now().Before(g.proven[owner]): // later it carries nothing
				proves(owner, call.Args[2*i+1])
			}
		}
	case "release":
		g.denied[call.Args[0]] = g.denied[call.Args[0]] || len(v) == 1 || reply == int64(0)
	case "raise":
		g.denied[call.Args[0]] = g.denied[call.Args[0]] || reply == int64(0)
		if n, ok := whole(reply); ok {
			g.raised[lockkeeper.Fence(n)] = true
		}
	}
}

// A listening is a conn whose messages the garbler takes down. They are told as they were
// sent: what nonsense does there is for FuzzMessages.
type listening struct {
	*wire
	g *garbler
}

func (l *listening) Listen(ctx context.Context, channel string, ready func(), message func(string)) error {
	return l.wire.Listen(ctx, channel, ready, func(m string) {
		l.g.hear(m)
		message(m)
	})
}

// hear takes down a hand-off, which in memory is told at the instant at which it happens.
func (g *garbler) hear(message string) {
	part := strings.Split(message, ":")
	if part[0] != "g" {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	owner := "lk1:" + part[2] + ":"
	first, _ := strconv.ParseInt(part[3], 10, 64)
	g.grants[owner] = append(g.grants[owner], fences{first, first + 65535})
	g.proven[owner] = time.Now().Add(900 * ms)
}

// A garbled is a client whose server answers nonsense, and its lease.
type garbled struct {
	t     *testing.T
	g     *garbler
	c     *lockkeeper.Client
	lease *lockkeeper.Lease
}

func (w *garbled) byte() byte {
	w.g.mu.Lock()
	defer w.g.mu.Unlock()
	return w.g.byte()
}

func (w *garbled) ends() bool {
	w.g.mu.Lock()
	defer w.g.mu.Unlock()
	return len(w.g.bytes) == 0
}

// got checks that a lease is one that the server has given.
func (w *garbled) got(lease *lockkeeper.Lease, err error) {
	w.t.Helper()
	if err != nil {
		if lease != nil {
			w.t.Errorf("a lease beside the error %v", err)
		}
		wantOneClass(w.t, err)
		return
	}
	w.lease = lease
	w.g.mu.Lock()
	defer w.g.mu.Unlock()
	for _, f := range w.g.grants["lk1:"+lease.Owner()+":"] {
		if fence := int64(lease.Fence()); fence >= f.first && fence <= f.last {
			return
		}
	}
	w.t.Errorf("a lease of %s with fence %s, which no answer gave: %v", lease.Owner(), lease.Fence(), w.g.grants)
}

// wantOneClass checks that an error of a call says one thing about the lock.
func wantOneClass(t *testing.T, err error) {
	t.Helper()
	n := 0
	for _, class := range []error{lockkeeper.ErrHeld, lockkeeper.ErrUnavailable, lockkeeper.ErrLost} {
		if errors.Is(err, class) {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%v is of %d classes", err, n)
	}
}

// believed checks that a lease is believed for no longer than the answers carry it, and
// given up before only where one said so.
func (w *garbled) believed() {
	w.t.Helper()
	if w.lease == nil {
		return
	}
	err := w.lease.Err()
	w.g.mu.Lock()
	defer w.g.mu.Unlock()
	owner := "lk1:" + w.lease.Owner() + ":"
	proven := w.g.proven[owner]
	switch {
	case err == nil && !time.Now().Before(proven):
		w.t.Errorf("a lease is believed %s after its proofs have ended", time.Since(proven))
	case errors.Is(err, lockkeeper.ErrLost) && !w.g.denied[owner] && time.Now().Before(proven):
		w.t.Errorf("a lease is lost %s too early: %v", time.Until(proven), err)
	}
}

// do is one call of the user.
func (w *garbled) do(ctx context.Context) {
	w.t.Helper()
	switch op := w.byte() % 10; {
	case w.lease == nil && op < 4:
		w.got(w.c.Mutex("orders").Try(ctx))
	case w.lease == nil && op < 7:
		w.got(w.c.Mutex("orders", lockkeeper.WithMaxWait(2*time.Second)).Acquire(ctx))
	case w.lease != nil && op < 2:
		if err := w.lease.Release(ctx); err != nil {
			wantOneClass(w.t, err)
		}
		w.lease = nil
	case w.lease != nil && op == 2:
		if err := w.lease.Extend(ctx, []time.Duration{500 * ms, 5 * time.Second}[w.byte()%2]); err != nil {
			wantOneClass(w.t, err)
		}
	case w.lease != nil && op == 3:
		w.raise(ctx, []lockkeeper.Fence{1, 1 << 51, 1 << 52}[w.byte()%3])
	case op == 7:
		w.look(ctx)
	default:
		time.Sleep([]time.Duration{ms, 50 * ms, 400 * ms, 3 * time.Second}[w.byte()%4])
	}
}

func (w *garbled) raise(ctx context.Context, seen lockkeeper.Fence) {
	w.t.Helper()
	before := w.lease.Fence()
	err := w.lease.RaiseFence(ctx, seen)
	after := w.lease.Fence()
	w.g.mu.Lock()
	defer w.g.mu.Unlock()
	switch {
	case err != nil:
		wantOneClass(w.t, err)
	case after != before && !w.g.raised[after]:
		w.t.Errorf("the fence became %s, which no answer gave", after)
	}
	if after < before {
		w.t.Errorf("the fence went back from %s to %s", before, after)
	}
}

// look asks what asks only.
func (w *garbled) look(ctx context.Context) {
	w.t.Helper()
	if s, err := w.c.Inspect(ctx, "orders"); err == nil && s.Name != "orders" {
		w.t.Errorf("orders is inspected, and %+v told", s)
	}
	_ = w.c.Break(ctx, "orders", 5) // an error or none; it must come back
	for s, err := range w.c.List(ctx, "*") {
		if err == nil && !s.Held {
			w.t.Errorf("%+v is listed", s)
		}
	}
}

// FuzzReplies: whatever comes back for a request, nothing panics or hangs, no lease comes of
// nonsense or is believed by it, none is given up for it, and what is taken is free again
// in the end.
func FuzzReplies(f *testing.F) {
	f.Add([]byte{0, 0, 8, 2, 0, 0})                                            // tried, kept, released
	f.Add([]byte{0, 7, 7, 4, 1, 2, 2, 1, 2, 2, 1, 2, 2})                       // an array of what is no grant
	f.Add([]byte{0, 2, 2, 0, 0, 11, 4, 3, 0, 8, 3, 7, 6, 2, 1, 2, 0, 8, 3})    // a right reply with one thing wrong
	f.Add([]byte{4, 7, 0, 15, 5, 4, 6, 0, 11, 6, 0, 13, 8, 3})                 // waits; words alone
	f.Add([]byte{0, 0, 3, 1, 0, 3, 2, 7, 2, 8, 2, 2, 1, 0, 6, 5, 39, 0, 7})    // raised, extended, huge
	f.Add([]byte{0, 0, 7, 6, 6, 3, 3, 3, 6, 6, 1, 11, 6, 6, 2, 8, 3, 6, 4})    // looked at
	f.Add([]byte{5, 2, 1, 0, 5, 3, 8, 1, 5, 2, 1, 3, 4, 4, 8, 3, 8, 3, 8, 3})  // errors and silence
	f.Add([]byte{0, 0, 8, 2, 40, 8, 2, 4, 4, 4, 8, 2, 4, 4, 4, 4, 8, 1, 4, 4}) // renewed late, and not again
	f.Fuzz(func(t *testing.T, data []byte) {
		synctest.Test(t, func(t *testing.T) {
			s := newServer()
			wire := s.wire()
			g := &garbler{
				bytes: data[:min(len(data), 300)], grants: make(map[string][]fences), proven: make(map[string]time.Time),
				denied: make(map[string]bool), raised: make(map[lockkeeper.Fence]bool),
			}
			w := &garbled{t: t, g: g, c: newClient(t, &listening{wire, g}, lockkeeper.Config{TTL: time.Second})}
			wire.breaks(g.answer)
			for !w.ends() {
				w.do(t.Context())
				synctest.Wait()
				w.believed()
			}
			wire.breaks(nil)
			if w.lease != nil {
				_ = w.lease.Release(t.Context()) // it may have been lost
			}
			time.Sleep(time.Minute)
			wantKey(t, s, "lockkeeper:orders", false)
			mustRelease(t, mustTry(t, w.c.Mutex("orders")))
		})
	})
}
