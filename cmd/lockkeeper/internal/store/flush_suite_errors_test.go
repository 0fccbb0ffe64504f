package store_test

import (
	"bytes"
	"context"
	"database/sql"

	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/store"
	"github.com/lockkeeper/lockkeeper/flush"
	"github.com/lockkeeper/lockkeeper/internal/redistest"
	"github.com/lockkeeper/lockkeeper/internal/sqltest"
	"github.com/lockkeeper/lockkeeper/sqlfence"
)

// servers are the databases that are reached over a network.
var servers = kinds[1:]

// limited replaces the world's own connections by some with other limits.
func (w *world) limited(url string, idle, lock time.Duration) {
	w.t.Helper()
	d, err := store.Parse(url)
	if err != nil {
		w.t.Fatal(err)
	}
	var db *sql.DB
	if w.place.kind == sqlfence.SQLite { // its limit is always the same
		db, err = sql.Open("sqlite", fmt.Sprintf("file:%s?_txlock=immediate&_pragma=busy_timeout(%d)", w.file, lock.Milliseconds()))
	} else {
		db, _, err = d.WithLimits(idle, lock).Open(w.t.Context())
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = db.Close() })
	w.sink = w.newSink(db)
}

// TestLockTimeout: somebody else has a row for longer than the session waits.
func TestLockTimeout(t *testing.T) {
	codes := map[sqlfence.Dialect]string{sqlfence.SQLite: "5", sqlfence.Postgres: "55P03", sqlfence.MariaDB: "1205"}
	onDatabases(t, func(t *testing.T, w *world) {
		w.set("player:1", "points", "1")
		w.set("player:2", "points", "1")
		w.pass()
		w.limited(w.place.url, 5*time.Second, time.Second)
		s := w.session()
		tx, err := w.db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback() }()
		if _, err := tx.ExecContext(t.Context(), "UPDATE player SET name = 'locked' WHERE id = 2"); err != nil {
			t.Fatal(err)
		}
		for i := 1; i <= 3; i++ {
			w.set(fmt.Sprintf("player:%d", i), "points", "2")
		}
		if _, err := s.Pass(t.Context()); store.ErrorCode(err) != codes[w.place.kind] || errors.Is(err, sqlfence.ErrFenced) {
			t.Errorf("with a row that is locked: %v", err)
		}
		w.status(3, 0)
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		w.want(w.passOf(s), flush.Stats{Keys: 3, Upserts: 3})
		w.rows(allPlayers, "1 - 2;2 - 2;3 - 2")
		w.status(0, 0)
	})
}

// TestDeadlock: whoever is chosen as the victim, it is no reason to park anything.
func TestDeadlock(t *testing.T) {
	codes := map[sqlfence.Dialect]string{sqlfence.Postgres: "40P01", sqlfence.MariaDB: "1213"}
	onServers(t, func(t *testing.T, w *world) {
		const n = 100
		for i := range n {
			w.set(fmt.Sprintf("player:%d", i), "points", "1")
		}
		w.pass()
		s := w.session()
		tx, err := w.db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback() }()
		// Enough rows that MariaDB rolls the other transaction back, which has fewer.
		if _, err := tx.ExecContext(t.Context(), "UPDATE player SET name = 'other' WHERE id >= 10"); err != nil {
			t.Fatal(err)
		}
		for i := 5; i <= 20; i++ {
			w.set(fmt.Sprintf("player:%d", i), "points", "2")
		}
		passed := make(chan error, 1)
		go func() {
			_, err := s.Pass(t.Context())
			passed <- err
		}()
		w.place.untilWaiting(t, w.db)
		_, failed := tx.ExecContext(t.Context(), "UPDATE player SET name = 'other' WHERE id = 5")
		if failed == nil {
			failed = tx.Commit()
		}
		err = <-passed
		if err == nil && failed == nil || err != nil && store.ErrorCode(err) != codes[w.place.kind] {
			t.Errorf("the pass: %v; the other: %v", err, failed)
		}
		t.Logf("the pass: %v; the other: %v", err, failed)
		w.passOf(s)
		w.rows("SELECT count(*), sum(score) FROM player", fmt.Sprintf("%d %d", n, n+16))
		w.status(0, 0)
	})
}

