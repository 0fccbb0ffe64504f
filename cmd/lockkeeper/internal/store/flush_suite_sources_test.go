package store_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockkeeper/lockkeeper/flush"
	"github.com/lockkeeper/lockkeeper/internal/redistest"
)

// sources has a mapping of every source, and one whose key has two parts.
func sources() []flush.Mapping {
	id := []flush.Column{{Name: "id", Type: flush.Int64}}
	return []flush.Mapping{
		players(),
		{Keys: "player:{id}:stats:{day}", Table: "stats", Create: true,
			Key:     []flush.Column{{Name: "day", Type: flush.Date}, {Name: "player_id", Field: "id", Type: flush.Int64}},
			Columns: []flush.Column{{Name: "kills", Type: flush.Int64}}},
		{Keys: "greeting:{lang}", Table: "greeting", Create: true, Source: flush.Strings,
			Key: []flush.Column{{Name: "lang", Type: flush.Text}}, Columns: []flush.Column{{Name: "words", Type: flush.Text}}},
		{Keys: "visits:{id}", Table: "visits", Create: true, Source: flush.Strings,
			Key: id, Columns: []flush.Column{{Name: "n", Type: flush.Uint64}, {Name: "shown", Field: "value", Type: flush.Text}}},
		{Keys: "document:{id}", Table: "document", Create: true, Source: flush.Documents, Key: id,
			Columns: []flush.Column{
				{Name: "city", Field: "address.city", Type: flush.Text},
				{Name: "balance", Type: flush.Decimal(30, 2)},
				{Name: "address", Type: flush.JSON},
				{Name: "all_of_it", Field: ".", Type: flush.JSON},
			}},
		{Keys: "tags:{id}", Table: "tag", Create: true, Source: flush.Sets, Limit: 20, Key: id,
			Columns: []flush.Column{{Name: "tag", Field: "member", Type: flush.Text}}},
		{Keys: "queue:{id}", Table: "queue", Create: true, Source: flush.Lists, Limit: 20, Key: id,
			Columns: []flush.Column{{Name: "position", Type: flush.Int64}, {Name: "item", Field: "value", Type: flush.Text}}},
		{Keys: "board:{id}", Table: "board", Create: true, Source: flush.SortedSets, Limit: 20, Key: id,
			Columns: []flush.Column{{Name: "score", Type: flush.Float64}, {Name: "who", Field: "member", Type: flush.Int64}}},
		{Keys: "events:{id}", Table: "event", Create: true, Source: flush.Streams, Key: id,
			Columns: []flush.Column{{Name: "entry", Field: "id", Type: flush.Text}, {Name: "what", Type: flush.Text}, {Name: "n", Type: flush.Int64}}},
	}
}

// change writes through the producer, which marks the key.
func (w *world) change(key, command string, args ...string) {
	w.t.Helper()
	if _, err := w.Do(w.t.Context(), key, command, args...); err != nil {
		w.t.Fatal(err)
	}
}

// tables wants what several tables have; see rows.
func (w *world) tables(want map[string]string) {
	w.t.Helper()
	for query, rows := range want {
		w.rows("SELECT "+query, rows)
	}
}

// TestSources brings every source into every database, also where a server is opened or
// set up in another way.
func TestSources(t *testing.T) {
	eachWorld(t, bringSources, sources()...)
	on(t, variants, func(t *testing.T, p place) { bringSources(t, newWorldOn(t, p, realRedis(t), sources()...)) })
}

