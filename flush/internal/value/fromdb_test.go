package value

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestFromDB(t *testing.T) {
	at := time.Date(2006, 1, 2, 15, 4, 5, 999999000, time.UTC)
	east := time.FixedZone("", 7200)
	const uuid = "0123abcd-89ef-4567-8901-abcdef012345"
	raw := [16]byte{0x01, 0x23, 0xab, 0xcd, 0x89, 0xef, 0x45, 0x67, 0x89, 0x01, 0xab, 0xcd, 0xef, 0x01, 0x23, 0x45}
	refused := struct{}{}
	for _, test := range []struct {
		typ      string
		in, want any
	}{
		{"text", "a", "a"},
		{"text", []byte("a"), "a"},
		{"text", []byte{}, ""},
		{"text", int64(-5), "-5"},
		{"text", uint64(math.MaxUint64), "18446744073709551615"},
		{"text", "a\x00\xff", "a\x00\xff"}, // a database held it: it is shown as it is
		{"text", true, refused},
		{"text", 1.5, refused},
		{"text", at, refused},
		{"bytes", []byte("a\x00"), []byte("a\x00")},
		{"bytes", "a", []byte("a")},
		{"bytes", int64(1), refused},
		{"int64", int64(5), int64(5)},
		{"int64", []byte("-5"), int64(-5)},
		{"int64", "5", int64(5)},
		{"int64", uint64(5), int64(5)},
		{"int64", uint64(1 << 63), refused},
		{"int64", 5.0, refused},
		{"int64", "x", refused},
		{"int64", true, refused},
		{"uint64", int64(5), uint64(5)},
		{"uint64", int64(-5), refused},
		{"uint64", uint64(math.MaxUint64), uint64(math.MaxUint64)},
		{"uint64", "18446744073709551615", uint64(math.MaxUint64)},
		{"uint64", []byte("18446744073709551615"), uint64(math.MaxUint64)},
		{"uint64", 1.8446744073709552e19, refused},
		{"decimal(12,2)", "12.50", "12.50"},
		{"decimal(12,2)", []byte("12.5"), "12.50"},
		{"decimal(12,2)", "12.5000", "12.50"},
		{"decimal(12,2)", "1250e-2", "12.50"},
		{"decimal(12,2)", int64(12), "12.00"},
		{"decimal(12,2)", uint64(12), "12.00"},
		{"decimal(20,0)", uint64(math.MaxUint64), "18446744073709551615"},
		{"decimal(12,2)", 12.3, "12.30"},
		{"decimal(12,2)", 1e5, "100000.00"},
		{"decimal(20,5)", 1234567890.12345, "1234567890.12345"},
		{"decimal(20,5)", 12345678901.12345, refused},    // 16 digits
		{"decimal(38,20)", 0.30000000000000004, refused}, // 17 digits
		{"decimal(12,2)", math.NaN(), refused},
		{"decimal(12,2)", "NaN", refused},
		{"decimal(12,2)", "12.345", refused},
		{"decimal(12,2)", "10000000000", refused},
		{"float64", 1.5, 1.5},
		{"float64", float32(1.5), 1.5},
		{"float64", math.Copysign(0, -1), 0.0},
		{"float64", int64(3), 3.0},
		{"float64", int64(1<<53 + 1), refused},
		{"float64", int64(math.MaxInt64), refused},
		{"float64", uint64(math.MaxUint64), refused},
		{"float64", []byte("1.5e10"), 1.5e10},
		{"float64", math.Inf(1), refused},
		{"bool", true, true},
		{"bool", int64(0), false},
		{"bool", int64(1), true},
		{"bool", uint64(1), true},
		{"bool", int64(2), refused},
		{"bool", []byte("1"), true},
		{"bool", []byte("0"), false},
		{"bool", []byte{1}, true},
		{"bool", []byte{0}, false},
		{"bool", []byte{2}, refused},
		{"bool", "true", true},
		{"bool", 1.0, refused},
		{"timestamp", at, at},
		{"timestamp(ns)", at, at},
		{"timestamp", at.In(east), at},
		{"timestamp", at.Add(999), at},
		{"timestamp", []byte("2006-01-02 15:04:05.999999"), at},
		{"timestamp(ms)", "2006-01-02 15:04:05.999999", at},
		{"timestamp", "2006-01-02T15:04:05.999999Z", at},
		{"timestamp", "2006-01-02 17:04:05.999999+02:00", at},
		{"timestamp", []byte("2006-01-02 15:04:05"), at.Truncate(time.Second)},
		{"timestamp", []byte("0000-00-00 00:00:00"), refused},
		{"timestamp", time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), refused},
		{"timestamp", time.Date(0, 12, 31, 0, 0, 0, 0, time.UTC), refused},
		{"timestamp(s)", int64(5), refused}, // no database gives that for a timestamp
		{"timestamp", "infinity", refused},
		{"date", "2006-01-02", "2006-01-02"},
		{"date", []byte("2006-01-02"), "2006-01-02"},
		{"date", []byte("0000-00-00"), refused},
		{"date", time.Date(2006, 1, 2, 0, 0, 0, 0, time.UTC), "2006-01-02"},
		{"date", time.Date(2006, 1, 2, 0, 0, 0, 0, east), "2006-01-02"},
		{"date", time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC), "0001-01-01"},
		{"date", time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), refused},
		{"date", time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC), refused},
		{"date", at, refused},
		{"uuid", uuid, uuid},
		{"uuid", []byte(strings.ToUpper(uuid)), uuid},
		{"uuid", raw[:], uuid},
		{"uuid", raw, uuid},
		{"uuid", raw[:15], refused},
		{"json", `{"a": 1}`, `{"a": 1}`},
		{"json", []byte(`{"a": 1}`), `{"a": 1}`},
		{"json", "{", refused},
		{"int64", struct{ a int }{1}, refused},
	} {
		got, err := parse(t, test.typ).FromDB(test.in)
		if test.want == refused {
			if err == nil {
				t.Errorf("%s from %#v: %#v", test.typ, test.in, got)
			}
			continue
		}
		if err != nil || !Equal(got, test.want) {
			t.Errorf("%s from %#v: %#v, %v; want %#v", test.typ, test.in, got, err, test.want)
		}
		if f, ok := got.(float64); ok && f == 0 && math.Signbit(f) {
			t.Errorf("%s from %#v: -0", test.typ, test.in)
		}
	}
	for _, name := range allTypes {
		if got, err := parse(t, name).FromDB(nil); got != nil || err != nil {
			t.Errorf("%s from NULL: %v, %v", name, got, err)
		}
	}
}

