package main

import (
	"fmt"
	"net/url"
	"strings"
	"syscall"
	"testing"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/store"
	"github.com/lockkeeper/lockkeeper/internal/redistest"
	"github.com/lockkeeper/lockkeeper/internal/sqltest"
)

// TestEviction: a Redis that may throw changes away is not worked with, unless it is
// said so.
func TestEviction(t *testing.T) {
	s := newStage(t, "", redistest.Args("--maxmemory-policy", "allkeys-lru", "--maxmemory", "100mb")).migrated()
	const refusal = " may evict changes that are not flushed (maxmemory-policy allkeys-lru): set maxmemory-policy noeviction, or say --allow-eviction\n"
	s.flush("run").want(t, exitUnavailable, "", "lockkeeper: the Redis server at "+s.server.Addr()+refusal)
	p := s.works("--allow-eviction")
	p.says("Redis may evict changes that are not flushed; set maxmemory-policy noeviction")
	p.says("Redis keeps no append-only file")
	p.signal(syscall.SIGTERM)
	if n := strings.Count(p.stderr(), "append-only"); n != 1 {
		t.Errorf("it complains %d times", n)
	}

	for _, tt := range []struct{ policy, memory, says string }{
		{"allkeys-lru", "0", "Redis may evict changes that are not flushed"},
		{"volatile-ttl", "100mb", "Redis may evict keys that have a TTL, flushed or not"},
		{"volatile-ttl", "0", ""},
		{"noeviction", "100mb", ""},
	} {
		s.server.Do(t, "CONFIG", "SET", "maxmemory-policy", tt.policy)
		s.server.Do(t, "CONFIG", "SET", "maxmemory", tt.memory)
		p := s.works()
		if tt.says != "" {
			p.says(tt.says)
		} else if strings.Contains(p.stderr(), "evict") {
			t.Errorf("%+v: %s", tt, p.stderr())
		}
		p.signal(syscall.SIGTERM)
	}
}

// TestEvictionLater: Redis does not answer at first.
func TestEvictionLater(t *testing.T) {
	s := newStage(t, "", redistest.Args("--maxmemory-policy", "allkeys-lfu", "--maxmemory", "100mb", "--appendonly", "yes")).migrated()
	s.app.set(1, 1)
	s.server.Kill()
	p := s.runs()
	p.says("waiting for it")
	s.server.Restart()
	redistest.Until(t, "it ends", func() bool {
		select {
		case <-p.exited:
			return true
		default:
			return false
		}
	})
	if code := p.cmd.ProcessState.ExitCode(); code != exitUnavailable || !strings.Contains(p.stderr(), "may evict changes that are not flushed (maxmemory-policy allkeys-lfu)") {
		t.Errorf("exit code %d", code)
	}
	if strings.Contains(p.stderr(), "append-only") {
		t.Error("it complains of an append-only file that is there")
	}
	if n := rows(t, s.app.db, "SELECT count(*) FROM player"); n != "0" {
		t.Errorf("it has written %s rows", n)
	}
}

// TestInfoNotAllowed: who may not ask Redis for its settings works all the same, and is
// told what to look at.
func TestInfoNotAllowed(t *testing.T) {
	s := newStage(t, "", redistest.Args("--user", "worker", "on", ">pw", "~*", "&*", "+@all", "-info")).migrated()
	args := s.args("run", "--log-level", "debug")
	for i := range args {
		if args[i] == s.server.URL() {
			args[i] = "redis://worker:pw@" + s.server.Addr()
		}
	}
	p := start(t, nil, args...)
	p.says("Redis does not say whether it keeps what it has")
	p.says("term began")
}

// TestRunTellsWhatIsLeft: the batch on its way is finished at a signal, acknowledged as
// far as it is written, and the rest is told.
func TestRunTellsWhatIsLeft(t *testing.T) {
	s := newStage(t, "batch: 10\n").migrated()
	const n = 20_000
	s.fill(n)
	s.flush("resync").want(t, exitOK, "", "")
	p := s.works()
	redistest.Until(t, "some rows are there", func() bool { return rows(t, s.app.db, "SELECT count(*) FROM player") != "0" })
	if code := p.signal(syscall.SIGTERM); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	dirty := s.status().Dirty
	if dirty == 0 {
		t.Skip("optional: the machine is so fast that nothing was left")
	}
	p.said(t, fmt.Sprintf("msg=stopped job=players dirty=%d oldest=", dirty))
	if got := rows(t, s.app.db, "SELECT count(*) FROM player"); got != fmt.Sprint(n-dirty) {
		t.Errorf("%s rows are written, and %d of %d keys are left", got, dirty, n)
	}
	s.server.Kill()
	q := s.runs()
	q.says("waiting for it")
	q.signal(syscall.SIGTERM)
	q.said(t, "stopped; Redis does not say what is left")
}

