package dialect_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/lockkeeper/lockkeeper/sqlfence"
)

// A catalog answers what Probe asks; the texts of the questions are held by the tests
// on real servers.
type catalog struct {
	columns [][]any // as the dialect's query has them
	indexes [][]any
	engine  string
}

func (c *catalog) answer(text string, _ []any) [][]any {
	switch {
	case strings.Contains(text, "pg_index") || strings.Contains(text, "STATISTICS") || strings.Contains(text, "pragma_index_list"):
		return c.indexes
	case strings.Contains(text, "information_schema.TABLES"):
		return [][]any{{c.engine}}
	case strings.HasPrefix(text, "SELECT count(*)"):
		return [][]any{{int64(0)}}
	}
	return c.columns
}

func mariadb() *catalog {
	return &catalog{engine: "InnoDB", columns: [][]any{
		{"a", "varchar(64)", "utf8mb4_nopad_bin", int64(1)}, {"b", "bigint(20)", "", int64(1)}, {"V", "longtext", "utf8mb4_general_ci", int64(0)},
		{"lockkeeper_version", "bigint(20)", "", int64(1)}, {"extra", "int(11)", "", int64(0)},
	}, indexes: [][]any{{"PRIMARY", "a", int64(1)}, {"PRIMARY", "B", int64(1)}}}
}

func postgres() *catalog {
	return &catalog{columns: [][]any{
		{"a", "text", "default", true, false}, {"b", "bigint", "", true, false}, {"v", "text", "default", false, false},
		{"lockkeeper_version", "bigint", "", true, false}, {"extra", "integer", "", false, false},
	}, indexes: [][]any{{"t_pkey", "a", true}, {"t_pkey", "b", true}, {"u", "extra", false}}}
}

func sqlite() *catalog {
	return &catalog{columns: [][]any{
		{"a", "TEXT", false, int64(1)}, {"b", "INTEGER", false, int64(2)}, {"V", "TEXT", false, int64(0)},
		{"lockkeeper_version", "INTEGER", true, int64(0)}, {"extra", "", false, int64(0)},
	}, indexes: [][]any{{"u", "extra", "NOCASE", "c"}, {"sqlite_autoindex_t_1", "a", "BINARY", "pk"}, {"sqlite_autoindex_t_1", "b", "BINARY", "pk"}}}
}

func without(rows [][]any, name string) [][]any {
	return slices.DeleteFunc(rows, func(row []any) bool { return row[0] == name })
}

