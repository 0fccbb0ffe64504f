package lockkeeper_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/internal/redistest"
	"github.com/lockkeeper/lockkeeper/lockkeepertest"
)

// Every script runs on a real server and, beside it, as the model of
// lockkeepertest. Replies, keys and wake-ups have to agree, but for the time that
// passes between the two.

// A pair is a real server and a model in the same state.
type pair struct {
	t      *testing.T
	real   *redistest.Conn
	model  *lockkeepertest.Memory
	told   [2]chan string // wake-ups: of the real server, of the model
	fences [2]map[string]string
	log    []string
}

// channels are those of clients that listen, and one that no script may speak to: it
// lacks the prefix.
var channels = []string{"wake:a", "wake:b", "a"}

// A twin is a real server for many pairs, one after the other.
type twin struct {
	conn *redistest.Conn
	told chan string
}

func newTwin(tb testing.TB) *twin {
	tb.Helper()
	s := redistest.Start(tb)
	w := &twin{redistest.NewConn(s.Addr()), make(chan string, 10_000)}
	tb.Cleanup(w.conn.Close)
	ctx, cancel := context.WithCancel(context.Background())
	tb.Cleanup(cancel)
	for _, channel := range channels {
		ready := make(chan struct{}, 1)
		go func() {
			_ = w.conn.Listen(ctx, channel, func() { ready <- struct{}{} }, func(key string) { w.told <- channel + " " + key })
		}()
		select {
		case <-ready:
		case <-time.After(20 * time.Second):
			tb.Fatal("no subscription")
		}
	}
	return w
}

func newPair(t *testing.T, w *twin) *pair {
	t.Helper()
	p := &pair{t: t, real: w.conn, model: lockkeepertest.NewMemory()}
	p.told = [2]chan string{w.told, make(chan string, 10_000)}
	p.fences = [2]map[string]string{{}, {}}
	if _, err := w.conn.Do(t.Context(), "FLUSHALL"); err != nil {
		t.Fatal(err)
	}
	for _, channel := range channels {
		ready := make(chan struct{})
		go func() {
			_ = p.model.Listen(t.Context(), channel, func() { close(ready) }, func(key string) { p.told[1] <- channel + " " + key })
		}()
		<-ready
	}
	return p
}

// run runs a script on both.
func (p *pair) run(script string, keys []string, args [2][]string) {
	p.t.Helper()
	p.log = append(p.log, fmt.Sprint(script, " ", keys, " ", args[0]))
	var replies [2]any
	for i, conn := range []lockkeeper.Conn{p.real, p.model} {
		reply, err := conn.Eval(p.t.Context(), sources()[script], keys, args[i])
		if err != nil {
			var r *lockkeeper.ReplyError
			if !errors.As(err, &r) {
				p.t.Fatalf("%s: %v", script, err)
			}
			reply = "error " + r.Code
		}
		replies[i] = reply
		p.learn(i, keys[0], script, reply)
	}
	if !alike(replies[0], replies[1]) {
		p.fail("the server answers %#v, the model %#v", replies[0], replies[1])
	}
}

// learn keeps the fence of a lock, for break.
func (p *pair) learn(i int, key, script string, reply any) {
	switch v := reply.(type) {
	case string:
		if script == "acquire" || script == "raise" {
			p.fences[i][key] = v
		}
	case []any:
		if len(v) == 2 && v[0] != "late" || len(v) == 4 && v[0] != "held" && (script == "acquire" || script == "release") {
			if fence, ok := v[0].(string); ok {
				p.fences[i][key] = fence
			}
		}
	}
}

func (p *pair) fail(format string, args ...any) {
	p.t.Helper()
	p.t.Fatalf("%s\nafter:\n%s", fmt.Sprintf(format, args...), strings.Join(p.log, "\n"))
}

// do does the same to both servers as a plain client.
func (p *pair) do(on func(m *lockkeepertest.Memory), command ...string) {
	p.t.Helper()
	p.log = append(p.log, strings.Join(command, " "))
	if _, err := p.real.Do(p.t.Context(), command...); err != nil {
		p.t.Fatal(err)
	}
	on(p.model)
}

var timeLike = regexp.MustCompile(`\b1[5-9]\d{14}\b`) // microseconds of our days

// lag is the most that the two may be apart, which is what a busy machine makes of one
// step. Both read the same clock.
const lag = 20 * time.Second

