package store_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/lockkeeper/lockkeeper/flush"
	"github.com/lockkeeper/lockkeeper/internal/redistest"
)

func (w *world) verify(o flush.VerifyOptions) map[string]flush.Verified {
	w.t.Helper()
	list, err := w.engine(w.conn, nil).Verify(w.t.Context(), w.sink, o)
	if err != nil {
		w.t.Fatal(err)
	}
	found := make(map[string]flush.Verified)
	for _, v := range list {
		found[v.Table] = v
	}
	return found
}

// wantVerified wants counts of some tables, and of all others that nothing is wrong.
func (w *world) wantVerified(found, want map[string]flush.Verified) {
	w.t.Helper()
	for table, got := range found {
		expected, some := want[table]
		if !some {
			expected = flush.Verified{Keys: got.Keys, Rows: got.Rows, Same: got.Keys}
		}
		expected.Table, expected.Differences = table, got.Differences
		if !reflect.DeepEqual(got, expected) {
			w.t.Errorf("verify: got  %+v\nwant %+v", got, expected)
		}
	}
}

// fillAll writes n keys of every source, and flushes them.
func (w *world) fillAll(n int) *flush.Session {
	w.t.Helper()
	for i := range n {
		id := strconv.Itoa(i)
		w.set("player:"+id, "name", "n"+id, "points", id)
		w.set("player:"+id+":stats:2026-01-02", "kills", id)
		w.change("greeting:"+id, "SET", "hello "+id)
		w.change("visits:"+id, "SET", id)
		w.change("document:"+id, "SET", `{"address": {"city": "c`+id+`"}, "balance": `+id+`.5}`)
		w.change("tags:"+id, "SADD", "a", "b", id)
		w.change("queue:"+id, "RPUSH", "x", "y", id)
		w.change("board:"+id, "ZADD", "1.5", "1", "2.5", "2")
		w.change("events:"+id, "XADD", "1-1", "what", "a", "n", id)
		w.change("events:"+id, "XADD", "1-2", "what", "b", "n", id)
	}
	s := w.session()
	w.drain(s)
	return s
}