func bringSources(t *testing.T, w *world) {
	s := w.session()
	w.change("player:1", "HSET", "name", "Ann", "points", "10")
	w.change("player:7:stats:2026-01-02", "HSET", "kills", "3")
	w.change("player:7:stats:2026-01-03", "HSET", "kills", "4")
	w.change("player:8:stats:2026-01-02", "HSET", "kills", "5")
	w.change("greeting:en", "SET", "hello")
	w.change("visits:1", "SET", "18446744073709551615")
	w.change("document:1", "SET", `{"address": {"city": "Ulm", "zip": "0123"}, "balance": 12345678901234567890.10}`)
	w.change("document:2", "SET", `{"address": "none", "balance": null}`)
	w.change("tags:1", "SADD", "b", "a", "B")
	w.change("tags:2", "SADD", "a")
	w.change("queue:1", "RPUSH", "x", "y", "x")
	w.change("board:1", "ZADD", "1.5", "7", "-inf", "9")
	w.change("board:2", "ZADD", "0.1", "8", "1e300", "9")
	w.change("events:1", "XADD", "5-1", "what", "came", "n", "1")
	w.change("events:1", "XADD", "5-2", "what", "went")
	w.want(w.passOf(s), flush.Stats{Keys: 14, Upserts: 1 + 3 + 1 + 1 + 2 + 4 + 3 + 2 + 2, Parked: 1})
	w.parked("board:1", "member 9: ")
	w.tables(map[string]string{
		"id, name, score FROM player":                         "1 Ann 10",
		"day, player_id, kills FROM stats ORDER BY kills":     "2026-01-02 7 3;2026-01-03 7 4;2026-01-02 8 5",
		"lang, words FROM greeting":                           "en hello",
		"id, n, shown FROM visits":                            "1 18446744073709551615 18446744073709551615",
		"id, city, balance FROM document":                     "1 Ulm 12345678901234567890.10;2 - -",
		"address FROM document ORDER BY id":                   `{"city": "Ulm", "zip": "0123"};"none"`,
		"all_of_it FROM document WHERE id = 1":                `{"address": {"city": "Ulm", "zip": "0123"}, "balance": 12345678901234567890.10}`,
		"id, tag FROM tag ORDER BY id, tag":                   "1 B;1 a;1 b;2 a",
		"id, position, item FROM queue ORDER BY id, position": "1 0 x;1 1 y;1 2 x",
		"id, who, score FROM board ORDER BY id, who":          "2 8 0.1;2 9 1e+300",
		"id, entry, what, n FROM event ORDER BY id, entry":    "1 5-1 came 1;1 5-2 went -",
	})
	w.status(0, 1)

	// What is replaced: of a key all rows, and of no other key any.
	w.change("tags:1", "SREM", "a")
	w.change("tags:1", "SADD", "c")
	w.change("queue:1", "LPOP")
	w.change("board:1", "ZADD", "2.5", "9")
	w.change("board:2", "ZREM", "9")
	w.change("events:1", "XADD", "6-0", "what", "came", "n", "2")
	w.change("events:1", "XDEL", "5-1") // what was taken in stays
	w.want(w.passOf(s), flush.Stats{Keys: 5, Upserts: 3 + 2 + 2 + 1 + 1})
	w.tables(map[string]string{
		"id, tag FROM tag ORDER BY id, tag":                   "1 B;1 b;1 c;2 a",
		"id, position, item FROM queue ORDER BY id, position": "1 0 y;1 1 x",
		"id, who, score FROM board ORDER BY id, who":          "1 7 1.5;1 9 2.5;2 8 0.1",
		"id, entry, what, n FROM event ORDER BY id, entry":    "1 5-1 came 1;1 5-2 went -;1 6-0 came 2",
	})
	w.status(0, 0)

	// One element too many: parked, with the rows as they were.
	for i := range 20 {
		w.do("SADD", "tags:1", fmt.Sprint(i))
		w.do("RPUSH", "queue:1", "x")
		w.do("ZADD", "board:1", "1", fmt.Sprint(i))
	}
	w.change("tags:1", "SADD", "d")
	w.change("queue:1", "RPUSH", "z")
	w.change("board:1", "ZADD", "3", "100")
	w.want(w.passOf(s), flush.Stats{Keys: 3, Parked: 3})
	w.parked("tags:1", "it has 24 elements, and the limit is 20")
	w.parked("queue:1", "it has 23 elements, and the limit is 20")
	w.parked("board:1", "it has 21 elements, and the limit is 20")
	w.rows("SELECT count(*) FROM tag", "4")

	// A delete takes all rows of a key, but for those of a stream.
	for _, key := range []string{"player:1", "player:7:stats:2026-01-02", "greeting:en", "visits:1", "document:1", "tags:1", "queue:1", "board:1", "events:1"} {
		w.remove(key)
	}
	w.want(w.passOf(s), flush.Stats{Keys: 9, Deletes: 8})
	w.tables(map[string]string{
		"id FROM player": "", "day, player_id FROM stats ORDER BY player_id": "2026-01-03 7;2026-01-02 8", "lang FROM greeting": "", "id FROM visits": "", "id FROM document": "2",
		"id, tag FROM tag": "2 a", "id FROM queue": "", "id, who FROM board": "2 8", "count(*) FROM event": "3",
	})
	w.status(0, 0)

	// A stream that begins anew is read from its first entry on.
	w.change("events:1", "XADD", "4-0", "what", "again")
	w.want(w.passOf(s), flush.Stats{Keys: 1, Upserts: 1})
	w.rows("SELECT entry FROM event ORDER BY entry", "4-0;5-1;5-2;6-0")
}

