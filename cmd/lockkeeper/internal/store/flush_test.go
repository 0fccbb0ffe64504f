package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/flush"
)

func TestFlush(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *world) {
		w.set("player:1", "name", "Ann", "points", "10")
		w.set("player:2", "name", "Bob")
		w.set("player:3", "name", "Cid", "points", "30", "other", "x")
		w.status(3, 0)
		s := w.session()
		w.want(w.passOf(s), flush.Stats{Keys: 3, Upserts: 3})
		w.rows(allPlayers, "1 Ann 10;2 Bob -;3 Cid 30")
		w.status(0, 0)

		w.want(w.passOf(s), flush.Stats{})
		w.set("player:1", "points", "11")
		w.set("player:1", "points", "12")
		w.remove("player:2")
		w.remove("player:99") // never was there
		w.status(3, 0)
		w.want(w.passOf(s), flush.Stats{Keys: 3, Upserts: 1, Deletes: 2})
		w.rows(allPlayers, "1 Ann 12;3 Cid 30")

		// Deleted and made again, before and after a flush.
		w.remove("player:3")
		w.set("player:3", "name", "Cyd")
		w.remove("player:1")
		w.want(w.passOf(s), flush.Stats{Keys: 2, Upserts: 1, Deletes: 1})
		w.rows(allPlayers, "3 Cyd -")
		w.set("player:1", "name", "Amy")
		w.want(w.pass(), flush.Stats{Keys: 1, Upserts: 1})
		w.rows(allPlayers, "1 Amy -;3 Cyd -")
		w.status(0, 0)
	})
}

func TestProducerDo(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *world) {
		for want := int64(10); want <= 30; want += 10 {
			got, err := w.Do(t.Context(), "player:7", "HINCRBY", "points", "10")
			if err != nil || got != want {
				t.Errorf("HINCRBY: %v, %v; want %d", got, err, want)
			}
		}
		w.pass()
		w.rows(allPlayers, "7 - 30")

		if got, err := w.Do(t.Context(), "player:7", "unlink"); err != nil || got != int64(1) {
			t.Errorf("UNLINK: %v, %v", got, err)
		}
		w.want(w.pass(), flush.Stats{Keys: 1, Deletes: 1})

		// A command that fails is marked nevertheless: once too often does no harm.
		w.set("player:8", "name", "Hal", "points", "x")
		_, err := w.Do(t.Context(), "player:8", "HINCRBY", "points", "1")
		var reply *lockkeeper.ReplyError
		if !errors.As(err, &reply) {
			t.Errorf("HINCRBY of a text: %v", err)
		}
		for _, bad := range [][]string{{"", "DEL"}, {"player:1", ""}} {
			if _, err := w.Do(t.Context(), bad[0], bad[1]); err == nil {
				t.Errorf("Do(%q) was accepted", bad)
			}
		}
		if err := w.Set(t.Context(), "player:1", "name"); err == nil {
			t.Error("Set with a field and no value was accepted")
		}
	})
}

