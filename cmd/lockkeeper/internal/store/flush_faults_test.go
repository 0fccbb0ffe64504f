package store_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockkeeper/lockkeeper/flush"
	"github.com/lockkeeper/lockkeeper/sqlfence"
)

func TestChangedDuringThePass(t *testing.T) {
	eachPlace(t, func(t *testing.T, p place, rdb *redis.Client) {
		for _, at := range []step{page, read, ack} { // before it
			w := newWorldOn(t, p, rdb)
			tap := w.tap()
			s := w.begin(w.engine(tap, nil))
			w.set("player:1", "name", "warm up")
			w.passOf(s)

			w.set("player:1", "name", "old")
			w.set("player:2", "name", "same")
			changed := 0
			tap.before = func(now step, _ []string) error {
				if now == at && changed == 0 {
					changed++
					w.set("player:1", "name", "new")
				}
				return nil
			}
			want := flush.Stats{Keys: 2, Upserts: 2, Changed: 1}
			if at == page {
				want.Changed = 0
			}
			w.want(w.passOf(s), want)
			w.status(want.Changed, 0)
			w.pass()
			w.rows(allPlayers, "1 new -;2 same -")
			w.status(0, 0)
		}
	})
}

// TestDeletedDuringThePass: a delete, or a delete and a new life, between the steps.
func TestDeletedDuringThePass(t *testing.T) {
	eachPlace(t, func(t *testing.T, p place, rdb *redis.Client) {
		for _, at := range []step{page, read, ack} {
			for _, reborn := range []bool{false, true} {
				w := newWorldOn(t, p, rdb)
				tap := w.tap()
				s := w.begin(w.engine(tap, nil))
				w.set("player:1", "name", "warm up")
				w.passOf(s)

				w.set("player:1", "name", "old", "points", "1")
				done := false
				tap.before = func(now step, _ []string) error {
					if now == at && !done {
						done = true
						w.remove("player:1")
						if reborn {
							w.set("player:1", "name", "new")
						}
					}
					return nil
				}
				w.passOf(s)
				w.pass()
				want := ""
				if reborn {
					want = "1 new -"
				}
				w.rows(allPlayers, want)
				w.status(0, 0)
				w.remove("player:1")
				w.pass()
			}
		}
	})
}

// TestAckLost is a crash, or a broken connection, between the commit and the
// acknowledgement: the marks stay, and writing again does no harm.
func TestAckLost(t *testing.T) {
	broken := errors.New("connection reset by test")
	eachPlace(t, func(t *testing.T, p place, rdb *redis.Client) {
		for _, arrived := range []bool{false, true} {
			w := newWorldOn(t, p, rdb)
			tap := w.tap()
			e := w.engine(tap, nil)
			s := w.begin(e)
			w.set("player:1", "name", "warm up")
			w.set("player:2", "name", "Bob")
			w.passOf(s)

			w.set("player:1", "name", "Ann")
			w.remove("player:2")
			w.set("player:3", "points", "x")
			fail := func(now step) error {
				if now == ack {
					return broken
				}
				return nil
			}
			if arrived {
				tap.after = fail
			} else {
				tap.before = func(now step, _ []string) error { return fail(now) }
			}
			if _, err := s.Pass(t.Context()); !errors.Is(err, broken) || errors.Is(err, sqlfence.ErrFenced) {
				t.Errorf("arrived %v: %v", arrived, err)
			}
			w.rows(allPlayers, "1 Ann -") // committed
			tap.before, tap.after = nil, nil
			if arrived {
				w.status(0, 1)
			} else {
				w.status(3, 0)
				w.want(w.passOf(s), flush.Stats{Keys: 3, Upserts: 1, Deletes: 1, Parked: 1}) // the same worker
			}
			w.rows(allPlayers, "1 Ann -")
			w.status(0, 1)

			w.set("player:3", "points", "3")
			tap.before = func(now step, _ []string) error { return fail(now) }
			if _, err := s.Pass(t.Context()); !errors.Is(err, broken) {
				t.Error(err)
			}
			w.want(w.pass(), flush.Stats{Keys: 1, Upserts: 1}) // the next worker
			w.rows(allPlayers, "1 Ann -;3 - 3")
			w.status(0, 0)
			w.remove("player:1")
			w.remove("player:3")
			w.pass()
		}
	})
}

