package dialect_test

import (
	"database/sql"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/sqlfence"
)

const everyType = `CREATE TABLE IF NOT EXISTS `

func TestCreateTable(t *testing.T) {
	columns := []string{
		"a text", "b bytes", "c int64", "d uint64", "e date", "f uuid",
		"g text", "h! bytes", "i int64", "j uint64", "k decimal(12,2)", "l float64", "m! bool", "n timestamp(ms)", "o date", "p uuid", "q json",
	}
	for d, want := range map[sqlfence.Dialect]string{
		sqlfence.SQLite: everyType + `"all of them" (
  "a" TEXT NOT NULL,
  "b" BLOB NOT NULL,
  "c" INTEGER NOT NULL,
  "d" TEXT NOT NULL,
  "e" TEXT NOT NULL,
  "f" TEXT NOT NULL,
  "g" TEXT,
  "h" BLOB NOT NULL,
  "i" INTEGER,
  "j" TEXT,
  "k" TEXT,
  "l" REAL,
  "m" INTEGER NOT NULL,
  "n" TEXT,
  "o" TEXT,
  "p" TEXT,
  "q" TEXT,
  "lockkeeper_version" INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY ("a", "b", "c", "d", "e", "f")
) STRICT;
`,
		sqlfence.Postgres: everyType + `"all of them" (
  "a" text COLLATE "C" NOT NULL,
  "b" bytea NOT NULL,
  "c" bigint NOT NULL,
  "d" numeric(20,0) NOT NULL,
  "e" date NOT NULL,
  "f" uuid NOT NULL,
  "g" text,
  "h" bytea NOT NULL,
  "i" bigint,
  "j" numeric(20,0),
  "k" numeric(12,2),
  "l" double precision,
  "m" boolean NOT NULL,
  "n" timestamptz,
  "o" date,
  "p" uuid,
  "q" json,
  "lockkeeper_version" bigint NOT NULL DEFAULT 0,
  PRIMARY KEY ("a", "b", "c", "d", "e", "f")
);
`,
		sqlfence.MariaDB: everyType + "`all of them`" + ` (
  ~a~ VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin NOT NULL,
  ~b~ VARBINARY(255) NOT NULL,
  ~c~ BIGINT NOT NULL,
  ~d~ BIGINT UNSIGNED NOT NULL,
  ~e~ DATE NOT NULL,
  ~f~ CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  ~g~ LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin,
  ~h~ LONGBLOB NOT NULL,
  ~i~ BIGINT,
  ~j~ BIGINT UNSIGNED,
  ~k~ DECIMAL(12,2),
  ~l~ DOUBLE,
  ~m~ BOOLEAN NOT NULL,
  ~n~ DATETIME(6),
  ~o~ DATE,
  ~p~ CHAR(36) CHARACTER SET ascii COLLATE ascii_bin,
  ~q~ LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin,
  ~lockkeeper_version~ BIGINT NOT NULL DEFAULT 0,
  PRIMARY KEY (~a~, ~b~, ~c~, ~d~, ~e~, ~f~)
) ENGINE=InnoDB;
`,
		sqlfence.MySQL: everyType + "`all of them`" + ` (
  ~a~ VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_bin NOT NULL,
  ~b~ VARBINARY(255) NOT NULL,
  ~c~ BIGINT NOT NULL,
  ~d~ BIGINT UNSIGNED NOT NULL,
  ~e~ DATE NOT NULL,
  ~f~ CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  ~g~ LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_bin,
  ~h~ LONGBLOB NOT NULL,
  ~i~ BIGINT,
  ~j~ BIGINT UNSIGNED,
  ~k~ DECIMAL(12,2),
  ~l~ DOUBLE,
  ~m~ BOOLEAN NOT NULL,
  ~n~ DATETIME(6),
  ~o~ DATE,
  ~p~ CHAR(36) CHARACTER SET ascii COLLATE ascii_bin,
  ~q~ LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_bin,
  ~lockkeeper_version~ BIGINT NOT NULL DEFAULT 0,
  PRIMARY KEY (~a~, ~b~, ~c~, ~d~, ~e~, ~f~)
) ENGINE=InnoDB;
`,
	} {
		r := newRig(t, d)
		tab := table(t, "all of them", 6, 6, columns...)
		if got := r.db.CreateTable(tab); got != backticks(want) {
			t.Errorf("%s:\n%s\nwant\n%s", d, got, backticks(want))
		}
		tab = table(t, "all of them", 6, 7, columns...)
		if got := r.db.CreateTable(tab); got != "" {
			t.Errorf("%s: a statement for a table that Check refuses: %s", d, got)
		}
	}
}