func TestMissing(t *testing.T) {
	eachPlace(t, func(t *testing.T, p place, rdb *redis.Client) {
		for _, tt := range []struct {
			missing flush.Missing
			stats   flush.Stats
			rows    string
			parked  int
		}{
			{"", flush.Stats{Keys: 1, Missing: 1}, "1 Ann -", 0},
			{flush.Keep, flush.Stats{Keys: 1, Missing: 1}, "1 Ann -", 0},
			{flush.Park, flush.Stats{Keys: 1, Parked: 1}, "1 Ann -", 1},
			{flush.Delete, flush.Stats{Keys: 1, Deletes: 1}, "", 0},
		} {
			if err := rdb.FlushAll(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			m := players()
			m.Missing = tt.missing
			w := newWorldOn(t, p, rdb, m)
			w.set("player:1", "name", "Ann")
			w.pass()
			w.set("player:1", "name", "Amy")
			w.do("DEL", "player:1") // expired, say: no mark
			w.want(w.pass(), tt.stats)
			w.rows(allPlayers, tt.rows)
			w.status(0, tt.parked)
			if tt.parked > 0 {
				w.parked("player:1", "the key is gone")
			}
		}
	})
}

func TestParked(t *testing.T) {
	eachRedis(t, func(t *testing.T, rdb *redis.Client) {
		m := players()
		m.Columns[0].Required = true
		w := newWorld(t, rdb, m)
		w.set("player:1", "name", "Ann", "points", "ten")
		w.set("player:2", "points", "20")
		w.set("player:x", "name", "Xi")
		w.set("team:1", "name", "Reds")
		w.set("player:3", "name", "Cid")
		if _, err := w.Do(t.Context(), "player:4", "RPUSH", "x"); err != nil {
			t.Fatal(err)
		}
		w.want(w.pass(), flush.Stats{Keys: 6, Upserts: 1, Parked: 5})
		w.rows(allPlayers, "3 Cid -")
		w.status(0, 5)
		w.parked("player:1", `"column":"score","reason":"\"ten\" is not a 64-bit integer"`)
		w.parked("player:2", `"column":"name","reason":"the hash has no field \"name\""`)
		w.parked("player:x", `"column":"id"`)
		w.parked("team:1", "no mapping fits")
		w.parked("player:4", "the key is a list, not a hash")

		// A new write repairs, a delete as well; what is still bad stays parked.
		w.set("player:1", "points", "10")
		w.set("player:2", "points", "21")
		w.remove("player:4")
		w.want(w.pass(), flush.Stats{Keys: 3, Upserts: 1, Deletes: 1, Parked: 1})
		w.rows(allPlayers, "1 Ann 10;3 Cid -")
		w.status(0, 3)
	})
}

// TestTypes writes one value of each kind, and reads back what the database has.
func TestTypes(t *testing.T) {
	m := flush.Mapping{
		Keys: "v:{k}", Table: "v", Create: true, Key: []flush.Column{{Name: "k", Type: flush.Text}},
		Columns: []flush.Column{
			{Name: "t", Type: flush.Text}, {Name: "b", Type: flush.Bytes}, {Name: "i", Type: flush.Int64},
			{Name: "f", Type: flush.Float64}, {Name: "o", Type: flush.Bool}, {Name: "j", Type: flush.JSON},
		},
	}
	good := []struct{ column, value, want string }{
		{"t", "", "text "}, {"t", "Ünï 🙂", "text Ünï 🙂"}, {"t", "123", "text 123"}, {"t", "1e3", "text 1e3"},
		{"b", "", "blob x"}, {"b", "\x00\xff a", "blob x00ff2061"}, {"b", "12", "blob x3132"},
		{"i", "0", "integer 0"}, {"i", "-9223372036854775808", "integer -9223372036854775808"},
		{"i", "9223372036854775807", "integer 9223372036854775807"}, {"i", "9007199254740993", "integer 9007199254740993"},
		{"i", "007", "integer 7"},
		{"f", "0.1", "real 0.1"}, {"f", "5", "real 5"}, {"f", "-1.5e300", "real -1.5e+300"}, {"f", "-0", "real 0"},
		{"o", "1", "integer 1"}, {"o", "TRUE", "integer 1"}, {"o", "No", "integer 0"}, {"o", "f", "integer 0"},
		{"j", `{"a": 12345678901234567890.10}`, `text {"a": 12345678901234567890.10}`}, {"j", "null", "text null"}, {"j", `"x"`, `text "x"`},
	}
	bad := []struct{ column, value, reason string }{
		{"t", "a\x00b", "NUL"}, {"t", "\xff", "not UTF-8"},
		{"i", "", "64-bit integer"}, {"i", "1.0", "64-bit integer"}, {"i", "+1", "64-bit integer"}, {"i", " 1", "64-bit integer"},
		{"i", "9223372036854775808", "64-bit integer"}, {"i", "1_000", "64-bit integer"}, {"i", "0x10", "64-bit integer"},
		{"f", "1e-400", "too small for a float64"}, {"f", "", "decimal number"}, {"f", "NaN", "decimal number"}, {"f", "-inf", "decimal number"}, {"f", "1e400", "float64"},
		{"f", "0x1p4", "decimal number"}, {"f", "1_0", "decimal number"}, {"f", "1,5", "decimal number"},
		{"o", "", "bool"}, {"o", "2", "bool"}, {"o", "on", "bool"},
		{"j", "", "JSON"}, {"j", "{", "JSON"}, {"j", "{'a':1}", "JSON"}, {"j", "\"\xff\"", "UTF-8"}, {"j", "1 2", "JSON"},
	}
	eachRedis(t, func(t *testing.T, rdb *redis.Client) {
		w := newWorld(t, rdb, m)
		w.cfg.MaxParked = 1
		for i, g := range good {
			w.set(fmt.Sprintf("v:good-%d", i), g.column, g.value)
		}
		for i, b := range bad {
			w.set(fmt.Sprintf("v:bad-%d", i), b.column, b.value)
		}
		w.want(w.pass(), flush.Stats{Keys: len(good) + len(bad), Upserts: len(good), Parked: len(bad)})
		for i, g := range good {
			query := fmt.Sprintf("SELECT typeof(%[1]s), %[1]s FROM v WHERE k = 'good-%[2]d'", g.column, i)
			w.rows(query, g.want)
		}
		for i, b := range bad {
			w.parked(fmt.Sprintf("v:bad-%d", i), b.reason)
			w.parked(fmt.Sprintf("v:bad-%d", i), `"column":"`+b.column+`"`)
		}
	})
}

// TestKeyColumns brings the parts of keys into key columns of each type, and routes
// keys to two mappings.
func TestKeyColumns(t *testing.T) {
	stats := flush.Mapping{
		Keys: "player:{player}:stats:{day}", Table: "stats", Create: true,
		Key:     []flush.Column{{Name: "date", Field: "day", Type: flush.Text}, {Name: "player_id", Field: "player", Type: flush.Int64}},
		Columns: []flush.Column{{Name: "kills", Type: flush.Int64}},
	}
	paths := flush.Mapping{
		Keys: "path:{p*}!", Table: "path", Create: true,
		Key:     []flush.Column{{Name: "p", Type: flush.Text}},
		Columns: []flush.Column{{Name: "n", Type: flush.Int64}},
	}
	eachWorld(t, func(t *testing.T, w *world) {
		w.set("player:7", "name", "Gus")
		w.set("player:7:stats:2026-01-02", "kills", "3")
		w.set("player:8:stats:2026-01-02", "kills", "4")
		w.set("path:a:b!c!", "n", "1")
		w.set("path:!", "n", "1")     // an empty part fits nothing
		w.set("player:7:x", "n", "1") // and a colon fits no part without a star
		w.want(w.pass(), flush.Stats{Keys: 6, Upserts: 4, Parked: 2})
		w.rows(allPlayers, "7 Gus -")
		w.rows("SELECT date, player_id, kills FROM stats ORDER BY player_id", "2026-01-02 7 3;2026-01-02 8 4")
		w.rows("SELECT p, n FROM path", "a:b!c 1")
		w.remove("player:7:stats:2026-01-02")
		w.remove("player:7")
		w.want(w.pass(), flush.Stats{Keys: 2, Deletes: 2})
		w.rows(allPlayers, "")
		w.rows("SELECT date, player_id, kills FROM stats", "2026-01-02 8 4")
	}, players(), stats, paths)
}

// TestManyKeys has numbers as keys that are easily taken for one another.
func TestManyKeys(t *testing.T) {
	ids := []string{
		"0", "1", "-1", "-2", "65", "97", "1114111", "1114112", "1114113", "55296", "55297", "65533",
		"9223372036854775806", "9223372036854775807", "-9223372036854775808", "-9223372036854775807",
	}
	eachWorld(t, func(t *testing.T, w *world) {
		for _, id := range ids {
			w.set("player:"+id, "name", "n"+id)
		}
		w.want(w.pass(), flush.Stats{Keys: len(ids), Upserts: len(ids)})
		w.rows("SELECT count(*), count(DISTINCT id), count(CASE WHEN name = concat('n', id) THEN 1 END) FROM player", fmt.Sprintf("%[1]d %[1]d %[1]d", len(ids)))
		w.status(0, 0)
	})
}

// TestTwoKeysOfOneRow: the later change wins, whatever the keys are called.
// A row has one key, written in one way: otherwise the delete of one key would delete the
// row of another that is still there.
func TestTwoKeysOfOneRow(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *world) {
		w.set("player:7", "name", "seven")
		for _, key := range []string{"player:07", "player:007", "player:-0", "player:+7"} {
			w.set(key, "name", "other")
		}
		w.want(w.pass(), flush.Stats{Keys: 5, Upserts: 1, Parked: 4})
		w.remove("player:07")
		w.want(w.pass(), flush.Stats{Keys: 1, Parked: 1})
		w.rows(allPlayers, "7 seven -")
	})
}

