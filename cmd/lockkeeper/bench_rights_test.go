package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/bench"
	"github.com/lockkeeper/lockkeeper/internal/redistest"
)

// leastRights are those that docs/PROTOCOL.md gives to a user, for the default prefix,
// and what clients need to connect.
func leastRights(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "PROTOCOL.md"))
	if err != nil {
		t.Fatal(err)
	}
	match := regexp.MustCompile(`(?m)^ACL SETUSER locks on >password (.*)$`).FindSubmatch(text)
	if match == nil {
		t.Fatal("docs/PROTOCOL.md has no line ACL SETUSER locks")
	}
	return append(strings.Fields(string(match[1])), "+hello", "+ping")
}

// asUser makes a user with some rights and returns a URL.
func asUser(t *testing.T, server *redistest.Server, rights ...string) string {
	t.Helper()
	server.Do(t, "ACL", "DELUSER", "locks")
	server.Do(t, append([]string{"ACL", "SETUSER", "locks", "on", ">pw"}, rights...)...)
	server.Do(t, "ACL", "LOG", "RESET")
	return "redis://locks:pw@" + server.Addr()
}

// refused returns the commands, keys and channels that the server has refused, without
// what go-redis tries when it connects.
func refused(t *testing.T, server *redistest.Server) (list []string) {
	t.Helper()
	for _, entry := range server.Do(t, "ACL", "LOG").([]any) {
		fields := entry.([]any)
		for i := 0; i+1 < len(fields); i += 2 {
			if object, ok := fields[i+1].(string); fields[i] == "object" && ok && !strings.HasPrefix(object, "client") {
				list = append(list, object)
			}
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(list)))
}

func TestBenchLeastRights(t *testing.T) {
	server := redistest.Start(t)
	rights := leastRights(t)
	run := func(rights []string) (result bench.Result) {
		r := program(t, "bench", "--redis", asUser(t, server, rights...), "--duration", "2s", "--json")
		r.want(t, exitOK, "", "")
		if err := json.Unmarshal([]byte(r.stdout), &result); err != nil {
			t.Fatal(err)
		}
		for _, object := range refused(t, server) {
			if slices.Contains(rights, "+"+object) || strings.Contains(object, ":") {
				t.Errorf("the server has refused %s", object)
			}
		}
		wantNoKeys(t, client(t, server))
		return result
	}
	result := run(rights)
	if len(result.Notes) != 0 || result.RedisVersion == nil || result.FreeLock.ServerCPU == nil || result.Renewals == nil || result.Renewals.LeasesServer == nil {
		t.Errorf("with the least rights: %+v", result)
	}
	result = run(slices.DeleteFunc(slices.Clone(rights), func(r string) bool { return r == "+info" }))
	if len(result.Notes) != 2 || !strings.Contains(result.Notes[0], "lacks +info: a waiter that has died") ||
		!strings.Contains(result.Notes[1], "INFO gives nothing (NOPERM") || result.RedisVersion != nil ||
		result.FreeLock.ServerCPU != nil || result.Renewals == nil || result.Renewals.LeasesServer != nil || result.Renewals.LeasesCore == nil {
		t.Errorf("without the right for INFO: %+v", result)
	}
}

// TestBenchNamesMissingRights: what locks can't do without is named before there is any
// load, and what they can do without is named in a note.
func TestBenchNamesMissingRights(t *testing.T) {
	server := redistest.Start(t)
	rights := leastRights(t)
	for _, right := range []string{
		"+eval", "+evalsha", "+time", "+set", "+del", "+zadd", "~lockkeeper:*", "~{lockkeeper:*", "+publish", "+subscribe", "&lockkeeper:wake:*",
	} {
		rest := slices.DeleteFunc(slices.Clone(rights), func(r string) bool { return r == right })
		if len(rest) != len(rights)-1 {
			t.Fatalf("%s is no right that docs/PROTOCOL.md lists", right)
		}
		r := program(t, "bench", "--redis", asUser(t, server, rest...), "--duration", "2s")
		switch right {
		case "+publish", "+subscribe", "&lockkeeper:wake:*":
			r.want(t, exitOK, "note            the user of Redis lacks "+right+": nobody is woken", "")
		case "+eval", "+evalsha":
			r.want(t, exitUnavailable, "", "'"+right[1:]+"'")
		default:
			r.want(t, exitUnavailable, "", "lockkeeper: the Redis server at "+server.Addr()+" refuses: ")
			r.want(t, exitUnavailable, "", "docs/PROTOCOL.md")
			_, lacks, _ := strings.Cut(r.stderr, "; this user lacks ")
			if right == "+del" {
				_, lacks, _ = strings.Cut(r.stderr, "refuses: this user lacks ")
			}
			lacks, _, _ = strings.Cut(strings.TrimSuffix(lacks, "\n"), ";")
			if !slices.Contains(strings.Fields(lacks), right) || r.stdout != "" {
				t.Errorf("without %s it says %s", right, r.stderr)
			}
		}
		wantNoKeys(t, client(t, server))
	}
}

// TestBenchKnowsAllRights: what is in docs/PROTOCOL.md is known to the benchmark, so that
// it can name it.
func TestBenchKnowsAllRights(t *testing.T) {
	server := redistest.Start(t)
	var commands []string
	for _, right := range leastRights(t) {
		if strings.HasPrefix(right, "+") {
			commands = append(commands, right)
		}
	}
	known := []string{"+eval", "+evalsha", "+subscribe", "+scan", "+hello", "+ping"}
	url := asUser(t, server, "allkeys", "allchannels", "-@all", "+eval", "+evalsha", "+hello", "+ping", "+del")
	r := program(t, "bench", "--redis", url)
	r.want(t, exitUnavailable, "", "; this user lacks +")
	_, lacks, _ := strings.Cut(r.stderr, "; this user lacks ")
	known = append(append(known, "+del"), strings.Fields(lacks)...)
	for _, command := range commands {
		if !slices.Contains(known, command) {
			t.Errorf("it would not name %s: %s", command, r.stderr)
		}
	}
}

// TestBenchPrefix: its keys and channels begin with the prefix, and what others have
// there stays.
func TestBenchPrefix(t *testing.T) {
	for _, prefix := range []string{"", "app:", "{app}:"} {
		server := redistest.Start(t)
		rdb := client(t, server)
		mine := prefix + "bench:mine"
		if err := rdb.Set(background(t), mine, "x", 0).Err(); err != nil {
			t.Fatal(err)
		}
		var rights []string
		for _, right := range leastRights(t) {
			right = strings.Replace(right, "{lockkeeper:", strings.ReplaceAll("{"+prefix, "{{", "{"), 1)
			right = strings.Replace(right, "lockkeeper:", prefix, 1)
			if right != "~{*" { // ~* has them
				rights = append(rights, right)
			}
		}
		r := program(t, "bench", "--redis", asUser(t, server, rights...), "--duration", "2s", "--prefix", prefix, "--json")
		r.want(t, exitOK, fmt.Sprintf(`"key_pattern": "%sbench:`, prefix), "the keys are "+prefix+"bench:")
		if strings.Contains(r.stdout, "lacks") || strings.Contains(r.stdout, "null,\n  \"notes\"") {
			t.Errorf("%q: %s", prefix, r.stdout)
		}
		keys, err := rdb.Keys(background(t), "*").Result()
		if err != nil || !slices.Equal(keys, []string{mine}) {
			t.Errorf("%q: the keys are %.5q, %v", prefix, keys, err)
		}
	}
}