func wantStale(t *testing.T, err error, by string) {
	t.Helper()
	if !errors.Is(err, sqlfence.ErrFenced) || !strings.Contains(err.Error(), by) {
		t.Errorf("%v; want ErrFenced by %s", err, by)
	}
}

// TestStaleSession: a worker that was superseded, at each step of its pass.
func TestStaleSession(t *testing.T) {
	eachPlace(t, func(t *testing.T, p place, rdb *redis.Client) {
		for _, at := range []step{page, read, ack} {
			w := newWorldOn(t, p, rdb)
			tap := w.tap()
			stale := w.begin(w.engine(tap, nil))
			w.set("player:1", "name", "warm up")
			w.passOf(stale)

			w.set("player:1", "name", "old")
			var current *flush.Session
			tap.before = func(now step, _ []string) error {
				if now == at && current == nil {
					current = w.session()
				}
				return nil
			}
			_, err := stale.Pass(t.Context())
			if at == ack {
				wantStale(t, err, "Redis has epoch")
				w.rows(allPlayers, "1 old -") // its commit was before the new claim
			} else {
				wantStale(t, err, "is claimed with fence")
				w.rows(allPlayers, "1 warm up -")
			}
			w.status(1, 0) // the mark is the new one's
			w.set("player:1", "name", "new")
			w.want(w.passOf(current), flush.Stats{Keys: 1, Upserts: 1})
			w.rows(allPlayers, "1 new -")

			w.set("player:1", "name", "newer")
			_, err = stale.Pass(t.Context())
			wantStale(t, err, "is claimed with fence")

			// Nothing to write, something to park: only Redis can refuse.
			w.passOf(current)
			w.set("player:2", "points", "x")
			_, err = stale.Pass(t.Context())
			wantStale(t, err, "Redis has epoch")
			w.status(1, 0)
			w.remove("player:1")
			w.remove("player:2")
			w.passOf(current)
		}
	})
}

// TestResurrection: a stale worker has read a row that is deleted, by the next worker,
// before it writes.
func TestResurrection(t *testing.T) {
	onDatabases(t, func(t *testing.T, w *world) {
		w.set("player:1", "name", "Ann")
		w.pass()
		w.set("player:1", "name", "Amy")
		stale := w.begin(w.engine(w.conn, func(cfg *flush.Config) {
			cfg.Trace.Read = func(int) {
				w.remove("player:1")
				w.want(w.pass(), flush.Stats{Keys: 1, Deletes: 1})
			}
		}))
		_, err := stale.Pass(t.Context())
		wantStale(t, err, "is claimed with fence")
		w.rows(allPlayers, "")
		w.status(0, 0)
	})
}

func TestRestoredDatabase(t *testing.T) {
	eachRedis(t, func(t *testing.T, rdb *redis.Client) {
		w := newWorld(t, rdb)
		w.set("player:1", "name", "Ann")
		w.pass()
		backup := w.file + ".backup"
		exec(t, w.db, "VACUUM INTO ?", backup)
		for range 5 {
			w.session() // the epoch on Redis is 6 now
		}
		stale := w.session()
		w.set("player:1", "name", "Amy")

		w.db = open(t, backup)
		w.sink = w.newSink(w.db)
		w.fence.Store(100)
		s := w.session()
		if s.Epoch() != 8 {
			t.Errorf("epoch %d in the restored database, 7 on Redis", s.Epoch())
		}
		w.want(w.passOf(s), flush.Stats{Keys: 1, Upserts: 1})
		w.rows(allPlayers, "1 Amy -")
		w.set("player:1", "name", "Aya")
		if _, err := stale.Pass(t.Context()); !errors.Is(err, sqlfence.ErrFenced) {
			t.Errorf("the worker on the database from before: %v", err)
		}
		w.status(1, 0)
		if next := w.session(); next.Epoch() != 9 {
			t.Errorf("the next epoch is %d", next.Epoch())
		}
	})
}

