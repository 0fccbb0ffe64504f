package main

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/redistest"
)

func TestVerbUsage(t *testing.T) {
	s := newStage(t, "")
	for _, tt := range []struct {
		verb string
		args []string
		want string
	}{
		{"pause", nil, "why is it paused? Say it to those who will wonder: --reason TEXT"},
		{"pause", []string{"--reason", "  "}, "why is it paused?"},
		{"pause", []string{"--reason", "x", "--table", "players"}, `has the table "players"; there is player, tag`},
		{"resume", []string{"--table", "Player"}, `has the table "Player"; there is player, tag`},
		{"resync", []string{"--table", "x"}, `has the table "x"`},
		{"verify", []string{"--table", "x"}, `has the table "x"`},
		{"parked ls", []string{"--table", "x"}, `has the table "x"`},
		{"drain", []string{"--timeout", "-1s"}, "it can't be negative"},
		{"drain", []string{"--timeout", "1"}, "missing unit in duration"},
		{"step-down", []string{"--timeout", "0s"}, "it is more than 0; or say --wait=false"},
		{"verify", []string{"--full", "--sample", "3"}, "--full or --sample, not both"},
		{"verify", []string{"--sample", "0"}, "a sample of 0: it is at least 1"},
		{"verify", []string{"--deletes", "5%"}, "--deletes needs --repair"},
		{"verify", []string{"--deletes", "5", "--repair"}, `--deletes: "5" is no percentage; write it with its sign, such as 5%`},
		{"verify", []string{"--deletes", "5%", "--repair", "--sample", "3"}, "--deletes needs --full"},
		{"verify", []string{"--differences", "0"}, "it is at least 1"},
		{"plan", []string{"--keys", "-1"}, "it can't be negative"},
		{"plan", []string{"--changes", "0"}, "it is at least 1"},
		{"parked ls", []string{"--limit", "-1"}, "it can't be negative"},
		{"parked show", nil, "which keys? Name them"},
		{"parked retry", nil, "which keys? Either name them, or say --all, or --table TABLE"},
		{"parked retry", []string{"--all", "player:1"}, "which keys? Either name them"},
		{"parked drop", []string{"--all", "--table", "player"}, "which keys? Either name them"},
		{"parked lst", nil, `unknown command "lst" of lockkeeper flush parked; did you mean ls?`},
		{"now", []string{"x"}, "lockkeeper flush now takes no arguments"},
	} {
		r := s.flush(tt.verb, tt.args...)
		r.want(t, exitUsage, "", tt.want)
		if r.stdout != "" || !strings.HasPrefix(r.stderr, "lockkeeper: ") || strings.Count(r.stderr, "\n") != 1 {
			t.Errorf("%s %q: not one line on standard error: %q, %q", tt.verb, tt.args, r.stdout, r.stderr)
		}
	}
	if n := s.rdb.DBSize(background(t)).Val(); n != 0 {
		t.Errorf("they have left %d keys", n)
	}
}

// TestVerbsWithoutRedis: each says where Redis is not.
func TestVerbsWithoutRedis(t *testing.T) {
	s := newStage(t, "").migrated()
	s.server.Kill()
	for _, verb := range []string{
		"status", "now", "resume", "drain", "step-down", "resync", "verify", "plan",
		"pause --reason x", "parked ls", "parked show k", "parked retry --all", "parked drop --all --yes",
	} {
		s.flush(verb).want(t, exitUnavailable, "", "lockkeeper: no answer from Redis at "+s.server.Addr()+": ")
	}
}

