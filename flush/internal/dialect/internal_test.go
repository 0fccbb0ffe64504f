package dialect

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/lockkeeper/lockkeeper/flush/internal/value"
	"github.com/lockkeeper/lockkeeper/sqlfence"
)

// parse reads an array as PostgreSQL does; nil stands for NULL.
func parse(t *testing.T, s string) []*string {
	t.Helper()
	if len(s) < 2 || s[0] != '{' || s[len(s)-1] != '}' {
		t.Fatalf("not an array: %s", s)
	}
	s = s[1 : len(s)-1]
	var out []*string
	for s != "" {
		var b strings.Builder
		quoted := s[0] == '"'
		if quoted {
			for s = s[1:]; s[0] != '"'; s = s[1:] {
				if s[0] == '\\' {
					s = s[1:]
				}
				b.WriteByte(s[0])
			}
			s = s[1:]
		} else {
			bare, _, _ := strings.Cut(s, ",")
			b.WriteString(bare)
			s = s[len(bare):]
		}
		text := b.String()
		switch {
		case !quoted && text == "NULL":
			out = append(out, nil)
		case !quoted && strings.ContainsAny(text, `{}"\ `) || !quoted && text == "":
			t.Fatalf("%q has to be in quotes", text)
		default:
			out = append(out, &text)
		}
		if s != "" {
			if s[0] != ',' {
				t.Fatalf("no comma before %q", s)
			}
			s = s[1:]
		}
	}
	return out
}

// Every text and every bytes come out of the array as they went in: no value can end its
// element.
func TestArrays(t *testing.T) {
	hostile := []string{`"`, `\`, `,`, `{`, `}`, "NULL", "null", " ", "", "'", `\x`, "\n", "é", "😀", `\"`, `","`, "x"}
	columns := []Column{{Name: "t", Type: value.Type{Kind: value.Text}}, {Name: "b", Type: value.Type{Kind: value.Bytes}}}
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		rows := make([][]any, 1+random.IntN(5))
		for i := range rows {
			var text strings.Builder
			for range random.IntN(4) {
				text.WriteString(hostile[random.IntN(len(hostile))])
			}
			rows[i] = []any{text.String(), []byte(text.String())}
			if random.IntN(5) == 0 {
				rows[i] = []any{nil, nil}
			}
		}
		args, err := arrays(columns, rows)
		if err != nil {
			t.Fatal(err)
		}
		texts, bytes := parse(t, args[0].(string)), parse(t, args[1].(string))
		if len(texts) != len(rows) || len(bytes) != len(rows) {
			t.Fatalf("%d and %d elements of %d rows: %s %s", len(texts), len(bytes), len(rows), args[0], args[1])
		}
		for i, row := range rows {
			if row[0] == nil {
				if texts[i] != nil || bytes[i] != nil {
					t.Fatalf("NULL became %v and %v", texts[i], bytes[i])
				}
				continue
			}
			want := row[0].(string)
			if *texts[i] != want || *bytes[i] != `\x`+hex.EncodeToString([]byte(want)) {
				t.Fatalf("%q became %q and %q", want, *texts[i], *bytes[i])
			}
		}
	}
}

// What is kept does not grow with the calls.
func TestKeptIsBounded(t *testing.T) {
	db, err := New(sqlfence.MySQL)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 * mostPlans {
		table := &Table{Name: fmt.Sprint("t", i), Key: []Column{{Name: "k", Type: value.Type{Kind: value.Int64}}}, Parent: 1}
		if db.CreateTable(table) == "" {
			t.Fatal("no statement")
		}
		if len(db.plans) > mostPlans {
			t.Fatalf("%d plans", len(db.plans))
		}
	}
	p := newPlan(&Table{Name: "t"}, mysql{}.quote)
	for i := range 3 * mostTexts {
		k := textKey{what: "x", rows: i}
		for range 2 {
			if got := p.text(k, func() string { return fmt.Sprint(i) }); got != fmt.Sprint(i) {
				t.Fatalf("%s for %d", got, i)
			}
		}
		if len(p.texts) > mostTexts {
			t.Fatalf("%d texts", len(p.texts))
		}
	}
}

// A value as PostgreSQL's own notation has it costs a few allocations for each column,
// none for each row.
func TestArraysAllocate(t *testing.T) {
	columns := []Column{{Type: value.Type{Kind: value.Int64}}, {Type: value.Type{Kind: value.Text}}, {Type: value.Type{Kind: value.Bool}}}
	var rows [][]any
	for i := range 500 {
		rows = append(rows, []any{int64(i), "some text", true})
	}
	allocs := testing.AllocsPerRun(10, func() { _, _ = arrays(columns, rows) })
	if allocs > 40 {
		t.Errorf("%v allocations for 500 rows", allocs)
	}
}