// TestStricterIsolation: a database whose default isolation is stricter than ours.
func TestStricterIsolation(t *testing.T) {
	on(t, variants[1:], func(t *testing.T, p place) {
		w := newWorldOn(t, p, realRedis(t))
		w.set("player:1", "points", "1")
		w.pass()
		s := w.session()
		tx, err := w.db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback() }()
		if _, err := tx.ExecContext(t.Context(), "UPDATE player SET name = 'other' WHERE id = 1"); err != nil {
			t.Fatal(err)
		}
		w.set("player:1", "points", "2")
		passed := make(chan error, 1)
		go func() {
			_, err := s.Pass(t.Context())
			passed <- err
		}()
		p.untilWaiting(t, w.db)
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		// The fence asks for READ COMMITTED, whatever the default is.
		if err := <-passed; err != nil {
			t.Errorf("got %v", err)
		}
		w.rows(allPlayers, "1 - 2")
		w.status(0, 0)
	})
}

func onServers(t *testing.T, test func(t *testing.T, w *world), mappings ...flush.Mapping) {
	t.Helper()
	on(t, servers, func(t *testing.T, p place) { test(t, newWorldOn(t, p, realRedis(t), mappings...)) })
}

// A cutter is a network that breaks a connection exactly where its client commits.
type cutter struct {
	t      *testing.T
	target string
	listen net.Listener
	wg     sync.WaitGroup

	mu    sync.Mutex
	how   string // what happens to the next commit: "" nothing, or one of cuts
	seen  int    // commits that it has happened to
	conns []net.Conn
}

// cuts are what can happen to a commit.
const (
	cutBefore = "the commit does not arrive"
	cutAfter  = "its answer does not arrive"
	cutHold   = "it is held up"
)

// newCutter puts a cutter before a server, and returns the URL that leads through it.
func newCutter(t *testing.T, text string) (*cutter, string) {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{t: t, target: u.Host, listen: l}
	c.wg.Go(c.accept)
	t.Cleanup(func() {
		_ = l.Close()
		c.mu.Lock()
		for _, conn := range c.conns {
			_ = conn.Close()
		}
		c.mu.Unlock()
		c.wg.Wait()
	})
	u.Host = l.Addr().String()
	return c, u.String()
}

func (c *cutter) next(how string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.how, c.seen = how, 0
}

func (c *cutter) times() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen
}

func (c *cutter) accept() {
	for {
		client, err := c.listen.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", c.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		c.mu.Lock()
		c.conns = append(c.conns, client, server)
		c.mu.Unlock()
		answered := make(chan struct{}, 1) // the server has said something
		c.wg.Go(func() { c.requests(client, server, answered) })
		c.wg.Go(func() { c.replies(server, client, answered) })
	}
}

// replies brings answers back, or with a cut connection loses them.
func (c *cutter) replies(server, client net.Conn, answered chan<- struct{}) {
	defer func() { _ = client.Close() }()
	buf := make([]byte, 64<<10)
	for {
		n, err := server.Read(buf)
		if err != nil {
			return
		}
		select {
		case answered <- struct{}{}:
		default:
		}
		if _, err := client.Write(buf[:n]); err != nil {
			return
		}
	}
}

func (c *cutter) requests(client, server net.Conn, answered <-chan struct{}) {
	defer func() { _ = server.Close() }()
	buf := make([]byte, 64<<10)
	for {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		switch how := c.commits(buf[:n]); how {
		case cutBefore:
			_ = client.Close()
			return
		case cutHold:
			_, _ = io.Copy(io.Discard, client) // until somebody gives up
			return
		case cutAfter:
			_ = client.Close()
			for len(answered) > 0 {
				<-answered
			}
			if _, err := server.Write(buf[:n]); err == nil {
				<-answered // it is committed
			}
			return
		}
		if _, err := server.Write(buf[:n]); err != nil {
			return
		}
	}
}

// commits returns what is to happen to a message.
func (c *cutter) commits(message []byte) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.how == "" || len(message) > 40 || !bytes.Contains(bytes.ToLower(message), []byte("commit")) {
		return ""
	}
	how := c.how
	c.how = ""
	c.seen++
	return how
}