func TestProbe(t *testing.T) {
	catalogs := map[sqlfence.Dialect]func() *catalog{
		sqlfence.SQLite: sqlite, sqlfence.Postgres: postgres, sqlfence.MariaDB: mariadb, sqlfence.MySQL: mariadb,
	}
	nothing := func(*catalog) {}
	for _, c := range []struct {
		what   string
		on     []sqlfence.Dialect
		change func(*catalog)
		want   string // "" for none; * stands for the quote
	}{
		{"good", []sqlfence.Dialect{sqlfence.SQLite, sqlfence.Postgres, sqlfence.MariaDB}, nothing, ""},
		{"no table", all, func(c *catalog) { c.columns, c.indexes = nil, nil }, "it can be made with\nCREATE TABLE IF NOT EXISTS *t* ("},
		{"no version", all, func(c *catalog) { c.columns = without(c.columns, "lockkeeper_version") }, "ALTER TABLE *t* ADD COLUMN *lockkeeper_version* "},
		{"small version", []sqlfence.Dialect{sqlfence.Postgres, sqlfence.MariaDB, sqlfence.MySQL}, func(c *catalog) { c.columns[3][1] = "int" }, "type int, and has to be BIGINT"},
		{"no key column", all, func(c *catalog) { c.columns = without(c.columns, "a") }, `no column "a", which is in the mapping's key`},
		{"no column", all, func(c *catalog) { c.columns = without(without(c.columns, "v"), "V") }, "ALTER TABLE *t* ADD COLUMN *v* "},
		{"required", []sqlfence.Dialect{sqlfence.Postgres}, func(c *catalog) { c.columns[4][3] = true }, `"extra" of the table "t" is NOT NULL`},
		{"required", []sqlfence.Dialect{sqlfence.MariaDB, sqlfence.MySQL}, func(c *catalog) { c.columns[4][3] = int64(1) }, `"extra" of the table "t" is NOT NULL`},
		{"required", []sqlfence.Dialect{sqlfence.SQLite}, func(c *catalog) { c.columns[4][2] = true }, `"extra" of the table "t" is NOT NULL`},
		{"no primary key", []sqlfence.Dialect{sqlfence.Postgres, sqlfence.MariaDB}, func(c *catalog) { c.indexes = nil }, "no primary key, and the mapping has the key (a, b)"},
		{"another order", []sqlfence.Dialect{sqlfence.MariaDB}, func(c *catalog) { slices.Reverse(c.indexes) }, "primary key (B, a), and"},
		{"a longer key", []sqlfence.Dialect{sqlfence.MariaDB}, func(c *catalog) { c.indexes = append(c.indexes, []any{"PRIMARY", "extra", int64(1)}) }, "primary key (a, B, extra)"},
		{"a shorter key", []sqlfence.Dialect{sqlfence.SQLite}, func(c *catalog) { c.columns[1][3] = int64(0) }, "primary key (a), and"},
		{"another key and a unique index", []sqlfence.Dialect{sqlfence.Postgres}, func(c *catalog) {
			c.indexes = [][]any{{"t_pkey", "extra", true}, {"u", "a", false}, {"u", "b", false}}
		}, ""},
		{"another key and a unique index", []sqlfence.Dialect{sqlfence.MariaDB}, func(c *catalog) {
			c.indexes = [][]any{{"PRIMARY", "extra", int64(1)}, {"u", "a", int64(0)}, {"u", "b", int64(0)}}
		}, "primary key (extra), and"},
		{"a second unique index", []sqlfence.Dialect{sqlfence.MariaDB, sqlfence.MySQL}, func(c *catalog) {
			c.indexes = append(c.indexes, []any{"u", "extra", int64(0)}, []any{"u", "V", int64(0)})
		}, `the unique index "u" on (extra, V)`},
		{"part of a column", []sqlfence.Dialect{sqlfence.MariaDB}, func(c *catalog) { c.indexes[0][1] = "a(10)" }, "primary key (a(10), B)"},
		{"PAD SPACE", []sqlfence.Dialect{sqlfence.MariaDB}, func(c *catalog) { c.columns[0][2] = "utf8mb4_bin" },
			"ALTER TABLE `t` MODIFY `a` varchar(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin NOT NULL"},
		{"PAD SPACE", []sqlfence.Dialect{sqlfence.MySQL}, func(c *catalog) { c.columns[0][2] = "utf8mb4_bin" }, "COLLATE utf8mb4_0900_bin NOT NULL"},
		{"ignores case", []sqlfence.Dialect{sqlfence.MySQL}, func(c *catalog) { c.columns[0][2] = "utf8mb4_0900_ai_ci" }, "utf8mb4_0900_ai_ci"},
		{"ignores marks", []sqlfence.Dialect{sqlfence.MySQL}, func(c *catalog) { c.columns[0][2] = "utf8mb4_0900_as_cs" }, "utf8mb4_0900_as_cs"},
		{"bytes", []sqlfence.Dialect{sqlfence.MySQL, sqlfence.MariaDB}, func(c *catalog) { c.columns[0][2] = "" }, ""},
		{"MyISAM", []sqlfence.Dialect{sqlfence.MariaDB}, func(c *catalog) { c.engine = "MyISAM" }, "ALTER TABLE `t` ENGINE=InnoDB"},
		{"ignores case", []sqlfence.Dialect{sqlfence.Postgres}, func(c *catalog) { c.columns[0][2], c.columns[0][4] = "nocase", true }, `COLLATE "C"`},
		{"ignores case", []sqlfence.Dialect{sqlfence.SQLite}, func(c *catalog) { c.indexes[1][2] = "NOCASE" }, "collation NOCASE"},
		{"a unique index that ignores case", []sqlfence.Dialect{sqlfence.SQLite}, func(c *catalog) {
			c.columns[0][3], c.columns[1][3] = int64(0), int64(0)
			c.indexes = [][]any{{"u", "a", "NOCASE", "u"}, {"u", "b", "BINARY", "u"}}
		}, "no primary key"},
		{"a unique index", []sqlfence.Dialect{sqlfence.SQLite}, func(c *catalog) {
			c.columns[0][3], c.columns[1][3] = int64(0), int64(0)
			c.indexes = [][]any{{"u", "a", "BINARY", "u"}, {"u", "b", "BINARY", "u"}}
		}, ""},
		{"another index", []sqlfence.Dialect{sqlfence.SQLite}, func(c *catalog) { c.indexes[0][1] = "a" }, ""},
		{"numbers", []sqlfence.Dialect{sqlfence.SQLite}, func(c *catalog) { c.columns[2][1] = "NUMERIC" }, "must be TEXT"},
		{"numbers", []sqlfence.Dialect{sqlfence.SQLite}, func(c *catalog) { c.columns[2][1] = "VARCHAR(5)" }, ""},
	} {
		for _, d := range c.on {
			r := newRig(t, d)
			catalog := catalogs[d]()
			c.change(catalog)
			r.answer = catalog.answer
			err := r.db.Probe(t.Context(), r.q, table(t, "t", 2, 1, "a text", "b int64", "v text"))
			want := strings.ReplaceAll(c.want, "*", map[bool]string{true: "`", false: `"`}[d == sqlfence.MySQL || d == sqlfence.MariaDB])
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("%s: %s: got %v, want %q", d, c.what, err, want)
			}
		}
	}
}

// PostgreSQL's names differ in case; a column of another case is another column.
func TestProbeCase(t *testing.T) {
	for d, c := range map[sqlfence.Dialect]*catalog{sqlfence.SQLite: sqlite(), sqlfence.Postgres: postgres(), sqlfence.MariaDB: mariadb()} {
		r := newRig(t, d)
		r.answer = c.answer
		err := r.db.Probe(t.Context(), r.q, table(t, "t", 2, 1, "A text", "b int64", "v text"))
		if (err != nil) != (d == sqlfence.Postgres) {
			t.Errorf("%s: %v", d, err)
		}
	}
}
