package demo

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/store"
	"github.com/lockkeeper/lockkeeper/flush"
)

func TestInputIsReadWhole(t *testing.T) {
	d, err := parseInput(strings.NewReader(`
{"id":"a","n":1,"f":1.50,"s":"x","b":true,"big":123456789012345678901234567890}
{"id":7,"n":-9223372036854775808,"f":2,"s":"","b":false,"gone":null}
{"id":"c","n":null,"mixed":1}
{"id":"d","mixed":"two"}
`))
	if err != nil {
		t.Fatal(err)
	}
	types := make(map[string]flush.Type)
	for _, c := range d.columns {
		types[c.Name] = c.Type
	}
	want := map[string]flush.Type{
		"n": flush.Int64, "f": flush.Text, "s": flush.Text, "b": flush.Bool, "big": flush.Text, "mixed": flush.Text,
	}
	for name, w := range want {
		if types[name] != w {
			t.Errorf("column %s is %s, want %s", name, types[name], w)
		}
	}
	if len(types) != len(want) {
		t.Errorf("columns %v", types)
	}
	if got := d.records[0].fields["f"]; got != "1.50" {
		t.Errorf("a number became %q: it must stay as it was written", got)
	}
	if d.records[1].id != "7" {
		t.Errorf("id %q", d.records[1].id)
	}
}

func TestBadInputIsRefusedWithItsLine(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"nothing", "\n\n", "no object"},
		{"no id", `{"a":1}`, "line 1: no id"},
		{"null id", `{"id":null,"a":1}`, "line 1: no id"},
		{"only an id", `{"id":"x"}`, "no other field"},
		{"nested", "{\"id\":\"x\",\"a\":1}\n{\"id\":\"y\",\"a\":[1]}", "line 2: field \"a\": a nested value"},
		{"no object", `[1]`, "line 1: not a JSON object"},
		{"cut off", `{"id":"x","a":`, "line 1: not a JSON object"},
		{"two values", `{"id":"x","a":1} {"id":"y","a":1}`, "more than one"},
		{"twice", "{\"id\":\"x\",\"a\":1}\n\n{\"id\":\"x\",\"a\":2}", `line 3: id "x" was on line 1`},
		{"column name", `{"id":"x","a b":1}`, `column name "a b"`},
		{"NUL", `{"id":"x","a":"\u0000"}`, "NUL"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parseInput(strings.NewReader(c.text))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v; want %q", err, c.want)
			}
		})
	}
}

