package store_test

import (
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockkeeper/lockkeeper/flush"
	"github.com/lockkeeper/lockkeeper/internal/redistest"
)

// TestAutoIncrementZero: in an AUTO_INCREMENT column a 0 is a 0.
func TestAutoIncrementZero(t *testing.T) {
	m := players()
	m.Create = false
	w := newWorldOn(t, newPlace(t, "MariaDB"), realRedis(t), m)
	exec(t, w.db, `CREATE TABLE player (id BIGINT PRIMARY KEY AUTO_INCREMENT, name LONGTEXT, score BIGINT, lockkeeper_version BIGINT NOT NULL DEFAULT 0)`)
	for _, name := range []string{"Ann", "Amy"} {
		w.set("player:0", "name", name)
		w.want(w.pass(), flush.Stats{Keys: 1, Upserts: 1})
	}
	w.rows(allPlayers, "0 Amy -")
}

// TestTooLargeForThePacket: a row that is larger than the server takes is parked, and the
// job goes on with the same connections.
func TestTooLargeForThePacket(t *testing.T) {
	w := newWorldOn(t, newPlace(t, "MariaDB"), realRedis(t))
	w.set("player:1", "name", strings.Repeat("x", 17<<20))
	w.set("player:2", "name", "Ann")
	w.want(w.pass(), flush.Stats{Keys: 2, Upserts: 1, Parked: 1})
	w.parked("player:1", "packet")
	w.rows(allPlayers, "2 Ann -")
}

// TestWriteThatEmptiesAKey: Redis deletes a set with its last member, and so does the
// flush with its rows.
func TestWriteThatEmptiesAKey(t *testing.T) {
	eachRedis(t, func(t *testing.T, rdb *redis.Client) {
		w := newWorld(t, rdb, everySource()...)
		w.run("player:1:set", "SADD", "a", "b")
		w.run("player:1:hash", "HSET", "name", "Ann")
		w.pass()
		w.rows("SELECT count(*) FROM player_set", "2")
		w.run("player:1:set", "SREM", "a")
		w.pass()
		w.rows("SELECT member FROM player_set", "b")
		w.run("player:1:set", "SREM", "b")
		w.run("player:1:hash", "HDEL", "name")
		w.want(w.pass(), flush.Stats{Keys: 2, Deletes: 2})
		w.rows("SELECT count(*) FROM player_set", "0")
		w.rows("SELECT count(*) FROM player_hash", "0")
	})
}

// TestRecordedDeleteStays: what comes after a recorded delete and changes nothing does not
// make a new value of it.
func TestRecordedDeleteStays(t *testing.T) {
	w := newWorld(t, realRedis(t))
	for name, after := range map[string]func(){
		"a command without effect": func() { w.run("player:1", "EXPIRE", "100") },
		"a set of the application": func() { w.do("SADD", w.keys().Changed, "player:1") },
	} {
		w.set("player:1", "name", "Ann")
		w.pass()
		w.remove("player:1")
		after()
		w.want(w.pass(), flush.Stats{Keys: 1, Deletes: 1})
		w.rows(allPlayers, "")
		if t.Failed() {
			t.Fatal(name)
		}
	}
	// And a new value after it is one.
	w.remove("player:1")
	w.set("player:1", "name", "Amy")
	w.want(w.pass(), flush.Stats{Keys: 1, Upserts: 1})
	w.rows(allPlayers, "1 Amy -")
}

// TestOwnKeysAreNoData: a pattern that fits everything takes no keys of Lockkeeper.
func TestOwnKeysAreNoData(t *testing.T) {
	m := players()
	m.Keys, m.Key = "{id*}", []flush.Column{{Name: "id", Type: flush.Text}}
	w := newWorld(t, realRedis(t), m)
	w.do("HSET", "player:1", "name", "Ann")
	w.do("HSET", "lockkeeper:flush:{other}:control", "name", "no player")
	w.do("HSET", "{lockkeeper:lock}:lk-places", "name", "no player")
	e := w.engine(w.conn, nil)
	if found, err := e.Resync(t.Context(), "", nil); err != nil || found.Keys != 1 {
		t.Errorf("%+v, %v; want one key", found, err)
	}
	if _, err := e.Scan(t.Context(), "player"); err != nil {
		t.Fatal(err)
	}
	w.pass()
	w.rows("SELECT id, name FROM player", "player:1 Ann")
	w.status(0, 0)
}

// TestMigrateAtOnce: processes that make the tables at the same time do not fail.
func TestMigrateAtOnce(t *testing.T) {
	onDatabases(t, func(t *testing.T, w *world) {
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if err := w.newSink(w.place.open(t)).Migrate(t.Context()); err != nil {
					t.Error(err)
				}
			})
			w.exec("DROP TABLE IF EXISTS player")
		}
		all.Wait()
		if err := errors.Join(w.sink.Migrate(t.Context()), w.sink.CheckTables(t.Context())); err != nil {
			t.Error(err)
		}
	})
}

func (w *world) exec(statement string) {
	w.t.Helper()
	// It may meet somebody who makes the table.
	_, _ = w.db.ExecContext(w.t.Context(), statement)
}