// TestVerify plants differences of every kind, in the database and on Redis.
func TestVerify(t *testing.T) {
	onDatabases(t, func(t *testing.T, w *world) {
		const n = 12
		s := w.fillAll(n)
		w.wantVerified(w.verify(flush.VerifyOptions{}), nil)
		if found := w.verify(flush.VerifyOptions{}); len(found) != 9 || found["tag"].Keys != n || found["tag"].Rows != n || found["event"].Rows != 0 {
			t.Fatalf("%+v", found)
		}

		for _, plant := range []string{
			"UPDATE player SET score = 1000 WHERE id = 1",
			"UPDATE player SET name = NULL WHERE id = 2",
			"UPDATE player SET name = 'N3' WHERE id = 3", // another case
			"UPDATE player SET name = 'n4 ' WHERE id = 4",
			"DELETE FROM player WHERE id = 5",
			"INSERT INTO player (id, name, lockkeeper_version) VALUES (500, 'x', 1)",
			"DELETE FROM stats WHERE player_id = 1",
			"INSERT INTO stats (day, player_id, kills, lockkeeper_version) VALUES ('2026-01-03', 1, 1, 1)",
			"UPDATE greeting SET words = 'Hello 1' WHERE lang = '1'",
			"INSERT INTO greeting (lang, words, lockkeeper_version) VALUES ('a:b', 'no key has this', 1)",
			"UPDATE visits SET n = n + 1 WHERE id = 1",
			"UPDATE document SET balance = 1.51 WHERE id = 1",
			`UPDATE document SET address = '{"city":"c2"}' WHERE id = 2`, // the same to JSON, another text
			"DELETE FROM tag WHERE id = 1 AND tag = 'a'",
			"INSERT INTO tag (id, tag, lockkeeper_version) VALUES (2, 'z', 1)",
			"UPDATE tag SET tag = 'A' WHERE id = 3 AND tag = 'a'",
			"DELETE FROM tag WHERE id = 4",
			"INSERT INTO tag (id, tag, lockkeeper_version) VALUES (500, 'a', 1)",
			"INSERT INTO tag (id, tag, lockkeeper_version) VALUES (500, 'b', 1)",
			"UPDATE queue SET item = 'z' WHERE id = 1 AND position = 1",
			"DELETE FROM queue WHERE id = 2 AND position = 2",
			"INSERT INTO queue (id, position, item, lockkeeper_version) VALUES (3, 3, 'w', 1)",
			"UPDATE board SET score = 1.5000000000000002 WHERE id = 1 AND who = 1",
			"DELETE FROM event WHERE id = 1 AND entry = '1-1'",
			"UPDATE event SET n = 7 WHERE id = 2 AND entry = '1-2'",
			"DELETE FROM event WHERE id = 3",
		} {
			exec(t, w.db, plant)
		}
		w.do("HSET", "player:6", "points", "66") // without a mark
		w.do("HSET", "player:600", "points", "6")
		w.do("DEL", "player:7", "queue:7", "events:7")
		w.do("RPUSH", "queue:8", "more")
		w.set("player:8", "points", "88") // with a mark: no difference
		w.remove("tags:9")
		w.do("HSET", "player:9", "points", "bad")
		// Parked is what is known to be wrong.
		w.do("SET", "visits:10", "bad")
		w.do("SADD", w.keys().Changed, "visits:10")
		want := map[string]flush.Verified{
			"player":   {Keys: n, Rows: n, Same: 3, Differ: 7, Orphans: 2, Pending: 1, Unreadable: 1},
			"stats":    {Keys: n, Rows: n, Same: n - 1, Differ: 1, Orphans: 1},
			"greeting": {Keys: n, Rows: n + 1, Same: n - 1, Differ: 1, Orphans: 1},
			"visits":   {Keys: n, Rows: n, Same: n - 2, Differ: 1, Pending: 1},
			"document": {Keys: n, Rows: n, Same: n - 2, Differ: 2},
			"tag":      {Keys: n - 1, Rows: n, Same: n - 5, Differ: 4, Orphans: 1},
			"queue":    {Keys: n - 1, Rows: n, Same: n - 5, Differ: 4, Orphans: 1},
			"board":    {Keys: n, Rows: n, Same: n - 1, Differ: 1},
			"event":    {Keys: n - 1, Same: n - 4, Differ: 3},
		}
		found := w.verify(flush.VerifyOptions{Differences: 100})
		w.wantVerified(found, want)
		for _, expected := range []flush.Difference{
			{Key: "player:1", Table: "player", Column: "score", Redis: "1", Database: "1000"},
			{Key: "player:2", Table: "player", Column: "name", Redis: `"n2"`, Database: "NULL"},
			{Key: "player:3", Table: "player", Column: "name", Redis: `"n3"`, Database: `"N3"`},
			{Key: "player:500", Table: "player", Redis: "no key", Database: "a row"},
			{Key: "player:6", Table: "player", Column: "score", Redis: "66", Database: "6"},
			{Key: "player:1:stats:2026-01-03", Table: "stats", Redis: "no key", Database: "a row"},
		} {
			if !slices.Contains(found[expected.Table].Differences, expected) {
				t.Errorf("not found: %+v in %+v", expected, found[expected.Table].Differences)
			}
		}
		// One table alone, a sample, and few differences.
		if one := w.verify(flush.VerifyOptions{Table: "board"}); len(one) != 1 || one["board"].Differ != 1 {
			t.Errorf("%+v", one)
		}
		if one := w.verify(flush.VerifyOptions{Table: "player", Sample: 5, Differences: 1}); one["player"].Keys != 5 || one["player"].Rows != 0 || len(one["player"].Differences) > 1 {
			t.Errorf("%+v", one)
		}

		// Repaired, but for what has no key.
		w.passOf(s)
		fixed := w.verify(flush.VerifyOptions{Repair: true})
		for table, v := range fixed {
			if v.Repaired != v.Differ+v.Unreadable || v.Deleted != 0 {
				t.Errorf("%s: %+v", table, v)
			}
		}
		w.drain(s)
		w.wantVerified(w.verify(flush.VerifyOptions{}), map[string]flush.Verified{
			"player":   {Keys: n, Rows: n + 2, Same: n - 1, Orphans: 2, Parked: 1},
			"stats":    {Keys: n, Rows: n + 1, Same: n, Orphans: 1},
			"greeting": {Keys: n, Rows: n + 1, Same: n, Orphans: 1},
			"visits":   {Keys: n, Rows: n, Same: n - 1, Parked: 1},
			"tag":      {Keys: n - 1, Rows: n, Same: n - 1, Orphans: 1},
			"queue":    {Keys: n - 1, Rows: n, Same: n - 1, Orphans: 1},
			"event":    {Keys: n - 1, Same: n - 1},
		})
		// Deleted, unless they are too many.
		if v := w.verify(flush.VerifyOptions{Table: "player", Repair: true, Deletes: 0.1})["player"]; !v.TooMany || v.Deleted != 0 {
			t.Errorf("%+v", v)
		}
		w.drain(s)
		w.rows("SELECT count(*) FROM player", strconv.Itoa(n+2))
		w.verify(flush.VerifyOptions{Repair: true, Deletes: 0.5})
		w.drain(s)
		w.wantVerified(w.verify(flush.VerifyOptions{}), map[string]flush.Verified{
			"player":   {Keys: n, Rows: n, Same: n - 1, Parked: 1},
			"visits":   {Keys: n, Rows: n, Same: n - 1, Parked: 1},
			"tag":      {Keys: n - 1, Rows: n - 1, Same: n - 1},
			"queue":    {Keys: n - 1, Rows: n - 1, Same: n - 1},
			"greeting": {Keys: n, Rows: n + 1, Same: n, Orphans: 1}, // no key can have this row
			"event":    {Keys: n - 1, Same: n - 1},
		})
		w.rows("SELECT id FROM tag WHERE id IN (9, 500)", "")
	}, sources()...)
}

