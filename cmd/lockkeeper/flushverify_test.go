package main

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/config"
	"github.com/lockkeeper/lockkeeper/flush"
	"github.com/lockkeeper/lockkeeper/internal/redistest"
)

func TestVerify(t *testing.T) {
	s := newStage(t, "")
	s.flush("verify").want(t, exitUnavailable, "", "there is no such file; lockkeeper flush migrate -f "+s.file+" makes it\n")
	if _, err := os.Stat(s.database); err == nil {
		t.Error("verify has made the database")
	}
	s.migrated()
	s.works()
	s.fill(40)
	s.do("tags:1", "SADD", "a", "b")
	s.flush("resync").want(t, exitOK, "", "")
	s.flush("drain").want(t, exitOK, "", "")
	for _, args := range [][]string{nil, {"--full"}, {"--table", "tag"}, {"--repair", "--deletes", "5%"}} {
		s.flush("verify", args...).want(t, exitOK, "Redis and the database are the same\n", "")
	}
	s.flush("verify", "--sample", "10").want(t, exitOK, "player  10    0     10    0 ", "")
	s.flush("verify", "--sample", "10").want(t, exitOK, "the sample is the same in Redis and the database\n", "")

	s.sql("UPDATE player SET name = 'zz' WHERE id = 3")
	s.sql("DELETE FROM player WHERE id = 4")
	s.sql("DELETE FROM tag WHERE member = 'a'")
	s.sql("INSERT INTO player VALUES (500, 'x', 1, 1)")
	r := s.flush("verify")
	r.want(t, exitFailed, `player:3  player.name  Redis: "n3"  database: "zz"`+"\n", "lockkeeper: there are differences between Redis and the database, see above\n")
	r.want(t, exitFailed, "player:4  player  Redis: a row  database: no row\n", "")
	r.want(t, exitFailed, `tags:1  tag  Redis: member "a"  database: no row`+"\n", "")
	r.want(t, exitFailed, "player:500  player  Redis: no key  database: a row\n", "")
	s.flush("verify", "--differences", "1").want(t, exitFailed, "and more of the table player; --differences says how many are shown\n", "")
	s.flush("verify", "--ignore-orphans").want(t, exitFailed, "", "differ")

	s.flush("verify", "--repair", "--deletes", "1%").want(t, exitFailed, "table player: 1 of 40 rows are without a key, and that is more than 1%: none was deleted\n", "")
	s.flush("drain").want(t, exitOK, "", "")
	s.flush("verify", "--ignore-orphans").want(t, exitOK, "Redis and the database are the same\n", "")
	s.flush("verify").want(t, exitFailed, "", "differ")
	s.flush("verify", "--repair", "--deletes", "10%").want(t, exitOK, "all that differed is marked, and flushed again\n", "")
	s.flush("drain").want(t, exitOK, "", "")
	r = s.flush("verify", "--json")
	r.want(t, exitOK, "", "")
	var found struct {
		OK     bool             `json:"ok"`
		Tables []flush.Verified `json:"tables"`
	}
	if err := json.Unmarshal([]byte(r.stdout), &found); err != nil {
		t.Fatal(err)
	}
	if len(found.Tables) != 2 || !found.OK || found.Tables[0].Same != 40 || found.Tables[0].Rows != 40 || found.Tables[1].Same != 1 || r.stderr != "" {
		t.Errorf("%+v, %q", found, r.stderr)
	}

	s.sql("ALTER TABLE player RENAME COLUMN name TO title")
	s.flush("verify").want(t, exitUnavailable, "", "; see lockkeeper flush migrate -f ")
}

func TestResync(t *testing.T) {
	s := newStage(t, "").migrated()
	s.fill(700)
	s.flush("resync", "--table", "tag").want(t, exitOK, "0 keys of the table tag of players: 0 marked; see lockkeeper flush drain", "")
	s.flush("resync").want(t, exitOK, "700 keys of players: 700 marked; see ", "")
	s.flush("resync").want(t, exitOK, "700 keys of players: 0 marked, and 700 were so before; see ", "")
	s.flush("resync", "--json").want(t, exitOK, "{\n  \"keys\": 700,\n  \"marked\": 0\n}\n", "")
	if dirty := s.status().Dirty; dirty != 700 {
		t.Errorf("%d keys wait", dirty)
	}
	s.works()
	s.flush("drain").want(t, exitOK, "is drained", "")
	s.app.total(700, 700)
}

// TestInterrupted: a signal ends long work cleanly, which says how far it came.
func TestInterrupted(t *testing.T) {
	s := newStage(t, "").migrated()
	s.fill(40_000)
	proxy := redistest.NewProxy(t, s.server.Addr())
	proxy.Delay(5 * time.Millisecond)
	for _, tt := range []struct{ verb, want string }{
		{"resync", " keys were found and "},
		{"plan", " keys were looked at, and nothing was written\n"}, // of those that resync has marked
		{"verify", " rows were compared by then: 0 differ"},
	} {
		s.server.ResetStats(t)
		p := start(t, nil, "flush", tt.verb, "-f", s.file, "--redis", "redis://"+proxy.Addr())
		redistest.Until(t, "it is at work", func() bool { return s.server.Commands(t)["evalsha"] > 10 })
		code := p.signal(syscall.SIGTERM)
		if code != exitFailed || !strings.HasPrefix(p.stderr(), "lockkeeper: interrupted: ") || !strings.Contains(p.stderr(), tt.want) {
			t.Errorf("%s: exit code %d, %q", tt.verb, code, p.stderr())
		}
		if strings.Contains(p.stderr(), "interrupted: 0 ") {
			t.Errorf("%s has done nothing: %q", tt.verb, p.stderr())
		}
	}
	if dirty := s.status().Dirty; dirty == 0 || dirty == 40_000 {
		t.Errorf("resync has marked %d keys", dirty)
	}
}

