package store_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/store"
	"github.com/lockkeeper/lockkeeper/flush"
	"github.com/lockkeeper/lockkeeper/goredisconn"
	"github.com/lockkeeper/lockkeeper/internal/redistest"
)

// eachWorld runs a test on all databases with a real Redis, and on SQLite with the
// embedded one too.
func eachWorld(t *testing.T, test func(t *testing.T, w *world), mappings ...flush.Mapping) {
	t.Helper()
	eachPlace(t, func(t *testing.T, p place, rdb *redis.Client) { test(t, newWorldOn(t, p, rdb, mappings...)) })
}

// eachPlace is eachWorld for tests that make several worlds, or none.
func eachPlace(t *testing.T, test func(t *testing.T, p place, rdb *redis.Client)) {
	t.Helper()
	on(t, kinds, func(t *testing.T, p place) { test(t, p, realRedis(t)) })
	t.Run("SQLite and miniredis", func(t *testing.T) { test(t, newPlace(t, "SQLite"), embeddedRedis(t)) })
}

// onDatabases is eachWorld without the embedded Redis, for what the databases do.
func onDatabases(t *testing.T, test func(t *testing.T, w *world), mappings ...flush.Mapping) {
	t.Helper()
	on(t, kinds, func(t *testing.T, p place) { test(t, newWorldOn(t, p, realRedis(t), mappings...)) })
}

// eachRedis runs a test on a real server and on the embedded one.
func eachRedis(t *testing.T, test func(t *testing.T, rdb *redis.Client)) {
	t.Helper()
	t.Run("redis", func(t *testing.T) { test(t, realRedis(t)) })
	t.Run("miniredis", func(t *testing.T) { test(t, embeddedRedis(t)) })
}

func realRedis(t *testing.T) *redis.Client {
	t.Helper()
	return client(t, redistest.Start(t).Addr())
}

func embeddedRedis(t *testing.T) *redis.Client {
	t.Helper()
	return client(t, miniredis.RunT(t).Addr())
}

func client(t *testing.T, addr string) *redis.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true})
	t.Cleanup(func() {
		if err := rdb.Close(); err != nil {
			t.Error(err)
		}
	})
	return rdb
}

const job = "players"

// players is the mapping of most tests.
func players() flush.Mapping {
	return flush.Mapping{
		Keys:   "player:{id}",
		Table:  "player",
		Create: true,
		Key:    []flush.Column{{Name: "id", Type: flush.Int64}},
		Columns: []flush.Column{
			{Name: "name", Type: flush.Text},
			{Name: "score", Field: "points", Type: flush.Int64},
		},
	}
}

// A world is one job with its Redis, its database and its workers.
type world struct {
	t     *testing.T
	rdb   *redis.Client
	conn  lockkeeper.Conn
	place place
	db    *sql.DB
	file  string // of SQLite
	sink  *flush.SQL
	cfg   flush.Config
	*flush.Producer

	fence *atomic.Int64 // of the last hold
}

// newWorld makes a world on SQLite.
func newWorld(t *testing.T, rdb *redis.Client, mappings ...flush.Mapping) *world {
	t.Helper()
	return newWorldOn(t, newPlace(t, "SQLite"), rdb, mappings...)
}

func newWorldOn(t *testing.T, p place, rdb *redis.Client, mappings ...flush.Mapping) *world {
	t.Helper()
	if len(mappings) == 0 {
		mappings = []flush.Mapping{players()}
	}
	w := &world{t: t, rdb: rdb, conn: goredisconn.New(rdb), place: p, file: strings.TrimPrefix(p.url, "sqlite:"), fence: new(atomic.Int64)}
	w.db = p.open(t)
	w.cfg = flush.Config{Job: job, Mappings: mappings}
	w.sink = w.newSink(w.db)
	if err := w.sink.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	var err error
	if w.Producer, err = flush.NewProducer(w.conn, "", job); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) newSink(db *sql.DB) *flush.SQL {
	w.t.Helper()
	sink, err := flush.NewSQL(db, w.place.kind, w.cfg.Mappings)
	if err != nil {
		w.t.Fatal(err)
	}
	sink.Codes(store.ErrorCode)
	return sink
}

func (w *world) keys() flush.Keys { return flush.KeysOf("", job) }

