package value

import (
	"math"
	"strconv"
	"testing"
	"time"
	"unicode/utf8"
)

// FuzzConvert: nothing panics; a value converts again to itself through its text; a
// database that gives back what Convert gave, in any of its forms, gives an equal value;
// a key has one spelling.
func FuzzConvert(f *testing.F) {
	for _, s := range []string{"", "7", "-0", "9223372036854775807", "18446744073709551615", "12.50", "-1.5e-2", "1e400", "true",
		"2006-01-02T15:04:05.999999999+01:00", "2006-01-02", "0123abcd-89ef-4567-8901-abcdef012345", "0123ABCD89EF45678901ABCDEF012345",
		`{"a":["\ud83d\ude00"]}`, "a\x00\xff", "-62135596800", "1700000000123"} {
		for i := range allTypes {
			f.Add(uint8(i), s, i%2 == 0)
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, s string, yes bool) {
		typ := parse(t, allTypes[int(which)%len(allTypes)])
		checkKeySpelling(t, typ, s)
		if _, err := typ.FromDB(s); err == nil && typ.Kind == UUID && len(s) < 32 {
			t.Errorf("%v reads %q", typ, s)
		}
		typ.FromDB([]byte(s)) // only for panics

		v, err := typ.Convert(s, Rules{Round: yes, Replace: yes})
		if err != nil {
			checkReason(t, s, err)
			return
		}
		checkForm(t, typ, v)
		text := textOf(typ, v)
		if again, err := typ.Convert(text, Rules{}); err != nil || !Equal(again, v) {
			t.Errorf("%v of %q is %s, and of its text %q it is %s, %v", typ, s, Show(v), text, Show(again), err)
		}
		for _, form := range formsInDB(typ, v) {
			if got, err := typ.FromDB(form); err != nil || !Equal(got, v) {
				t.Errorf("%v of %q is %s, and from the database's %#v it is %s, %v", typ, s, Show(v), form, Show(got), err)
			}
		}
	})
}

// checkForm holds the value against what Convert promises about its form.
func checkForm(t *testing.T, typ Type, v any) {
	t.Helper()
	ok := false
	switch typ.Kind {
	case Text:
		s, is := v.(string)
		ok = is && utf8.ValidString(s)
	case Bytes:
		b, is := v.([]byte)
		ok = is && b != nil
	case Float64:
		f, is := v.(float64)
		ok = is && !math.IsInf(f, 0) && !math.IsNaN(f) && (f != 0 || !math.Signbit(f))
	case Timestamp:
		at, is := v.(time.Time)
		ok = is && at.Location() == time.UTC && at.Nanosecond()%1000 == 0 && at.Year() >= 1 && at.Year() <= 9999
	case Date:
		s, is := v.(string)
		_, err := time.Parse(time.DateOnly, s)
		ok = is && err == nil
	case Decimal, UUID, JSON:
		_, ok = v.(string)
	case Int64:
		_, ok = v.(int64)
	case Uint64:
		_, ok = v.(uint64)
	case Bool:
		_, ok = v.(bool)
	}
	if !ok {
		t.Errorf("%v has %#v", typ, v)
	}
}

// checkKeySpelling: what Key takes is the text of its value.
func checkKeySpelling(t *testing.T, typ Type, s string) {
	t.Helper()
	v, err := typ.Key(s)
	switch {
	case err != nil:
	case !typ.Kind.InKey():
		t.Errorf("%v is in no key, and makes %s of %q", typ, Show(v), s)
	case Spell(v) != s:
		t.Errorf("%v makes the key %s of %q: there are two spellings", typ, Show(v), s)
	}
}

// textOf is how a producer would write the value.
func textOf(typ Type, v any) string {
	switch v := v.(type) {
	case string:
		return v
	case []byte:
		return string(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case uint64:
		return strconv.FormatUint(v, 10)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	case bool:
		return strconv.FormatBool(v)
	case time.Time:
		switch typ.Unit {
		case Seconds:
			return strconv.FormatInt(v.Unix(), 10)
		case Millis:
			return strconv.FormatInt(v.UnixMilli(), 10)
		case Micros:
			return strconv.FormatInt(v.UnixMicro(), 10)
		case Nanos:
			return strconv.FormatInt(v.UnixNano(), 10)
		}
		return v.Format(time.RFC3339Nano)
	}
	return "no value"
}

// formsInDB are the forms in which drivers can give the value back.
func formsInDB(typ Type, v any) []any {
	forms := []any{v}
	switch v := v.(type) {
	case string:
		forms = append(forms, []byte(v))
		if typ.Kind == Date {
			at, _ := time.Parse(time.DateOnly, v)
			forms = append(forms, at)
		}
		if typ.Kind == Decimal && typ.Scale > 0 {
			forms = append(forms, v+"00")
		}
	case []byte:
		forms = append(forms, string(v))
	case bool:
		n := int64(0)
		if v {
			n = 1
		}
		forms = append(forms, n, []byte{byte(n)}, strconv.FormatInt(n, 10))
	case time.Time:
		const sqlite, mysql = "2006-01-02T15:04:05.000000Z", "2006-01-02 15:04:05.999999"
		forms = append(forms, v.Format(sqlite), []byte(v.Format(mysql)), v.In(time.FixedZone("", -3600)))
	default:
		forms = append(forms, textOf(typ, v), []byte(textOf(typ, v)))
	}
	return forms
}
