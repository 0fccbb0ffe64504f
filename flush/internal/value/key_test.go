package value

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestKey(t *testing.T) {
	const uuid = "0123abcd-89ef-4567-8901-abcdef012345"
	for _, test := range []struct {
		typ, in string
		want    any
		reason  string
	}{
		{typ: "int64", in: "7", want: int64(7)},
		{typ: "int64", in: "0", want: int64(0)},
		{typ: "int64", in: "-7", want: int64(-7)},
		{typ: "int64", in: "-10", want: int64(-10)},
		{typ: "int64", in: "-9223372036854775808", want: int64(math.MinInt64)},
		{typ: "int64", in: "07", reason: `"07" has to be written "7"`},
		{typ: "int64", in: "00", reason: `"00" has to be written "0"`},
		{typ: "int64", in: "-0", reason: `"-0" has to be written "0"`},
		{typ: "int64", in: "-07", reason: `"-07" has to be written "-7"`},
		{typ: "int64", in: "+7", reason: `"+7" has to be written "7"`},
		{typ: "int64", in: "+-7", reason: `"+-7" is not a 64-bit integer`},
		{typ: "int64", in: "++7", reason: `"++7" is not a 64-bit integer`},
		{typ: "int64", in: "", reason: `"" is not a 64-bit integer`},
		{typ: "int64", in: "7 ", reason: `"7 " is not a 64-bit integer`},
		{typ: "int64", in: "9223372036854775808", reason: `"9223372036854775808" is not a 64-bit integer`},
		{typ: "uint64", in: "18446744073709551615", want: uint64(math.MaxUint64)},
		{typ: "uint64", in: "0", want: uint64(0)},
		{typ: "uint64", in: "007", reason: `"007" has to be written "7"`},
		{typ: "uint64", in: "+7", reason: `"+7" has to be written "7"`},
		{typ: "uint64", in: "-0", reason: `"-0" is not an unsigned 64-bit integer`},
		{typ: "date", in: "2006-01-02", want: "2006-01-02"},
		{typ: "date", in: "2006-1-2", reason: `"2006-1-2" is not a date such as 2006-01-02`},
		{typ: "uuid", in: uuid, want: uuid},
		{typ: "uuid", in: strings.ToUpper(uuid), reason: `"` + strings.ToUpper(uuid) + `" has to be written "` + uuid + `"`},
		{typ: "uuid", in: strings.ReplaceAll(uuid, "-", ""), reason: `"` + strings.ReplaceAll(uuid, "-", "") + `" has to be written "` + uuid + `"`},
		{typ: "text", in: "", want: ""},
		{typ: "text", in: "Ünïcode ", want: "Ünïcode "},
		{typ: "text", in: "07", want: "07"},
		{typ: "text", in: strings.Repeat("😀", 255), want: strings.Repeat("😀", 255)},
		{typ: "text", in: strings.Repeat("x", 256), reason: `"` + strings.Repeat("x", 40) + `"... is longer than a key can be, 255 characters`},
		{typ: "text", in: "\xff", reason: `"\xff" is not UTF-8`},
		{typ: "text", in: "a\x00", reason: `"a\x00" has a NUL byte`},
		{typ: "bytes", in: "a\x00\xff", want: []byte("a\x00\xff")},
		{typ: "bytes", in: strings.Repeat("x", 255), want: []byte(strings.Repeat("x", 255))},
		{typ: "bytes", in: strings.Repeat("x", 256), reason: `"` + strings.Repeat("x", 40) + `"... is longer than a key can be, 255 bytes`},
		{typ: "bool", in: "1", reason: `"1" is a bool, which can't be in a key`},
		{typ: "float64", in: "1", reason: `"1" is a float64, which can't be in a key`},
		{typ: "decimal(3,1)", in: "1.0", reason: `"1.0" is a decimal(3,1), which can't be in a key`},
		{typ: "timestamp(ms)", in: "1", reason: `"1" is a timestamp(ms), which can't be in a key`},
		{typ: "json", in: "1", reason: `"1" is a json, which can't be in a key`},
	} {
		got, err := parse(t, test.typ).Key(test.in)
		if test.reason != "" {
			if err == nil || err.Error() != test.reason {
				t.Errorf("%s of %q: %v, %v; want %s", test.typ, test.in, got, err, test.reason)
			}
			continue
		}
		if err != nil || !Equal(got, test.want) {
			t.Errorf("%s of %q: %#v, %v; want %#v", test.typ, test.in, got, err, test.want)
		}
		if Spell(got) != test.in {
			t.Errorf("%s of %q: Spell writes %q", test.typ, test.in, Spell(got))
		}
	}
}

func TestInKeyIsWhatKeyTakes(t *testing.T) {
	some := []string{"1", "2006-01-02", "0123abcd-89ef-4567-8901-abcdef012345", "2006-01-02T15:04:05Z"}
	for _, name := range allTypes {
		typ := parse(t, name)
		taken := slices.ContainsFunc(some, func(s string) bool { _, err := typ.Key(s); return err == nil })
		if taken != typ.Kind.InKey() {
			t.Errorf("%s: Key takes it: %v, InKey: %v", name, taken, typ.Kind.InKey())
		}
	}
}

func TestCompare(t *testing.T) {
	ascending := []any{
		nil, int64(math.MinInt64), int64(-1), int64(0), int64(math.MaxInt64),
		uint64(0), uint64(9), uint64(10), uint64(1 << 63), uint64(math.MaxUint64),
		"", "A", "B", "a", "a ", "aa", "é", "\uffff", "😀",
		[]byte{}, []byte{0}, []byte{0, 0}, []byte{0xff},
	}
	for i, a := range ascending {
		for j, b := range ascending {
			got := Compare(a, b)
			if (got < 0) != (i < j) || (got > 0) != (i > j) {
				t.Errorf("Compare(%#v, %#v) = %d", a, b, got)
			}
		}
	}
	if Compare(time.Time{}, true) != 0 || Compare(time.Time{}, int64(0)) >= 0 {
		t.Error("what can't be in a key is not first")
	}
}
