package value

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]Type{
		"text":             {Kind: Text},
		"bytes":            {Kind: Bytes},
		"int64":            {Kind: Int64},
		"uint64":           {Kind: Uint64},
		"decimal(12,2)":    {Kind: Decimal, Precision: 12, Scale: 2},
		"decimal( 38 , 0)": {Kind: Decimal, Precision: 38},
		"decimal(1,1)":     {Kind: Decimal, Precision: 1, Scale: 1},
		"decimal(38,30)":   {Kind: Decimal, Precision: 38, Scale: 30},
		"float64":          {Kind: Float64},
		"bool":             {Kind: Bool},
		"timestamp":        {Kind: Timestamp},
		"timestamp(s)":     {Kind: Timestamp, Unit: Seconds},
		"timestamp( ms )":  {Kind: Timestamp, Unit: Millis},
		"timestamp(us)":    {Kind: Timestamp, Unit: Micros},
		"timestamp(ns)":    {Kind: Timestamp, Unit: Nanos},
		"date":             {Kind: Date},
		"uuid":             {Kind: UUID},
		"json":             {Kind: JSON},
	} {
		got, err := Parse(text)
		if err != nil || got != want {
			t.Errorf("Parse(%q) = %#v, %v; want %#v", text, got, err, want)
			continue
		}
		if err := got.Check(); err != nil {
			t.Errorf("Parse(%q) gives a type that Check refuses: %v", text, err)
		}
		if again, err := Parse(got.String()); err != nil || again != want {
			t.Errorf("%q writes itself as %q, which parses as %#v, %v", text, got, again, err)
		}
		if plain := strings.ReplaceAll(text, " ", ""); got.String() != plain {
			t.Errorf("Parse(%q).String() = %q, want %q", text, got, plain)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "one of text, bytes",
		"string":                 "one of text, bytes",
		"Text":                   "one of text, bytes",
		" text":                  "one of text, bytes",
		"text)":                  "one of text, bytes",
		"text(":                  "one of text, bytes",
		"decimal(1,2":            "one of text, bytes",
		"invalid kind 0":         "one of text, bytes",
		"text()":                 "text takes nothing in parentheses",
		"int64(8)":               "int64 takes nothing in parentheses",
		"decimal":                "1 to 38 digits in all (p), and 0 to 30",
		"decimal()":              "1 to 38 digits",
		"decimal(12)":            "1 to 38 digits",
		"decimal(0,0)":           "1 to 38 digits",
		"decimal(39,0)":          "1 to 38 digits",
		"decimal(2,3)":           "1 to 38 digits",
		"decimal(38,31)":         "0 to 30 of them after the point",
		"decimal(-1,0)":          "1 to 38 digits",
		"decimal(+1,0)":          "1 to 38 digits",
		"decimal(4,-1)":          "1 to 38 digits",
		"decimal(257,1)":         "1 to 38 digits",
		"decimal(1,2,3)":         "1 to 38 digits",
		"decimal(5,2))":          "1 to 38 digits",
		"timestamp()":            "timestamp(s), timestamp(ms)",
		"timestamp(h)":           "timestamp(s), timestamp(ms)",
		"timestamp(RFC 3339)":    "or timestamp alone for RFC 3339",
		strings.Repeat("x", 1e4): "one of text, bytes",
	} {
		got, err := Parse(text)
		if err == nil || !strings.Contains(err.Error(), want) || got != (Type{}) {
			t.Errorf("Parse(%q) = %#v, %v; want an error with %q", text, got, err, want)
		} else if len(err.Error()) > 300 {
			t.Errorf("Parse(%.20q...): an error of %d bytes", text, len(err.Error()))
		}
	}
}

func TestNamesAreAllKinds(t *testing.T) {
	for k := Text; k <= JSON; k++ {
		if !strings.Contains(Names(), k.String()) {
			t.Errorf("%v is not in %q", k, Names())
		}
	}
}

// No Type that a program can make may panic.
func TestInvalidTypes(t *testing.T) {
	for _, typ := range []Type{
		{},
		{Kind: -1},
		{Kind: JSON + 1},
		{Kind: Decimal},
		{Kind: Decimal, Precision: 39},
		{Kind: Decimal, Precision: 3, Scale: 4},
		{Kind: Decimal, Precision: 3, Scale: -1},
		{Kind: Decimal, Precision: -3, Scale: -3},
		{Kind: Timestamp, Unit: -1},
		{Kind: Timestamp, Unit: Nanos + 1},
	} {
		if typ.Check() == nil {
			t.Errorf("%#v passes Check", typ)
		}
		if v, err := typ.Convert("1", Rules{Round: true, Replace: true}); err == nil {
			t.Errorf("%#v converts to %v", typ, v)
		}
		if v, err := typ.Key("1"); err == nil {
			t.Errorf("%#v makes a key of %v", typ, v)
		}
		for _, v := range []any{nil, "1", []byte("1"), int64(1), uint64(1), 1.5, true} {
			if v, err := typ.FromDB(v); err == nil {
				t.Errorf("%#v reads %v", typ, v)
			}
		}
		if again, err := Parse(typ.String()); err == nil {
			t.Errorf("%#v writes itself as %q, which parses as %v", typ, typ, again)
		}
	}
	// What a type does not use has to be zero, or == would not compare types.
	for _, typ := range []Type{
		{Kind: Text, Precision: 1}, {Kind: Bool, Scale: 1}, {Kind: Date, Unit: Millis},
		{Kind: Decimal, Precision: 1, Unit: Millis}, {Kind: Timestamp, Scale: 1},
	} {
		if typ.Check() == nil {
			t.Errorf("%#v passes Check", typ)
		}
	}
	if _, err := Parse(Kind(0).String()); err == nil || Kind(0).InKey() {
		t.Error("the zero Kind is something")
	}
}
