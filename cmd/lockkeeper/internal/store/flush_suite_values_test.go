package store_test

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockkeeper/lockkeeper/flush"
)

// A hostile is a line of testdata/hostile.txt.
type hostile struct {
	line   int
	kind   string // the type, after "key:" or "member:" where it is not a column's
	value  string
	want   string // in the database
	parked string // in the reason, if it is parked
}

func readHostile(t *testing.T) []hostile {
	t.Helper()
	f, err := os.Open("testdata/hostile.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	var list []hostile
	kind := ""
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		switch {
		case line == "" || line[0] == '#':
		case line[0] == '[':
			kind = strings.Trim(line, "[]")
		default:
			h, err := parseHostile(line)
			if err != nil {
				t.Fatalf("line %d: %v", n, err)
			}
			h.line, h.kind = n, kind
			list = append(list, h)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return list
}

func parseHostile(line string) (h hostile, err error) {
	quoted, err := strconv.QuotedPrefix(line)
	if err != nil {
		return h, err
	}
	if h.value, err = strconv.Unquote(quoted); err != nil {
		return h, err
	}
	times, rest, _ := strings.Cut(line[len(quoted):], " ")
	if digits, repeated := strings.CutPrefix(times, "*"); repeated {
		n, err := strconv.Atoi(digits)
		if err != nil {
			return h, err
		}
		h.value = strings.Repeat(h.value, n)
	}
	rest = strings.TrimSpace(rest)
	switch {
	case rest == "=":
		h.want = h.value
	case strings.HasPrefix(rest, "= "):
		h.want, err = strconv.Unquote(strings.TrimSpace(rest[2:]))
	case strings.HasPrefix(rest, "! "):
		h.parked, err = strconv.Unquote(strings.TrimSpace(rest[2:]))
	default:
		err = fmt.Errorf("neither = nor !: %q", rest)
	}
	return h, err
}

// hostileTable is the name of the table for values of a kind.
func hostileTable(kind string) string {
	return "v_" + strings.Map(func(r rune) rune {
		if strings.ContainsRune("(),:", r) {
			return '_'
		}
		return r
	}, kind)
}

// hostileMapping maps values of a kind: where is its column, its key, or its elements.
func hostileMapping(kind string) flush.Mapping {
	m := flush.Mapping{Keys: kind + "={k*}", Table: hostileTable(kind), Create: true,
		Key: []flush.Column{{Name: "k", Type: flush.Int64}}, Columns: []flush.Column{{Name: "v", Type: flush.Type(kind)}}}
	if typ, ok := strings.CutPrefix(kind, "key:"); ok {
		m.Key = []flush.Column{{Name: "v", Field: "k", Type: flush.Type(typ)}}
		m.Columns = []flush.Column{{Name: "k", Type: flush.Int64}}
	}
	if typ, ok := strings.CutPrefix(kind, "member:"); ok {
		m.Source = flush.Sets
		m.Columns = []flush.Column{{Name: "v", Field: "member", Type: flush.Type(typ)}}
	}
	return m
}

// key returns the key on Redis that a value is written to.
func (h *hostile) key() string {
	if strings.HasPrefix(h.kind, "key:") {
		return h.kind + "=" + h.value
	}
	return fmt.Sprint(h.kind, "=", h.line)
}

// TestHostileValues: whatever is in Redis, all databases have the same of it, and none
// that is parked is in the way of the others.
func TestHostileValues(t *testing.T) {
	list := readHostile(t)
	var mappings []flush.Mapping
	good := 0
	for i := range list {
		if i == 0 || list[i-1].kind != list[i].kind {
			mappings = append(mappings, hostileMapping(list[i].kind))
		}
		if list[i].parked == "" {
			good++
		}
	}
	on(t, append(slices.Clone(kinds), variants[0]), func(t *testing.T, p place) {
		w := newWorldOn(t, p, realRedis(t), mappings...)
		w.cfg.MaxParked = 1
		_, err := w.rdb.Pipelined(t.Context(), func(p redis.Pipeliner) error {
			for i := range list {
				h := &list[i]
				key := h.key()
				switch {
				case strings.HasPrefix(h.kind, "key:"):
					p.HSet(t.Context(), key, "k", h.line)
				case strings.HasPrefix(h.kind, "member:"):
					p.SAdd(t.Context(), key, h.value)
				default:
					p.HSet(t.Context(), key, "v", h.value)
				}
				p.SAdd(t.Context(), w.keys().Changed, key)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		s := w.session()
		w.want(w.passOf(s), flush.Stats{Keys: len(list), Upserts: good, Parked: len(list) - good})
		w.status(0, len(list)-good)
		w.compareHostile(list)

		// And back: what is read is what was written.
		found, err := w.engine(w.conn, nil).Verify(t.Context(), w.sink, flush.VerifyOptions{})
		if err != nil {
			t.Fatal(err)
		}
		same := 0
		for _, v := range found {
			same += v.Same
			if v.Differ+v.Orphans+v.Pending+v.Unreadable > 0 {
				t.Errorf("verify: %+v", v)
			}
		}
		if same != good {
			t.Errorf("verify: %d of %d are the same", same, good)
		}

		// Each of the twins that are written alike is deleted for itself.
		deleted := make(map[int]bool)
		for i := 0; i < len(list); i += 2 {
			if strings.HasPrefix(list[i].kind, "key:") && list[i].parked == "" {
				deleted[list[i].line] = true
				w.remove(list[i].key())
			}
		}
		w.passOf(s)
		left := slices.DeleteFunc(slices.Clone(list), func(h hostile) bool { return !strings.HasPrefix(h.kind, "key:") || deleted[h.line] })
		w.compareHostile(left)
	})
}

// compareHostile compares all tables with all lines.
func (w *world) compareHostile(list []hostile) {
	w.t.Helper()
	have := make(map[string]map[int64]string)
	for i := range list {
		h := &list[i]
		if have[h.kind] == nil {
			have[h.kind] = w.hostileRows(h.kind)
		}
		rows := have[h.kind]
		got, there := rows[int64(h.line)]
		delete(rows, int64(h.line))
		switch {
		case h.parked != "":
			p := w.onePark(h.key())
			if there || !strings.Contains(p.Reason, h.parked) || p.Column != "v" || p.Table != hostileTable(h.kind) || p.Attempts != 1 {
				w.t.Errorf("line %d: %.100q: is in the database: %v; parked as %+v; want %q", h.line, h.value, there, p, h.parked)
			}
		case !there || got != h.want:
			w.t.Errorf("line %d: %.100q: is in the database: %v, as %.100q; want %.100q", h.line, h.value, there, got, h.want)
		}
	}
	for kind, rows := range have {
		for line := range rows {
			w.t.Errorf("%s: line %d has a row, which it should not have", kind, line)
		}
	}
}

// hostileRows reads a table, by line.
func (w *world) hostileRows(kind string) map[int64]string {
	w.t.Helper()
	rows, err := w.db.QueryContext(w.t.Context(), "SELECT k, v FROM "+hostileTable(kind))
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	_, typ, _ := strings.Cut(":"+strings.TrimPrefix(strings.TrimPrefix(kind, "key:"), "member:"), ":")
	found := make(map[int64]string)
	for rows.Next() {
		var k int64
		var v any
		if err := rows.Scan(&k, &v); err != nil {
			w.t.Fatal(err)
		}
		if _, twice := found[k]; twice {
			w.t.Errorf("%s: line %d is there twice", kind, k)
		}
		found[k] = plain(w.t, typ, v)
	}
	if err := rows.Err(); err != nil {
		w.t.Fatal(err)
	}
	return found
}

// plain writes a value of a database as testdata/hostile.txt does. It has nothing to do
// with how the product reads it.
func plain(t *testing.T, typ string, v any) string {
	t.Helper()
	if b, ok := v.([]byte); ok {
		v = string(b)
	}
	text, isText := v.(string)
	switch {
	case typ == "float64" && isText: // MariaDB's texts have as many digits as it takes
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatal(err)
		}
		v = f
	case strings.HasPrefix(typ, "timestamp") && isText:
		for _, layout := range []string{"2006-01-02T15:04:05.999999Z", "2006-01-02 15:04:05.999999"} {
			if at, err := time.Parse(layout, text); err == nil {
				v = at
			}
		}
	}
	switch v := v.(type) {
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	case bool:
		return map[bool]string{false: "0", true: "1"}[v]
	case time.Time:
		if typ == "date" {
			return v.Format(time.DateOnly)
		}
		return v.UTC().Format("2006-01-02T15:04:05.000000Z")
	}
	return fmt.Sprint(v)
}

// TestTooLarge: one value that is more than a packet of the server parks itself alone.
func TestTooLarge(t *testing.T) {
	w := newWorldOn(t, newPlace(t, "MariaDB"), realRedis(t), hostileMapping("bytes"))
	for i := range 5 {
		w.set(fmt.Sprintf("bytes=%d", i), "v", "x")
	}
	w.set("bytes=2", "v", strings.Repeat("\x00", 17<<20))
	s := w.session()
	w.want(w.passOf(s), flush.Stats{Keys: 5, Upserts: 4, Parked: 1})
	w.rows("SELECT k FROM v_bytes ORDER BY k", "0;1;3;4")
	if p := w.onePark("bytes=2"); !strings.Contains(p.Reason, "max_allowed_packet") || len(p.Reason) > 1000 {
		t.Errorf("%.2000q", p.Reason)
	}
	w.status(0, 1)
}

// TestRules: what becomes of what is empty, missing, NULL or nearly right.
func TestRules(t *testing.T) {
	text := func(s string) *string { return &s }
	columns := []flush.Column{
		{Name: "plain", Type: flush.Int64},
		{Name: "required", Type: flush.Text, Required: true},
		{Name: "defaulted", Type: flush.Decimal(10, 2), Default: text("1.50")},
		{Name: "nulls", Type: flush.Int64, Nulls: []string{"null", "\\N"}},
		{Name: "empty_null", Type: flush.Int64, Empty: flush.EmptyNull},
		{Name: "empty_park", Type: flush.Text, Empty: flush.EmptyPark},
		{Name: "rounded", Type: flush.Decimal(5, 1), Round: true},
		{Name: "replaced", Type: flush.Text, Replace: true},
		{Name: "required_null", Type: flush.Int64, Nulls: []string{"null"}, Empty: flush.EmptyNull, Required: true},
	}
	m := flush.Mapping{Keys: "r:{id}", Table: "r", Create: true, Key: []flush.Column{{Name: "id", Type: flush.Int64}}, Columns: columns}
	j := m
	j.Keys, j.Table, j.Source = "j:{id}", "j", flush.Documents
	good := []string{"required", "x", "required_null", "7"}
	hashes := []struct {
		set         []string // besides good
		row, column string   // the row, or the column that it is parked for
	}{
		{nil, "- x 1.50 - - - - - 7", ""},
		{[]string{"plain", "5", "required", "", "defaulted", "2", "empty_park", "y", "replaced", ""}, "5  2.00 - - y -  7", ""},
		{[]string{"nulls", "null", "empty_null", ""}, "- x 1.50 - - - - - 7", ""},
		{[]string{"nulls", "\\N", "empty_null", "3"}, "- x 1.50 - 3 - - - 7", ""},
		{[]string{"rounded", "2.25", "replaced", "a\xff\xfe\x00b"}, "- x 1.50 - - - 2.3 a\uFFFD\uFFFDb 7", ""},
		{[]string{"rounded", "-2.25"}, "- x 1.50 - - - -2.3 - 7", ""},
		{[]string{"rounded", "9999.94"}, "- x 1.50 - - - 9999.9 - 7", ""},
		{[]string{"rounded", "9999.95"}, "", "rounded"},
		{[]string{"plain", ""}, "", "plain"},
		{[]string{"plain", "null"}, "", "plain"},
		{[]string{"defaulted", ""}, "", "defaulted"},
		{[]string{"defaulted", "1.234"}, "", "defaulted"},
		{[]string{"nulls", "NULL"}, "", "nulls"},
		{[]string{"empty_park", ""}, "", "empty_park"},
		{[]string{"required_null", "null"}, "", "required_null"},
		{[]string{"required_null", ""}, "", "required_null"},
	}
	documents := []struct{ text, row, column string }{
		{`{"required": "x", "required_null": 7}`, "- x 1.50 - - - - - 7", ""},
		{`{"required": "", "required_null": "7", "plain": null, "defaulted": null, "rounded": 1.25, "replaced": "a\u0001"}`, "-  - - - - 1.3 a\x01 7", ""},
		{`{"required": 12.50, "required_null": 7, "plain": -9223372036854775808, "nulls": "null"}`, "-9223372036854775808 12.50 1.50 - - - - - 7", ""},
		{`{"required": true, "required_null": 7}`, "- true 1.50 - - - - - 7", ""},
		{`{"required": null, "required_null": 7}`, "", "required"},
		{`{"required": [], "required_null": 7}`, "", "required"},
		{`{"required_null": 7}`, "", "required"},
		{`{"required": "x", "required_null": null}`, "", "required_null"},
		{`{"required": "x", "required_null": 7, "plain": 1.0}`, "", "plain"},
		{`{"required": "x", "required_null": 7, "plain": 9223372036854775808}`, "", "plain"},
		{`[1]`, "", "required"},
		{`{"required": "x"`, "", ""},
		{``, "", ""},
	}
	eachWorld(t, func(t *testing.T, w *world) {
		parked := 0
		for i, h := range hashes {
			w.set(fmt.Sprint("r:", i), append(slices.Clone(good), h.set...)...)
			parked += len(h.column) / max(1, len(h.column))
		}
		w.set("r:100", "other", "x", "required_null", "7") // without what is required
		for i, d := range documents {
			w.change(fmt.Sprint("j:", i), "SET", d.text)
			if d.row == "" {
				parked++
			}
		}
		all := len(hashes) + len(documents) + 1
		w.want(w.pass(), flush.Stats{Keys: all, Upserts: all - parked - 1, Parked: parked + 1})
		look := func(table string, i int, row, column string) {
			t.Helper()
			w.rows(fmt.Sprintf("SELECT plain, required, defaulted, nulls, empty_null, empty_park, rounded, replaced, required_null FROM %s WHERE id = %d", table, i), row)
			if row == "" {
				if p := w.onePark(fmt.Sprint(table, ":", i)); p.Column != column {
					t.Errorf("%s:%d is parked for %q (%s), want %q", table, i, p.Column, p.Reason, column)
				}
			}
		}
		for i, h := range hashes {
			look("r", i, h.row, h.column)
		}
		look("r", 100, "", "required")
		for i, d := range documents {
			look("j", i, d.row, d.column)
		}
	}, m, j)
}