// compared makes three equal keys and rows, lets plant change one side, and compares.
func compared(t *testing.T, plant func(m *miniredis.Miniredis, db *sql.DB)) *Comparison {
	t.Helper()
	m := miniredis.RunT(t)
	rdb := redis.NewClient(&redis.Options{Addr: m.Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	db, dialect, err := store.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "x.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	data := &dataset{columns: []flush.Column{
		{Name: "name", Type: flush.Text}, {Name: "n", Type: flush.Int64}, {Name: "f", Type: flush.Float64}, {Name: "b", Type: flush.Bool},
	}}
	mapping := data.mapping("p")
	sink, err := flush.NewSQL(db, dialect, []flush.Mapping{mapping})
	if err != nil {
		t.Fatal(err)
	}
	if err := sink.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"1", "2", "3"} {
		m.HSet("p:"+id, "name", "n"+id, "n", id, "f", "3.0", "b", "true")
		if _, err := db.Exec(`INSERT INTO items (id, name, n, f, b, lockkeeper_version) VALUES (?, ?, ?, 3.0, 1, 1)`, id, "n"+id, id); err != nil {
			t.Fatal(err)
		}
	}
	plant(m, db)
	c, err := compare(t.Context(), rdb, db, "p", &mapping)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCompareFindsEveryDifference(t *testing.T) {
	exec := func(query string) func(*miniredis.Miniredis, *sql.DB) {
		return func(_ *miniredis.Miniredis, db *sql.DB) {
			if _, err := db.Exec(query); err != nil {
				t.Error(err)
			}
		}
	}
	for _, c := range []struct {
		name  string
		plant func(*miniredis.Miniredis, *sql.DB)
		want  int
	}{
		{"equal", func(*miniredis.Miniredis, *sql.DB) {}, 0},
		{"stale text", exec(`UPDATE items SET name = 'old' WHERE id = '2'`), 1},
		{"stale number", exec(`UPDATE items SET n = 99 WHERE id = '2'`), 1},
		{"stale float", exec(`UPDATE items SET f = 3.5 WHERE id = '2'`), 1},
		{"stale bool", exec(`UPDATE items SET b = 0 WHERE id = '2'`), 1},
		{"null for a value", exec(`UPDATE items SET name = NULL WHERE id = '2'`), 1},
		{"lost row", exec(`DELETE FROM items WHERE id = '3'`), 1},
		{"lost delete", func(m *miniredis.Miniredis, _ *sql.DB) { m.Del("p:1") }, 1},
		{"empty for null", func(m *miniredis.Miniredis, db *sql.DB) {
			m.HDel("p:1", "name")
			exec(`UPDATE items SET name = '' WHERE id = '1'`)(m, db)
		}, 1},
		{"two", func(m *miniredis.Miniredis, _ *sql.DB) { m.HSet("p:1", "n", "5", "name", "x") }, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := compared(t, c.plant); got.Differences != c.want {
				t.Errorf("%d differences %v, want %d", got.Differences, got.Examples, c.want)
			}
		})
	}
}

func TestSummaryIsNotOKWithoutItsFaults(t *testing.T) {
	good := func() (*show, *Comparison, *Summary) {
		b := newBoard([]string{"a", "b"})
		b.takeover = []Takeover{{Cause: "killed"}}
		b.refused = 1
		return &show{stage: &stage{data: &dataset{}}, board: b, writer: &writer{}}, &Comparison{Keys: 1, Rows: 1}, &Summary{}
	}
	for _, c := range []struct {
		name  string
		spoil func(*show, *Comparison, *Summary)
		ok    bool
	}{
		{"good", func(*show, *Comparison, *Summary) {}, true},
		{"a difference", func(_ *show, c *Comparison, _ *Summary) { c.Differences = 1 }, false},
		{"nothing compared", func(_ *show, c *Comparison, _ *Summary) { c.Keys = 0 }, false},
		{"no takeover", func(s *show, _ *Comparison, _ *Summary) { s.board.takeover = nil }, false},
		{"nothing refused", func(s *show, _ *Comparison, _ *Summary) { s.board.refused = 0 }, false},
		{"parked", func(_ *show, _ *Comparison, sum *Summary) { sum.Parked = 1 }, false},
		{"a failure", func(_ *show, _ *Comparison, sum *Summary) { sum.fail(ErrUsage) }, false},
		{"input lost", func(s *show, _ *Comparison, _ *Summary) {
			s.data = &dataset{restore: true, records: make([]record, 2)}
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, cmp, sum := good()
			c.spoil(s, cmp, sum)
			sum.finish(s, cmp, false)
			if sum.OK != c.ok {
				t.Errorf("OK %t, failures %v", sum.OK, sum.Failures)
			}
		})
	}
}

func TestBoardMeasuresGaps(t *testing.T) {
	b := newBoard([]string{"a", "b"})
	a, other := &process{name: "a"}, &process{name: "b"}
	at := func(ms int) time.Time { return b.start.Add(time.Duration(ms) * time.Millisecond) }
	b.take(report{a, at(0), event{Kind: active, Epoch: 1}})
	b.take(report{a, at(1000), event{Kind: freezing}})
	b.take(report{other, at(1250), event{Kind: active, Epoch: 2}})
	b.take(report{a, at(2000), event{Kind: refused, Epoch: 1}})
	b.take(report{a, at(2001), event{Kind: endedTerm, Epoch: 1}}) // not the active one: no outage
	if b.refused != 1 || b.outage != nil || b.active != "b" || len(b.takeover) != 1 {
		t.Fatalf("board %+v", b)
	}
	if got := b.takeover[0]; got.GapMS != 250 || got.Cause != "stopped" || got.From != "a" || got.To != "b" || got.Epoch != 2 {
		t.Errorf("takeover %+v", got)
	}
}