// TestOtherDatabase: a process whose database is not the job's does not work, unless it is
// told that this is the new one.
func TestOtherDatabase(t *testing.T) {
	w := newWorld(t, realRedis(t))
	w.set("player:1", "name", "Ann")
	w.pass()
	other := newWorldOn(t, newPlace(t, "SQLite"), w.rdb)
	other.fence = w.fence
	if _, err := other.engine(w.conn, nil).Begin(t.Context(), newHold(2)); !errors.Is(err, flush.ErrOtherDatabase) {
		t.Errorf("%v; want ErrOtherDatabase", err)
	}
	// Nor does it stand for election.
	wrong := other.runWorker("wrong", other.sink, nil)
	redistest.Until(t, "it says why", func() bool {
		s, err := w.engine(w.conn, nil).Status(t.Context())
		return err == nil && len(s.Members) == 1 && strings.Contains(s.Members[0].Trouble, flush.ErrOtherDatabase.Error())
	})
	if wrong.terms.Load() > 0 {
		t.Error("it was elected")
	}
	wrong.stop()
	adopting := other.engine(w.conn, func(cfg *flush.Config) { cfg.AdoptDatabase = true })
	w.set("player:1", "name", "Amy")
	other.want(other.passOf(other.begin(adopting)), flush.Stats{Keys: 1, Upserts: 1})
	if _, err := w.engine(w.conn, nil).Begin(t.Context(), newHold(9)); !errors.Is(err, flush.ErrOtherDatabase) {
		t.Errorf("the old one: %v; want ErrOtherDatabase", err)
	}
}

// TestFullRedis: a worker goes on where Redis takes no more, and so frees memory.
func TestFullRedis(t *testing.T) {
	w := newWorld(t, realRedis(t))
	for i := range 200 {
		w.set("player:"+strconv.Itoa(i), "name", "Ann")
	}
	w.do("SADD", w.keys().Changed, "player:1")
	s := w.session()
	w.do("CONFIG", "SET", "maxmemory", "1")
	if err := w.Set(t.Context(), "player:1", "name", "Amy"); err == nil || !strings.Contains(err.Error(), "OOM") {
		t.Fatalf("Redis is not full: %v", err)
	}
	w.want(w.passOf(s), flush.Stats{Keys: 200, Upserts: 200})
	w.status(0, 0)
}

// TestCommandsOfSeveralKeys: what would change a key without a mark is refused.
func TestCommandsOfSeveralKeys(t *testing.T) {
	w := newWorld(t, realRedis(t))
	for _, command := range [][]string{
		{"rename", "player:2"}, {"SMOVE", "b", "m"}, {"DEL", "player:2"}, {"SORT", "ALPHA", "store", "player:2"}, {"MSET", "v", "player:2", "v"},
	} {
		if _, err := w.Do(t.Context(), "player:1", command[0], command[1:]...); err == nil || !strings.Contains(err.Error(), "another key") {
			t.Errorf("%v: %v", command, err)
		}
	}
	w.status(0, 0)
}

// TestMappingThatCoversAnother: a mapping that can never have a key is a mistake.
func TestMappingThatCoversAnother(t *testing.T) {
	w := newWorld(t, embeddedRedis(t))
	for _, pair := range [][2]string{{"p:{id}", "p:{x}"}, {"p:{id*}", "p:{id}"}} {
		a, b := players(), players()
		a.Keys, b.Keys, b.Table = pair[0], pair[1], "other"
		b.Key = []flush.Column{{Name: "id", Field: strings.Trim(pair[1], "p:{}"), Type: flush.Int64}}
		a.Key = []flush.Column{{Name: "id", Type: flush.Int64}}
		if _, err := flush.New(w.conn, w.sink, flush.Config{Job: job, Mappings: []flush.Mapping{a, b}}); err == nil || !strings.Contains(err.Error(), "no key is left for it") {
			t.Errorf("%v: %v", pair, err)
		}
		if _, err := flush.New(w.conn, w.sink, flush.Config{Job: job, Mappings: []flush.Mapping{b, a}}); pair[0] != "p:{id}" && err != nil {
			t.Errorf("%v the other way round: %v", pair, err)
		}
	}
}

// TestScanFindsAnotherType: a key that has become something else is parked, and not
// overlooked.
func TestScanFindsAnotherType(t *testing.T) {
	w := newWorld(t, realRedis(t))
	e := w.engine(w.conn, nil)
	w.do("HSET", "player:1", "name", "Ann")
	if r, err := e.Scan(t.Context(), "player"); err != nil || r.Changed != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	w.pass()
	w.do("DEL", "player:1")
	w.do("SET", "player:1", "text")
	for range 2 {
		if _, err := e.Scan(t.Context(), "player"); err != nil {
			t.Fatal(err)
		}
		w.pass()
		w.parked("player:1", "the key is a string, not a hash")
	}
}

// TestStepDownEndsATerm: also for callers with a loop of their own.
func TestStepDownEndsATerm(t *testing.T) {
	w := newWorld(t, realRedis(t))
	s := w.session()
	if err := w.engine(w.conn, nil).StepDown(t.Context(), s.Epoch()); err != nil {
		t.Fatal(err)
	}
	w.set("player:1", "name", "Ann")
	if _, err := s.Pass(t.Context()); !errors.Is(err, flush.ErrSteppedDown) {
		t.Errorf("%v; want ErrSteppedDown", err)
	}
	w.status(1, 0)
	w.want(w.pass(), flush.Stats{Keys: 1, Upserts: 1})
}

// run writes through the producer.
func (w *world) run(key, command string, args ...string) {
	w.t.Helper()
	if _, err := w.Do(w.t.Context(), key, command, args...); err != nil {
		w.t.Fatal(err)
	}
}

// TestResyncOfAStream writes all of its entries again.
func TestResyncOfAStream(t *testing.T) {
	w := newWorld(t, realRedis(t), everySource()...)
	for range 3 {
		w.run("player:1:stream", "XADD", "*", "f", "v")
	}
	w.pass()
	exec(t, w.db, "DELETE FROM player_stream")
	if r, err := w.engine(w.conn, nil).Resync(t.Context(), "player_stream", nil); err != nil || r.Marked != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	w.want(w.pass(), flush.Stats{Keys: 1, Upserts: 3})
	w.rows("SELECT count(*) FROM player_stream", "3")
}