// TestVerifyWhileWriting: with writers at full speed and a worker that flushes, nothing
// looks different that is not.
func TestVerifyWhileWriting(t *testing.T) {
	onDatabases(t, func(t *testing.T, w *world) {
		w.runWorker("a", w.newSink(w.place.open(t)), func(cfg *flush.Config) { cfg.Batch = 50 })
		ctx, stop := context.WithCancel(t.Context())
		var writers sync.WaitGroup
		for i := range 3 {
			writers.Go(func() { keepWriting(ctx, t, w.Producer, i) })
		}
		defer writers.Wait()
		defer stop()
		w.eventually("SELECT CASE WHEN count(*) > 20 THEN 1 END FROM player", "1")
		compared := 0
		for range 12 {
			for table, v := range w.verify(flush.VerifyOptions{}) {
				compared += v.Same + v.Pending
				if v.Differ+v.Orphans+v.Unreadable+v.Parked > 0 {
					t.Errorf("%s: %+v", table, v)
				}
			}
		}
		stop()
		writers.Wait()
		redistest.Until(t, "everything is flushed", func() bool {
			st, err := w.engine(w.conn, nil).Status(t.Context())
			return err == nil && st.Dirty == 0
		})
		same := 0
		for table, v := range w.verify(flush.VerifyOptions{}) {
			same += v.Same
			if v.Differ+v.Orphans+v.Pending+v.Unreadable+v.Parked > 0 {
				t.Errorf("at the end: %s: %+v", table, v)
			}
		}
		if compared == 0 || same == 0 {
			t.Error("nothing was compared")
		}
	}, sources()...)
}

// keepWriting writes, deletes and empties keys of several sources.
func keepWriting(ctx context.Context, t *testing.T, p *flush.Producer, writer int) {
	for i := 0; ctx.Err() == nil; i++ {
		id := strconv.Itoa((i*7 + writer) % 60)
		var err error
		switch n := strconv.Itoa(i); i % 9 {
		case 0, 1:
			err = p.Set(ctx, "player:"+id, "name", n, "points", n)
		case 2:
			_, err = p.Do(ctx, "tags:"+id, "SADD", strconv.Itoa(i%10), strconv.Itoa(i%7))
		case 3:
			_, err = p.Do(ctx, "tags:"+id, "SPOP")
		case 4:
			_, err = p.Do(ctx, "queue:"+id, "RPUSH", n)
		case 5:
			_, err = p.Do(ctx, "queue:"+id, "LTRIM", "-5", "-1")
		case 6:
			_, err = p.Do(ctx, "board:"+id, "ZADD", n, id)
		case 7:
			_, err = p.Do(ctx, "events:"+strconv.Itoa(writer), "XADD", "*", "n", n)
		case 8:
			err = p.Delete(ctx, "player:"+id)
		}
		if err != nil && ctx.Err() == nil {
			t.Error(err)
			return
		}
	}
}

