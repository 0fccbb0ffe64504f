package store_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockkeeper/lockkeeper/flush"
	"github.com/lockkeeper/lockkeeper/internal/redistest"
	"github.com/lockkeeper/lockkeeper/sqlfence"
)

// strictPlayers is players with a table that refuses what the types let through.
func strictPlayers() flush.Mapping {
	m := players()
	m.Create = false
	m.Columns = append(m.Columns, flush.Column{Name: "level", Type: flush.Int64})
	return m
}

// strictTable is the same for all databases, as far as they check the same.
const strictTable = `CREATE TABLE player (id BIGINT PRIMARY KEY, name VARCHAR(10) NOT NULL CHECK (length(name) <= 10),
	score BIGINT, level SMALLINT CHECK (level BETWEEN -32768 AND 32767), lockkeeper_version BIGINT NOT NULL,
	CONSTRAINT good_score CHECK (score < 1000))`

// allParked returns what is parked, by name.
func (w *world) allParked() []flush.Parked {
	w.t.Helper()
	var list []flush.Parked
	err := w.engine(w.conn, nil).EachParked(w.t.Context(), func(p flush.Parked) bool { list = append(list, p); return true })
	if err != nil {
		w.t.Fatal(err)
	}
	slices.SortFunc(list, func(a, b flush.Parked) int { return cmp.Compare(a.Name(), b.Name()) })
	return list
}

// onePark returns the one key of a name that is parked.
func (w *world) onePark(name string) flush.Parked {
	w.t.Helper()
	list, err := w.engine(w.conn, nil).GetParked(w.t.Context(), name)
	if err != nil || len(list) != 1 {
		w.t.Fatalf("%d of the name %s are parked: %v", len(list), name, err)
	}
	return list[0]
}

func (w *world) retry(list ...flush.Parked) {
	w.t.Helper()
	n, err := w.engine(w.conn, nil).RetryParked(w.t.Context(), list...)
	if err != nil || n != len(list) {
		w.t.Fatalf("retried %d of %d: %v", n, len(list), err)
	}
}

func TestRefusedRows(t *testing.T) {
	codes := map[sqlfence.Dialect]map[string]string{
		sqlfence.SQLite:   {"player:17": "19", "player:18": "19", "player:99": "19", "player:150": "19"},
		sqlfence.Postgres: {"player:17": "23502", "player:18": "23514", "player:99": "22001", "player:150": "22003"},
		sqlfence.MariaDB:  {"player:17": "1048", "player:18": "4025", "player:99": "1406", "player:150": "1264"},
	}
	onDatabases(t, func(t *testing.T, w *world) {
		exec(t, w.db, strictTable)
		for i := range 200 {
			w.set(fmt.Sprintf("player:%d", i), "name", "n", "points", fmt.Sprint(i))
		}
		w.do("HDEL", "player:17", "name")
		w.set("player:18", "points", "1000")
		w.set("player:99", "name", strings.Repeat("x", 11))
		w.set("player:150", "level", "40000")
		w.set("player:151", "points", "x") // found before the database sees it
		s := w.session()
		w.want(w.passOf(s), flush.Stats{Keys: 200, Upserts: 195, Parked: 5})
		w.rows("SELECT count(*), count(DISTINCT id), sum(score) FROM player", fmt.Sprintf("195 195 %d", 200*199/2-17-18-99-150-151))
		w.status(0, 5)
		for key, code := range codes[w.place.kind] {
			p := w.onePark(key)
			if p.Key != key || p.Table != "player" || p.Code != code || p.Attempts != 1 || !strings.HasPrefix(p.Reason, "the database refuses it: ") ||
				p.First != p.Last || time.Since(p.First) > time.Minute {
				t.Errorf("%+v; want the code %s", p, code)
			}
		}
		if p := w.onePark("player:151"); p.Column != "score" || p.Reason != `"x" is not a 64-bit integer` || p.Code != "" {
			t.Errorf("%+v", p)
		}

		// Tried again: as bad as before, but for one.
		before := w.allParked()
		exec(t, w.db, "UPDATE player SET score = 0 WHERE id = 18") // no row
		w.do("HSET", "player:18", "points", "18")                  // mended without a mark
		w.retry(before...)
		w.status(5, 5)
		w.want(w.passOf(s), flush.Stats{Keys: 5, Upserts: 1, Parked: 4})
		w.status(0, 4)
		p := w.onePark("player:99")
		if p.Attempts != 2 || !p.Last.After(p.First) || p.First != before[slices.IndexFunc(before, func(b flush.Parked) bool { return b.Key == p.Key })].First {
			t.Errorf("after two attempts: %+v", p)
		}
		// Changed: written without anybody's help. Deleted: as well.
		w.set("player:17", "name", "back")
		w.remove("player:99")
		w.want(w.passOf(s), flush.Stats{Keys: 2, Upserts: 1, Deletes: 1})
		w.status(0, 2)

		// Forgotten, unless it was parked again since.
		old := w.onePark("player:150")
		w.retry(old)
		w.passOf(s)
		drop := func(want int, list ...flush.Parked) {
			t.Helper()
			if n, err := w.engine(w.conn, nil).DropParked(t.Context(), list...); err != nil || n != want {
				t.Errorf("dropped %d, %v; want %d", n, err, want)
			}
		}
		drop(0, old)
		drop(2, w.allParked()...)
		w.status(0, 0)
		w.rows("SELECT id, name, score FROM player WHERE id IN (17, 18, 99, 150, 151) ORDER BY id", "17 back 17;18 n 18")
		if n, err := w.engine(w.conn, nil).DropParked(t.Context(), flush.Parked{Key: "player:1"}); err == nil || n != 0 {
			t.Errorf("dropped what nobody has read: %d, %v", n, err)
		}
	}, strictPlayers())
}