// backticks writes them for tildes.
func backticks(s string) string {
	b := []byte(s)
	for i := range b {
		if b[i] == '~' {
			b[i] = '`'
		}
	}
	return string(b)
}

// The statements are held as they are: each was run on a real server.
func TestStatements(t *testing.T) {
	at := time.Date(2026, 11, 30, 23, 59, 59, 123456000, time.FixedZone("", 3600))
	rows := [][]any{
		{"a", int64(-1), uint64(1<<64 - 1), at, true, []byte{0, '"'}, nil},
		{`b"\`, int64(2), nil, nil, nil, nil, "12.30"},
	}
	parents := [][]any{{"a", int64(1)}, {"b", int64(2)}}
	short := [][]any{{"a"}, {"b"}}
	my := []any{"a", int64(-1), uint64(1<<64 - 1), "2026-11-30 22:59:59.123456", true, []byte{0, '"'}, nil, int64(9),
		`b"\`, int64(2), nil, nil, nil, nil, "12.30", int64(9)}
	lite := []any{"a", int64(-1), "18446744073709551615", "2026-11-30T22:59:59.123456Z", int64(1), []byte{0, '"'}, nil, int64(9),
		`b"\`, int64(2), nil, nil, nil, nil, "12.30", int64(9)}
	for d, want := range map[sqlfence.Dialect][]call{
		sqlfence.SQLite: {
			{"exec", `INSERT INTO "t" ("k", "n", "u", "at", "ok", "raw", "d", "lockkeeper_version") VALUES (?, ?, ?, ?, ?, ?, ?, ?), (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT ("k", "n") DO UPDATE SET "u" = excluded."u", "at" = excluded."at", "ok" = excluded."ok", "raw" = excluded."raw", "d" = excluded."d", "lockkeeper_version" = excluded."lockkeeper_version"`, lite},
			{"exec", `DELETE FROM "t" WHERE ("k", "n") IN (VALUES (?, ?), (?, ?)) AND "t"."lockkeeper_version" <> ?`, []any{"a", int64(1), "b", int64(2), int64(9)}},
			{"exec", `DELETE FROM "t" WHERE "k" IN (?, ?)`, []any{"a", "b"}},
			{"query", `SELECT "t"."k", "t"."n", "t"."u", "t"."at", "t"."ok", "t"."raw", "t"."d" FROM "t" WHERE ("k", "n") IN (VALUES (?, ?), (?, ?))`, []any{"a", int64(1), "b", int64(2)}},
			{"query", `SELECT "t"."k", "t"."n", "t"."u", "t"."at", "t"."ok", "t"."raw", "t"."d" FROM "t" WHERE "k" IN (?, ?)`, []any{"a", "b"}},
			{"query", `SELECT DISTINCT "k", "n" FROM "t" ORDER BY "k", "n" LIMIT ?`, []any{7}},
			{"query", `SELECT DISTINCT "k", "n" FROM "t" WHERE ("k", "n") > (?, ?) ORDER BY "k", "n" LIMIT ?`, []any{"a", int64(1), 7}},
		},
		sqlfence.Postgres: {
			{"exec", `INSERT INTO "t" ("k", "n", "u", "at", "ok", "raw", "d", "lockkeeper_version")
SELECT "k", "n", "u", "at", "ok", "raw", "d", $8::bigint FROM unnest($1::text[], $2::bigint[], $3::numeric[], $4::timestamptz[], $5::boolean[], $6::bytea[], $7::numeric[]) AS u("k", "n", "u", "at", "ok", "raw", "d")
ON CONFLICT ("k", "n") DO UPDATE SET "u" = EXCLUDED."u", "at" = EXCLUDED."at", "ok" = EXCLUDED."ok", "raw" = EXCLUDED."raw", "d" = EXCLUDED."d", "lockkeeper_version" = EXCLUDED."lockkeeper_version"`,
				[]any{`{"a","b\"\\"}`, `{-1,2}`, `{18446744073709551615,NULL}`, `{"2026-11-30 22:59:59.123456Z",NULL}`, `{true,NULL}`, `{"\\x0022",NULL}`, `{NULL,"12.30"}`, int64(9)}},
			{"exec", `DELETE FROM "t" USING unnest($1::text[], $2::bigint[]) AS u("k", "n") WHERE "t"."k" = u."k" AND "t"."n" = u."n" AND "t"."lockkeeper_version" <> $3::bigint`, []any{`{"a","b"}`, `{1,2}`, int64(9)}},
			{"exec", `DELETE FROM "t" WHERE "t"."k" = ANY ($1::text[])`, []any{`{"a","b"}`}},
			{"query", `SELECT "t"."k", "t"."n", "t"."u", "t"."at", "t"."ok", "t"."raw", "t"."d" FROM "t", unnest($1::text[], $2::bigint[]) AS u("k", "n") WHERE "t"."k" = u."k" AND "t"."n" = u."n"`, []any{`{"a","b"}`, `{1,2}`}},
			{"query", `SELECT "t"."k", "t"."n", "t"."u", "t"."at", "t"."ok", "t"."raw", "t"."d" FROM "t" WHERE "t"."k" = ANY ($1::text[])`, []any{`{"a","b"}`}},
			{"query", `SELECT DISTINCT "k", "n" FROM "t" ORDER BY "k", "n" LIMIT $1::bigint`, []any{7}},
			{"query", `SELECT DISTINCT "k", "n" FROM "t" WHERE ("k", "n") > ($1::text, $2::bigint) ORDER BY "k", "n" LIMIT $3::bigint`, []any{"a", "1", 7}},
		},
		sqlfence.MariaDB: {
			{"exec", "INSERT INTO ~t~ (~k~, ~n~, ~u~, ~at~, ~ok~, ~raw~, ~d~, ~lockkeeper_version~) VALUES (?, ?, ?, ?, ?, ?, ?, ?), (?, ?, ?, ?, ?, ?, ?, ?) ON DUPLICATE KEY UPDATE ~u~ = VALUES(~u~), ~at~ = VALUES(~at~), ~ok~ = VALUES(~ok~), ~raw~ = VALUES(~raw~), ~d~ = VALUES(~d~), ~lockkeeper_version~ = VALUES(~lockkeeper_version~)", my},
			{"exec", "DELETE FROM ~t~ WHERE ((~k~ = ? AND ~n~ = ?) OR (~k~ = ? AND ~n~ = ?)) AND ~lockkeeper_version~ <> ?", []any{"a", int64(1), "b", int64(2), int64(9)}},
			{"exec", "DELETE FROM ~t~ WHERE ~k~ IN (?, ?)", []any{"a", "b"}},
			{"query", "SELECT ~k~, ~n~, ~u~, ~at~, ~ok~, ~raw~, ~d~ FROM ~t~ WHERE ((~k~ = ? AND ~n~ = ?) OR (~k~ = ? AND ~n~ = ?))", []any{"a", int64(1), "b", int64(2)}},
			{"query", "SELECT ~k~, ~n~, ~u~, ~at~, ~ok~, ~raw~, ~d~ FROM ~t~ WHERE ~k~ IN (?, ?)", []any{"a", "b"}},
			{"query", "SELECT DISTINCT ~k~, ~n~ FROM ~t~ ORDER BY ~k~, ~n~ LIMIT ?", []any{7}},
			{"query", "SELECT DISTINCT ~k~, ~n~ FROM ~t~ WHERE (~k~ > ?) OR (~k~ = ? AND ~n~ > ?) ORDER BY ~k~, ~n~ LIMIT ?", []any{"a", "a", int64(1), 7}},
		},
		sqlfence.MySQL: {
			{"exec", "INSERT INTO ~t~ (~k~, ~n~, ~u~, ~at~, ~ok~, ~raw~, ~d~, ~lockkeeper_version~) VALUES (?, ?, ?, ?, ?, ?, ?, ?), (?, ?, ?, ?, ?, ?, ?, ?) AS lockkeeper_new ON DUPLICATE KEY UPDATE ~u~ = lockkeeper_new.~u~, ~at~ = lockkeeper_new.~at~, ~ok~ = lockkeeper_new.~ok~, ~raw~ = lockkeeper_new.~raw~, ~d~ = lockkeeper_new.~d~, ~lockkeeper_version~ = lockkeeper_new.~lockkeeper_version~", my},
		},
	} {
		r := newRig(t, d)
		tab := table(t, "t", 2, 2, "k text", "n int64", "u uint64", "at timestamp", "ok bool", "raw bytes", "d decimal(12,2)")
		got, err := r.inTx(t, func(tx *sql.Tx) error {
			check(t, r.db.Upsert(t.Context(), tx, tab, rows, 9))
			check(t, r.db.Remove(t.Context(), tx, tab, parents, 9))
			check(t, r.db.Remove(t.Context(), tx, tab, short, 0))
			_, err := r.db.Read(t.Context(), tx, tab, parents)
			check(t, err)
			_, err = r.db.Read(t.Context(), tx, tab, short)
			check(t, err)
			_, err = r.db.Keys(t.Context(), tx, tab, nil, 7)
			check(t, err)
			_, err = r.db.Keys(t.Context(), tx, tab, parents[0], 7)
			return err
		})
		check(t, err)
		if len(got) != 7 {
			t.Fatalf("%s: %d statements: %v", d, len(got), got)
		}
		for i, w := range want {
			same(t, d.String()+" how", got[i].how, w.how)
			same(t, d.String()+" text", got[i].text, backticks(w.text))
			same(t, d.String()+" args", got[i].args, w.args)
		}
	}
}

// Nothing is sent for nothing, and nothing that does not fit.
func TestNothing(t *testing.T) {
	for _, d := range all {
		r := newRig(t, d)
		tab := table(t, "t", 1, 1, "k text", "v text")
		said, err := r.inTx(t, func(tx *sql.Tx) error {
			check(t, r.db.Upsert(t.Context(), tx, tab, nil, 1))
			check(t, r.db.Remove(t.Context(), tx, tab, nil, 1))
			rows, err := r.db.Read(t.Context(), tx, tab, nil)
			if rows != nil {
				t.Error(d, rows)
			}
			return err
		})
		check(t, err)
		said2, _ := r.inTx(t, func(tx *sql.Tx) error {
			for what, err := range map[string]error{
				"short row":   r.db.Upsert(t.Context(), tx, tab, [][]any{{"a", "b"}, {"a"}}, 1),
				"long parent": r.db.Remove(t.Context(), tx, tab, [][]any{{"a", "b"}}, 1),
				"no parent":   r.db.Remove(t.Context(), tx, tab, [][]any{{}}, 1),
				"mixed":       r.db.Remove(t.Context(), tx, tab, [][]any{{"a"}, {"a", "b"}}, 1),
			} {
				if err == nil {
					t.Errorf("%s: %s: no error", d, what)
				}
			}
			if _, err := r.db.Keys(t.Context(), tx, tab, []any{"a", "b"}, 1); err == nil {
				t.Error(d, "long after: no error")
			}
			if _, err := r.db.Keys(t.Context(), tx, tab, nil, 0); err == nil {
				t.Error(d, "limit 0: no error")
			}
			return nil
		})
		if n := len(said) + len(said2); n != 0 {
			t.Errorf("%s: %d statements sent: %v %v", d, n, said, said2)
		}
	}
}

// What is shown to people is what is sent for one row.
func TestDescribe(t *testing.T) {
	for _, d := range all {
		for _, parent := range []int{1, 2} {
			r := newRig(t, d)
			tab := table(t, "t", 2, parent, "k text", "m text", "v text")
			said, err := r.inTx(t, func(tx *sql.Tx) error {
				check(t, r.db.Upsert(t.Context(), tx, tab, [][]any{{"a", "b", "c"}}, 9))
				return r.db.Remove(t.Context(), tx, tab, [][]any{[]any{"a", "b"}[:parent]}, int64(2-parent)*9)
			})
			check(t, err)
			same(t, d.String(), r.db.Describe(tab), said[0].text+";\n"+said[1].text+";\n")
		}
	}
}
