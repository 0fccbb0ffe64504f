package dialect_test

import (
	"database/sql"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/flush/internal/dialect"
	"github.com/lockkeeper/lockkeeper/flush/internal/value"
	"github.com/lockkeeper/lockkeeper/sqlfence"
)

// What drivers give back becomes what Convert gives, ordered as value.Compare has it,
// whatever the order of the database.
func TestRead(t *testing.T) {
	at := time.Date(2026, 11, 30, 23, 59, 59, 123456000, time.UTC)
	want := [][]any{
		{"A", int64(2), at, true, "1.50", uint64(1<<64 - 1)},
		{"a", int64(-3), nil, nil, nil, nil},
		{"a", int64(10), at, false, "0.00", uint64(7)},
	}
	for d, answer := range map[sqlfence.Dialect][][]any{
		sqlfence.SQLite: {
			{"a", int64(10), "2026-11-30T23:59:59.123456Z", int64(0), "0.00", "7"},
			{"a", int64(-3), nil, nil, nil, nil},
			{"A", int64(2), "2026-11-30T23:59:59.123456Z", int64(1), "1.50", "18446744073709551615"},
		},
		sqlfence.Postgres: {
			{"a", int64(10), at.In(time.FixedZone("", -5*3600)), false, "0", "7"},
			{"a", int64(-3), nil, nil, nil, nil},
			{"A", int64(2), at, true, "1.5", "18446744073709551615"},
		},
		sqlfence.MariaDB: {
			{[]byte("a"), int64(10), []byte("2026-11-30 23:59:59.123456"), int64(0), []byte("0.00"), uint64(7)},
			{[]byte("a"), int64(-3), nil, nil, nil, nil},
			{[]byte("A"), int64(2), []byte("2026-11-30 23:59:59.123456"), int64(1), []byte("1.50"), uint64(1<<64 - 1)},
		},
	} {
		r := newRig(t, d)
		r.answer = func(string, []any) [][]any { return answer }
		tab := table(t, "t", 2, 1, "k text", "n int64", "at timestamp", "ok bool", "d decimal(5,2)", "u uint64")
		got, err := r.db.Read(t.Context(), r.q, tab, [][]any{{"A"}, {"a"}})
		check(t, err)
		same(t, d.String(), got, want)

		r.answer = func(string, []any) [][]any { return [][]any{answer[0][:1], answer[2][:1]} }
		got, err = r.db.Keys(t.Context(), r.q, tab, nil, 7)
		check(t, err)
		same(t, d.String()+" keys", got, [][]any{{"a"}, {"A"}})
	}
}

// A value that is no value of its type comes back as such, and a key of that sort can be
// read on from and deleted.
func TestUnreadable(t *testing.T) {
	for d, after := range map[sqlfence.Dialect]any{
		sqlfence.SQLite: "007", sqlfence.MariaDB: "007", sqlfence.MySQL: "007", sqlfence.Postgres: "007",
	} {
		r := newRig(t, d)
		tab := table(t, "t", 1, 1, "k uint64", "at timestamp", "day date")
		r.answer = func(string, []any) [][]any { return [][]any{{"007", "soon", []byte("0000-00-00")}} }
		rows, err := r.db.Read(t.Context(), r.q, tab, [][]any{{uint64(7)}})
		check(t, err)
		for i, text := range []string{`"007"`, `"soon"`, `"0000-00-00"`} {
			u, ok := rows[0][i].(dialect.Unreadable)
			if !ok || u.Text != text || u.String() != text+" (unreadable)" {
				t.Fatalf("%s: %#v is not %s, unreadable", d, rows[0][i], text)
			}
			if value.Equal(u, u.Text) || value.Equal(u, nil) || value.Equal(u, uint64(7)) {
				t.Errorf("%s: %v equals a value", d, u)
			}
		}
		r.log, r.answer = nil, nil
		_, err = r.db.Keys(t.Context(), r.q, tab, rows[0][:1], 7)
		check(t, err)
		same(t, d.String()+" after", r.log[0].args, []any{after, 7})
		said, err := r.inTx(t, func(tx *sql.Tx) error { return r.db.Remove(t.Context(), tx, tab, [][]any{rows[0][:1]}, 0) })
		check(t, err)
		want := any("007")
		if d == sqlfence.Postgres {
			want = `{"007"}`
		}
		same(t, d.String()+" remove", said[0].args, []any{want})
	}
}