func TestEqual(t *testing.T) {
	at := time.Date(2006, 1, 2, 15, 4, 5, 0, time.UTC)
	different := []any{nil, "", "a", []byte{}, []byte("a"), int64(0), int64(1), uint64(0), uint64(1), 0.0, 1.0, false, true, at, at.Add(1000), time.Time{}}
	for i, a := range different {
		for j, b := range different {
			if Equal(a, b) != (i == j) {
				t.Errorf("Equal(%#v, %#v) = %v", a, b, i != j)
			}
		}
	}
	if !Equal(at, at.In(time.FixedZone("", 3600))) || !Equal([]byte("a"), []byte("a")) {
		t.Error("the same moment, or the same bytes, are not equal")
	}
	if Equal(struct{}{}, struct{}{}) || Equal([]int{1}, []int{1}) {
		t.Error("what is no value is equal")
	}
}

func TestShow(t *testing.T) {
	for _, test := range []struct {
		in   any
		want string
	}{
		{nil, "NULL"},
		{"", `""`},
		{"NULL", `"NULL"`},
		{"a\"b\x1b[31m", `"a\"b\x1b[31m"`},
		{strings.Repeat("x", 60), `"` + strings.Repeat("x", 60) + `"`},
		{strings.Repeat("x", 61), `"` + strings.Repeat("x", 60) + `"...`},
		{"x" + strings.Repeat("é", 40), `"x` + strings.Repeat("é", 29) + `"...`},
		{strings.Repeat("\x80", 80), `"` + strings.Repeat(`\x80`, 56) + `"...`},
		{[]byte("aé\x00\"\\"), `"a\xc3\xa9\x00\"\\"`},
		{[]byte(strings.Repeat("x", 61)), `"` + strings.Repeat("x", 60) + `"...`},
		{[]byte(nil), `""`},
		{int64(-5), "-5"},
		{uint64(math.MaxUint64), "18446744073709551615"},
		{1e21, "1e+21"},
		{0.1, "0.1"},
		{true, "true"},
		{time.Date(2006, 1, 2, 15, 4, 5, 1000, time.UTC), "2006-01-02T15:04:05.000001Z"},
		{[]int{1}, `"[1]"`},
	} {
		if got := Show(test.in); got != test.want {
			t.Errorf("Show(%#v) = %s, want %s", test.in, got, test.want)
		}
	}
}