// engine makes an engine; change may be nil.
func (w *world) engine(conn lockkeeper.Conn, change func(*flush.Config)) *flush.Engine {
	w.t.Helper()
	cfg := w.cfg
	if change != nil {
		change(&cfg)
	}
	e, err := flush.New(conn, w.sink, cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	return e
}

func (w *world) begin(e *flush.Engine) *flush.Session {
	w.t.Helper()
	s, err := e.Begin(w.t.Context(), newHold(lockkeeper.Fence(w.fence.Add(1))))
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// session begins a term of a new, ordinary engine.
func (w *world) session() *flush.Session {
	w.t.Helper()
	return w.begin(w.engine(w.conn, nil))
}

// pass flushes everything in a term of its own.
func (w *world) pass() flush.Stats {
	w.t.Helper()
	return w.passOf(w.session())
}

func (w *world) passOf(s *flush.Session) flush.Stats {
	w.t.Helper()
	stats, err := s.Pass(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return stats
}

// allPasses passes until one finds nothing: one that reads many bytes leaves some keys.
func (w *world) allPasses(s *flush.Session) flush.Stats {
	w.t.Helper()
	var total flush.Stats
	for {
		stats := w.passOf(s)
		if total.Add(stats); stats.Keys == 0 {
			return total
		}
	}
}

func (w *world) set(key string, fieldsAndValues ...string) {
	w.t.Helper()
	if err := w.Set(w.t.Context(), key, fieldsAndValues...); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) remove(key string) {
	w.t.Helper()
	if err := w.Delete(w.t.Context(), key); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) do(args ...any) any {
	w.t.Helper()
	v, err := w.rdb.Do(w.t.Context(), args...).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		w.t.Fatalf("%v: %v", args, err)
	}
	return v
}

// want compares what a pass did.
func (w *world) want(got, want flush.Stats) {
	w.t.Helper()
	if got != want {
		w.t.Errorf("the pass did %+v, want %+v", got, want)
	}
}

// rows wants the table of a query, rows by ";", columns by space, NULL as "-".
func (w *world) rows(query, want string) {
	w.t.Helper()
	if got := dump(w.t, w.db, query); got != want {
		w.t.Errorf("%s:\ngot  %s\nwant %s", query, got, want)
	}
}

// dump returns what a query finds, the same for all databases.
func dump(t *testing.T, db *sql.DB, query string) string {
	t.Helper()
	return strings.Join(lines(t, db, query, " "), ";")
}

// lines returns the rows of a query, with something between the columns.
func lines(t *testing.T, db *sql.DB, query, between string) []string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer func() { _ = rows.Close() }()
	types, err := rows.ColumnTypes()
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for rows.Next() {
		values, places := make([]any, len(types)), make([]any, len(types))
		for i := range values {
			places[i] = &values[i]
		}
		if err := rows.Scan(places...); err != nil {
			t.Fatal(err)
		}
		words := make([]string, len(types))
		for i, v := range values {
			words[i] = word(v, types[i].DatabaseTypeName())
		}
		found = append(found, strings.Join(words, between))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return found
}

// word shows one value of a database, bytes as x and hexadecimal digits.
func word(v any, typ string) string {
	switch v := v.(type) {
	case nil:
		return "-"
	case []byte:
		if typ == "BYTEA" || strings.Contains(typ, "BLOB") || strings.Contains(typ, "BINARY") {
			return fmt.Sprintf("x%x", v)
		}
		return string(v)
	case bool:
		return map[bool]string{false: "0", true: "1"}[v]
	case time.Time:
		if typ == "DATE" {
			return v.Format(time.DateOnly)
		}
		return v.UTC().Format(time.RFC3339Nano)
	}
	return fmt.Sprint(v)
}

const allPlayers = "SELECT id, name, score FROM player ORDER BY id"

// status wants what waits.
func (w *world) status(dirty, parked int) {
	w.t.Helper()
	s, err := w.engine(w.conn, nil).Status(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	if s.Dirty != dirty || s.Parked != parked {
		w.t.Errorf("%d dirty and %d parked, want %d and %d", s.Dirty, s.Parked, dirty, parked)
	}
	if versions := w.do("HLEN", w.keys().Versions); versions != int64(dirty) {
		w.t.Errorf("%v versions for %d dirty keys", versions, dirty)
	}
}

// parked wants a key to be parked with this in its reason.
func (w *world) parked(key, want string) {
	w.t.Helper()
	if reason, _ := w.do("HGET", w.keys().Parked, key).(string); !strings.Contains(reason, want) {
		w.t.Errorf("%s is parked with %q, want %q", key, reason, want)
	}
}

// A step is what an engine does with Redis.
type step string

const (
	install step = "install" // the epoch
	page    step = "page"    // read marks
	read    step = "read"    // read values
	ack     step = "ack"
	other   step = "other"
)

// A tap is a Conn that lets a test do something before and after each step of an
// engine: other things happen, or it fails.
type tap struct {
	lockkeeper.Conn
	keys   flush.Keys
	before func(s step, args []string) error
	after  func(s step) error
}

func (c *tap) step(keys []string) step {
	switch {
	case len(keys) == 0:
		return other
	case len(keys) == 1 && keys[0] == c.keys.Epoch:
		return install
	case len(keys) > 5 && keys[4] == c.keys.Parked:
		return page
	case len(keys) > 3 && keys[0] == c.keys.Epoch && keys[3] == c.keys.Parked:
		return ack
	case strings.HasPrefix(keys[0], c.keys.Epoch[:len(c.keys.Epoch)-len("epoch")]):
		return other
	}
	return read
}

func (c *tap) EvalSha(ctx context.Context, sha string, keys, args []string) (any, error) {
	if c.before != nil {
		if err := c.before(c.step(keys), args); err != nil {
			return nil, err
		}
	}
	reply, err := c.Conn.EvalSha(ctx, sha, keys, args)
	var notLoaded *lockkeeper.ReplyError
	if c.after != nil && !errors.As(err, &notLoaded) {
		if err := c.after(c.step(keys)); err != nil {
			return nil, err
		}
	}
	return reply, err
}

// tap returns a Conn to be tapped. What it does for a script that the server does not
// know yet is not seen by after: warm up first.
func (w *world) tap() *tap { return &tap{Conn: w.conn, keys: w.keys()} }
