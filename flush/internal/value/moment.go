package value

import (
	"fmt"
	"strconv"
	"time"
)

// The first and the last second that a Timestamp can be in.
const (
	firstSecond = -62135596800 // 0001-01-01T00:00:00Z
	lastSecond  = 253402300799 // 9999-12-31T23:59:59Z
)

func (t Type) toTimestamp(s string) (any, error) {
	switch t.Unit {
	case RFC3339:
		return toMoment(s, false)
	case Seconds:
		return sinceEpoch(s, "seconds", 1)
	case Millis:
		return sinceEpoch(s, "milliseconds", 1e3)
	case Micros:
		return sinceEpoch(s, "microseconds", 1e6)
	case Nanos:
		return sinceEpoch(s, "nanoseconds", 1e9)
	}
	return nil, errInvalid(t)
}

func sinceEpoch(s, what string, perSecond int64) (any, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || s[0] == '+' {
		return nil, fmt.Errorf("%s is not a number of %s", quote(s), what)
	}
	seconds, part := n/perSecond, n%perSecond
	if part < 0 {
		seconds, part = seconds-1, part+perSecond
	}
	return moment(s, seconds, part*(1e9/perSecond))
}

// moment cuts to microseconds. The nanoseconds count forward, also before 1970, so that
// the cut goes to the past.
func moment(s string, seconds, nanos int64) (any, error) {
	if seconds < firstSecond || seconds > lastSecond {
		return nil, fmt.Errorf("%s is not within the years 1 to 9999", quote(s))
	}
	return time.Unix(seconds, nanos/1000*1000).UTC(), nil
}

// toMoment reads RFC 3339. Without its zone it is UTC if that is allowed. The time
// package is not asked, since its RFC 3339 also takes "1:02:03" and a decimal comma.
func toMoment(s string, zoneless bool) (any, error) {
	if len(s) < 19 || (s[10] != 'T' && s[10] != 't' && s[10] != ' ') || s[13] != ':' || s[16] != ':' {
		return nil, errTimestamp(s)
	}
	year, month, day, ok := calendar(s[:10])
	hour, okHour := twoDigits(s[11:13], 23)
	minute, okMinute := twoDigits(s[14:16], 59)
	second, okSecond := twoDigits(s[17:19], 60)
	nanos, rest, okFraction := fraction(s[19:])
	offset, okZone := zone(rest)
	switch {
	case !ok || !okHour || !okMinute || !okSecond || !okFraction:
		return nil, errTimestamp(s)
	case rest == "" && !zoneless:
		return nil, fmt.Errorf("%s has no time zone", quote(s))
	case rest != "" && !okZone:
		return nil, errTimestamp(s)
	case second == 60:
		return nil, fmt.Errorf("%s has a second 60", quote(s))
	}
	at := time.Date(year, time.Month(month), day, hour, minute, second, 0, time.UTC).Unix()
	return moment(s, at-offset, nanos)
}

func errTimestamp(s string) error {
	return fmt.Errorf("%s is not a timestamp such as 2006-01-02T15:04:05Z", quote(s))
}

// fraction reads a point and digits, if they are there, down to the nanosecond.
func fraction(s string) (nanos int64, rest string, ok bool) {
	if s == "" || s[0] != '.' {
		return 0, s, true
	}
	digits, rest := leadingDigits(s[1:])
	for i := range 9 {
		nanos *= 10
		if i < len(digits) {
			nanos += int64(digits[i] - '0')
		}
	}
	return nanos, rest, digits != ""
}

// zone reads the offset from UTC in seconds.
func zone(s string) (int64, bool) {
	if s == "Z" || s == "z" {
		return 0, true
	}
	if len(s) != 6 || (s[0] != '+' && s[0] != '-') || s[3] != ':' {
		return 0, false
	}
	hours, okHours := twoDigits(s[1:3], 23)
	minutes, okMinutes := twoDigits(s[4:6], 59)
	offset := int64(hours*3600 + minutes*60)
	if s[0] == '-' {
		offset = -offset
	}
	return offset, okHours && okMinutes
}

func toDate(s string) (any, error) {
	year, _, _, ok := calendar(s)
	if !ok || year == 0 {
		return nil, fmt.Errorf("%s is not a date such as 2006-01-02", quote(s))
	}
	return s, nil
}

// calendar reads a day that there is. The year can be 0: with its time zone the moment can
// be in the year 1.
func calendar(s string) (year, month, day int, ok bool) {
	if len(s) != 10 || s[4] != '-' || s[7] != '-' {
		return 0, 0, 0, false
	}
	century, ok1 := twoDigits(s[0:2], 99)
	rest, ok2 := twoDigits(s[2:4], 99)
	month, ok3 := twoDigits(s[5:7], 12)
	day, ok4 := twoDigits(s[8:10], 31)
	year = 100*century + rest
	ok = ok1 && ok2 && ok3 && ok4 && month >= 1 && day >= 1 && day <= daysIn(year, month)
	return year, month, day, ok
}

// daysIn is the day before the first of the next month.
func daysIn(year, month int) int {
	return time.Date(year, time.Month(month)+1, 0, 0, 0, 0, 0, time.UTC).Day()
}

func twoDigits(s string, most int) (int, bool) {
	if s[0] < '0' || s[0] > '9' || s[1] < '0' || s[1] > '9' {
		return 0, false
	}
	n := int(s[0]-'0')*10 + int(s[1]-'0')
	return n, n <= most
}
