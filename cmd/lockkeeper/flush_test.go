package main

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/store"
	"github.com/lockkeeper/lockkeeper/flush"
	"github.com/lockkeeper/lockkeeper/goredisconn"
	"github.com/lockkeeper/lockkeeper/internal/redistest"
)

func openDatabase(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, _, err := store.Open(t.Context(), "sqlite:"+path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// An application writes to Redis, and sees what becomes of it.
type application struct {
	*flush.Producer
	t   *testing.T
	rdb *redis.Client
	db  *sql.DB
}

// newApplication writes with a prefix as package flush takes it.
func newApplication(t *testing.T, rdb *redis.Client, prefix, database string) *application {
	t.Helper()
	return &application{producer(t, rdb, prefix), t, rdb, openDatabase(t, database)}
}

func producer(t *testing.T, rdb *redis.Client, prefix string) *flush.Producer {
	t.Helper()
	p, err := flush.NewProducer(goredisconn.New(rdb), prefix, "players")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (a *application) set(id, points int) {
	a.t.Helper()
	if err := a.Set(background(a.t), fmt.Sprintf("player:%d", id), "points", fmt.Sprint(points)); err != nil {
		a.t.Fatal(err)
	}
}

// total waits until the rows have these sums.
func (a *application) total(rows, points int) {
	a.t.Helper()
	redistest.Until(a.t, fmt.Sprintf("%d rows with %d points", rows, points), func() bool {
		var n, sum int
		err := a.db.QueryRow("SELECT count(*), coalesce(sum(score), 0) FROM player").Scan(&n, &sum)
		return err == nil && n == rows && sum == points
	})
}

const lockKey = "lockkeeper:flush:{players}"

func (a *application) lockIsFree() bool {
	a.t.Helper()
	n, err := a.rdb.Exists(background(a.t), lockKey).Result()
	if err != nil {
		a.t.Fatal(err)
	}
	return n == 0
}

func TestFlushRun(t *testing.T) {
	server := redistest.Start(t)
	players, database := playersFile(t)
	app := newApplication(t, client(t, server), "", database)
	for i, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		p := start(t, nil, "flush", "run", "-f", players, "--redis", server.URL(), "--migrate")
		p.says("term began")
		for id := range 100 {
			app.set(id, i+1)
		}
		app.total(100, 100*(i+1))
		if app.lockIsFree() {
			t.Error("it works without the lock")
		}
		if code := p.signal(sig); code != exitOK {
			t.Errorf("%v: exit code %d", sig, code)
		}
		if !app.lockIsFree() {
			t.Errorf("%v: the lock is still held", sig)
		}
		for _, line := range []string{"started; stands by", "term ended", "stopped"} {
			if !strings.Contains(p.stderr(), line) {
				t.Errorf("the log has no %q", line)
			}
		}
	}
}

// TestFlushKilled: the active process dies by SIGKILL; the other one takes over when
// its TTL has ended, and loses nothing.
func TestFlushKilled(t *testing.T) {
	server := redistest.Start(t)
	players, database := playersFile(t)
	program(t, "flush", "migrate", "-f", players).want(t, exitOK, "", "")
	app := newApplication(t, client(t, server), "", database)
	env := []string{"LOCKKEEPER_REDIS=" + server.URL()}
	a := start(t, env, "flush", "run", "-f", players)
	a.says("term began")
	b := start(t, env, "flush", "run", "-f", players)
	b.says("started; stands by")
	for id := range 50 {
		app.set(id, 1)
	}
	app.total(50, 50)
	for id := range 50 {
		app.set(id, 2) // on its way, some of it
	}
	if code := a.signal(syscall.SIGKILL); code != -1 {
		t.Errorf("exit code %d", code)
	}
	killed := time.Now()
	for id := range 60 {
		app.set(id, 3)
	}
	app.total(60, 180)
	if d := time.Since(killed); d > 1500*time.Millisecond+3*time.Second {
		t.Errorf("taken over after %s, the TTL is 1.5 s", d)
	}
	if !strings.Contains(b.stderr(), "term began") || !strings.Contains(b.stderr(), "epoch=2") {
		t.Error("the other process does not say that it took over")
	}
	if code := b.signal(syscall.SIGTERM); code != exitOK {
		t.Errorf("exit code %d", code)
	}
}

// TestFlushHandover: a clean stop hands over at once.
func TestFlushHandover(t *testing.T) {
	server := redistest.Start(t)
	players, _ := playersFile(t)
	env := []string{"LOCKKEEPER_REDIS=" + server.URL()}
	a := start(t, env, "flush", "run", "-f", players, "--migrate")
	a.says("term began")
	b := start(t, env, "flush", "run", "-f", players)
	b.says("started; stands by")
	time.Sleep(300 * time.Millisecond) // it is in line
	a.signal(syscall.SIGTERM)
	stopped := time.Now()
	b.says("term began")
	if d := time.Since(stopped); d > time.Second {
		t.Errorf("taken over after %s", d)
	}
}

func TestFlushRunWaitsForRedis(t *testing.T) {
	server := redistest.Start(t)
	players, database := playersFile(t)
	app := newApplication(t, client(t, server), "", database)
	server.Kill()
	p := start(t, nil, "flush", "run", "-f", players, "--migrate", "--redis", server.URL())
	p.says("Redis gives no usable answer; waiting for it")
	server.Restart()
	p.says("term began")
	p.says("Redis answers again")
	app.set(1, 1)
	app.total(1, 1)
	if n := strings.Count(p.stderr(), "Redis gives no usable answer"); n > 2 {
		t.Errorf("it said %d times that there is no answer", n)
	}
	server.Kill()
	redistest.Until(t, "it says so again", func() bool { return strings.Count(p.stderr(), "Redis gives no usable answer") > 1 })
	if code := p.signal(syscall.SIGTERM); code != exitOK {
		t.Errorf("exit code %d without Redis", code)
	}
}

func TestFlushRunWithoutMigration(t *testing.T) {
	server := redistest.Start(t)
	players, _ := playersFile(t)
	p := start(t, nil, "flush", "run", "-f", players, "--redis", server.URL())
	p.says("apply the migration")
	program(t, "flush", "migrate", "-f", players).want(t, exitOK, "is ready", "")
	p.says("term began")
}

func TestFlushStatus(t *testing.T) {
	server := redistest.Start(t)
	players, database := playersFile(t)
	app := newApplication(t, client(t, server), "", database)
	status := func(args ...string) result {
		t.Helper()
		r := program(t, append([]string{"flush", "status", "-f", players, "--redis", server.URL()}, args...)...)
		r.want(t, exitOK, "", "")
		return r
	}
	run := "lockkeeper flush run -f " + players
	if got, want := status().stdout, "NO ACTIVE PROCESS: nothing waits, and no process of this job was ever active here (are --redis and --prefix right?); start one: "+run+"\n\noldest  nothing waits\njob     players\n"+
		"dirty   0 keys wait\nparked  0 keys can't be flushed\nepoch   none: nobody has worked yet\nactive  nobody\n"; got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	printed := status("--json").stdout
	printed = printed[:max(0, strings.Index(printed, `  "at": `))]
	if want := `{
  "job": "players",
  "state": "NO ACTIVE PROCESS",
  "oldest_seconds": 0,
  "dirty": 0,
  "unaged": 0,
  "waiting": 0,
  "held": [],
  "parked": 0,
  "epoch": 0,
  "refused": 0,
  "active": null,
  "states": [
    {
      "name": "NO ACTIVE PROCESS",
      "text": "nothing waits, and no process of this job was ever active here (are --redis and --prefix right?)",
      "do": "start one: ` + run + `"
    }
  ],
  "pauses": [],
  "processes": [],
`; printed != want {
		t.Errorf("got:\n%s\nwant:\n%s", printed, want)
	}
	app.set(1, 1)
	status().want(t, exitOK, "NO ACTIVE PROCESS: 1 key waits, the oldest for 0.", "")

	p := start(t, nil, "flush", "run", "-f", players, "--redis", server.URL(), "--migrate")
	p.says("term began")
	app.total(1, 1)
	if err := app.Set(background(t), "player:2", "points", "many"); err != nil {
		t.Fatal(err)
	}
	p.says("key parked")
	redistest.Until(t, "the key is parked", func() bool { return strings.Contains(status().stdout, "parked  1 key can't be flushed") })
	var s jobStatus
	if err := json.Unmarshal([]byte(status("--json").stdout), &s); err != nil {
		t.Fatal(err)
	}
	if s.Dirty != 0 || s.Parked != 1 || s.Epoch != 1 || s.Active == nil {
		t.Fatalf("%+v", s)
	}
	if l := s.Active; !strings.HasSuffix(l.Label, fmt.Sprintf("/%d", p.cmd.Process.Pid)) || l.Fence == "" ||
		time.Since(l.Since) > time.Minute || l.LeaseSeconds <= 0 || l.LeaseSeconds > 1.5 {
		t.Errorf("%+v", l)
	}
	status().want(t, exitOK, "active  "+s.Active.Label+", for ", "")
	p.signal(syscall.SIGTERM)

	if err := app.rdb.Set(background(t), lockKey, "another program", 0).Err(); err != nil {
		t.Fatal(err)
	}
	status().want(t, exitOK, "active  a holder that is not Lockkeeper, without a TTL\n", "")
}

func TestForeignHolder(t *testing.T) {
	server := redistest.Start(t)
	players, _ := playersFile(t)
	rdb := client(t, server)
	if err := rdb.Set(background(t), lockKey, "foo", 0).Err(); err != nil {
		t.Fatal(err)
	}
	p := start(t, nil, "flush", "run", "-f", players, "--migrate", "--redis", server.URL())
	p.says("held by something that is not Lockkeeper")
	p.says(lockKey)
	if err := rdb.Del(background(t), lockKey).Err(); err != nil {
		t.Fatal(err)
	}
	p.says("term began")
	p.signal(syscall.SIGTERM)
}

func TestSeconds(t *testing.T) {
	for d, want := range map[time.Duration]string{
		1518999999: "1.519", 1519 * time.Millisecond: "1.519", 0: "0", 400 * time.Microsecond: "0", -1: "-1", -time.Millisecond: "-1",
	} {
		if got := fmt.Sprint(seconds(d)); got != want {
			t.Errorf("%d ns: %s, want %s", d, got, want)
		}
	}
}

// TestPrefix: the prefix is that of every key, and can be nothing.
func TestPrefix(t *testing.T) {
	for _, tt := range []struct {
		args, env []string
		library   string // how package flush takes it
		lock      string
	}{
		{nil, nil, "", "lockkeeper:flush:{players}"},
		{[]string{"--prefix", "app:"}, []string{"LOCKKEEPER_PREFIX=other:"}, "app:", "app:flush:{players}"},
		{nil, []string{"LOCKKEEPER_PREFIX=other:"}, "other:", "other:flush:{players}"},
		{[]string{"--prefix", ""}, nil, lockkeeper.NoPrefix, "flush:{players}"},
		{nil, []string{"LOCKKEEPER_PREFIX="}, lockkeeper.NoPrefix, "flush:{players}"},
	} {
		server := redistest.Start(t)
		players, database := playersFile(t)
		app := newApplication(t, client(t, server), tt.library, database)
		args := append([]string{"flush", "run", "-f", players, "--migrate", "--redis", server.URL()}, tt.args...)
		p := start(t, tt.env, args...)
		app.set(1, 1)
		app.total(1, 1)
		if n := app.rdb.Exists(background(t), tt.lock).Val(); n != 1 {
			t.Errorf("%q %q: there is no key %s among %q", tt.args, tt.env, tt.lock, app.rdb.Keys(background(t), "*").Val())
		}
		args[1] = "status"
		args = append(args[:4], args[5:]...) // without --migrate
		finished(t, command(t, tt.env, args...)).want(t, exitOK, "epoch   1\n", "")
		p.signal(syscall.SIGTERM)
	}
}

func TestLogFormat(t *testing.T) {
	server := redistest.Start(t)
	players, _ := playersFile(t)
	p := start(t, []string{"LOCKKEEPER_LOG_FORMAT=json"}, "flush", "run", "-f", players, "--migrate", "--redis", server.URL(), "--log-level", "debug")
	p.says("term began")
	p.signal(syscall.SIGTERM)
	for line := range strings.Lines(p.stderr()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("not JSON: %s", line)
		}
	}
	quiet := start(t, []string{"LOCKKEEPER_LOG_LEVEL=error"}, "flush", "run", "-f", players, "--redis", server.URL())
	rdb := client(t, server)
	redistest.Until(t, "it works", func() bool { return rdb.Exists(background(t), lockKey).Val() == 1 })
	quiet.signal(syscall.SIGTERM)
	if quiet.stderr() != "" {
		t.Errorf("%q", quiet.stderr())
	}
}

// TestPasswords brings the password in every way there is, right and wrong, and wants
// it in no output.
func TestPasswords(t *testing.T) {
	const secret = "s3cr3t-w0rd"
	server := redistest.Start(t, redistest.Args("--requirepass", secret,
		"--user", "worker", "on", ">"+secret+"-worker", "~*", "&*", "+@all"))
	players, _ := playersFile(t)
	right, wrong := file(t, "right", secret+"\n"), file(t, "wrong", secret+"-wrong\n")
	env := func(value string) []string { return []string{"LOCKKEEPER_REDIS_PASSWORD=" + value} }
	inURL := func(userinfo string) string { return "redis://" + userinfo + "@" + server.Addr() }
	for _, tt := range []struct {
		name string
		env  []string
		args []string
		code int
		want string
	}{
		{"none", nil, nil, exitUnavailable, "set LOCKKEEPER_REDIS_PASSWORD, or use --redis-password-file"},
		{"in the URL", nil, []string{"--redis", inURL(":" + secret)}, exitOK, ""},
		{"in the environment's URL", []string{"LOCKKEEPER_REDIS=" + inURL(":"+secret)}, nil, exitOK, ""},
		{"in the environment", env(secret), nil, exitOK, ""},
		{"in a file", nil, []string{"--redis-password-file", right}, exitOK, ""},
		{"a file wins over the URL", env("x"), []string{"--redis", inURL(":x"), "--redis-password-file", right}, exitOK, ""},
		{"the URL wins over the environment", env(secret + "-wrong"), []string{"--redis", inURL(":" + secret)}, exitOK, ""},
		{"of a user", env(secret + "-worker"), []string{"--redis", inURL("worker")}, exitOK, ""},
		{"wrong in the URL", nil, []string{"--redis", inURL(":" + secret + "-wrong")}, exitUnavailable, "WRONGPASS"},
		{"wrong in the environment", env(secret + "-wrong"), nil, exitUnavailable, "see LOCKKEEPER_REDIS_PASSWORD and --redis-password-file"},
		{"wrong in a file", nil, []string{"--redis-password-file", wrong}, exitUnavailable, "WRONGPASS"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			environ := append([]string{"LOCKKEEPER_REDIS=" + server.URL()}, tt.env...)
			for _, args := range [][]string{
				{"flush", "status", "-f", players, "--log-level", "debug"},
				{"flush", "run", "-f", players, "--migrate", "--log-level", "debug"},
			} {
				args = append(args, tt.args...)
				var r result
				if args[1] == "run" && tt.code == exitOK {
					p := start(t, environ, args...)
					p.says("term began")
					r = result{code: p.signal(syscall.SIGTERM), stderr: p.stderr()}
				} else {
					r = finished(t, command(t, environ, args...))
				}
				r.want(t, tt.code, "", tt.want)
				if strings.Contains(r.stdout+r.stderr, "s3cr3t") {
					t.Errorf("the password is told:\n%s%s", r.stdout, r.stderr)
				}
			}
		})
	}
}