func TestPauseAndResume(t *testing.T) {
	s := newStage(t, "").migrated()
	s.works()
	s.flush("pause", "--reason", "a\nmigration", "--by", "ana").want(t, exitOK, "players is paused; its changes are kept until lockkeeper flush resume -f "+s.file+"\n", "")
	s.app.set(1, 1)
	status := s.status()
	if status.State != statePaused || len(status.Pauses) != 1 || status.Pauses[0].By != "ana" || status.Pauses[0].Reason != "a\nmigration" {
		t.Errorf("%+v", status)
	}
	s.flush("status").want(t, exitOK, "PAUSED by ana for ", "")
	s.flush("status").want(t, exitOK, ": a migration; 1 key waits, the oldest for ", "")
	s.flush("now").want(t, exitFailed, "", "players is paused by ana for ")
	s.flush("drain").want(t, exitFailed, "", "it can't be drained: players is paused by ana (a migration), and 1 key waits; go on with lockkeeper flush resume -f "+s.file+"\n")

	s.flush("pause", "--reason", "other").want(t, exitOK, "; before it was paused by ana: a migration\n", "")
	if by := s.status().Pauses[0].By; !strings.Contains(by, "@") {
		t.Errorf("it was paused by %q", by)
	}
	s.flush("pause", "--reason", "bad rows", "--table", "tag").want(t, exitOK, "the table tag of players is paused; its changes are kept until lockkeeper flush resume --table tag -f ", "")
	s.flush("resume").want(t, exitOK, "players goes on; the table tag of players is still paused by ", "")
	s.app.total(1, 1)
	s.flush("resume").want(t, exitOK, "players was not paused; the table tag", "")

	s.do("tags:1", "SADD", "a")
	s.until("the tag is held", func(j *jobStatus) bool { return len(j.Held) == 1 && j.Held[0].Table == "tag" && j.Held[0].Keys == 1 })
	s.flush("status").want(t, exitOK, "MAPPING PAUSED: table tag by ", "")
	s.flush("status").want(t, exitOK, "        1 of the table tag, which is or was paused; the oldest for ", "")
	s.flush("drain").want(t, exitFailed, "", "it can't be drained: the table tag is paused by ")
	s.flush("resume", "--table", "tag").want(t, exitOK, "the table tag of players goes on\n", "")
	s.flush("drain", "--timeout", "20s").want(t, exitOK, "players is drained: nothing waits\n", "")
	if got := rows(t, s.app.db, "SELECT member FROM tag"); got != "a" {
		t.Errorf("tags %q", got)
	}
}

func TestNow(t *testing.T) {
	s := newStage(t, "interval: 1h\n").migrated()
	s.flush("now").want(t, exitFailed, "", "no process of players is active, and who becomes it begins with a pass; start one: lockkeeper flush run -f "+s.file+"\n")
	p := s.works()
	s.until("the first pass is over", func(j *jobStatus) bool { w := j.worker(); return w != nil && !w.LastPass.IsZero() })
	s.app.set(1, 7)
	s.flush("now").want(t, exitOK, fmt.Sprintf("/%d is asked for a pass; 1 key waits\n", p.cmd.Process.Pid), "")
	s.app.total(1, 7)
	s.app.set(1, 8)
	s.flush("drain").want(t, exitOK, "players is drained: nothing waits\n", "")
	s.app.total(1, 8)
}

func TestStepDown(t *testing.T) {
	s := newStage(t, "").migrated()
	s.flush("step-down").want(t, exitFailed, "", "no process of players is active: there is nobody to step down")
	a := s.works()
	s.until("it says that it works", func(j *jobStatus) bool { return j.worker() != nil })
	s.flush("step-down").want(t, exitOK, fmt.Sprintf("/%d has stepped down; nobody is active, and no other process stands by\n", a.cmd.Process.Pid), "")
	redistest.Until(t, "it is active again", func() bool { return strings.Contains(a.stderr(), "epoch=2") })

	b := s.runs()
	s.until("the other one is ready", func(j *jobStatus) bool { return len(j.Processes) == 2 && j.Processes[1].Ready })
	s.flush("step-down").want(t, exitOK, fmt.Sprintf("/%d is active (epoch 3)\n", b.cmd.Process.Pid), "")
	if !strings.Contains(b.stderr(), "term began") {
		t.Error("the other one does not say that it began")
	}
	s.until("the other one is seen to work", func(j *jobStatus) bool { w := j.worker(); return w != nil && w.Epoch == 3 })
	s.flush("step-down", "--wait=false").want(t, exitOK, "is asked to step down (epoch 3)\n", "")
	s.until("the first one works again", func(j *jobStatus) bool { w := j.worker(); return w != nil && w.Epoch == 4 })
	a.signal(syscall.SIGTERM)
	b.signal(syscall.SIGTERM)

	if err := s.rdb.Set(background(t), lockKey, "foo", 0).Err(); err != nil {
		t.Fatal(err)
	}
	s.flush("step-down").want(t, exitFailed, "", "it can't be asked")
	s.flush("status").want(t, exitOK, "HELD BY ANOTHER PROGRAM: the key of the lock has a value that is not Lockkeeper's; it has no TTL", "")
	s.app.set(1, 1)
	s.flush("drain").want(t, exitFailed, "", "is held by something that is not Lockkeeper, and 1 key waits")
}

