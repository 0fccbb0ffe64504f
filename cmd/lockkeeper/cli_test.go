package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockkeeper/lockkeeper/internal/redistest"
)

func TestHelp(t *testing.T) {
	help := map[string][]string{"help.txt": nil, "help-flush.txt": {"flush"}, "help-parked.txt": {"flush", "parked"}}
	for _, verb := range []string{"run", "check", "migrate", "plan", "status", "now", "pause", "resume", "drain", "step-down", "verify", "resync"} {
		help["help-"+verb+".txt"] = []string{"flush", verb}
	}
	for _, verb := range []string{"ls", "show", "retry", "drop"} {
		help["help-parked-"+verb+".txt"] = []string{"flush", "parked", verb}
	}
	for name, args := range help {
		r := program(t, append(args, "--help")...)
		r.want(t, exitOK, "Usage:", "")
		golden(t, name, r.stdout)
	}
	if all, bare := program(t, "--help"), program(t); all != bare {
		t.Errorf("without a command: %+v", bare)
	}
	program(t, "flush").want(t, exitOK, "players.yaml", "")
	program(t, "help", "flush").want(t, exitOK, "players.yaml", "")
}

// TestHelpDoesNotShowTheEnvironment: a default in the help must not be a URL with its
// password.
func TestHelpDoesNotShowTheEnvironment(t *testing.T) {
	env := []string{"LOCKKEEPER_REDIS=redis://:secret@127.0.0.1:1", "LOCKKEEPER_REDIS_PASSWORD=secret"}
	for _, args := range [][]string{{"--help"}, {"flush", "run", "--help"}, {"help"}, {"flush", "--redis", "redis://:secret@127.0.0.1:1"}} {
		r := finished(t, command(t, env, args...))
		if r.code != exitOK || strings.Contains(r.stdout+r.stderr, "secret") {
			t.Errorf("%q: %+v", args, r)
		}
	}
}

func TestVersion(t *testing.T) {
	r := program(t, "version")
	r.want(t, exitOK, "lockkeeper ", "")
	if !strings.Contains(r.stdout, "go1.") || strings.Count(r.stdout, "\n") != 1 {
		t.Errorf("%q", r.stdout)
	}
}

func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		program(t, "completion", shell).want(t, exitOK, "lockkeeper", "")
	}
	program(t, "__complete", "flush", "").want(t, exitOK, "status\t", "")
	program(t, "__complete", "flush", "run", "-f", "").want(t, exitOK, "yaml\n", "")
}

func TestUsage(t *testing.T) {
	players, _ := playersFile(t)
	empty := file(t, "empty", "\n")
	for _, tt := range []struct {
		args []string
		env  []string
		want string
	}{
		{args: []string{"flsh"}, want: `unknown command "flsh" of lockkeeper; did you mean flush?`},
		{args: []string{"xyz"}, want: `unknown command "xyz" of lockkeeper; see lockkeeper --help`},
		{args: []string{"flush", "rum"}, want: `unknown command "rum" of lockkeeper flush; did you mean run?`},
		{args: []string{"flush", "chek", "-f", "x"}, want: `unknown command "chek" of lockkeeper flush; did you mean check?`},
		{args: []string{"flush", "-f", "x"}, want: "unknown shorthand flag"},
		{args: []string{"--nonsense"}, want: "unknown flag: --nonsense"},
		{args: []string{"flush", "run", "-x"}, want: "unknown shorthand flag"},
		{args: []string{"flush", "run"}, want: "which flush? Name its file: lockkeeper flush run -f FILE"},
		{args: []string{"flush", "status", "-f"}, want: "needs an argument"},
		{args: []string{"flush", "check", players}, want: "lockkeeper flush check takes no arguments"},
		{args: []string{"version", "x"}, want: "lockkeeper version takes no arguments"},
		{args: []string{"flush", "check", "-f", "/nowhere/x.yaml"}, want: "/nowhere/x.yaml: no such file"},
		{args: []string{"flush", "check", "-f", players, "--log-level", "loud"}, want: `log level "loud": debug, info, warn or error`},
		{args: []string{"flush", "check", "-f", players, "--log-level", "info+2"}, want: "log level"},
		{args: []string{"flush", "check", "-f", players}, env: []string{"LOCKKEEPER_LOG_LEVEL=loud"}, want: "log level"},
		{args: []string{"flush", "check", "-f", players}, env: []string{"LOCKKEEPER_LOG_FORMAT=xml"}, want: `log format "xml": text or json`},
		{args: []string{"flush", "status", "-f", players, "--redis-password-file", "/nowhere/pw"}, want: "/nowhere/pw: no such file"},
		{args: []string{"flush", "status", "-f", players, "--redis-password-file", empty}, want: "is empty"},
		{args: []string{"flush", "status", "-f", players, "--prefix", strings.Repeat("x", 600)}, want: "at most 512"},
		{args: []string{"flush", "check", "-f", players}, env: []string{"LOCKKEEPER_DATABASE=postgres://u:secret@h"}, want: "LOCKKEEPER_DATABASE: database URL: no database name"},
		{args: []string{"flush", "run", "redis://u:secret@h"}, want: "takes no arguments, and got a URL"},
		{args: []string{"redis://u:secret@h"}, want: "unknown command a URL"},
		{args: []string{"flush", "status", "-f", players, "--redis-password", "secret"}, want: "unknown flag: --redis-password"},
	} {
		r := finished(t, command(t, tt.env, tt.args...))
		r.want(t, exitUsage, "", tt.want)
		if r.stdout != "" || !strings.HasPrefix(r.stderr, "lockkeeper: ") || strings.Count(r.stderr, "\n") != 1 {
			t.Errorf("%q: not one line on standard error: %q, %q", tt.args, r.stdout, r.stderr)
		}
		if strings.Contains(r.stderr, "secret") {
			t.Errorf("%q: a password is told: %s", tt.args, r.stderr)
		}
	}
}