func TestPulse(t *testing.T) {
	answers := []error{nil, errors.New("gone"), nil, errors.New("gone")}
	asked := 0
	p := newPulse(func(context.Context) error {
		err := answers[min(asked, len(answers)-1)]
		asked++
		return err
	})
	p.most = 500 * time.Millisecond
	ended := false
	p.run(t.Context(), func() { ended = true })
	if silent, err := p.silence(); !ended || asked < 5 || silent < p.most || err == nil {
		t.Errorf("ended %t after %d requests, silent for %s: %v", ended, asked, silent, err)
	}
	p.heard(nil)
	if silent, err := p.silence(); silent != 0 || err != nil {
		t.Errorf("it answers again: %s, %v", silent, err)
	}
}

func TestWhatIsNotKnownIsNotShown(t *testing.T) {
	b := newBoard([]string{"a"})
	s := &screen{show: &show{stage: &stage{redis: "host:1", options: &Options{Width: func() int { return 80 }}}, board: b, writer: &writer{}}}
	r := reading{err: errors.New("refused"), silent: 3200 * time.Millisecond, rows: 7}
	const want = "Redis at host:1 DOES NOT ANSWER, for 3.2 s (refused)"
	line, frame := s.line(r), strings.Join(s.lines(r), "\n")
	if !strings.HasPrefix(line, want) || !strings.Contains(line, "backlog not known, 7 rows") || strings.Contains(line, "nobody") {
		t.Errorf("line %q", line)
	}
	if !strings.Contains(frame, "  backlog    not known: "+want) {
		t.Errorf("frame:\n%s", frame)
	}
}

func TestLinesAreCutToTheTerminal(t *testing.T) {
	if got := cut("früh und spät", 4); got != "früh" {
		t.Errorf("got %q", got)
	}
}

// A script is a worker that the test plays: what it is told goes to the test.
type script struct{ told chan string }

func (s script) Write(p []byte) (int, error) {
	s.told <- strings.TrimSpace(string(p))
	return len(p), nil
}

func (script) Close() error { return nil }

// A worker that loses its lease before it comes to the point is let go, and the next
// one is stopped.
func TestFreezeTakesTheNextWorker(t *testing.T) {
	b := newBoard([]string{"a", "b"})
	a, other := &process{name: "a", stdin: script{make(chan string, 9)}}, &process{name: "b", stdin: script{make(chan string, 9)}}
	d := &director{board: b, fleet: &fleet{processes: []*process{a, other}}, ttl: time.Second}
	b.take(report{a, time.Now(), event{Kind: active, Epoch: 1}})
	type result struct {
		stopped bool
		err     error
	}
	done := make(chan result, 1)
	go func() {
		stopped, err := d.freeze(t.Context(), a)
		done <- result{stopped, err}
	}()
	if got := <-a.stdin.(script).told; got != cmdFreeze {
		t.Fatalf("told %q", got)
	}
	b.take(report{a, time.Now(), event{Kind: endedTerm, Epoch: 1, Error: "lost"}})
	b.take(report{other, time.Now(), event{Kind: active, Epoch: 2}})
	if got := <-done; got.stopped || got.err != nil {
		t.Fatalf("%+v", got)
	}
	if got := <-a.stdin.(script).told; got != cmdNeverMind {
		t.Errorf("told %q", got)
	}
	if p := d.activeProcess(t.Context()); p != other {
		t.Errorf("the next one is %v", p)
	}
}