// alike compares values but for time: microseconds of the clock may differ by lag, and so
// may milliseconds that are left.
func alike(a, b any) bool {
	switch a := a.(type) {
	case int64:
		b, ok := b.(int64)
		return ok && (a == b || a > 1000 && b > 1000 && max(a-b, b-a) < lag.Milliseconds())
	case string:
		b, ok := b.(string)
		return ok && timeLike.ReplaceAllString(a, "T") == timeLike.ReplaceAllString(b, "T") &&
			slices.EqualFunc(timeLike.FindAllString(a, -1), timeLike.FindAllString(b, -1), sameTime)
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, alike)
	}
	return a == nil && b == nil
}

func sameTime(a, b string) bool {
	x, errX := strconv.ParseInt(a, 10, 64)
	y, errY := strconv.ParseInt(b, 10, 64)
	return errX == nil && errY == nil && max(x-y, y-x) < lag.Microseconds()
}

// compare compares all keys.
func (p *pair) compare() {
	p.t.Helper()
	var keys []string
	for key, err := range p.real.Scan(p.t.Context(), "*") {
		if err != nil {
			p.t.Fatal(err)
		}
		if !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	if theirs := p.model.Keys(); !slices.Equal(keys, theirs) {
		p.fail("the server has the keys %q, the model %q", keys, theirs)
	}
	for _, key := range keys {
		reply := func(command ...string) any {
			reply, err := p.real.Do(p.t.Context(), command...)
			if err != nil {
				p.t.Fatal(err)
			}
			return reply
		}
		if reply("TYPE", key) == "hash" {
			fields, theirs := reply("HGETALL", key).([]any), p.model.Places(key)
			for i := 0; i < len(fields); i += 2 {
				if owner := fields[i].(string); !alike(fields[i+1], theirs[owner]) {
					p.fail("place %s of %s is %q on the server, %q in the model", owner, key, fields[i+1], theirs[owner])
				}
			}
			if len(fields) != 2*len(theirs) {
				p.fail("%s has %v on the server, %v in the model", key, fields, theirs)
			}
		} else if reply("TYPE", key) == "zset" {
			var members []string
			for _, member := range reply("ZRANGE", key, "0", "-1").([]any) {
				members = append(members, member.(string))
			}
			if theirs := p.model.Line(key); !slices.Equal(members, theirs) {
				p.fail("line %s is %q on the server, %q in the model", key, members, theirs)
			}
		} else if value, _ := p.model.Get(key); !alike(reply("GET", key), value) {
			p.fail("key %s is %q on the server, %q in the model", key, reply("GET", key), value)
		}
		left, theirs := time.Duration(reply("PTTL", key).(int64))*ms, p.model.TTL(key)
		if (left < 0) != (theirs < 0) || left > 0 && (left-theirs).Abs() > lag {
			p.fail("key %s has %s left on the server, %s in the model", key, left, theirs)
		}
	}
}

// compareWakeUps compares who was woken.
func (p *pair) compareWakeUps() {
	p.t.Helper()
	// A mark at the end shows that all that came before has arrived.
	var got [2]map[string][]string
	for i := range got {
		got[i] = make(map[string][]string)
	}
	for _, channel := range channels {
		if _, err := p.real.Do(p.t.Context(), "PUBLISH", channel, "end"); err != nil {
			p.t.Fatal(err)
		}
		p.model.Publish(channel, "end")
	}
	for i, told := range p.told {
		for ends := 0; ends < len(channels); {
			channel, key, _ := strings.Cut(soon(p.t, "the end of the wake-ups", told), " ")
			got[i][channel] = append(got[i][channel], key)
			if key == "end" {
				ends++
			}
		}
	}
	same := func(a, b []string) bool {
		return slices.EqualFunc(a, b, func(a, b string) bool { return alike(a, b) })
	}
	if !maps.EqualFunc(got[0], got[1], same) {
		p.fail("the server woke %q, the model %q", got[0], got[1])
	}
}

// play does what the bytes say.
func (p *pair) play(moves []byte) {
	p.t.Helper()
	next := func(n int) int {
		if len(moves) == 0 {
			return 0
		}
		b := moves[0]
		moves = moves[1:]
		return int(b) % n
	}
	for len(moves) > 0 {
		p.move(next)
		p.compare()
	}
	p.compareWakeUps()
}

var (
	locks = []string{"lock:1", "lock:2"}
	// Of two clients that listen, and of some that nobody hears, or who never listen.
	owners = []string{"a.1", "a.2", "b.1", "b.2", "gone.1", "gone.2", "x"}
	places = []string{"100000:200000:0:1:wake:", "100000:200000:0:1:wake:", "100000:200000:0:0:wake:", "0:200000:0:1:wake:", "100000:200000:2:1:wake:"}
	sinces = []string{"1000", "2000", "9000000000000000"}
	ttls   = []string{"100000", "200000", "300000"}
	// values of foreign clients, and some that look like ours
	values = []string{"", "x", "lk1:a.9:5:6:y", "lk1:a.1:7:8:y", "lk1:x:0:0:y", "lk1:x:5:6", "lk1:x:5:6:label", "lk1::5:6:y", "lk1:x:05:6:y", "lk1:x"}
	// what may stand in a counter: nothing, behind and ahead of the clock, beyond what is one, broken
	counters = []string{"", "5", "3999999999999999", "4000000000000000", "8999999999999999", "9000000000000000", "99999999999999999999", "nonsense", "nan"}
	seen     = []string{"5", "4000000000000000", "1000"}
)

func pick[T any](next func(int) int, from []T) T { return from[next(len(from))] }

func both(args ...string) [2][]string { return [2][]string{args, args} }

func (p *pair) move(next func(n int) int) {
	p.t.Helper()
	lock := pick(next, locks)
	tag := "{" + lock + "}:lk-"
	counter, line, place := tag+"fence", tag+"line", tag+"places"
	keys := []string{lock, counter, line, place}
	mine := func() string {
		value, _ := p.model.Get(lock)
		if part := strings.Split(value, ":"); len(part) > 3 && part[0] == "lk1" && part[1] != "" && next(2) == 0 {
			return "lk1:" + part[1] + ":" // who has it
		}
		return "lk1:" + pick(next, owners) + ":"
	}
	bound := func() string {
		return pick(next, []string{"0", "1", "1500000000000000", strconv.FormatInt(time.Now().Add(time.Hour).UnixMicro(), 10)})
	}
	waits := func() []string {
		return append([]string{pick(next, places)}, pick(next, sinces))[:1+next(2)]
	}
	switch next(16) {
	case 0, 1, 11, 12, 13:
		args := []string{mine(), pick(next, ttls), "label", bound()}
		if next(4) > 0 {
			args = append(args, waits()...)
		}
		p.run("acquire", keys, both(args...))
	case 2, 6, 14, 15:
		args := []string{mine(), pick(next, []string{"", "5", "4000000000000100"})}
		if next(2) > 0 {
			args = append(args, mine(), pick(next, ttls), "again", bound())
			args = append(args, waits()...)
		}
		p.run("release", keys, both(args...))
	case 3:
		p.run("renew", append([]string{lock}, locks...), both(mine(), pick(next, ttls), mine(), pick(next, ttls), mine(), pick(next, ttls)))
	case 4:
		p.run("raise", []string{lock, counter}, both(mine(), pick(next, seen)))
	case 5:
		var args [2][]string
		for i := range args {
			args[i] = []string{p.fences[i][lock]}
		}
		if args[0][0] == "" || args[1][0] == "" || next(3) == 0 {
			args = both("5")
		}
		p.run("break", keys, args)
	case 7:
		p.run("state", locks, both())
	case 8:
		value, ttl := pick(next, values), next(2)
		p.do(func(m *lockkeepertest.Memory) { m.Set(lock, value, time.Duration(ttl)*100*time.Second) },
			append([]string{"SET", lock, value}, []string{"PX", "100000"}[:2*ttl]...)...)
	case 9:
		value := pick(next, counters)
		p.do(func(m *lockkeepertest.Memory) { m.Set(counter, value, 0) }, "SET", counter, value)
	case 10:
		key := pick(next, keys)
		switch wrong := pick(next, []string{line, place}); next(6) {
		case 0:
			p.do(func(m *lockkeepertest.Memory) { m.Set(wrong, "something else", 0) }, "SET", wrong, "something else")
			return
		case 1:
			p.noString(lock)
			return
		}
		p.do(func(m *lockkeepertest.Memory) { m.Del(key) }, "DEL", key)
	}
}

// noString makes a lock's key a hash or a sorted set, as another program may: the places
// or the line of a lock that has it for that.
func (p *pair) noString(lock string) {
	p.t.Helper()
	keys := []string{"other", "other:fence", lock, "other:places"}
	if len(p.log)%2 == 0 {
		keys = []string{"other", "other:fence", "other:line", lock}
	}
	p.do(func(m *lockkeepertest.Memory) { m.Del(lock) }, "DEL", lock)
	p.do(func(m *lockkeepertest.Memory) { m.Set("other", "x", 0) }, "SET", "other", "x")
	p.run("acquire", keys, both("lk1:z:", "100000", "label", "0", places[0]))
}

func TestScriptsMatchTheModel(t *testing.T) {
	t.Parallel()
	w := newTwin(t)
	for seed := range uint64(150) {
		r := rand.New(rand.NewPCG(seed, 7))
		moves := make([]byte, 250)
		for i := range moves {
			moves[i] = byte(r.Uint32())
		}
		newPair(t, w).play(moves)
	}
}

// A line is read in pieces, and not beyond 1024 places: the one who lives stands at both
// sides of each end.
func TestLongLinesMatchTheModel(t *testing.T) {
	t.Parallel()
	w := newTwin(t)
	for _, dead := range []int{1, 2, 3, 63, 64, 65, 66, 640, 1023, 1024} {
		p := newPair(t, w)
		p.line(dead)
		p.run("release", lineKeys, both("lk1:h.1:", ""))
		p.compare()
		p.compareWakeUps()
	}
	// Where the holder has expired, who asks is served, be it from behind them all.
	for _, dead := range []int{1, 1024, 1025} {
		p := newPair(t, w)
		p.line(dead)
		p.do(func(m *lockkeepertest.Memory) { m.Del(lineKeys[0]) }, "DEL", lineKeys[0])
		p.run("acquire", lineKeys, both("lk1:a.1:", "100000", "label", "0", places[0]))
		p.compare()
		p.compareWakeUps()
	}
}

var lineKeys = []string{"lock:1", "{lock:1}:lk-fence", "{lock:1}:lk-line", "{lock:1}:lk-places"}

// line makes a line with so many places of the dead, and one behind them who lives. Some are
// dead because nobody hears them, some because they have not asked for long.
func (p *pair) line(dead int) {
	p.t.Helper()
	p.run("acquire", lineKeys, both("lk1:h.1:", "100000", "label", "0"))
	for i := range dead {
		place := places[0]
		if i%2 == 0 {
			place = places[3]
		}
		p.run("acquire", lineKeys, both(fmt.Sprintf("lk1:gone.%d:", i), "100000", "label", "0", place))
	}
	p.run("acquire", lineKeys, both("lk1:a.1:", "100000", "label", "0", places[0]))
	p.compare()
}

// Who may not ask whether a waiter is there gives it the lock: it may be. Who may ask passes
// over one that is not. The model has every right.
func TestHandOffWithoutTheRightToAsk(t *testing.T) {
	t.Parallel()
	for right, want := range map[string]string{"+pubsub": "", "-pubsub|numsub": "lk1:gone.1:", "-info": "lk1:gone.1:", "-publish": ""} {
		s := startReal(t)
		conn := s.user(t, "+@all", right)
		for _, args := range [][]string{{"lk1:h.1:", "100000", "label", "0"}, {"lk1:gone.1:", "100000", "label", "0", places[0]}} {
			if _, err := conn.Eval(t.Context(), sources()["acquire"], lineKeys, args); err != nil {
				t.Fatal(err)
			}
		}
		if reply, err := conn.Eval(t.Context(), sources()["release"], lineKeys, []string{"lk1:h.1:", ""}); err != nil || reply != int64(1) {
			t.Errorf("%s: release answers %v, %v", right, reply, err)
		}
		value, _ := s.Do(t, "GET", lineKeys[0]).(string)
		if !strings.HasPrefix(value, want) || (want == "") != (value == "") {
			t.Errorf("%s: after the release the lock is %q, want %q", right, value, want)
		}
	}
}

func FuzzScripts(f *testing.F) {
	w := newTwin(f)
	r := rand.New(rand.NewPCG(1, 2))
	for range 10 {
		moves := make([]byte, 80)
		for i := range moves {
			moves[i] = byte(r.Uint32())
		}
		f.Add(moves)
	}
	f.Fuzz(func(t *testing.T, moves []byte) {
		newPair(t, w).play(moves[:min(len(moves), 300)])
	})
}
