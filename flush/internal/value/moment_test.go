package value

import (
	"math/rand"
	"slices"
	"testing"
	"time"
)

func TestTimestamp(t *testing.T) {
	for _, test := range []struct{ typ, in, want string }{ // "" is refused
		{"timestamp", "2006-01-02T15:04:05Z", "2006-01-02T15:04:05Z"},
		{"timestamp", "2006-01-02t15:04:05z", "2006-01-02T15:04:05Z"},
		{"timestamp", "2006-01-02 15:04:05Z", "2006-01-02T15:04:05Z"},
		{"timestamp", "2006-01-02T15:04:05+02:00", "2006-01-02T13:04:05Z"},
		{"timestamp", "2006-01-02T15:04:05-23:59", "2006-01-03T15:03:05Z"},
		{"timestamp", "2006-01-02T15:04:05-00:00", "2006-01-02T15:04:05Z"},
		{"timestamp", "2006-01-02T15:04:05.5Z", "2006-01-02T15:04:05.5Z"},
		{"timestamp", "2006-01-02T15:04:05.9999999Z", "2006-01-02T15:04:05.999999Z"},
		{"timestamp", "2006-01-02T15:04:05.0000019999999999999Z", "2006-01-02T15:04:05.000001Z"},
		{"timestamp", "1969-12-31T23:59:59.9999999Z", "1969-12-31T23:59:59.999999Z"},
		{"timestamp", "0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"},
		{"timestamp", "9999-12-31T23:59:59.9999999Z", "9999-12-31T23:59:59.999999Z"},
		{"timestamp", "0000-12-31T23:30:00-01:00", "0001-01-01T00:30:00Z"},
		{"timestamp", "0001-01-01T00:00:00+00:01", ""},
		{"timestamp", "9999-12-31T23:59:59-00:01", ""},
		{"timestamp", "2006-01-02T15:04:05", ""},
		{"timestamp", "2006-01-02T15:04:05.5", ""},
		{"timestamp", "2006-01-02T15:04:05,5Z", ""},
		{"timestamp", "2006-01-02T15:04:05.Z", ""},
		{"timestamp", "2006-01-02T15:04Z", ""},
		{"timestamp", "2006-01-02T5:04:05Z", ""},
		{"timestamp", "2006-1-02T15:04:05Z", ""},
		{"timestamp", "2006-01-02T24:00:00Z", ""},
		{"timestamp", "2006-01-02T15:60:05Z", ""},
		{"timestamp", "2006-01-02T15:04:60Z", ""},
		{"timestamp", "2006-01-02T15:04:61Z", ""},
		{"timestamp", "2006-01-02T15:04:05+24:00", ""},
		{"timestamp", "2006-01-02T15:04:05+02:60", ""},
		{"timestamp", "2006-01-02T15:04:05+0200", ""},
		{"timestamp", "2006-01-02T15:04:05+02", ""},
		{"timestamp", "2006-01-02T15:04:05 Z", ""},
		{"timestamp", "2006-01-02T15:04:05ZZ", ""},
		{"timestamp", "2006-13-02T15:04:05Z", ""},
		{"timestamp", "2006-00-02T15:04:05Z", ""},
		{"timestamp", "2006-01-00T15:04:05Z", ""},
		{"timestamp", "2006-04-31T15:04:05Z", ""},
		{"timestamp", "-006-01-02T15:04:05Z", ""},
		{"timestamp", "2006-01-02_15:04:05Z", ""},
		{"timestamp", "1700000000", ""},
		{"timestamp(s)", "0", "1970-01-01T00:00:00Z"},
		{"timestamp(s)", "-1", "1969-12-31T23:59:59Z"},
		{"timestamp(s)", "007", "1970-01-01T00:00:07Z"},
		{"timestamp(s)", "-62135596800", "0001-01-01T00:00:00Z"},
		{"timestamp(s)", "-62135596801", ""},
		{"timestamp(s)", "253402300799", "9999-12-31T23:59:59Z"},
		{"timestamp(s)", "253402300800", ""},
		{"timestamp(s)", "9223372036854775807", ""},
		{"timestamp(s)", "-9223372036854775808", ""},
		{"timestamp(s)", "1.5", ""},
		{"timestamp(s)", "1e3", ""},
		{"timestamp(s)", "+1", ""},
		{"timestamp(s)", "2006-01-02T15:04:05Z", ""},
		{"timestamp(ms)", "1700000000123", "2023-11-14T22:13:20.123Z"},
		{"timestamp(ms)", "-1", "1969-12-31T23:59:59.999Z"},
		{"timestamp(ms)", "-1000", "1969-12-31T23:59:59Z"},
		{"timestamp(ms)", "-62135596800000", "0001-01-01T00:00:00Z"},
		{"timestamp(ms)", "-62135596800001", ""},
		{"timestamp(ms)", "253402300799999", "9999-12-31T23:59:59.999Z"},
		{"timestamp(ms)", "253402300800000", ""},
		{"timestamp(us)", "-1", "1969-12-31T23:59:59.999999Z"},
		{"timestamp(us)", "253402300799999999", "9999-12-31T23:59:59.999999Z"},
		{"timestamp(us)", "253402300800000000", ""},
		{"timestamp(ns)", "1999", "1970-01-01T00:00:00.000001Z"},
		{"timestamp(ns)", "-1", "1969-12-31T23:59:59.999999Z"},
		{"timestamp(ns)", "-1000", "1969-12-31T23:59:59.999999Z"},
		{"timestamp(ns)", "-1001", "1969-12-31T23:59:59.999998Z"},
	} {
		got, err := parse(t, test.typ).Convert(test.in, Rules{})
		if test.want == "" {
			if err == nil {
				t.Errorf("%s of %q: %v", test.typ, test.in, got)
			}
			continue
		}
		at, ok := got.(time.Time)
		if !ok || at.Format(time.RFC3339Nano) != test.want || at.Location() != time.UTC {
			t.Errorf("%s of %q: %v, %v; want %s", test.typ, test.in, got, err, test.want)
		}
	}
}