// TestCutAtCommit: whether the transaction is committed is not known, so that it is not
// acknowledged, and written again.
func TestCutAtCommit(t *testing.T) {
	onServers(t, func(t *testing.T, w *world) {
		cut, through := newCutter(t, w.place.url)
		w.limited(through, 5*time.Second, 5*time.Second)
		s := w.session()
		w.set("player:1", "points", "9")
		w.passOf(s)
		for i, how := range []string{cutBefore, cutAfter, cutBefore, cutAfter} {
			w.set("player:1", "points", strconv.Itoa(10+i))
			w.set("player:2", "points", strconv.Itoa(20+i))
			w.remove("player:3")
			w.change("tags:1", "SADD", strconv.Itoa(i))
			w.change("events:1", "XADD", "*", "n", strconv.Itoa(i))
			cut.next(how)
			_, err := s.Pass(t.Context())
			if err == nil || errors.Is(err, sqlfence.ErrFenced) || cut.times() != 1 {
				t.Fatalf("%s: %v; %d commits", how, err, cut.times())
			}
			w.status(5, 0)
			want := map[string]string{cutBefore: strconv.Itoa(9 + i), cutAfter: strconv.Itoa(10 + i)}[how]
			w.eventually("SELECT score FROM player WHERE id = 1", want)
			w.set("player:2", "points", strconv.Itoa(30+i)) // and the application goes on
			w.want(w.passOf(s), flush.Stats{Keys: 5, Upserts: 4 + i, Deletes: 1})
			w.status(0, 0)
			w.rows("SELECT id, score FROM player ORDER BY id", fmt.Sprintf("1 %d;2 %d", 10+i, 30+i))
			w.tables(map[string]string{"count(*) FROM tag": strconv.Itoa(i + 1), "count(*), sum(n) FROM event": fmt.Sprintf("%d %d", i+1, i*(i+1)/2)})
		}
	}, sources()...)
}

// TestUnknownCommit is the same for SQLite, which has no network.
func TestUnknownCommit(t *testing.T) {
	w := newWorld(t, realRedis(t))
	e, err := flush.New(w.conn, &forgetful{Sink: w.sink}, w.cfg)
	if err != nil {
		t.Fatal(err)
	}
	s := w.begin(e)
	w.set("player:1", "points", "1")
	if _, err := s.Pass(t.Context()); err == nil {
		t.Fatal("no error")
	}
	w.rows(allPlayers, "1 - 1")
	w.status(1, 0)
	w.want(w.passOf(s), flush.Stats{Keys: 1, Upserts: 1})
	w.status(0, 0)
}

// forgetful is a sink that writes, and says of every other batch that it did not.
type forgetful struct {
	flush.Sink
	writes int
}

func (f *forgetful) Claim(ctx context.Context, job string, h sqlfence.Holder) (flush.Term, error) {
	term, err := f.Sink.Claim(ctx, job, h)
	return forgetfulTerm{term, f}, err
}

type forgetfulTerm struct {
	flush.Term
	sink *forgetful
}

func (t forgetfulTerm) Write(ctx context.Context, number int64, rows []flush.Row) error {
	err := t.Term.Write(ctx, number, rows)
	if t.sink.writes++; t.sink.writes%2 == 1 {
		return errors.Join(err, errors.New("connection lost"))
	}
	return err
}

// TestHeldUpInTransaction: a worker stands still inside of its transaction. The next one
// waits for it no longer than the database lets the old session be idle.
func TestHeldUpInTransaction(t *testing.T) {
	onServers(t, func(t *testing.T, w *world) {
		w.set("player:1", "points", "1")
		w.pass()
		cut, through := newCutter(t, w.place.url)
		direct := w.sink
		w.limited(through, time.Second, 20*time.Second)
		stale := w.session()
		w.set("player:1", "points", "2")
		w.set("player:2", "points", "2")
		cut.next(cutHold)
		passed := make(chan error, 1)
		ctx, giveUp := context.WithCancel(t.Context())
		defer giveUp()
		go func() {
			_, err := stale.Pass(ctx)
			passed <- err
		}()
		redistest.Until(t, "it stands before its commit", func() bool { return cut.times() == 1 })
		w.set("player:1", "points", "3")
		w.sink = direct
		began := time.Now()
		next := w.session() // waits for the fence's row
		w.want(w.passOf(next), flush.Stats{Keys: 2, Upserts: 2})
		if took := time.Since(began); took > 12*time.Second {
			t.Errorf("the old session was let be idle for a second, and the next worker waited for %s", took)
		}
		w.rows("SELECT id, score FROM player ORDER BY id", "1 3;2 2")
		giveUp()
		if err := <-passed; err == nil {
			t.Error("the old worker has written")
		}
		w.set("player:1", "points", "4")
		_, err := stale.Pass(t.Context())
		wantStale(t, err, "is claimed with fence")
		w.rows("SELECT id, score FROM player ORDER BY id", "1 3;2 2")
	})
}