func TestKeyTypes(t *testing.T) {
	for _, kind := range []flush.Type{flush.Float64, flush.Bool, flush.JSON} {
		m := flush.Mapping{
			Keys: "f:{f}", Table: "f",
			Key:     []flush.Column{{Name: "f", Type: kind}},
			Columns: []flush.Column{{Name: "n", Type: flush.Int64}},
		}
		if err := m.Check(); err == nil || !strings.Contains(err.Error(), "a key is text, bytes, int64") {
			t.Errorf("%s as a key: got %v", kind, err)
		}
	}
}

func TestReservedNames(t *testing.T) {
	for name, m := range map[string]flush.Mapping{
		"table":  {Keys: "f:{f}", Table: "Lockkeeper_Fence"},
		"sqlite": {Keys: "f:{f}", Table: "sqlite_x"},
		"column": {Keys: "f:{f}", Table: "f", Columns: []flush.Column{{Name: "LOCKKEEPER_version", Type: flush.Text}}},
	} {
		if err := m.Check(); err == nil || !strings.Contains(err.Error(), "reserved") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestPages(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *world) {
		const n = 1234
		for i := range n {
			w.set(fmt.Sprintf("player:%d", i), "name", fmt.Sprintf("p%d", i), "points", fmt.Sprint(i))
		}
		batches := 0
		e := w.engine(w.conn, func(cfg *flush.Config) {
			cfg.Batch = 100
			cfg.Trace.Wrote = func(flush.Stats) { batches++ }
		})
		w.want(w.passOf(w.begin(e)), flush.Stats{Keys: n, Upserts: n})
		if batches < 13 || batches > 26 { // one that is read while another is acknowledged can have fewer keys
			t.Errorf("%d batches", batches)
		}
		w.rows("SELECT count(*), sum(score), count(CASE WHEN name = concat('p', score) AND id = score THEN 1 END) FROM player", fmt.Sprintf("%d %d %d", n, n*(n-1)/2, n))
		w.status(0, 0)
	})
}