// Against the time package, for what both of them take.
func TestTimestampRandom(t *testing.T) {
	rnd := rand.New(rand.NewSource(2))
	for range 50_000 {
		seconds := firstSecond + rnd.Int63n(lastSecond-firstSecond+1)
		zone := time.FixedZone("", 60*(rnd.Intn(2*1439+1)-1439))
		at := time.Unix(seconds, rnd.Int63n(1e9)).In(zone)
		if y := at.Year(); y < 0 || y > 9999 {
			continue
		}
		text := at.Format(time.RFC3339Nano)
		want := at.Truncate(time.Microsecond)
		got, err := toMoment(text, false)
		if err != nil || !Equal(got, want) {
			t.Fatalf("%q: %v, %v; want %v", text, got, err, want.UTC())
		}
	}
}

// Every day of the years that could be special, and some of each other year.
func TestDate(t *testing.T) {
	special := []int{1, 4, 100, 400, 1582, 1752, 1900, 1999, 2000, 2023, 2024, 2100, 9999}
	step := 1
	for at := time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC); at.Year() < 10000; at = at.AddDate(0, 0, step) {
		step = 1
		if next := at.AddDate(0, 0, 37); !slices.Contains(special, at.Year()) && !slices.Contains(special, next.Year()) {
			step = 37
		}
		text := at.Format(time.DateOnly)
		if v, err := toDate(text); v != text || err != nil {
			t.Fatalf("%q: %v, %v", text, v, err)
		}
	}
	for _, s := range []string{"0000-00-00", "0000-01-01", "2023-02-29", "2100-02-29", "2023-00-01", "2023-01-00", "2023-13-01", "2023-04-31",
		"2023-01-32", "10000-01-01", "2023-1-01", "2023/01/01", "20230101", "2023-01-01 ", " 2023-01-01", "2023-01-01T00:00:00Z", "-023-01-01",
		"2023-0１-01", "", "2023-01-01\x00"} {
		if v, err := toDate(s); err == nil {
			t.Errorf("%q: %v", s, v)
		}
	}
}