func TestPlan(t *testing.T) {
	s := newStage(t, "")
	temporary := t.TempDir()
	r := finished(t, command(t, []string{"TMPDIR=" + temporary}, s.args("plan")...))
	if files, err := os.ReadDir(temporary); err != nil || len(files) != 0 {
		t.Errorf("plan has left %v, %v", files, err)
	}
	r.want(t, exitOK, "0 keys that wait of players -> sqlite:"+s.database+"; nothing is written by this\n", "")
	r.want(t, exitOK, "table player\n  it is not there; flush migrate would make it:\n    CREATE TABLE ", "")
	r.want(t, exitOK, "  the SQL:\n    INSERT INTO \"player\"", "")
	if files, _ := os.ReadDir(filepath.Dir(s.database)); len(files) != 0 {
		t.Errorf("plan has made %v", files)
	}
	if n := s.rdb.DBSize(background(t)).Val(); n != 0 {
		t.Errorf("plan has made %d keys on Redis", n)
	}

	s.migrated()
	p := s.works()
	for i := range 4 {
		s.app.set(i, 1)
	}
	s.flush("drain").want(t, exitOK, "", "")
	p.signal(syscall.SIGTERM)
	s.app.set(1, 2)                            // an update
	s.app.set(2, 1)                            // what it is already
	s.app.set(10, 5)                           // an insert
	s.do("player:3", "DEL")                    // a delete
	s.do("player:x\n", "HSET", "points", "1")  // no key of ours
	s.do("player:11", "HSET", "points", "a\n") // no number
	s.do("tags:1", "SADD", "a", "b")
	s.do("other", "SET", "1")
	if err := s.rdb.SAdd(background(t), "lockkeeper:flush:{players}:changed", "player:77").Err(); err != nil {
		t.Fatal(err)
	}
	before, rowsBefore := s.contents(), rows(t, s.app.db, "SELECT id || ' ' || score || ' ' || lockkeeper_version FROM player ORDER BY id")
	r = s.flush("plan")
	for _, want := range []string{
		"8 keys that wait of players -> ",
		"1 key waits besides: beyond --keys, put aside, or marked without a version until a pass gives it one\n",
		"TABLE   INSERT  UPDATE  DELETE  SAME  GONE  PARK  PAUSED\nplayer  1       1       1       1     0     2     0\ntag     1       0       0       0     0     0     0\n",
		"1 key fits no mapping, and would be parked\n",
		"  update player:1\n    score: 1 -> 2\n", "  insert player:10\n    name: NULL\n    score: 5\n", "  delete player:3\n",
		"  insert tags:1\n    member: \"a\"\n    member: \"b\"\n",
		`  "player:x\n"  player.id: `, `  player:11  player.score: "a\n" is not a 64-bit integer`, "  other  no mapping fits this key\n",
	} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("no %q", want)
		}
	}
	if t.Failed() || r.code != exitOK || r.stderr != "" {
		t.Errorf("%+v", r)
	}
	s.flush("plan", "--keys", "2", "--changes", "1").want(t, exitOK, "2 keys that wait of players -> ", "")
	var plan flush.Plan
	if err := json.Unmarshal([]byte(s.flush("plan", "--json").stdout), &plan); err != nil {
		t.Fatal(err)
	}
	if plan.Keys != 8 || plan.Unmapped != 1 || len(plan.Tables) != 2 || plan.Tables[0].Update != 1 || len(plan.Tables[0].Changes) != 3 {
		t.Errorf("%+v", plan)
	}
	if after := s.contents(); !maps.Equal(before, after) {
		t.Errorf("plan has written to Redis")
	}
	if after := rows(t, s.app.db, "SELECT id || ' ' || score || ' ' || lockkeeper_version FROM player ORDER BY id"); after != rowsBefore {
		t.Errorf("plan has written to the database: %s, before %s", after, rowsBefore)
	}

	s.flush("pause", "--reason", "why", "--by", "ana", "--table", "tag").want(t, exitOK, "", "")
	s.flush("plan").want(t, exitOK, "the table tag of players is paused by ana: why\n", "")
	s.sql("ALTER TABLE player DROP COLUMN score")
	s.flush("plan").want(t, exitOK, "table player\n  PROBLEM: ", "")
	if r := s.flush("plan"); strings.Contains(r.stdout, "CREATE TABLE") {
		t.Errorf("it would make a table that is there:\n%s", r.stdout)
	}
}

// TestCommandsInMessages: commands that messages name can be run as they stand.
func TestCommandsInMessages(t *testing.T) {
	for name, want := range map[string]string{
		"players.yaml": "lockkeeper flush run -f players.yaml", "my file.yaml": "lockkeeper flush run -f 'my file.yaml'", "it's": `lockkeeper flush run -f 'it'\''s'`,
	} {
		if got := (&job{File: &config.File{Name: name}}).command("run"); got != want {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
	}
}
