package value

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

func parse(t testing.TB, name string) Type {
	t.Helper()
	typ, err := Parse(name)
	if err != nil {
		t.Fatal(err)
	}
	return typ
}

var allTypes = []string{
	"text", "bytes", "int64", "uint64", "decimal(12,2)", "decimal(20,0)", "decimal(38,30)", "float64", "bool",
	"timestamp", "timestamp(s)", "timestamp(ms)", "timestamp(us)", "timestamp(ns)", "date", "uuid", "json",
}

// A hostile value has to be taken by exactly the types that are named, as what is shown.
// Text and bytes take nearly all of them, so only what they refuse is in the list.
func TestHostileValues(t *testing.T) {
	for _, test := range []struct {
		name, value string
		taken       map[string]any // by others than text and bytes
		notText     bool
	}{
		{name: "empty"},
		{name: "NUL", value: "a\x00b", notText: true},
		{name: "NUL alone", value: "\x00", notText: true},
		{name: "NUL after a number", value: "1\x00", notText: true},
		{name: "invalid UTF-8", value: "\xff", notText: true},
		{name: "half a character", value: "\xe2\x82", notText: true},
		{name: "overlong", value: "\xc0\x80", notText: true},
		{name: "surrogate in UTF-8", value: "\xed\xa0\x80", notText: true},
		{name: "beyond Unicode", value: "\xf4\x90\x80\x80", notText: true},
		{name: "invalid UTF-8 in JSON", value: "\"\xff\"", notText: true},
		{name: "emoji", value: "😀"},
		{name: "emoji in JSON", value: `"😀"`, taken: map[string]any{"json": `"😀"`}},
		{name: "null", value: "null", taken: map[string]any{"json": "null"}},
		{name: "NULL", value: "NULL"},
		{name: "space before", value: " 1", taken: map[string]any{"json": " 1"}},
		{name: "space after", value: "1 ", taken: map[string]any{"json": "1 "}},
		{name: "newline after", value: "1\n", taken: map[string]any{"json": "1\n"}},
		{name: "no-break space", value: "\u00a01"},
		{name: "full-width digits", value: "１２"},
		{name: "Arabic digits", value: "١٢"},
		{name: "real minus", value: "−1"},
		{name: "plus", value: "+1"},
		{name: "two minuses", value: "--1"},
		{name: "minus alone", value: "-"},
		{name: "point alone", value: "."},
		{name: "no digit before the point", value: ".5"},
		{name: "no digit after the point", value: "5."},
		{name: "decimal comma", value: "1,5"},
		{name: "hexadecimal", value: "0x10"},
		{name: "hexadecimal float", value: "0x1p-2"},
		{name: "underscore", value: "1_000"},
		{name: "NaN", value: "NaN"},
		{name: "nan", value: "nan"},
		{name: "Inf", value: "Inf"},
		{name: "-infinity", value: "-infinity"},
		{name: "1e400", value: "1e400", taken: map[string]any{"json": "1e400"}},
		{name: "1e-400", value: "1e-400", taken: map[string]any{"json": "1e-400"}},
		{name: "exponent without digits", value: "1e"},
		{name: "exponent with a sign alone", value: "1e+"},
		{name: "huge exponent", value: "1e99999999999999999999", taken: map[string]any{"json": "1e99999999999999999999"}},
		{name: "2^63-1", value: "9223372036854775807", taken: map[string]any{
			"int64": int64(math.MaxInt64), "uint64": uint64(math.MaxInt64), "decimal(20,0)": "9223372036854775807",
			"float64": float64(1 << 63), "json": "9223372036854775807",
			"timestamp(ns)": time.Unix(9223372036, 854775000).UTC(),
		}},
		{name: "2^63", value: "9223372036854775808", taken: map[string]any{
			"uint64": uint64(1 << 63), "decimal(20,0)": "9223372036854775808", "float64": float64(1 << 63), "json": "9223372036854775808",
		}},
		{name: "-2^63", value: "-9223372036854775808", taken: map[string]any{
			"int64": int64(math.MinInt64), "decimal(20,0)": "-9223372036854775808", "float64": float64(-1 << 63), "json": "-9223372036854775808",
			"timestamp(ns)": time.Unix(-9223372037, 145224000).UTC(),
		}},
		{name: "-2^63-1", value: "-9223372036854775809", taken: map[string]any{
			"decimal(20,0)": "-9223372036854775809", "float64": float64(-1 << 63), "json": "-9223372036854775809",
		}},
		{name: "2^64-1", value: "18446744073709551615", taken: map[string]any{
			"uint64": uint64(math.MaxUint64), "decimal(20,0)": "18446744073709551615", "float64": float64(1 << 64), "json": "18446744073709551615",
		}},
		{name: "2^64", value: "18446744073709551616", taken: map[string]any{
			"decimal(20,0)": "18446744073709551616", "float64": float64(1 << 64), "json": "18446744073709551616",
		}},
		{name: "2^53+1", value: "9007199254740993", taken: map[string]any{
			"int64": int64(9007199254740993), "uint64": uint64(9007199254740993), "decimal(20,0)": "9007199254740993",
			"float64": float64(9007199254740992), "json": "9007199254740993",
			"timestamp(us)": time.Unix(9007199254, 740993000).UTC(), "timestamp(ns)": time.Unix(9007199, 254740000).UTC(),
		}},
		{name: "day 0", value: "0000-00-00"},
		{name: "no such day", value: "2023-02-29"},
		{name: "no such day at a time", value: "2023-02-29T00:00:00Z"},
		{name: "leap day", value: "2024-02-29", taken: map[string]any{"date": "2024-02-29"}},
		{name: "no leap day in 1900", value: "1900-02-29"},
		{name: "leap day in 2000", value: "2000-02-29", taken: map[string]any{"date": "2000-02-29"}},
		{name: "year 0", value: "0000-12-31"},
		{name: "year 10000", value: "10000-01-01"},
		{name: "year 10000 at a time", value: "10000-01-01T00:00:00Z"},
		{name: "year 0 at a time", value: "0000-12-31T00:00:00Z"},
		{name: "JSON with an escape for NUL", value: `"\u0000"`},
		{name: "1 MiB", value: strings.Repeat("é", 1<<19)},
		{name: "1 MiB of digits", value: strings.Repeat("7", 1<<20), taken: map[string]any{"json": strings.Repeat("7", 1<<20)}},
		{name: "1 MiB of zeros", value: strings.Repeat("0", 1<<20), taken: map[string]any{
			"int64": int64(0), "uint64": uint64(0), "timestamp(s)": time.Unix(0, 0).UTC(), "timestamp(ms)": time.Unix(0, 0).UTC(),
			"timestamp(us)": time.Unix(0, 0).UTC(), "timestamp(ns)": time.Unix(0, 0).UTC(),
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			want := map[string]any{"text": test.value, "bytes": []byte(test.value)}
			if test.notText {
				delete(want, "text")
			}
			for name, v := range test.taken {
				want[name] = v
			}
			for _, name := range allTypes {
				got, err := parse(t, name).Convert(test.value, Rules{})
				v, ok := want[name]
				if ok != (err == nil) || ok && (!Equal(got, v) || fmt.Sprintf("%T", got) != fmt.Sprintf("%T", v)) {
					t.Errorf("%s: %T %s, %v; want %T %s", name, got, Show(got), err, v, Show(v))
				}
				if err != nil {
					checkReason(t, test.value, err)
				}
			}
		})
	}
}