func TestTLS(t *testing.T) {
	server := redistest.Start(t, redistest.TLS())
	players, _ := playersFile(t)
	found := server.Do(t, "CONFIG", "GET", "tls-ca-cert-file").([]any)
	trusting := []string{"SSL_CERT_FILE=" + found[1].(string), "LOCKKEEPER_REDIS=" + server.URL()}
	finished(t, command(t, trusting, "flush", "status", "-f", players)).want(t, exitOK, "active  nobody", "")
	program(t, "flush", "status", "-f", players, "--redis", server.URL()).want(t, exitUnavailable, "", "certificate")
	program(t, "flush", "status", "-f", players, "--redis", "redis://"+server.Addr()).want(t, exitUnavailable, "", "no answer from Redis at "+server.Addr())
}

func TestSocketAndDatabaseNumber(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "r.sock")
	server := redistest.Start(t, redistest.Args("--unixsocket", socket))
	players, _ := playersFile(t)
	conn := client(t, server).Conn()
	defer func() { _ = conn.Close() }()
	if err := conn.Select(background(t), 3).Err(); err != nil {
		t.Fatal(err)
	}
	if err := conn.Set(background(t), "lockkeeper:flush:{players}:epoch", "77", 0).Err(); err != nil {
		t.Fatal(err)
	}
	for url, want := range map[string]string{
		"unix://" + socket:           "epoch   none",
		"unix://" + socket + "?db=3": "epoch   77",
		server.URL() + "/3":          "epoch   77",
	} {
		program(t, "flush", "status", "-f", players, "--redis", url).want(t, exitOK, want, "")
	}
	server.Kill()
	program(t, "flush", "status", "-f", players, "--redis", "unix://"+socket).want(t, exitUnavailable, "", "no answer from Redis at "+socket)
}