// TestRedisLostEverything: a restart without data. The worker ends its term, and the
// next one goes on.
func TestRedisLostEverything(t *testing.T) {
	onDatabases(t, func(t *testing.T, w *world) {
		s := w.session()
		w.set("player:1", "name", "Ann")
		w.passOf(s)
		if err := w.rdb.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		w.set("player:2", "name", "Bob")
		_, err := s.Pass(t.Context())
		wantStale(t, err, "Redis has epoch")
		w.pass()
		w.rows(allPlayers, "1 Ann -;2 Bob -")
		w.status(0, 0)
	})
}

func TestEpochKeyIsForeign(t *testing.T) {
	w := newWorld(t, embeddedRedis(t))
	w.do("SET", w.keys().Epoch, "x")
	_, err := w.engine(w.conn, nil).Begin(t.Context(), newHold(1))
	if err == nil || errors.Is(err, sqlfence.ErrFenced) || !strings.Contains(err.Error(), w.keys().Epoch) {
		t.Errorf("%v; want an error with the key", err)
	}
}

// TestCancelled: a pass whose context ends leaves marks, and no half of a batch.
func TestCancelled(t *testing.T) {
	onDatabases(t, func(t *testing.T, w *world) {
		w.set("player:1", "name", "Ann")
		w.set("player:2", "name", "Bob")
		ctx, cancel := context.WithCancel(t.Context())
		s := w.begin(w.engine(w.conn, func(cfg *flush.Config) {
			cfg.Trace.Read = func(int) { cancel() }
		}))
		if _, err := s.Pass(ctx); !errors.Is(err, context.Canceled) || errors.Is(err, sqlfence.ErrFenced) {
			t.Errorf("%v; want Canceled", err)
		}
		w.rows(allPlayers, "")
		w.status(2, 0)
		w.want(w.passOf(s), flush.Stats{Keys: 2, Upserts: 2})
	})
}

func TestSinkCheck(t *testing.T) {
	onDatabases(t, func(t *testing.T, w *world) {
		check := func() error { return errors.Join(w.sink.Check(t.Context()), w.sink.CheckTables(t.Context())) }
		if err := check(); err != nil {
			t.Error(err)
		}
		for _, tt := range []struct{ change, want string }{
			{"ALTER TABLE player DROP COLUMN lockkeeper_version", "lockkeeper_version"},
			{"ALTER TABLE player DROP COLUMN score", "score"},
			{"DROP TABLE player", "player"},
			{"DROP TABLE lockkeeper_fence", "apply the migration"},
		} {
			exec(t, w.db, tt.change)
			if err := check(); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("after %s: %v; want an error with %q", tt.change, err, tt.want)
			}
		}
	})
}

func TestSinkMigration(t *testing.T) {
	other := players()
	other.Keys, other.Table, other.Create = "x:{id}", "elsewhere", false
	w := newWorld(t, embeddedRedis(t), players(), other)
	printed := open(t, newFile(t))
	exec(t, printed, w.sink.Migration())
	if a, p := schema(t, w.db), schema(t, printed); a != p || !strings.Contains(a, "player") || strings.Contains(a, "elsewhere") {
		t.Errorf("applied:\n%s\nprinted:\n%s", a, p)
	}
	if err := w.sink.Migrate(t.Context()); err != nil {
		t.Errorf("again: %v", err)
	}
	if err := w.sink.CheckTables(t.Context()); err == nil || !strings.Contains(err.Error(), "elsewhere") {
		t.Errorf("without the table that is not ours to make: %v", err)
	}
}