func TestRefusedURLs(t *testing.T) {
	players, _ := playersFile(t)
	const now = "redis://host:port"
	for url, want := range map[string]string{
		"redis-sentinel://:secret@a:26379/main":   "redis-sentinel:// comes later; now give the URL of the primary itself, as " + now,
		"redis+cluster://:secret@a:7000":          "redis+cluster:// comes later; now use a server that is no cluster, as " + now,
		"redis://:secret@a:1,redis://:secret@b:2": "several Redis servers (a quorum) come later; now give one URL, as " + now,
		"redis://:secret@a:1,b:2":                 "several Redis servers",
		"http://:secret@a":                        "has to begin with redis://",
		"a:6379":                                  "has to begin with redis://",
		"secret":                                  "has to begin with redis://",
		"":                                        "has to begin with redis://",
		"redis://:sec/ret-secret@a:1":             "can't be read",
		"redis://:sec#ret-secret@a:1":             "can't be read",
		"redis://:sec?ret-secret@a:1":             "can't be read",
		"redis://:sec%zzret-secret@a:1":           "can't be read",
		"redis://a:1/secret":                      "can't be read",
		"redis://a:1?secret=1":                    "unknown option",
		"redis://u:secret@a:secret":               "can't be read",
		"unix://":                                 "can't be read",
		"REDIS-SENTINEL://u:secret@a":             "comes later",
		"redis://u:1/secret@127.0.0.1:6379/0":     "can't be read",
		"rediss://u:secret@127.0.0.1:6379/0?db=x&secret=1": "can't be read",
	} {
		r := program(t, "flush", "status", "-f", players, "--redis", url)
		r.want(t, exitUsage, "", want)
		if strings.Contains(r.stderr, "secret") {
			t.Errorf("%s: the password is told: %s", url, r.stderr)
		}
		if url == "" {
			continue // an empty variable counts as none
		}
		fromEnv := finished(t, command(t, []string{"LOCKKEEPER_REDIS=" + url}, "flush", "status", "-f", players))
		if fromEnv != r {
			t.Errorf("%s from the environment: %+v", url, fromEnv)
		}
	}
	r := program(t, "flush", "status", "-f", players, "--redis", "redis://a", "--redis", "redis://b")
	r.want(t, exitUsage, "", "several Redis servers")
}

func TestConfigErrors(t *testing.T) {
	bad := file(t, "bad.yaml", "job: a b\nmappings:\n  - keys: x\n    tabel: y\n")
	for _, verb := range []string{
		"check", "run", "migrate", "plan", "status", "now", "pause --reason x", "resume", "drain", "step-down", "verify", "resync",
		"parked ls", "parked show k", "parked retry k", "parked drop k",
	} {
		r := program(t, append(append([]string{"flush"}, strings.Fields(verb)...), "-f", bad)...)
		r.want(t, exitUsage, "", "lockkeeper: 6 errors; nothing was touched\n"+bad+":1:6: job name")
		for _, place := range []string{":3:5: a mapping without \"table\"\n", ":3:11: key pattern", ":4:5: unknown key \"tabel\"; did you mean \"table\"?\n"} {
			if !strings.Contains(r.stderr, "\n"+bad+place) {
				t.Errorf("%s: no %q in\n%s", verb, place, r.stderr)
			}
		}
	}
	cmd := command(t, nil, "flush", "check", "-f", "-")
	cmd.Stdin = strings.NewReader("job: x\n")
	finished(t, cmd).want(t, exitUsage, "", "-:1:1: \"mappings\" is missing")
}