// everything returns all of Redis, and all of the database.
func (w *world) everything() string {
	w.t.Helper()
	var all []string
	keys, err := w.rdb.Keys(w.t.Context(), "*").Result()
	if err != nil {
		w.t.Fatal(err)
	}
	slices.Sort(keys)
	for _, key := range keys {
		text, err := w.rdb.Dump(w.t.Context(), key).Result()
		if err != nil {
			w.t.Fatal(err)
		}
		all = append(all, fmt.Sprintf("%q: %x", key, text))
	}
	tables := []string{"lockkeeper_fence"}
	for _, m := range w.cfg.Mappings {
		tables = append(tables, m.Table)
	}
	for _, table := range tables {
		rows := strings.Split(dump(w.t, w.db, "SELECT * FROM "+table), ";")
		slices.Sort(rows)
		all = append(all, table+": "+strings.Join(rows, ";"))
	}
	return strings.Join(all, "\n")
}

// TestPlan says what a pass would do, and does nothing at all.
func TestPlan(t *testing.T) {
	onDatabases(t, func(t *testing.T, w *world) {
		const n = 12
		s := w.fillAll(n)
		e := w.engine(w.conn, nil)
		w.set("player:1", "points", "100")
		w.set("player:2", "points", "2") // the same
		w.set("player:100", "name", "new")
		w.remove("player:3")
		w.remove("player:300") // has no row
		w.set("player:4", "points", "x")
		w.set("player:5", "points", "5")
		w.do("DEL", "player:5")
		w.set("nobody:1", "a", "b")
		w.change("tags:1", "SADD", "z")
		w.change("tags:100", "SADD", "z")
		w.remove("queue:1")
		w.change("events:1", "XADD", "2-1", "n", "1")
		if err := e.Pause(t.Context(), flush.Pause{Table: "board", Reason: "x"}); err != nil {
			t.Fatal(err)
		}
		w.change("board:1", "ZADD", "9", "9")
		w.do("SADD", w.keys().Changed, "player:6") // not looked at

		before := w.everything()
		plan, err := e.Plan(t.Context(), w.sink, flush.PlanOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if after := w.everything(); after != before {
			t.Errorf("before:\n%s\nafter:\n%s", before, after)
		}
		if plan.Keys != 13 || plan.Unmapped != 1 || len(plan.Pauses) != 1 || len(plan.Parked) != 2 {
			t.Errorf("%+v", plan)
		}
		for _, p := range plan.Tables {
			var want string
			switch p.Table {
			case "player":
				want = "insert 1 update 1 same 2 delete 1 missing 1 park 1 held 0"
			case "tag":
				want = "insert 1 update 1 same 0 delete 0 missing 0 park 0 held 0"
			case "queue":
				want = "insert 0 update 0 same 0 delete 1 missing 0 park 0 held 0"
			case "event":
				want = "insert 1 update 0 same 0 delete 0 missing 0 park 0 held 0"
			case "board":
				want = "insert 0 update 1 same 0 delete 0 missing 0 park 0 held 1"
			default:
				want = "insert 0 update 0 same 0 delete 0 missing 0 park 0 held 0"
			}
			got := fmt.Sprintf("insert %d update %d same %d delete %d missing %d park %d held %d", p.Insert, p.Update, p.Same, p.Delete, p.Missing, p.Park, p.Held)
			if got != want || p.Problem != "" || p.SQL == "" || len(p.Changes) != p.Insert+p.Update+p.Delete {
				t.Errorf("%s: %s, want %s; %+v", p.Table, got, want, p)
			}
		}
		i := slices.IndexFunc(plan.Tables[0].Changes, func(c flush.Change) bool { return c.Key == "player:1" })
		if i < 0 || plan.Tables[0].Changes[i].Do != "update" || !slices.Equal(plan.Tables[0].Changes[i].Columns, []flush.ColumnChange{{Column: "score", Old: "1", New: "100"}}) {
			t.Errorf("%+v", plan.Tables[0].Changes)
		}
		if few, err := e.Plan(t.Context(), w.sink, flush.PlanOptions{Keys: 3, Changes: 1}); err != nil || few.Keys != 3 || len(few.Tables[0].Changes) > 1 {
			t.Errorf("%+v, %v", few, err)
		}
		// And the pass does it.
		w.want(w.passOf(s), flush.Stats{Keys: 14, Upserts: 1 + 1 + 1 + 4 + 1 + 1 + 1, Deletes: 3, Parked: 2, Missing: 1, Held: 1})

		exec(t, w.db, "DROP TABLE tag")
		exec(t, w.db, "ALTER TABLE queue DROP COLUMN item")
		w.change("tags:1", "SADD", "y")
		plan, err = e.Plan(t.Context(), w.sink, flush.PlanOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range plan.Tables {
			switch p.Table {
			case "tag":
				if !strings.Contains(p.Problem, "no table") || !strings.Contains(p.DDL, "CREATE TABLE") || p.Insert != 1 {
					t.Errorf("%+v", p)
				}
			case "queue":
				if !strings.Contains(p.Problem, "item") {
					t.Errorf("%+v", p)
				}
			default:
				if p.Problem != "" || p.DDL != "" {
					t.Errorf("%+v", p)
				}
			}
		}
	}, sources()...)
}

// TestResync marks all keys, whatever the database has.
func TestResync(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *world) {
		const n = 12
		s := w.fillAll(n)
		for _, m := range w.cfg.Mappings {
			exec(t, w.db, "DELETE FROM "+m.Table)
		}
		exec(t, w.db, "INSERT INTO player (id, name, lockkeeper_version) VALUES (500, 'of nobody', 1)")
		w.set("player:1", "points", "7") // marked already
		e := w.engine(w.conn, nil)
		var shares []float64
		got, err := e.Resync(t.Context(), "player", func(p flush.Progress) { shares = append(shares, p.Share) })
		if err != nil || got != (flush.Resync{Keys: n, Marked: n - 1}) {
			t.Errorf("%+v, %v", got, err)
		}
		if len(shares) == 0 || shares[len(shares)-1] != 1 || !slices.IsSorted(shares) {
			t.Errorf("progress %v", shares)
		}
		w.want(w.allPasses(s), flush.Stats{Keys: n, Upserts: n})
		w.rows("SELECT count(*), sum(score) FROM player", fmt.Sprintf("%d %d", n+1, n*(n-1)/2-1+7))
		w.rows("SELECT count(*) FROM tag", "0")

		if got, err := e.Resync(t.Context(), "", nil); err != nil || got != (flush.Resync{Keys: 9 * n, Marked: 9 * n}) {
			t.Errorf("%+v, %v", got, err)
		}
		w.drain(s)
		for table, v := range w.verify(flush.VerifyOptions{}) {
			if v.Same != n || v.Differ > 0 {
				t.Errorf("%s: %+v", table, v)
			}
		}
		w.rows("SELECT count(*) FROM event", strconv.Itoa(2*n))
		if _, err := e.Resync(t.Context(), "nothing", nil); err == nil {
			t.Error("resync of no table")
		}
	}, sources()...)
}