// TestDuplicate: a unique index besides the key. MariaDB is told apart: an upsert there
// would change the row that has the value already, and the check of the tables says so.
func TestDuplicate(t *testing.T) {
	onDatabases(t, func(t *testing.T, w *world) {
		length := ""
		if w.place.kind == sqlfence.MariaDB {
			length = "(100)"
		}
		exec(t, w.db, "CREATE UNIQUE INDEX one_name ON player (name"+length+")")
		err := w.sink.CheckTables(t.Context())
		if w.place.kind == sqlfence.MariaDB {
			if err == nil || !strings.Contains(err.Error(), "one_name") {
				t.Errorf("the index is fine: %v", err)
			}
			return
		}
		if err != nil {
			t.Error(err)
		}
		s := w.session()
		w.set("player:1", "name", "Ann")
		w.passOf(s)
		w.set("player:2", "name", "Ann", "points", "2")
		w.set("player:3", "name", "Cid")
		w.want(w.passOf(s), flush.Stats{Keys: 2, Upserts: 1, Parked: 1})
		w.rows(allPlayers, "1 Ann -;3 Cid -")
	}, players())
}

// TestSchemaPause: what concerns the whole table pauses its mapping, and no other.
func TestSchemaPause(t *testing.T) {
	for what, breaks := range map[string][2]string{
		"no table":  {"ALTER TABLE queue RENAME TO away", "ALTER TABLE away RENAME TO queue"},
		"no column": {"ALTER TABLE queue RENAME COLUMN item TO away", "ALTER TABLE queue RENAME COLUMN away TO item"},
	} {
		t.Run(what, func(t *testing.T) {
			onDatabases(t, func(t *testing.T, w *world) {
				s := w.session()
				w.set("player:1", "name", "Ann")
				w.change("queue:1", "RPUSH", "a")
				w.passOf(s)
				exec(t, w.db, breaks[0])
				w.change("queue:1", "RPUSH", "b")
				w.change("queue:2", "RPUSH", "c")
				w.set("player:1", "name", "Amy")
				marked := w.do("ZSCORE", w.keys().Dirty, "queue:1")
				w.want(w.passOf(s), flush.Stats{Keys: 3, Upserts: 1, Held: 2})
				w.rows(allPlayers, "1 Amy -")
				w.status(2, 0)
				st, err := w.engine(w.conn, nil).Status(t.Context())
				if err != nil || len(st.Pauses) != 1 || st.Pauses[0].Table != "queue" || !st.Pauses[0].Auto || !st.Pauses[0].Retries || st.Pauses[0].Reason == "" {
					t.Errorf("%+v, %v", st.Pauses, err)
				}
				if len(st.Held) != 1 || st.Held[0].Table != "queue" || st.Held[0].Keys != 2 || st.Oldest != st.Held[0].Oldest || st.Oldest == 0 {
					t.Errorf("%+v", st.Held)
				}
				if now := w.do("ZSCORE", w.keys().Held("queue"), "queue:1"); now != marked {
					t.Errorf("put aside as of %v, marked at %v", now, marked)
				}
				// Whoever comes next knows of it, and so do new changes.
				next := w.session()
				w.change("queue:3", "RPUSH", "d")
				w.remove("queue:1")
				w.set("player:2", "name", "Bob")
				w.want(w.passOf(next), flush.Stats{Keys: 3, Upserts: 1, Held: 2})
				w.status(3, 0)

				exec(t, w.db, breaks[1])
				w.resume("queue")
				w.drain(next)
				w.rows("SELECT id, position, item FROM queue ORDER BY id", "2 0 c;3 0 d")
				w.rows(allPlayers, "1 Amy -;2 Bob -")
			}, players(), sources()[6])
		})
	}
}