// said is says for a process that has ended.
func (p *process) said(t *testing.T, text string) {
	t.Helper()
	if !strings.Contains(p.stderr(), text) {
		t.Errorf("the log has no %q", text)
	}
}

// TestTableDoesNotFit is told at the start, and what goes on does.
func TestTableDoesNotFit(t *testing.T) {
	s := newStage(t, "").migrated()
	s.sql("DROP TABLE tag")
	p := s.works()
	p.says("a table does not fit its mapping")
	s.app.set(1, 1)
	s.app.total(1, 1)
}

// TestServers: the verbs that need the database, on PostgreSQL and MariaDB, with the
// password from the environment.
func TestServers(t *testing.T) {
	for _, kind := range []sqltest.Kind{sqltest.Postgres, sqltest.MariaDB} {
		t.Run(fmt.Sprint(kind), func(t *testing.T) {
			u, err := url.Parse(sqltest.Shared(t, kind).NewDatabase(t))
			if err != nil {
				t.Fatal(err)
			}
			password, _ := u.User.Password()
			whole := u.String()
			u.User = url.User(u.User.Username())
			s := newStage(t, "")
			env := []string{"LOCKKEEPER_DATABASE=" + u.String(), "LOCKKEEPER_DATABASE_PASSWORD=" + password}
			flush := func(verb string, more ...string) result {
				return finished(t, command(t, env, s.args(verb, more...)...))
			}
			db, _, err := store.Open(t.Context(), whole)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = db.Close() })

			flush("plan").want(t, exitOK, "it is not there; flush migrate would make it:\n    CREATE TABLE ", "")
			flush("migrate").want(t, exitOK, " is ready for the job players\n", "")
			s.fill(100)
			flush("resync").want(t, exitOK, "100 keys of players: 100 marked", "")
			flush("plan").want(t, exitOK, "player  100     0 ", "")
			p := start(t, env, s.args("run")...)
			p.says("term began")
			flush("drain", "--timeout", "30s").want(t, exitOK, "is drained", "")
			flush("verify").want(t, exitOK, "are the same\n", "")
			if _, err := db.Exec("UPDATE player SET name = 'zz' WHERE id = 7"); err != nil {
				t.Fatal(err)
			}
			flush("verify").want(t, exitFailed, `player:7  player.name  Redis: "n7"  database: "zz"`, "differ")
			flush("verify", "--repair").want(t, exitOK, "all that differed is marked", "")
			flush("drain", "--timeout", "30s").want(t, exitOK, "", "")
			if name := rows(t, db, "SELECT name FROM player WHERE id = 7"); name != "n7" {
				t.Errorf("the name is %q", name)
			}
			if _, err := db.Exec("ALTER TABLE player ADD CONSTRAINT few CHECK (score < 1000)"); err != nil {
				t.Fatal(err)
			}
			s.app = &application{Producer: producer(t, s.rdb, ""), t: t, rdb: s.rdb, db: db}
			s.app.set(7, 5000)
			flush("drain", "--timeout", "30s").want(t, exitOK, "1 key is parked", "")
			code := map[sqltest.Kind]string{sqltest.Postgres: "23514", sqltest.MariaDB: "4025"}[kind]
			if list := s.parked(); list.Total != 1 || list.Parked[0].Code != code {
				t.Errorf("%+v; want the code %s", list, code)
			}
			p.signal(syscall.SIGTERM)
			if kind == sqltest.MariaDB {
				wrong := finished(t, command(t, append(env, "LOCKKEEPER_DATABASE_PASSWORD=s3cr3t"), s.args("verify")...))
				wrong.want(t, exitUnavailable, "", "the server refuses the user or the password")
				if strings.Contains(wrong.stderr, "s3cr3t") {
					t.Errorf("the password is told: %s", wrong.stderr)
				}
			}
		})
	}
}