// checkReason wants the value in front, and a line that a screen can show.
func checkReason(t *testing.T, value string, err error) {
	t.Helper()
	text := err.Error()
	if !strings.HasPrefix(text, quote(value)+" ") || len(text) > 300 || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' }) {
		t.Errorf("the reason %.400q does not start with the value, is long, or has control characters", text)
	}
}

func TestReasons(t *testing.T) {
	for _, test := range []struct{ typ, value, want string }{
		{"text", "\xff", `"\xff" is not UTF-8`},
		{"text", "a\x00", `"a\x00" has a NUL byte`},
		{"int64", "abc", `"abc" is not a 64-bit integer`},
		{"uint64", "-1", `"-1" is not an unsigned 64-bit integer`},
		{"decimal(12,2)", "12.345", `"12.345" has more than 2 digits after the point`},
		{"decimal(3,1)", "12.345", `"12.345" has more than 1 digit after the point`},
		{"decimal(12,2)", "99999999999", `"99999999999" has more than 10 digits before the point`},
		{"decimal(2,2)", "1", `"1" has more than 0 digits before the point`},
		{"decimal(12,2)", "abc", `"abc" is not a decimal number`},
		{"decimal(12,2)", "1e1001", `"1e1001" has an exponent beyond 1000`},
		{"decimal(12,2)", strings.Repeat("1", 1001), `"` + strings.Repeat("1", 40) + `"... is longer than a number can be, 1000 bytes`},
		{"float64", "NaN", `"NaN" is not a decimal number`},
		{"float64", "1e309", `"1e309" is too large for a float64`},
		{"float64", "1e-324", `"1e-324" is too small for a float64`},
		{"bool", "on", `"on" is not a bool`},
		{"timestamp", "1700000000", `"1700000000" is not a timestamp such as 2006-01-02T15:04:05Z`},
		{"timestamp", "2023-01-02T03:04:05", `"2023-01-02T03:04:05" has no time zone`},
		{"timestamp", "2016-12-31T23:59:60Z", `"2016-12-31T23:59:60Z" has a second 60`},
		{"timestamp(s)", "253402300800", `"253402300800" is not within the years 1 to 9999`},
		{"timestamp(ms)", "1.5", `"1.5" is not a number of milliseconds`},
		{"date", "2023-02-29", `"2023-02-29" is not a date such as 2006-01-02`},
		{"uuid", "x", `"x" is not a UUID`},
		{"json", "{", `"{" is not JSON`},
		{"json", `"\u0000"`, `"\"\\u0000\"" has the escape \u0000 in JSON`},
	} {
		_, err := parse(t, test.typ).Convert(test.value, Rules{})
		if err == nil || err.Error() != test.want {
			t.Errorf("%s: %v, want %s", test.typ, err, test.want)
		}
	}
}