func (w *world) resume(table string) {
	w.t.Helper()
	if err := w.engine(w.conn, nil).Resume(w.t.Context(), table); err != nil {
		w.t.Fatal(err)
	}
}

// drain passes until nothing is left to flush.
func (w *world) drain(s *flush.Session) {
	w.t.Helper()
	redistest.Until(w.t, "everything is flushed", func() bool {
		w.passOf(s)
		st, err := w.engine(w.conn, nil).Status(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		return st.Dirty == 0
	})
	w.status(0, len(w.allParked()))
}

// TestRunPausedTable: with a worker that runs, nobody has to do anything but mend the
// table. It takes five seconds, on all databases at a time.
func TestRunPausedTable(t *testing.T) {
	var worlds []*world
	for _, kind := range kinds {
		w := newWorldOn(t, newPlace(t, kind), realRedis(t), players(), sources()[6])
		worlds = append(worlds, w)
		exec(t, w.db, "ALTER TABLE queue RENAME COLUMN item TO away")
		w.runWorker(kind, w.sink, nil)
		w.change("queue:1", "RPUSH", "b")
		w.set("player:1", "name", "Ann")
	}
	for _, w := range worlds {
		w.eventually(allPlayers, "1 Ann -")
		redistest.Until(t, "the mapping is paused", func() bool {
			st, err := w.engine(w.conn, nil).Status(t.Context())
			return err == nil && len(st.Pauses) == 1 && len(st.Held) == 1
		})
		exec(t, w.db, "ALTER TABLE queue RENAME COLUMN away TO item")
	}
	for _, w := range worlds {
		w.eventually("SELECT id, position, item FROM queue", "1 0 b")
		redistest.Until(t, "the pause is over", func() bool {
			st, err := w.engine(w.conn, nil).Status(t.Context())
			return err == nil && len(st.Pauses) == 0 && st.Dirty == 0
		})
	}
}

// TestPauseByHand: of a mapping, and of the job.
func TestPauseByHand(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *world) {
		e, s := w.engine(w.conn, nil), w.session()
		pause := func(table string) {
			t.Helper()
			if err := e.Pause(t.Context(), flush.Pause{Table: table, Reason: "a test", By: "me"}); err != nil {
				t.Fatal(err)
			}
		}
		pause("player")
		w.set("player:1", "name", "Ann")
		w.change("queue:1", "RPUSH", "a")
		marked := w.do("ZSCORE", w.keys().Dirty, "player:1")
		version := w.do("HGET", w.keys().Versions, "player:1")
		w.want(w.passOf(s), flush.Stats{Keys: 2, Upserts: 1, Held: 1})
		w.rows(allPlayers, "")
		w.status(1, 0)
		w.want(w.passOf(s), flush.Stats{})
		st, err := e.Status(t.Context())
		if err != nil || len(st.Pauses) != 1 || st.Pauses[0].Auto || st.Pauses[0].Reason != "a test" || st.Pauses[0].By != "me" || time.Since(st.Pauses[0].Since) > time.Minute {
			t.Errorf("%+v, %v", st.Pauses, err)
		}
		w.set("player:2", "name", "Bob") // changes that come in meanwhile
		w.passOf(s)
		w.set("player:2", "name", "Bea")
		w.remove("player:3")
		w.passOf(s)
		w.status(3, 0)
		if now := w.do("ZSCORE", w.keys().Held("player"), "player:1"); now != marked {
			t.Errorf("put aside as of %v, marked at %v", now, marked)
		}
		if now := w.do("HGET", w.keys().Versions, "player:1"); now != version {
			t.Errorf("the version was %v and is %v", version, now)
		}
		w.resume("player")
		w.drain(s)
		w.rows(allPlayers, "1 Ann -;2 Bea -")

		pause("")
		w.set("player:1", "name", "Amy")
		if _, err := s.Pass(t.Context()); err != flush.ErrPaused {
			t.Errorf("a pass of a paused job: %v", err)
		}
		w.status(1, 0)
		w.resume("")
		w.want(w.passOf(s), flush.Stats{Keys: 1, Upserts: 1})
		if err := e.Pause(t.Context(), flush.Pause{Table: "nothing"}); err == nil {
			t.Error("paused what is not there")
		}
	}, players(), sources()[6])
}