// TestLargestBatch sends the longest requests that there can be.
func TestLargestBatch(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *world) {
		const n = 5000
		ctx := t.Context()
		_, err := w.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i := range n {
				key := fmt.Sprintf("player:%d", i)
				p.HSet(ctx, key, "name", "x")
				p.ZAdd(ctx, w.keys().Dirty, redis.Z{Score: 1, Member: key}) // marked by hand, without a version
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		e := w.engine(w.conn, func(cfg *flush.Config) { cfg.Batch = n })
		w.want(w.passOf(w.begin(e)), flush.Stats{Keys: n, Upserts: n})
		w.rows("SELECT count(*) FROM player", fmt.Sprint(n))
		w.status(0, 0)
	})
}

func TestHotKeyStarvesNobody(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *world) {
		const others = 20
		w.set("player:0", "points", "0")
		for i := range others {
			w.set(fmt.Sprintf("player:%d", i+1), "points", "1")
		}
		steps := 0
		ctx, stop := context.WithCancel(t.Context())
		e := w.engine(w.conn, func(cfg *flush.Config) {
			cfg.Batch = 1
			cfg.Trace.Read = func(int) {
				steps++
				w.set("player:0", "points", fmt.Sprint(steps)) // before every write
			}
			cfg.Trace.Wrote = func(flush.Stats) {
				if one[int](t, w.db, "SELECT count(*) FROM player WHERE id > 0") == others || steps > 10*others {
					stop()
				}
			}
		})
		_, _ = w.begin(e).Pass(ctx)
		if steps > others+2 {
			t.Errorf("%d steps for %d keys and a hot one", steps, others)
		}
		w.rows("SELECT count(*) FROM player", fmt.Sprint(others+1))
		w.status(1, 0)
		w.pass()
		w.rows("SELECT score FROM player WHERE id = 0", fmt.Sprint(steps))
	})
}