func TestTextReplaces(t *testing.T) {
	for in, want := range map[string]string{
		"plain é":      "plain é",
		"a\x00\x00b":   "a\uFFFD\uFFFDb",
		"a\xff\xfeb":   "a\uFFFDb",
		"\xe2\x82":     "\uFFFD",
		"\xff\x00\xff": "\uFFFD\uFFFD\uFFFD",
	} {
		if got, err := (Type{Kind: Text}).Convert(in, Rules{Replace: true}); err != nil || got != want {
			t.Errorf("%q: %q, %v; want %q", in, got, err, want)
		}
	}
	// The rule is for texts. What else is broken stays refused.
	for _, name := range []string{"json", "uuid", "int64"} {
		if got, err := parse(t, name).Convert("\"\xff\"", Rules{Replace: true, Round: true}); err == nil {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A nil []byte would be NULL for database/sql.
func TestEmptyBytesAreNotNil(t *testing.T) {
	for _, convert := range []func() (any, error){
		func() (any, error) { return Type{Kind: Bytes}.Convert("", Rules{}) },
		func() (any, error) { return Type{Kind: Bytes}.Key("") },
		func() (any, error) { return Type{Kind: Bytes}.FromDB([]byte(nil)) },
		func() (any, error) { return Type{Kind: Bytes}.FromDB("") },
	} {
		v, err := convert()
		if b, ok := v.([]byte); err != nil || !ok || b == nil || len(b) != 0 {
			t.Errorf("%#v, %v", v, err)
		}
	}
}

func TestBool(t *testing.T) {
	for _, s := range []string{"1", "t", "T", "true", "TRUE", "tRuE", "yes", "YES"} {
		if v, err := (Type{Kind: Bool}).Convert(s, Rules{}); v != true || err != nil {
			t.Errorf("%q: %v, %v", s, v, err)
		}
	}
	for _, s := range []string{"0", "f", "F", "false", "FALSE", "no", "No"} {
		if v, err := (Type{Kind: Bool}).Convert(s, Rules{}); v != false || err != nil {
			t.Errorf("%q: %v, %v", s, v, err)
		}
	}
	// The long s folds to s in Unicode; so does no other letter here.
	for _, s := range []string{"yeſ", "falſe", "y", "n", "on", "off", "2", "-1", "01", "true ", "true\x00", "tru", "falsee"} {
		if v, err := (Type{Kind: Bool}).Convert(s, Rules{}); err == nil {
			t.Errorf("%q: %v", s, v)
		}
	}
}

func TestUUID(t *testing.T) {
	const canonical = "0123abcd-89ef-4567-8901-abcdef012345"
	for _, s := range []string{canonical, strings.ToUpper(canonical), strings.ReplaceAll(canonical, "-", ""),
		strings.ToUpper(strings.ReplaceAll(canonical, "-", "")), "0123ABCD-89ef-4567-8901-abcdef012345"} {
		if v, err := (Type{Kind: UUID}).Convert(s, Rules{}); v != canonical || err != nil {
			t.Errorf("%q: %v, %v", s, v, err)
		}
	}
	for _, s := range []string{"", "-", "{" + canonical + "}", "urn:uuid:" + canonical, canonical + "0", canonical[1:], " " + canonical,
		"0123abcd89ef-4567-8901-abcdef012345", "0123abcd-89ef-4567-8901abcdef-012345", "0123abcg-89ef-4567-8901-abcdef012345",
		"0123abcd089ef-4567-8901-abcdef01234", strings.Repeat("-", 36), strings.Repeat("é", 18), strings.Repeat("a", 33),
		strings.Repeat("a", 36), strings.Repeat("a", 31), canonical[:35] + "\x00", strings.Repeat("a", 31) + "-"} {
		if v, err := (Type{Kind: UUID}).Convert(s, Rules{}); err == nil {
			t.Errorf("%q: %v", s, v)
		}
	}
}