// TestExistingTable: a table that is there already, with the types of
// SQLite's looser times and a default.
func TestExistingTable(t *testing.T) {
	m := players()
	m.Create = false
	w := newWorld(t, embeddedRedis(t), m)
	exec(t, w.db, `CREATE TABLE player (id INT PRIMARY KEY, name VARCHAR(20), extra TEXT DEFAULT 'x', score NUMERIC, lockkeeper_version INT)`)
	if err := w.sink.CheckTables(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.set("player:1", "name", "123", "points", "9007199254740993")
	w.pass()
	w.rows("SELECT id, typeof(name), name, extra, score FROM player", "1 text 123 x 9007199254740993")
}

// TestRowFromBefore is a row that has no version, because the column was added to a
// table that had rows.
func TestRowFromBefore(t *testing.T) {
	m := players()
	m.Create = false
	onDatabases(t, func(t *testing.T, w *world) {
		exec(t, w.db, `CREATE TABLE player (id BIGINT PRIMARY KEY, name VARCHAR(100), score BIGINT)`)
		exec(t, w.db, `INSERT INTO player VALUES (1, 'before', 1), (2, 'before', 2)`)
		exec(t, w.db, `ALTER TABLE player ADD COLUMN lockkeeper_version BIGINT`)
		w.set("player:1", "name", "after")
		w.remove("player:2")
		w.pass()
		w.rows(allPlayers, "1 after -")
		w.status(0, 0)
	}, m)
}

// TestOneTableTwice: two mappings into one table would overwrite each other's rows, and
// within one batch one of them would be dropped.
func TestOneTableTwice(t *testing.T) {
	other := players()
	other.Keys, other.Table = "gamer:{id}", "Player"
	w := newWorld(t, embeddedRedis(t))
	mappings := []flush.Mapping{players(), other}
	if _, err := flush.New(w.conn, w.sink, flush.Config{Job: job, Mappings: mappings}); err == nil || !strings.Contains(err.Error(), "Player") {
		t.Errorf("flush.New: %v", err)
	}
}

// TestFenceTableLost: both memories of the epoch are gone, and the rows remember a later
// one. They are written all the same: what lets a worker write is the fence, and not the
// version of a row.
func TestFenceTableLost(t *testing.T) {
	onDatabases(t, func(t *testing.T, w *world) {
		w.session()
		w.session()
		w.set("player:1", "name", "Ann")
		w.set("player:2", "name", "Bob")
		w.pass() // in epoch 3
		exec(t, w.db, "DELETE FROM lockkeeper_fence WHERE resource LIKE 'flush:%'")
		w.do("DEL", w.keys().Epoch)

		w.set("player:1", "name", "Amy")
		w.remove("player:2")
		w.want(w.pass(), flush.Stats{Keys: 2, Upserts: 1, Deletes: 1})
		w.rows(allPlayers, "1 Amy -")
	})
}

// TestRefusedRow: a row that only the database knows to be wrong is found and parked, and
// the others go on.
func TestRefusedRow(t *testing.T) {
	m := players()
	m.Create = false
	onDatabases(t, func(t *testing.T, w *world) {
		exec(t, w.db, `CREATE TABLE player (id BIGINT PRIMARY KEY, name VARCHAR(100), score BIGINT CHECK (score < 100), lockkeeper_version BIGINT)`)
		w.set("player:1", "points", "1")
		w.set("player:2", "points", "200")
		w.set("player:3", "points", "3")
		s := w.session()
		w.want(w.passOf(s), flush.Stats{Keys: 3, Upserts: 2, Parked: 1})
		w.rows(allPlayers, "1 - 1;3 - 3")
		w.status(0, 1)
		w.parked("player:2", "the database refuses it")
		w.set("player:2", "points", "20")
		w.want(w.passOf(s), flush.Stats{Keys: 1, Upserts: 1})
		w.rows(allPlayers, "1 - 1;2 - 20;3 - 3")
		w.status(0, 0)
	}, m)
}