// TestTooManyParked: that many bad rows are no bad rows, but a wrong mapping.
func TestTooManyParked(t *testing.T) {
	onDatabases(t, func(t *testing.T, w *world) {
		exec(t, w.db, strictTable)
		fill := func(bad int, field, value string) {
			for i := range 300 {
				w.set(fmt.Sprintf("player:%d", i), "name", "n", "points", "1", "level", "1")
				if i%(300/bad) == 0 {
					w.set(fmt.Sprintf("player:%d", i), field, value)
				}
			}
		}
		for what, f := range map[string]struct{ field, value string }{
			"the types refuse it": {"points", "x"}, "the database refuses it": {"points", "1000"},
		} {
			s := w.session()
			fill(20, f.field, f.value) // that is a fifteenth, and 20 always may be parked
			w.want(w.passOf(s), flush.Stats{Keys: 300, Upserts: 280, Parked: 20})
			fill(60, f.field, f.value)
			w.passOf(s)
			st, err := w.engine(w.conn, nil).Status(t.Context())
			if err != nil || len(st.Pauses) != 1 || !st.Pauses[0].Auto || st.Pauses[0].Retries || !strings.Contains(st.Pauses[0].Reason, "keys can't be written, such as \"player:") || !strings.Contains(st.Pauses[0].Reason, "is the mapping right?") {
				t.Errorf("%s: %+v, %v", what, st.Pauses, err)
			}
			if st.Dirty == 0 || st.Parked > 20 {
				t.Errorf("%s: %d dirty, %d parked", what, st.Dirty, st.Parked)
			}
			w.want(w.passOf(s), flush.Stats{})

			fill(300, f.field, "7") // mended
			w.resume("player")
			w.drain(s)
			w.status(0, 0)
			w.rows("SELECT count(*), min(score), max(score) FROM player", "300 7 7")
			exec(t, w.db, "DELETE FROM player")
			if err := w.rdb.FlushAll(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
		}
		// Who wants everything parked gets that.
		fill(300, "points", "x")
		s := w.begin(w.engine(w.conn, func(cfg *flush.Config) { cfg.MaxParked = 1 }))
		w.want(w.passOf(s), flush.Stats{Keys: 300, Parked: 300})
		w.status(0, 300)
		w.retry(w.allParked()...)
		w.status(300, 300)
	}, strictPlayers())
}

// family has children whose mapping comes before that of their parents.
func family() []flush.Mapping {
	m := flush.Mapping{Keys: "child:{id}", Table: "child", Key: []flush.Column{{Name: "id", Type: flush.Int64}},
		Columns: []flush.Column{{Name: "parent", Type: flush.Int64}}}
	log := flush.Mapping{Keys: "log:{id}", Table: "log", Source: flush.Streams, Key: []flush.Column{{Name: "id", Type: flush.Int64}},
		Columns: []flush.Column{{Name: "entry", Field: "id", Type: flush.Text}, {Name: "parent", Type: flush.Int64}}}
	return []flush.Mapping{m, log, players()}
}

// familyWorld makes a world with the tables of family.
func familyWorld(t *testing.T, p place, deferred string) *world {
	t.Helper()
	w := newWorldOn(t, p, realRedis(t), family()...)
	entry := "VARCHAR(100)"
	if p.kind == sqlfence.MariaDB {
		entry += " CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin"
	}
	for name, columns := range map[string]string{"child": "id BIGINT PRIMARY KEY", "log": "id BIGINT, entry " + entry} {
		text := "CREATE TABLE " + name + " (" + columns + ", parent BIGINT, lockkeeper_version BIGINT"
		if name == "log" {
			text += ", PRIMARY KEY (id, entry)"
		}
		exec(t, w.db, text+", FOREIGN KEY (parent) REFERENCES player (id) "+deferred+")")
	}
	return w
}

// families are all databases, and those that say at the commit only what is wrong.
func families(t *testing.T) map[string]*world {
	t.Helper()
	all := make(map[string]*world)
	for _, kind := range kinds {
		all[kind] = familyWorld(t, newPlace(t, kind), "")
	}
	for _, kind := range kinds[:2] {
		all[kind+", deferred"] = familyWorld(t, newPlace(t, kind), "DEFERRABLE INITIALLY DEFERRED")
	}
	return all
}

// TestForeignKeys: a row that refers to one that comes later waits for it, and no other
// row waits for that one.
func TestForeignKeys(t *testing.T) {
	for name, w := range families(t) {
		t.Run(name, func(t *testing.T) {
			w.t = t
			foreignKeys(t, w)
		})
	}
}

func foreignKeys(t *testing.T, w *world) {
	s := w.session()
	// Both in one batch: it is not known which of them comes first.
	w.set("child:1", "parent", "1")
	w.change("log:1", "XADD", "1-1", "parent", "1")
	w.set("player:1", "name", "Ann")
	w.drain(s)
	w.tables(map[string]string{"id, parent FROM child": "1 1", "entry, parent FROM log": "1-1 1"})

	w.set("child:2", "parent", "2")
	w.set("child:3", "parent", "1")
	for i, parent := range []int{1, 2, 1} {
		w.change("log:1", "XADD", fmt.Sprintf("2-%d", i), "parent", fmt.Sprint(parent))
	}
	w.change("log:2", "XADD", "2-9", "parent", "1")
	w.passOf(s)
	w.tables(map[string]string{"id, parent FROM child ORDER BY id": "1 1;3 1", "entry, parent FROM log WHERE id = 2": "2-9 1"})
	if st, err := w.engine(w.conn, nil).Status(t.Context()); err != nil || st.Waiting != 2 || st.Dirty != 2 || st.Parked != 0 {
		t.Errorf("%+v, %v", st, err)
	}
	w.set("player:2", "name", "Bob")
	w.drain(s)
	w.tables(map[string]string{"id, parent FROM child ORDER BY id": "1 1;2 2;3 1", "entry, parent FROM log WHERE id = 1 ORDER BY entry": "1-1 1;2-0 1;2-1 2;2-2 1"})
	w.status(0, 0)

	// A parent that has children still is not deleted; when they are gone it is.
	w.remove("player:2")
	w.passOf(s)
	w.rows(allPlayers, "1 Ann -;2 Bob -")
	w.set("child:2", "parent", "1")
	exec(t, w.db, "DELETE FROM log WHERE parent = 2")
	w.drain(s)
	w.rows(allPlayers, "1 Ann -")
}

// TestParentNeverComes: ten tries, all but the first two a second apart, on all databases at a time.
func TestParentNeverComes(t *testing.T) {
	all := families(t)
	sessions := make(map[string]*flush.Session)
	began := time.Now()
	for name, w := range all {
		sessions[name] = w.session()
		w.set("player:1", "name", "Ann")
		w.passOf(sessions[name])
		w.set("child:9", "parent", "9")
		w.change("log:1", "XADD", "3-0", "parent", "9")
		w.change("log:1", "XADD", "3-1", "parent", "1")
	}
	redistest.Until(t, "they are parked", func() bool {
		left := 0
		for name, w := range all {
			w.passOf(sessions[name])
			st, err := w.engine(w.conn, nil).Status(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			left += st.Dirty
			if st.Parked > 0 && time.Since(began) < 8*time.Second {
				t.Fatalf("%s: parked after %s", name, time.Since(began))
			}
		}
		return left == 0
	})
	for name, w := range all {
		list := w.allParked()
		code := map[sqlfence.Dialect]string{sqlfence.SQLite: "19", sqlfence.Postgres: "23503", sqlfence.MariaDB: "1452"}[w.place.kind]
		if len(list) != 2 || list[0].Name() != "child:9" || list[1].Name() != "log:1 entry 3-0" || list[0].Code != code || list[1].Code != code {
			t.Fatalf("%s: parked: %+v", name, list)
		}
		w.rows("SELECT entry FROM log", "3-1")
		w.set("player:9", "name", "Ida")
		w.retry(list...)
		w.drain(sessions[name])
		w.status(0, 0)
		w.tables(map[string]string{"id, parent FROM child": "9 9", "entry FROM log ORDER BY entry": "3-0;3-1"})
	}
}

// TestBadEntries: a stream goes on behind an entry that can't be a row.
func TestBadEntries(t *testing.T) {
	m := sources()[8]
	m.Create = false
	eachWorld(t, func(t *testing.T, w *world) {
		exec(t, w.db, `CREATE TABLE event (id BIGINT, entry VARCHAR(100), what VARCHAR(100), n BIGINT, lockkeeper_version BIGINT NOT NULL,
			PRIMARY KEY (id, entry), CONSTRAINT good CHECK (n <> 13))`)
		add := func(from, to int) {
			for i := from; i < to; i++ {
				n := fmt.Sprint(i)
				if i%50 == 7 {
					n = "seven"
				}
				w.change("events:1", "XADD", fmt.Sprintf("2-%d", i), "n", n)
			}
		}
		s := w.session()
		add(0, 120)
		w.want(w.passOf(s), flush.Stats{Keys: 1, Upserts: 116, Parked: 4})
		w.rows("SELECT count(*) FROM event", "116")
		list := w.allParked()
		var names []string
		for _, p := range list {
			names = append(names, p.Name())
		}
		if got := strings.Join(names, ", "); got != "events:1 entry 2-107, events:1 entry 2-13, events:1 entry 2-57, events:1 entry 2-7" {
			t.Fatalf("parked: %s", got)
		}
		if list[0].Entry != "2-107" || list[0].Key != "events:1" || list[0].Column != "n" || list[1].Code == "" {
			t.Errorf("%+v", list)
		}
		// The table is mended, the entries that are no numbers are not.
		if w.place.kind == sqlfence.SQLite {
			exec(t, w.db, "ALTER TABLE event RENAME TO old")
			exec(t, w.db, "CREATE TABLE event (id BIGINT, entry VARCHAR(100), what VARCHAR(100), n BIGINT, lockkeeper_version BIGINT NOT NULL, PRIMARY KEY (id, entry))")
			exec(t, w.db, "INSERT INTO event SELECT * FROM old")
		} else {
			exec(t, w.db, "ALTER TABLE event DROP CONSTRAINT good")
		}
		if n, err := w.engine(w.conn, nil).RetryParked(t.Context(), list...); err != nil || n < 1 {
			t.Errorf("retried %d, %v", n, err)
		}
		w.passOf(s)
		w.status(0, 3)
		w.rows("SELECT count(*), sum(CASE WHEN n = 13 THEN 1 ELSE 0 END) FROM event", "117 1")
		if p := w.onePark("events:1 entry 2-7"); p.Attempts != 2 {
			t.Errorf("%+v", p)
		}
		add(120, 130)
		w.want(w.passOf(s), flush.Stats{Keys: 1, Upserts: 10})
		w.status(0, 3)
	}, m)
}

// TestNoMapping: keys that are nobody's.
func TestNoMapping(t *testing.T) {
	eachPlace(t, func(t *testing.T, p place, rdb *redis.Client) {
		w := newWorldOn(t, p, rdb)
		for i := range 50 {
			w.set(fmt.Sprintf("other:%d", i), "a", "b")
		}
		w.set("player:1", "name", "Ann")
		w.want(w.pass(), flush.Stats{Keys: 51, Upserts: 1, Parked: 50})
		w.parked("other:7", "no mapping fits")
		w.status(0, 50)
	})
}
