package dialect_test

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/lockkeeper/lockkeeper/sqlfence"
)

// placeholders is what a server takes at most.
var placeholders = map[sqlfence.Dialect]int{sqlfence.SQLite: 32766, sqlfence.MySQL: 65535, sqlfence.MariaDB: 65535}

// Every row is sent once and in order, whatever the number of rows, and no statement has
// too many arguments or too many bytes.
func TestGroups(t *testing.T) {
	long := strings.Repeat("x", 600_000)
	for d, most := range placeholders {
		for _, n := range []int{1, 2, 24, 25, 26, 49, 50, 112, 113, 224, 225, 300, 500, 1999} {
			r := newRig(t, d)
			tab := table(t, "t", 1, 1, "k int64", "a text", "b text", "c text", "d text", "e text", "f text")
			var rows [][]any
			for i := range n {
				rows = append(rows, []any{int64(i), "a", "b", nil, "d", long[:i%7*100_000], "f"})
			}
			said, err := r.inTx(t, func(tx *sql.Tx) error { return r.db.Upsert(t.Context(), tx, tab, rows, 5) })
			check(t, err)
			next := int64(0)
			open := 0
			for _, c := range said {
				open += map[string]int{"prepare": 1, "close": -1}[c.how]
				if c.how != "exec" && c.how != "run" {
					continue
				}
				if strings.Count(c.text, "?") != len(c.args) || len(c.args) > most {
					t.Fatalf("%s: %d rows: %d placeholders and %d arguments", d, n, strings.Count(c.text, "?"), len(c.args))
				}
				bytes := 0
				for i := 0; i < len(c.args); i += 8 {
					same(t, "key", c.args[i], next)
					same(t, "version", c.args[i+7], int64(5))
					bytes += len(c.args[i+5].(string))
					next++
				}
				if bytes > 4<<20 {
					t.Errorf("%s: %d bytes in a statement", d, bytes)
				}
			}
			if next != int64(n) || open != 0 {
				t.Errorf("%s: %d rows: %d sent, %d statements left open", d, n, next, open)
			}
		}
	}
}

// A large batch is one prepared statement that runs several times; a small one is not
// prepared, and neither is PostgreSQL's, which is one statement in any case.
func TestPrepared(t *testing.T) {
	full := map[sqlfence.Dialect]int{sqlfence.SQLite: 25, sqlfence.MariaDB: 112, sqlfence.Postgres: 100}
	for d, want := range map[sqlfence.Dialect]string{
		sqlfence.SQLite:   "prepare run run run run run run run run run run exec close",
		sqlfence.MariaDB:  "prepare run run exec close",
		sqlfence.Postgres: "exec",
	} {
		r := newRig(t, d)
		tab := table(t, "t", 1, 1, "k int64", "a text", "b text", "c text", "d text", "e text", "f text")
		var rows [][]any
		for i := range 259 {
			rows = append(rows, []any{int64(i), "a", "b", "c", "d", "e", "f"})
		}
		upsert := func(n int) string {
			said, err := r.inTx(t, func(tx *sql.Tx) error { return r.db.Upsert(t.Context(), tx, tab, rows[:n], 5) })
			check(t, err)
			return hows(said)
		}
		same(t, d.String(), upsert(259), want)
		same(t, d.String()+" of one group", upsert(full[d]), "exec")
		same(t, d.String()+" small", upsert(20), "exec")
	}
}

func hows(said []call) string {
	var out []string
	for _, c := range said {
		out = append(out, c.how)
	}
	return strings.Join(out, " ")
}

