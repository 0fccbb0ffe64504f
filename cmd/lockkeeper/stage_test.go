package main

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockkeeper/lockkeeper/internal/redistest"
)

// A stage is a Redis server, and the file of a flush with two mappings.
type stage struct {
	t              *testing.T
	server         *redistest.Server
	rdb            *redis.Client
	file, database string
	app            *application
}

// newStage makes a stage. settings are lines of the file; "" is an interval of 10 ms.
func newStage(t *testing.T, settings string, opts ...redistest.Option) *stage {
	t.Helper()
	if settings == "" {
		settings = "interval: 10ms\n"
	}
	s := &stage{t: t, server: redistest.Start(t, opts...), database: filepath.Join(t.TempDir(), "players.db")}
	s.rdb = client(t, s.server)
	s.file = file(t, "players.yaml", "job: players\ndatabase: sqlite:"+s.database+"\nttl: 1500ms\n"+settings+`mappings:
  - keys: "player:{id}"
    table: player
    create: true
    key: {id: int64}
    columns:
      name: text
      score: {type: int64, field: points}
  - {keys: "tags:{id}", source: set, table: tag, create: true, key: {id: int64}, columns: {member: text}}
`)
	return s
}

// migrated makes the tables, and returns the stage with an application on them.
func (s *stage) migrated() *stage {
	s.t.Helper()
	s.flush("migrate").want(s.t, exitOK, "is ready", "")
	s.app = newApplication(s.t, s.rdb, "", s.database)
	return s
}

// args are those of a verb, such as "parked ls".
func (s *stage) args(verb string, more ...string) []string {
	args := append([]string{"flush"}, strings.Fields(verb)...)
	return append(append(args, "-f", s.file, "--redis", s.server.URL()), more...)
}

// flush runs a verb to its end.
func (s *stage) flush(verb string, more ...string) result {
	s.t.Helper()
	if verb == "drain" && more == nil {
		more = []string{"--timeout", "30s"} // a bug should fail a test, and not hang it
	}
	return program(s.t, s.args(verb, more...)...)
}

// runs starts a process that flushes. It may stand by.
func (s *stage) runs(more ...string) *process {
	s.t.Helper()
	p := start(s.t, nil, s.args("run", more...)...)
	p.says("started; stands by")
	return p
}

// works starts a process, which is the only one, and waits until it is active.
func (s *stage) works(more ...string) *process {
	s.t.Helper()
	p := s.runs(more...)
	p.says("term began")
	return p
}

// status returns the status.
func (s *stage) status() *jobStatus {
	s.t.Helper()
	r := s.flush("status", "--json")
	r.want(s.t, exitOK, "", "")
	status := &jobStatus{}
	if err := json.Unmarshal([]byte(r.stdout), status); err != nil {
		s.t.Fatal(err)
	}
	return status
}

// until waits for a status.
func (s *stage) until(what string, cond func(*jobStatus) bool) {
	s.t.Helper()
	redistest.Until(s.t, what, func() bool { return cond(s.status()) })
}

// do runs a command that marks what it changes.
func (s *stage) do(key, command string, args ...string) {
	s.t.Helper()
	if _, err := s.app.Do(background(s.t), key, command, args...); err != nil {
		s.t.Fatal(err)
	}
}

// fill makes players from 1 to n on Redis, without marks.
func (s *stage) fill(n int) {
	s.t.Helper()
	const script = `for i = 1, tonumber(ARGV[1]) do redis.call('HSET', 'player:' .. i, 'name', 'n' .. i, 'points', 1) end`
	if err := s.rdb.Eval(background(s.t), script, nil, n).Err(); err != nil && err != redis.Nil {
		s.t.Fatal(err)
	}
}

func (s *stage) sql(statement string) {
	s.t.Helper()
	if _, err := s.app.db.Exec(statement); err != nil {
		s.t.Fatal(err)
	}
}

// rows returns what a query of one column gives, with commas.
func rows(t *testing.T, db *sql.DB, query string) string {
	t.Helper()
	found, err := db.Query(query)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = found.Close() }()
	var list []string
	for found.Next() {
		var v any
		if err := found.Scan(&v); err != nil {
			t.Fatal(err)
		}
		if b, ok := v.([]byte); ok {
			v = string(b)
		}
		list = append(list, fmt.Sprint(v))
	}
	if err := found.Err(); err != nil {
		t.Fatal(err)
	}
	return strings.Join(list, ",")
}

// contents is all that is on Redis, the databases' clocks aside.
func (s *stage) contents() map[string]string {
	s.t.Helper()
	all := make(map[string]string)
	for _, key := range s.rdb.Keys(background(s.t), "*").Val() {
		all[key] = s.rdb.Dump(background(s.t), key).Val()
	}
	return all
}

// text reads a file.
func text(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