func TestMarkScriptByHand(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *world) {
		eval := func(args ...any) any {
			keys := w.keys().Mark("player:5")
			head := []any{"EVAL", flush.MarkScript(), "4", keys[0], keys[1], keys[2], keys[3]}
			return w.do(append(head, args...)...)
		}
		if got := eval("U", "HSET", "name", "Eve", "points", "50"); got != int64(2) {
			t.Errorf("HSET: %v", got)
		}
		w.pass()
		w.rows(allPlayers, "5 Eve 50")
		if got := eval("U", "HINCRBY", "points", "1"); got != int64(51) {
			t.Errorf("HINCRBY: %v", got)
		}
		w.pass()
		w.rows(allPlayers, "5 Eve 51")
		if got := eval("D", "DEL"); got != int64(1) {
			t.Errorf("DEL: %v", got)
		}
		w.want(w.pass(), flush.Stats{Keys: 1, Deletes: 1})
		w.rows(allPlayers, "")
		if want := "lockkeeper:flush:{players}:"; !strings.HasPrefix(w.keys().Mark("player:5")[1], want) {
			t.Errorf("keys %q do not begin with %q", w.keys(), want)
		}
	})
}

func TestNoPrefix(t *testing.T) {
	w := newWorld(t, embeddedRedis(t))
	p, err := flush.NewProducer(w.conn, lockkeeper.NoPrefix, job)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Set(t.Context(), "player:1", "name", "Ann"); err != nil {
		t.Fatal(err)
	}
	for _, key := range w.do("KEYS", "*").([]any) {
		if key != "player:1" && !strings.HasPrefix(key.(string), "flush:{players}:") {
			t.Errorf("the producer made the key %q", key)
		}
	}
	e := w.engine(w.conn, func(cfg *flush.Config) { cfg.Prefix = lockkeeper.NoPrefix })
	w.want(w.passOf(w.begin(e)), flush.Stats{Keys: 1, Upserts: 1})
}

func TestStatus(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *world) {
		e := w.engine(w.conn, nil)
		if s, err := e.Status(t.Context()); err != nil || s.Dirty != 0 || s.Oldest != 0 || s.Epoch != 0 || s.Members != nil || s.Pauses != nil {
			t.Errorf("before anything: %+v, %v", s, err)
		}
		w.set("player:1", "name", "Ann")
		<-after(60)
		w.set("player:1", "name", "Amy")
		s, err := e.Status(t.Context())
		if err != nil || s.Dirty != 1 || s.Oldest < 50e6 || s.Oldest > 20e9 || s.Epoch != 0 {
			t.Errorf("with an old change: %+v, %v", s, err)
		}
		w.session()
		w.session()
		if s, err := e.Status(t.Context()); err != nil || s.Epoch != 2 {
			t.Errorf("after two terms: %+v, %v", s, err)
		}
	})
}