// One large value goes alone, and prepared: put into the text by the driver it could
// grow beyond what the server takes.
func TestLargeValue(t *testing.T) {
	for d := range placeholders {
		r := newRig(t, d)
		tab := table(t, "t", 1, 1, "k int64", "a text")
		large := strings.Repeat("'", 12<<20)
		rows := [][]any{{int64(1), "x"}, {int64(2), large}, {int64(3), "y"}}
		said, err := r.inTx(t, func(tx *sql.Tx) error { return r.db.Upsert(t.Context(), tx, tab, rows, 5) })
		check(t, err)
		same(t, d.String(), hows(said), "exec prepare run close exec")
		if len(said[2].args) != 3 || said[2].args[1] != large {
			t.Errorf("%s: the large row does not go alone", d)
		}
	}
}

// PostgreSQL's arrays are cut by their bytes alone.
func TestArraysAreCut(t *testing.T) {
	r := newRig(t, sqlfence.Postgres)
	tab := table(t, "t", 1, 1, "k int64", "a text")
	var rows [][]any
	large := strings.Repeat("x", 1<<20)
	for i := range 20 {
		rows = append(rows, []any{int64(i), large})
	}
	said, err := r.inTx(t, func(tx *sql.Tx) error { return r.db.Upsert(t.Context(), tx, tab, rows, 5) })
	check(t, err)
	sent := 0
	for _, c := range said {
		if n := len(c.args[1].(string)); n > 9<<20 {
			t.Errorf("an array of %d bytes", n)
		}
		sent += strings.Count(c.args[0].(string), ",") + 1
	}
	if sent != 20 || len(said) != 3 {
		t.Errorf("%d rows in %d statements", sent, len(said))
	}
}

func TestParentsAreCut(t *testing.T) {
	for d := range placeholders {
		r := newRig(t, d)
		tab := table(t, "t", 2, 2, "k int64", "m text", "a text")
		var parents [][]any
		for i := range 450 {
			parents = append(parents, []any{int64(i), "m"})
		}
		said, err := r.inTx(t, func(tx *sql.Tx) error { return r.db.Remove(t.Context(), tx, tab, parents, 7) })
		check(t, err)
		same(t, d.String(), hows(said), "prepare run run run run exec close")
		for _, c := range said {
			if len(c.args) > 0 && c.args[len(c.args)-1] != any(int64(7)) {
				t.Errorf("%s: the version is not last: %v", d, c.args)
			}
		}
		said, err = r.inTx(t, func(tx *sql.Tx) error { _, err := r.db.Read(t.Context(), tx, tab, parents); return err })
		check(t, err)
		same(t, d.String(), hows(said), "query query query query query")
	}
}

// An error ends the work at once, names the table, and can be recognised.
func TestFailure(t *testing.T) {
	for _, d := range all {
		r := newRig(t, d)
		r.fail = errors.New("no")
		tab := table(t, "tab", 1, 1, "k int64", "a text")
		var rows [][]any
		for i := range 1000 {
			rows = append(rows, []any{int64(i), "a"})
		}
		said, err := r.inTx(t, func(tx *sql.Tx) error { return r.db.Upsert(t.Context(), tx, tab, rows, 5) })
		failed(t, d, err, r.fail)
		if runs := strings.Count(hows(said), "run") + strings.Count(hows(said), "exec"); runs != 1 {
			t.Errorf("%s: %s after the first error", d, hows(said))
		}
		_, err = r.inTx(t, func(tx *sql.Tx) error { return r.db.Remove(t.Context(), tx, tab, [][]any{{int64(1)}}, 5) })
		failed(t, d, err, r.fail)
		_, err = r.db.Read(t.Context(), r.q, tab, [][]any{{int64(1)}})
		failed(t, d, err, r.fail)
		_, err = r.db.Keys(t.Context(), r.q, tab, nil, 1)
		failed(t, d, err, r.fail)
		failed(t, d, r.db.Probe(t.Context(), r.q, tab), r.fail)
	}
}

func failed(t *testing.T, d sqlfence.Dialect, err, want error) {
	t.Helper()
	if !errors.Is(err, want) || !strings.Contains(fmt.Sprint(err), `"tab"`) {
		t.Errorf("%s: %v", d, err)
	}
}
