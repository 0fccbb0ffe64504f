package dialect_test

import (
	"strings"
	"testing"

	"github.com/lockkeeper/lockkeeper/flush/internal/dialect"
	"github.com/lockkeeper/lockkeeper/flush/internal/value"
	"github.com/lockkeeper/lockkeeper/sqlfence"
)

func TestNew(t *testing.T) {
	for _, d := range []sqlfence.Dialect{0, -1, 5} {
		if db, err := dialect.New(d); err == nil || db != nil {
			t.Errorf("%d: no error", d)
		}
	}
}

func TestCheck(t *testing.T) {
	good := func() *dialect.Table { return table(t, "Spieler-Stände", 2, 1, "k text", "m int64", "v text") }
	for what, c := range map[string]struct {
		change func(*dialect.Table)
		want   string
	}{
		"good":            {func(*dialect.Table) {}, ""},
		"no column":       {func(t *dialect.Table) { t.Columns = nil }, ""},
		"no name":         {func(t *dialect.Table) { t.Name = "" }, "table name"},
		"long name":       {func(t *dialect.Table) { t.Name = strings.Repeat("x", 64) }, "63 bytes"},
		"63 bytes":        {func(t *dialect.Table) { t.Name = strings.Repeat("x", 63) }, ""},
		"quote":           {func(t *dialect.Table) { t.Name = `a"b` }, `'"'`},
		"backtick":        {func(t *dialect.Table) { t.Columns[0].Name = "a`b" }, "'`'"},
		"placeholder":     {func(t *dialect.Table) { t.Columns[0].Name = "a?" }, "'?'"},
		"schema":          {func(t *dialect.Table) { t.Name = "public.player" }, "'.'"},
		"NUL":             {func(t *dialect.Table) { t.Name = "a\x00" }, `'\x00'`},
		"not UTF-8":       {func(t *dialect.Table) { t.Name = "a\xff" }, "UTF-8"},
		"emoji":           {func(t *dialect.Table) { t.Name = "a😀" }, "😀"},
		"space at end":    {func(t *dialect.Table) { t.Name = "a " }, "space"},
		"fence table":     {func(t *dialect.Table) { t.Name = "Lockkeeper_fence" }, "reserved"},
		"SQLite's":        {func(t *dialect.Table) { t.Name = "sqlite_x" }, "reserved"},
		"version":         {func(t *dialect.Table) { t.Columns[0].Name = "LOCKKEEPER_version" }, "reserved"},
		"twice":           {func(t *dialect.Table) { t.Columns[0].Name = "K" }, "twice"},
		"no key":          {func(t *dialect.Table) { t.Key = nil }, "0 key columns"},
		"long key":        {func(t *dialect.Table) { t.Key = make([]dialect.Column, 17) }, "17 key columns"},
		"no parent":       {func(t *dialect.Table) { t.Parent = 0 }, "0 of 2"},
		"long parent":     {func(t *dialect.Table) { t.Parent = 3 }, "3 of 2"},
		"no type":         {func(t *dialect.Table) { t.Columns[0].Type = value.Type{} }, `"v"`},
		"half a type":     {func(t *dialect.Table) { t.Columns[0].Type = value.Type{Kind: value.Decimal} }, `"v"`},
		"decimal key":     {func(t *dialect.Table) { t.Key[0] = column2(value.Type{Kind: value.Decimal, Precision: 3}) }, "can't be in a key"},
		"timestamp key":   {func(t *dialect.Table) { t.Key[0] = column2(value.Type{Kind: value.Timestamp}) }, "can't be in a key"},
		"all of it shown": {func(t *dialect.Table) { t.Name, t.Parent = "", 0 }, "0 of 2"},
	} {
		tab := good()
		c.change(tab)
		for _, d := range all {
			r := newRig(t, d)
			err := r.db.Check(tab)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%s: %s: got %v, want %q", d, what, err, c.want)
			}
			// The other methods make the same check, and send nothing.
			if err != nil && r.db.Probe(t.Context(), r.q, tab) == nil || len(r.log) > 0 && err != nil {
				t.Errorf("%s: %s: not checked before it is used", d, what)
			}
		}
	}
}

func column2(t value.Type) dialect.Column { return dialect.Column{Name: "k", Type: t} }

// An index of InnoDB holds 3072 bytes: measured on MariaDB 10.11, three texts and
// twelve bytes.
func TestLongKeys(t *testing.T) {
	for _, c := range []struct {
		columns string
		fits    bool
	}{
		{"a text,b text,c text", true},
		{"a text,b text,c text,d int64", true},
		{"a text,b text,c text,d int64,e date", true},
		{"a text,b text,c text,d int64,e uint64", false},
		{"a text,b text,c text,d text", false},
		{"a text,b text,c text,d uuid", false},
		{"a text,b text,c bytes,d bytes,e bytes,f bytes", true},
		{"a text,b text,c bytes,d bytes,e bytes,f bytes,g uuid", false},
		{"a uuid,b uuid,c uuid,d uuid,e uuid,f uuid,g uuid,h uuid,i uuid,j uuid,k uuid,l uuid,m uuid,n uuid,o uuid,p uuid", true},
	} {
		columns := strings.Split(c.columns, ",")
		for _, d := range all {
			err := newRig(t, d).db.Check(table(t, "t", len(columns), 1, columns...))
			mysql := d == sqlfence.MySQL || d == sqlfence.MariaDB
			if (err == nil) != (c.fits || !mysql) {
				t.Errorf("%s: %s: %v", d, c.columns, err)
			}
		}
	}
}