// TestVerifyDuringAWrite: a key that is written, and perhaps flushed, between any two
// steps of a comparison is no difference. The steps are the same on all databases.
func TestVerifyDuringAWrite(t *testing.T) {
	for _, what := range []string{"written after", "flushed before", "flushed after"} {
		t.Run(what, func(t *testing.T) {
			did, where, _ := strings.Cut(what, " ")
			w := newWorld(t, realRedis(t), sources()...)
			s := w.fillAll(3)
			tap := w.tap()
			e := w.engine(tap, nil)
			steps, at, worked := 1, 0, false
			for ; at < steps; at++ {
				steps = 0
				work := func() error {
					if steps++; steps-1 == at && !worked {
						worked = true // once, even if a script has to be loaded
						n := strconv.Itoa(at + 10)
						w.set("player:1", "points", n)
						w.remove("player:2")
						w.change("tags:1", "SADD", n)
						w.change("events:1", "XADD", "*", "n", n)
						w.change("queue:2", "LSET", "0", n)
						if did == "flushed" {
							w.passOf(s)
						}
					}
					return nil
				}
				if where == "before" {
					tap.before = func(step, []string) error { return work() }
				} else {
					tap.after = func(step) error { return work() }
				}
				list, err := e.Verify(t.Context(), w.sink, flush.VerifyOptions{})
				tap.before, tap.after, worked = nil, nil, false
				if err != nil {
					t.Fatal(err)
				}
				for _, v := range list {
					if v.Differ+v.Orphans+v.Unreadable > 0 {
						t.Errorf("step %d: %+v", at, v)
					}
				}
				w.set("player:2", "points", "1")
				w.change("tags:1", "SPOP")
				w.passOf(s)
			}
			if at < 20 {
				t.Errorf("only %d steps", at)
			}
		})
	}
}