// TestReplacedTogether: who reads sees all elements of a key, or all of another time,
// and never some of both.
func TestReplacedTogether(t *testing.T) {
	onDatabases(t, func(t *testing.T, w *world) {
		const size, turns = 12, 60
		w.fill("tags:1", 0, size)
		s := w.session()
		w.passOf(s)
		stop, looked := make(chan struct{}), 0
		var reader sync.WaitGroup
		reader.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				var n, first int
				err := w.db.QueryRowContext(t.Context(), "SELECT count(*), count(DISTINCT substr(tag, 1, 3)) FROM tag").Scan(&n, &first)
				if err != nil || n != size || first != 1 {
					t.Errorf("%d elements of %d times: %v", n, first, err)
					return
				}
				looked++
			}
		})
		for turn := range turns {
			w.fill("tags:1", turn+1, size)
			w.passOf(s)
		}
		close(stop)
		reader.Wait()
		if looked < 10 {
			t.Errorf("looked only %d times", looked)
		}
	}, sources()...)
}

// fill makes a set of elements that say when they were put in, in one step.
func (w *world) fill(key string, turn, size int) {
	w.t.Helper()
	_, err := w.rdb.TxPipelined(w.t.Context(), func(p redis.Pipeliner) error {
		p.Del(w.t.Context(), key)
		for i := range size {
			p.SAdd(w.t.Context(), key, fmt.Sprintf("%03d-%d", turn, i))
		}
		p.SAdd(w.t.Context(), w.keys().Changed, key)
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// TestEmptied: a key that has lost its last element through a marked write is deleted,
// and one that has expired is not.
func TestEmptied(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *world) {
		s := w.session()
		w.change("tags:1", "SADD", "a")
		w.change("queue:1", "RPUSH", "a")
		w.change("board:1", "ZADD", "1", "1")
		w.change("tags:2", "SADD", "a")
		w.passOf(s)
		w.change("tags:1", "SREM", "a")
		w.change("queue:1", "LPOP")
		w.change("board:1", "ZREM", "1")
		w.change("tags:2", "SADD", "b")
		w.do("DEL", "tags:2") // expired, say
		w.want(w.passOf(s), flush.Stats{Keys: 4, Deletes: 3, Missing: 1})
		w.tables(map[string]string{"id, tag FROM tag": "2 a", "id FROM queue": "", "id FROM board": ""})
	}, sources()...)
}

// TestStreamOnce: an entry is one row, however often it is read, in batches that do not
// hold all of it.
func TestStreamOnce(t *testing.T) {
	broken := errors.New("connection reset by test")
	eachWorld(t, func(t *testing.T, w *world) {
		const n = 2500
		const all = "SELECT count(*), count(DISTINCT entry), min(n), max(n), sum(n) FROM event"
		add := func(from, to int) {
			_, err := w.rdb.Pipelined(t.Context(), func(p redis.Pipeliner) error {
				for i := from; i < to; i++ {
					p.Do(t.Context(), "XADD", "events:1", fmt.Sprintf("%d-%d", i/10+1, i%10+1), "what", "e", "n", i)
				}
				p.SAdd(t.Context(), w.keys().Changed, "events:1")
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		want := func(n int) { w.rows(all, fmt.Sprintf("%[1]d %[1]d 0 %d %d", n, n-1, n*(n-1)/2)) }
		add(0, n)
		tap := w.tap()
		s := w.begin(w.engine(tap, nil))
		w.passOf(s)
		want(n)
		w.status(0, 0)

		// Committed, and the reply of the acknowledgement lost; then the cursor, too.
		add(n, n+30)
		tap.before = func(now step, _ []string) error {
			if now == ack {
				return broken
			}
			return nil
		}
		if _, err := s.Pass(t.Context()); !errors.Is(err, broken) {
			t.Errorf("got %v", err)
		}
		want(n + 30)
		tap.before = nil
		w.passOf(s)
		want(n + 30)
		w.do("DEL", w.keys().Cursors)
		add(n+30, n+31)
		w.pass()
		want(n + 31)
		w.status(0, 0)
	}, sources()...)
}

// TestOwnTransaction: an application that has a transaction of its own puts the key into
// a set there.
func TestOwnTransaction(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *world) {
		s := w.session()
		both := func(f func(p redis.Pipeliner)) {
			_, err := w.rdb.TxPipelined(t.Context(), func(p redis.Pipeliner) error { f(p); return nil })
			if err != nil {
				t.Fatal(err)
			}
		}
		k, ctx := w.keys(), t.Context()
		both(func(p redis.Pipeliner) {
			p.HSet(ctx, "player:1", "name", "Ann")
			p.HSet(ctx, "player:2", "name", "Bob")
			p.RPush(ctx, "queue:1", "x")
			p.SAdd(ctx, k.Changed, "player:1", "player:2", "queue:1")
		})
		if n := w.do("SCARD", k.Changed); n != int64(3) {
			t.Fatalf("%v keys wait", n)
		}
		if st, err := w.engine(w.conn, nil).Status(ctx); err != nil || st.Dirty != 3 {
			t.Errorf("%+v, %v", st, err)
		}
		w.want(w.passOf(s), flush.Stats{Keys: 3, Upserts: 3})
		w.status(0, 0)
		both(func(p redis.Pipeliner) {
			p.Del(ctx, "player:1", "queue:1")
			p.SAdd(ctx, k.Deleted, "player:1", "queue:1")
			p.HSet(ctx, "player:2", "points", "2")
			p.SAdd(ctx, k.Deleted, "player:2") // it says deleted, and is there
			p.SAdd(ctx, k.Changed, "player:3") // it says changed, and is not
		})
		w.want(w.passOf(s), flush.Stats{Keys: 4, Upserts: 1, Deletes: 2, Missing: 1})
		w.rows(allPlayers, "2 Bob 2")
		w.rows("SELECT id FROM queue", "")
		// In both, in either order: what the key is decides.
		both(func(p redis.Pipeliner) {
			p.Del(ctx, "player:2")
			p.SAdd(ctx, k.Deleted, "player:2", "player:4")
			p.SAdd(ctx, k.Changed, "player:2", "player:4")
			p.HSet(ctx, "player:4", "name", "Dan")
		})
		w.want(w.passOf(s), flush.Stats{Keys: 2, Upserts: 1, Deletes: 1})
		w.rows(allPlayers, "4 Dan -")
		w.status(0, 0)

		// More than one request takes in: all of them, in one pass.
		both(func(p redis.Pipeliner) {
			for i := range 2500 {
				key := fmt.Sprintf("player:%d", 100+i)
				p.HSet(ctx, key, "points", i)
				p.SAdd(ctx, k.Changed, key)
			}
		})
		w.want(w.passOf(s), flush.Stats{Keys: 2500, Upserts: 2500})
		w.rows("SELECT count(*), sum(score) FROM player WHERE id >= 100", fmt.Sprintf("2500 %d", 2500*2499/2))
	}, sources()...)
}

// TestScan: an application that marks nothing.
func TestScan(t *testing.T) {
	ms := sources()
	for i := range ms {
		ms[i].Scan, ms[i].ScanDeletes = time.Hour, 0.5
	}
	ms[1].ScanDeletes = 0
	eachWorld(t, func(t *testing.T, w *world) {
		s := w.session()
		e := w.engine(w.conn, nil)
		scan := func(table string, want flush.ScanResult) {
			t.Helper()
			got, err := e.Scan(t.Context(), table)
			got.At, got.Took, want.Table = time.Time{}, 0, table
			if err != nil || got != want {
				t.Errorf("scan of %s: %+v, %v; want %+v", table, got, err, want)
			}
		}
		for i := range 10 {
			w.do("HSET", fmt.Sprintf("player:%d", i), "name", "n", "points", i)
			w.do("HSET", fmt.Sprintf("player:%d:stats:2026-01-02", i), "kills", i)
			w.do("RPUSH", "queue:1", i)
		}
		w.do("SET", "greeting:en", "hello")
		w.do("SADD", "tags:1", "a")
		w.do("ZADD", "board:1", "1", "1")
		w.do("XADD", "events:1", "1-1", "what", "x")
		w.do("SET", "document:1", "{}")
		w.do("SET", "player:x:y", "not of the mapping")
		scan("player", flush.ScanResult{Keys: 10, Changed: 10})
		scan("stats", flush.ScanResult{Keys: 10, Changed: 10})
		for _, table := range []string{"queue", "greeting", "tag", "board", "event", "document"} {
			scan(table, flush.ScanResult{Keys: 1, Changed: 1})
		}
		scan("visits", flush.ScanResult{})
		w.want(w.passOf(s), flush.Stats{Keys: 26, Upserts: 35})
		w.rows("SELECT count(*), sum(score) FROM player", "10 45")
		w.status(0, 0)

		// Only what differs, also inside of a key; other fields are none of ours.
		w.do("HSET", "player:3", "points", "33")
		w.do("HSET", "player:4", "other", "x")
		w.do("LSET", "queue:1", 0, "new")
		w.do("ZADD", "board:1", "2", "1")
		w.do("XADD", "events:1", "1-2", "what", "x")
		scan("player", flush.ScanResult{Keys: 10, Changed: 1})
		for _, table := range []string{"queue", "board", "event"} {
			scan(table, flush.ScanResult{Keys: 1, Changed: 1})
		}
		scan("tag", flush.ScanResult{Keys: 1})
		w.want(w.passOf(s), flush.Stats{Keys: 4, Upserts: 13})
		w.tables(map[string]string{"score FROM player WHERE id = 3": "33", "item FROM queue WHERE position = 0": "new",
			"score FROM board": "2", "count(*) FROM event": "2"})

		// What has gone is deleted up to the share, and where it is wanted.
		w.do("DEL", "player:1", "player:2", "player:1:stats:2026-01-02")
		scan("player", flush.ScanResult{Keys: 8, Gone: 2, Deleted: 2})
		scan("stats", flush.ScanResult{Keys: 9, Gone: 1})
		w.want(w.passOf(s), flush.Stats{Keys: 2, Deletes: 2})
		w.tables(map[string]string{"count(*) FROM player": "8", "count(*) FROM stats": "10"})

		// A Redis that was emptied takes nothing with it.
		for i := range 10 {
			w.do("DEL", fmt.Sprintf("player:%d", i))
		}
		scan("player", flush.ScanResult{Gone: 8, Refused: true})
		w.want(w.passOf(s), flush.Stats{})
		w.rows("SELECT count(*) FROM player", "8")
		if err := w.rdb.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		for _, m := range w.cfg.Mappings {
			scan(m.Table, flush.ScanResult{})
		}
		w.want(w.pass(), flush.Stats{})
		w.tables(map[string]string{"count(*) FROM player": "8", "count(*) FROM stats": "10", "count(*) FROM queue": "10"})
	}, ms...)
}

// TestRunScans: the active process scans by itself, and says what came of it.
func TestRunScans(t *testing.T) {
	m := players()
	m.Scan, m.ScanDeletes = time.Second, 0.5
	w := newWorld(t, realRedis(t), m)
	for i := range 4 {
		w.do("HSET", fmt.Sprintf("player:%d", i), "points", "1")
	}
	w.runWorker("a", w.sink, nil)
	w.eventually(sumOfScores, "4 4")
	w.do("HSET", "player:0", "points", "2")
	w.do("DEL", "player:1")
	w.eventually(sumOfScores, "3 4")
	redistest.Until(t, "the member says so", func() bool {
		st, err := w.engine(w.conn, nil).Status(t.Context())
		return err == nil && len(st.Members) == 1 && len(st.Members[0].Scans) == 1 && st.Members[0].Scans[0].Keys == 3
	})
}

// TestWordsOfSQL: names that mean something to the database, in capitals, and as long as
// they can be.
func TestWordsOfSQL(t *testing.T) {
	long := strings.Repeat("x", 63)
	m := flush.Mapping{Keys: "order:{from}:{User}", Table: "order", Create: true,
		Key:     []flush.Column{{Name: "from", Type: flush.Int64}, {Name: "User", Type: flush.Text}},
		Columns: []flush.Column{{Name: "select", Type: flush.Text}, {Name: "GROUP", Type: flush.Int64}, {Name: long, Type: flush.Bool}}}
	c := flush.Mapping{Keys: "values:{key}", Table: long, Create: true, Source: flush.SortedSets,
		Key: []flush.Column{{Name: "key", Type: flush.Int64}}, Columns: []flush.Column{{Name: "table", Field: "member", Type: flush.Text}, {Name: "Limit", Field: "score", Type: flush.Float64}}}
	eachWorld(t, func(t *testing.T, w *world) {
		if err := w.sink.CheckTables(t.Context()); err != nil {
			t.Error(err)
		}
		s := w.session()
		for i := range 3 {
			w.set(fmt.Sprintf("order:%d:u", i), "select", "s", "GROUP", "1", long, "yes")
			w.change(fmt.Sprintf("values:%d", i), "ZADD", "1", "a", "2", "b")
		}
		w.passOf(s)
		w.remove("order:1:u")
		w.remove("values:1")
		w.set("order:2:u", "select", "new")
		w.change("values:2", "ZREM", "a")
		plan, err := w.engine(w.conn, nil).Plan(t.Context(), w.sink, flush.PlanOptions{})
		if err != nil || plan.Tables[0].Delete != 1 || plan.Tables[1].Update != 1 {
			t.Errorf("%+v, %v", plan, err)
		}
		w.want(w.passOf(s), flush.Stats{Keys: 4, Upserts: 2, Deletes: 2})
		for table, v := range w.verify(flush.VerifyOptions{}) {
			if v.Same != 2 || v.Rows != 2 || v.Differ+v.Orphans > 0 {
				t.Errorf("%s: %+v", table, v)
			}
		}
	}, m, c)
}