func TestCheck(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("internal", "config", "testdata", "good", "full.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	r := program(t, "flush", "check", "-f", file(t, "full.yaml", string(text)))
	r.want(t, exitOK, "", "")
	golden(t, "check.txt", r.stdout)

	short := file(t, "short.yaml", "job: j\nmappings: [{keys: 'k:{k}', table: t, missing: park, key: {k: text}, columns: {v: text}}]\n")
	program(t, "flush", "check", "-f", short).want(t, exitOK, "job j -> no database; set LOCKKEEPER_DATABASE", "")
	r = finished(t, command(t, []string{"LOCKKEEPER_DATABASE=sqlite:x.db"}, "flush", "check", "-f", short))
	r.want(t, exitOK, "job j -> sqlite:x.db", "")
	r.want(t, exitOK, "a missing key is parked", "")
}

func TestMigrate(t *testing.T) {
	players, database := playersFile(t)
	printed := program(t, "flush", "migrate", "-f", players, "--print")
	printed.want(t, exitOK, "CREATE TABLE IF NOT EXISTS lockkeeper_fence", "")
	printed.want(t, exitOK, `CREATE TABLE IF NOT EXISTS "player"`, "")
	if _, err := os.Stat(database); err == nil {
		t.Error("--print has made the database")
	}
	for range 2 {
		program(t, "flush", "migrate", "-f", players).want(t, exitOK, database+" is ready for the job players\n", "")
	}

	db := openDatabase(t, database)
	if _, err := db.Exec("ALTER TABLE player DROP COLUMN score"); err != nil {
		t.Fatal(err)
	}
	program(t, "flush", "migrate", "-f", players).want(t, exitFailed, "", "is migrated, but: flush: table player does not fit its mapping")

	none := file(t, "none.yaml", "job: j\nmappings: [{keys: 'k:{k}', table: t, key: {k: text}, columns: {v: text}}]\n")
	for _, args := range [][]string{{"migrate"}, {"migrate", "--print"}, {"run"}, {"plan", "--redis", "redis://127.0.0.1:1"}, {"verify", "--redis", "redis://127.0.0.1:1"}} {
		program(t, append([]string{"flush", "-f", none}[:1], append(args, "-f", none)...)...).
			want(t, exitUsage, "", `no database: write it into `+none+` as "database: sqlite:PATH", or set LOCKKEEPER_DATABASE`)
	}
	env := []string{"LOCKKEEPER_DATABASE=sqlite:/nowhere/x.db"}
	for _, command_ := range []string{"migrate", "run"} {
		finished(t, command(t, env, "flush", command_, "-f", none)).
			want(t, exitUnavailable, "", "lockkeeper: database sqlite:/nowhere/x.db: the folder /nowhere does not exist: create it\n")
	}
}

func TestDemoWithoutItsDatabase(t *testing.T) {
	dir := t.TempDir()
	program(t, "demo", "--db", filepath.Join(dir, "none", "x.db")).want(t, exitUnavailable, "", "does not exist")
	program(t, "demo", "--db", dir).want(t, exitUnavailable, "", dir)
}

func TestUnreachable(t *testing.T) {
	players, database := playersFile(t)
	r := program(t, "flush", "status", "-f", players, "--redis", "redis://u:secret@127.0.0.1:1/3")
	r.want(t, exitUnavailable, "", "lockkeeper: no answer from Redis at 127.0.0.1:1/3: dial tcp 127.0.0.1:1: connect: connection refused; is it running, and is --redis right?\n")
	if strings.Contains(r.stderr, "secret") || strings.Count(r.stderr, "\n") != 1 {
		t.Errorf("%q", r.stderr)
	}
	if _, err := os.Stat(database); err == nil {
		t.Error("status has made the database")
	}

	server := redistest.Start(t)
	server.Pause()
	defer server.Resume()
	r = program(t, "flush", "status", "-f", players, "--redis", server.URL())
	r.want(t, exitUnavailable, "", "is it too busy, or is a firewall in between?")
}