// TestServerKilled: a database that crashes under its workers, and comes back.
func TestServerKilled(t *testing.T) {
	for _, kind := range []sqltest.Kind{sqltest.Postgres, sqltest.MariaDB} {
		t.Run(kind.String(), func(t *testing.T) {
			server := sqltest.Start(t, kind)
			p := place{kind: map[sqltest.Kind]sqlfence.Dialect{sqltest.Postgres: sqlfence.Postgres, sqltest.MariaDB: sqlfence.MariaDB}[kind], url: server.NewDatabase(t)}
			w := newWorldOn(t, p, realRedis(t), sources()...)
			for _, name := range []string{"a", "b"} {
				w.runWorker(name, w.newSink(p.open(t)), func(cfg *flush.Config) {
					cfg.Batch = 20
				})
			}
			app := newApplication(w, 40)
			for turn := range 3 {
				app.write(150)
				redistest.Until(t, "the workers write", func() bool {
					st, err := w.engine(w.conn, nil).Status(t.Context())
					return err == nil && st.Dirty < 30
				})
				server.Kill()
				app.write(100)
				if err := server.Restart(); err != nil {
					t.Fatal(err)
				}
				if turn == 2 {
					app.write(50)
				}
			}
			redistest.Until(t, "everything is flushed", func() bool {
				st, err := w.engine(w.conn, nil).Status(t.Context())
				return err == nil && st.Dirty == 0
			})
			w.status(0, 0)
			w.db = p.open(t) // the old connections are broken
			app.compare()
		})
	}
}

// An application writes to keys of all sources, and knows what the tables have to be.
type application struct {
	*world
	dice   *rand.Rand
	ids    int
	hashes map[int]int
	sets   map[int]map[int]bool
	lists  map[int][]int
	events map[string]int
	n      int
}

func newApplication(w *world, ids int) *application {
	return &application{world: w, dice: rand.New(rand.NewPCG(1, uint64(ids))), ids: ids,
		hashes: map[int]int{}, sets: map[int]map[int]bool{}, lists: map[int][]int{}, events: map[string]int{}}
}

func (a *application) write(times int) {
	a.t.Helper()
	for range times {
		a.n++
		id, n := a.dice.IntN(a.ids), strconv.Itoa(a.n)
		switch a.dice.IntN(8) {
		case 0:
			a.remove(fmt.Sprint("player:", id))
			delete(a.hashes, id)
		case 1, 2:
			a.set(fmt.Sprint("player:", id), "points", n)
			a.hashes[id] = a.n
		case 3:
			if a.sets[id] == nil {
				a.sets[id] = map[int]bool{}
			}
			member := a.dice.IntN(10)
			a.change(fmt.Sprint("tags:", id), "SADD", strconv.Itoa(member))
			a.sets[id][member] = true
		case 4:
			member := a.dice.IntN(10)
			a.change(fmt.Sprint("tags:", id), "SREM", strconv.Itoa(member))
			delete(a.sets[id], member)
		case 5:
			a.change(fmt.Sprint("queue:", id), "RPUSH", n)
			a.lists[id] = append(a.lists[id], a.n)
		case 6:
			a.change(fmt.Sprint("queue:", id), "LPOP")
			if len(a.lists[id]) > 0 {
				a.lists[id] = a.lists[id][1:]
			}
		case 7:
			entry, err := a.Do(a.t.Context(), fmt.Sprint("events:", id%3), "XADD", "*", "n", n)
			if err != nil {
				a.t.Fatal(err)
			}
			a.events[fmt.Sprintf("%d %s", id%3, entry)] = a.n
		}
	}
}

// compare compares all tables with what was written.
func (a *application) compare() {
	a.t.Helper()
	var players, tags, queue, events []string
	for id, n := range a.hashes {
		players = append(players, fmt.Sprint(id, " ", n))
	}
	for id, members := range a.sets {
		for member := range members {
			tags = append(tags, fmt.Sprint(id, " ", member))
		}
	}
	for id, items := range a.lists {
		for i, item := range items {
			queue = append(queue, fmt.Sprint(id, " ", i, " ", item))
		}
	}
	for entry, n := range a.events {
		events = append(events, fmt.Sprint(entry, " ", n))
	}
	a.same("SELECT id, score FROM player", players)
	a.same("SELECT id, tag FROM tag", tags)
	a.same("SELECT id, position, item FROM queue", queue)
	a.same("SELECT id, entry, n FROM event", events)
}

// same compares the rows of a query, in any order.
func (w *world) same(query string, want []string) {
	w.t.Helper()
	got := strings.Split(dump(w.t, w.db, query), ";")
	if len(got) == 1 && got[0] == "" {
		got = nil
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		w.t.Errorf("%s:\ngot  %q\nwant %q", query, got, want)
	}
}