// TestTimeouts: the active process is stopped, and does nothing in time.
func TestTimeouts(t *testing.T) {
	s := newStage(t, "").migrated()
	p := s.works()
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	s.app.set(1, 1)
	s.flush("step-down", "--timeout", "300ms").want(t, exitTimeout, "", "has not stepped down within 300ms, and may still do so: see lockkeeper flush status")
	s.flush("drain", "--timeout", "300ms").want(t, exitTimeout, "", "not drained within 300ms: 1 key waits, the oldest for ")
	if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	s.flush("drain", "--timeout", "20s").want(t, exitOK, "players is drained: nothing waits\n", "")
}

func TestDrain(t *testing.T) {
	s := newStage(t, "").migrated()
	s.flush("drain").want(t, exitOK, "players is drained: nothing waits\n", "")
	s.app.set(1, 1)
	s.flush("drain").want(t, exitFailed, "", "it can't be drained: no process is active, and 1 key waits; start one with lockkeeper flush run -f "+s.file+", or see ")

	p := s.works()
	s.fill(3000)
	s.flush("resync").want(t, exitOK, "3000 keys of players: ", "")
	s.do("player:x", "HSET", "points", "1")
	s.flush("drain").want(t, exitOK, "players is drained: nothing waits; 1 key is parked: lockkeeper flush parked ls -f "+s.file+"\n", "")
	s.app.total(3000, 3000)

	// A process that has died is waited for as long as its TTL.
	p.signal(syscall.SIGKILL)
	s.app.set(1, 2)
	began := time.Now()
	s.flush("drain").want(t, exitFailed, "", "no process is active, and 1 key waits")
	if d := time.Since(began); d < time.Second {
		t.Errorf("it gave up after %s; the TTL is 1.5 s", d)
	}

	// One that is active and can't work is no reason to give up.
	q := s.works()
	s.sql("ALTER TABLE player RENAME TO elsewhere")
	s.app.set(1, 3)
	q.says("mapping paused")
	const control = "lockkeeper:flush:{players}:control"
	s.rdb.HDel(background(t), control, "now")
	d := start(t, nil, s.args("drain")...)
	redistest.Until(t, "it waits", func() bool { return s.rdb.HExists(background(t), control, "now").Val() })
	if code := d.signal(syscall.SIGINT); code != exitFailed || !strings.Contains(d.stderr(), "lockkeeper: interrupted: 1 key waits, the oldest for ") {
		t.Errorf("exit code %d, %q", code, d.stderr())
	}
	s.sql("ALTER TABLE elsewhere RENAME TO player")
	s.flush("resume", "--table", "player").want(t, exitOK, "goes on", "")
	s.flush("drain").want(t, exitOK, "is drained", "")
}

// TestFileFromStandardInput: a verb that asks can't be answered then.
func TestFileFromStandardInput(t *testing.T) {
	s := newStage(t, "").migrated()
	s.works()
	s.do("player:x", "HSET", "points", "1")
	s.flush("drain").want(t, exitOK, "is drained", "")
	withInput := func(verb ...string) result {
		cmd := command(t, nil, append(append([]string{"flush"}, verb...), "-f", "-", "--redis", s.server.URL())...)
		cmd.Stdin = strings.NewReader(text(t, s.file))
		return finished(t, cmd)
	}
	withInput("parked", "ls").want(t, exitOK, "player:x", "")
	withInput("parked", "drop", "--all").want(t, exitUsage, "", "Drop 1 parked key of players? Their rows stay as they are. Nobody can be asked here: add --yes")
	withInput("parked", "drop", "--all", "--yes").want(t, exitOK, "1 key is dropped\n", "")
}
