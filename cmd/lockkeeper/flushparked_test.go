package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// parkedJSON is what flush parked ls --json prints.
type parkedJSON struct {
	Total  int
	Parked []struct {
		Name, Key, Table, Column, Reason, Code, Entry, Version string
		Attempts                                               int
	}
}

func (s *stage) parked(more ...string) parkedJSON {
	s.t.Helper()
	r := s.flush("parked ls", append(more, "--json")...)
	r.want(s.t, exitOK, "", "")
	var list parkedJSON
	if err := json.Unmarshal([]byte(r.stdout), &list); err != nil {
		s.t.Fatal(err)
	}
	return list
}

func TestParked(t *testing.T) {
	s := newStage(t, "max_parked: 100%\ninterval: 10ms\n").migrated()
	s.flush("parked ls").want(t, exitOK, "no key is parked\n", "")
	if list := s.parked(); list.Total != 0 || list.Parked == nil {
		t.Errorf("%+v; want an empty list", list)
	}
	s.works()
	const odd = "player:a b\n\x1b[31m\xff\"'"
	for _, key := range []string{"player:1", odd, "nobody's"} {
		s.do(key, "HSET", "points", "many")
	}
	s.do("tags:x", "SADD", "a")
	s.flush("drain").want(t, exitOK, "4 keys are parked", "")

	r := s.flush("parked ls")
	r.want(t, exitOK, "NAME ", "")
	for _, want := range []string{
		"player:1 ", ` "many" is not a 64-bit integer` + "\n", `"player:a b\n\x1b[31m\xff\"'"  player  id `, "nobody's ", "no mapping fits this key\n",
	} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("no %q in\n%s", want, r.stdout)
		}
	}
	if strings.Contains(r.stdout, "\x1b") || strings.Count(r.stdout, "\n") != 5 {
		t.Errorf("not fit for a terminal: %q", r.stdout)
	}
	s.flush("parked ls", "--limit", "1").want(t, exitOK, "and 3 more; --limit 0 lists all\n", "")
	if list := s.parked("--limit", "2"); list.Total != 4 || len(list.Parked) != 2 {
		t.Errorf("%+v", list)
	}
	if list := s.parked("--table", "tag"); list.Total != 1 || list.Parked[0].Name != "tags:x" || list.Parked[0].Column != "id" || list.Parked[0].Attempts != 1 {
		t.Errorf("%+v", list)
	}

	// A name is taken as it is, and as it is shown.
	shown := ""
	for _, p := range s.parked().Parked {
		if strings.HasPrefix(p.Key, "player:a") {
			shown = p.Name
		}
	}
	for _, name := range []string{odd, shown, strings.Trim(shown, `"`)} {
		s.flush("parked show", name).want(t, exitOK, "name      "+shown+"\nkey       "+shown+"\nentry     -\ntable     player\ncolumn    id\nreason    ", "")
	}
	s.flush("parked show", "player:1", "player:2").want(t, exitFailed, "", "lockkeeper: player:2 is not parked; perhaps it is flushed meanwhile: lockkeeper flush parked ls -f ")
	s.flush("parked show", "player:1", "--json").want(t, exitOK, `"reason": "\"many\" is not a 64-bit integer"`, "")

	s.flush("parked retry", "player:1").want(t, exitOK, "1 key is marked again; it stays parked until it is flushed\n", "")
	s.flush("drain").want(t, exitOK, "4 keys are parked", "")
	if err := s.rdb.HSet(background(t), "player:1", "points", "3").Err(); err != nil { // without a mark
		t.Fatal(err)
	}
	s.flush("parked retry", "--table", "player").want(t, exitOK, "2 keys are marked again; each stays parked until it is flushed\n", "")
	s.flush("drain").want(t, exitOK, "3 keys are parked", "")
	s.app.total(1, 3)
	s.flush("parked retry", "--all").want(t, exitOK, "3 keys are marked again", "")
	s.flush("drain").want(t, exitOK, "3 keys are parked", "")

	s.flush("parked drop", shown).want(t, exitUsage, "", "Drop 1 parked key of players?")
	s.flush("parked drop", shown, "--yes").want(t, exitOK, "1 key is dropped\n", "")
	s.flush("parked drop", "--table", "player", "--yes").want(t, exitOK, "0 keys are dropped\n", "")
	s.flush("parked drop", "--all", "--yes").want(t, exitOK, "2 keys are dropped\n", "")
	s.flush("parked ls").want(t, exitOK, "no key is parked\n", "")
	s.app.total(1, 3)
}

// TestManyParked: more than a request takes.
func TestManyParked(t *testing.T) {
	s := newStage(t, "max_parked: 100%\ninterval: 10ms\n").migrated()
	s.works()
	const n = 1234
	for i := range n {
		s.do(fmt.Sprintf("player:%d", i), "HSET", "points", "x")
	}
	s.flush("drain").want(t, exitOK, fmt.Sprintf("%d keys are parked", n), "")
	list := s.parked("--limit", "0")
	if list.Total != n || len(list.Parked) != n || list.Parked[0].Key != "player:0" {
		t.Errorf("%d of %d, the first is %+v", len(list.Parked), list.Total, list.Parked[0])
	}
	s.flush("parked retry", "--all").want(t, exitOK, fmt.Sprintf("%d keys are marked again", n), "")
	s.flush("drain").want(t, exitOK, "", "")
	s.flush("parked drop", "--all", "--yes").want(t, exitOK, fmt.Sprintf("%d keys are dropped\n", n), "")
}

func TestShownName(t *testing.T) {
	for name, want := range map[string]string{
		"player:7": "player:7", "": `""`, "a b": `"a b"`, "a\nb": `"a\nb"`, `a"b`: `"a\"b"`, `a\b`: `"a\\b"`, "\xff": `"\xff"`, "ключ": "ключ", "\u202e": `"\u202e"`,
	} {
		got := shownName(name)
		if got != want {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
		if plain, quoted := unquoted(got); quoted && plain != name {
			t.Errorf("%s is read as %q", got, plain)
		}
	}
}