// TestNoRights: an ACL user without the right keys is told so, and run does not wait.
func TestNoRights(t *testing.T) {
	server := redistest.Start(t, redistest.Args("--user", "poor", "on", ">pw", "~player:*", "&*", "+@all"))
	players, _ := playersFile(t)
	url := "redis://poor:pw@" + server.Addr()
	for _, args := range [][]string{{"status"}, {"run", "--migrate"}} {
		args = append([]string{"flush"}, append(args, "-f", players, "--redis", url)...)
		program(t, args...).want(t, exitUnavailable, "", "lockkeeper: the Redis server at "+server.Addr()+" refuses: NOPERM")
	}
}

// TestFlushStopped: the active process is stopped for longer than its TTL, and goes on
// when another has taken over. It stands by then, and ends in good order.
func TestFlushStopped(t *testing.T) {
	server := redistest.Start(t)
	players, database := playersFile(t)
	app := newApplication(t, client(t, server), "", database)
	env := []string{"LOCKKEEPER_REDIS=" + server.URL()}
	a := start(t, env, "flush", "run", "-f", players, "--migrate")
	a.says("term began")
	b := start(t, env, "flush", "run", "-f", players)
	b.says("started; stands by")
	if err := a.cmd.Process.Signal(syscall.SIGSTOP); err != nil { // it has nothing to do, so no transaction is open
		t.Fatal(err)
	}
	app.set(1, 1)
	b.says("term began")
	app.total(1, 1)
	if err := a.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	a.says("stands by again")
	app.set(1, 2)
	app.total(1, 2)
	if n := strings.Count(a.stderr(), "term began"); n != 1 {
		t.Errorf("it had %d terms", n)
	}
	b.signal(syscall.SIGTERM)
	app.set(1, 3)
	app.total(1, 3)
	if code := a.signal(syscall.SIGTERM); code != exitOK {
		t.Errorf("exit code %d", code)
	}
}
