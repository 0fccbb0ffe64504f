package value

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Rules say what to do with values that are nearly right. The zero Rules refuse them.
type Rules struct {
	Round   bool // Decimal: digits beyond the scale are rounded, half away from zero
	Replace bool // Text: each NUL and each run of bytes that are not UTF-8 becomes U+FFFD
}

// Convert returns the value as the column holds it, or why it can't be one. A reason
// starts with the value, quoted and cut where it is long.
//
//   - Text: a string.
//   - Bytes: a []byte, never nil.
//   - Int64, Uint64: an int64 or a uint64, from digits, with an optional minus for Int64.
//     Leading zeros are fine; a plus, a point, an exponent, underscores and spaces are not.
//   - Decimal: a string with the digits before the point without leading zeros, and
//     exactly Scale digits after it; without the point if Scale is 0, and never "-0".
//     It is read from digits with an optional minus, an optional point with digits on
//     both sides, and an optional exponent; so "+5", ".5" and "5." are refused. At most
//     1000 bytes, with an exponent between -1000 and 1000.
//   - Float64: a float64 from the same spellings, the nearest to what is written. What is
//     too large for one is refused, and what is not 0 and would become 0. There is no -0.
//   - Bool: a bool.
//   - Timestamp: a time.Time in UTC, in the years 1 to 9999. What is finer than a
//     microsecond is cut off, toward the past. RFC 3339 needs its time zone, may have a
//     space or small letters for T and Z, and has no second 60. The other units are whole
//     numbers written as an Int64 is.
//   - Date: a string such as "2006-01-02", in the years 1 to 9999.
//   - UUID: a string of 36 bytes with small letters, from 32 hexadecimal digits of either
//     case with all four dashes or none.
//   - JSON: the string as it is. It is valid in UTF-8 and nested at most 500 deep, and has
//     no escape for NUL and no half of a surrogate pair, which PostgreSQL would not take.
func (t Type) Convert(s string, r Rules) (any, error) {
	switch t.Kind {
	case Text:
		return toText(s, r.Replace)
	case Bytes:
		return []byte(s), nil
	case Int64:
		return toInt64(s)
	case Uint64:
		return toUint64(s)
	case Decimal:
		return t.toDecimal(s, r.Round)
	case Float64:
		return toFloat64(s)
	case Bool:
		return toBool(s)
	case Timestamp:
		return t.toTimestamp(s)
	case Date:
		return toDate(s)
	case UUID:
		return toUUID(s)
	case JSON:
		return toJSON(s)
	}
	return nil, errInvalid(t)
}

func toText(s string, replace bool) (any, error) {
	valid, nul := utf8.ValidString(s), strings.IndexByte(s, 0) >= 0
	switch {
	case valid && !nul:
		return s, nil
	case replace:
		return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD"), nil
	case !valid:
		return nil, fmt.Errorf("%s is not UTF-8", quote(s))
	}
	return nil, fmt.Errorf("%s has a NUL byte", quote(s))
}

func toInt64(s string) (any, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || s[0] == '+' {
		return nil, fmt.Errorf("%s is not a 64-bit integer", quote(s))
	}
	return n, nil
}

func toUint64(s string) (any, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("%s is not an unsigned 64-bit integer", quote(s))
	}
	return n, nil
}

// toBool folds the case of ASCII only: strings.EqualFold would take "yeſ".
func toBool(s string) (any, error) {
	var small [5]byte
	if len(s) <= len(small) {
		for i := range len(s) {
			small[i] = s[i]
			if 'A' <= s[i] && s[i] <= 'Z' {
				small[i] += 'a' - 'A'
			}
		}
		switch string(small[:len(s)]) {
		case "1", "true", "t", "yes":
			return true, nil
		case "0", "false", "f", "no":
			return false, nil
		}
	}
	return nil, fmt.Errorf("%s is not a bool", quote(s))
}

func toUUID(s string) (any, error) {
	var digits [32]byte
	n, canonical := 0, len(s) == 36
	for i := range len(s) {
		c := s[i]
		switch {
		case len(s) == 36 && (i == 8 || i == 13 || i == 18 || i == 23):
			if c != '-' {
				return nil, errUUID(s)
			}
			continue
		case n == len(digits):
			return nil, errUUID(s)
		case '0' <= c && c <= '9', 'a' <= c && c <= 'f':
		case 'A' <= c && c <= 'F':
			c += 'a' - 'A'
			canonical = false
		default:
			return nil, errUUID(s)
		}
		digits[n] = c
		n++
	}
	switch {
	case n != len(digits):
		return nil, errUUID(s)
	case canonical:
		return s, nil
	}
	return dashed(digits), nil
}

func errUUID(s string) error { return fmt.Errorf("%s is not a UUID", quote(s)) }

func dashed(digits [32]byte) string {
	var b [36]byte
	for i, part := range [5][2]int{{0, 8}, {8, 12}, {12, 16}, {16, 20}, {20, 32}} {
		if i > 0 {
			b[part[0]+i-1] = '-'
		}
		copy(b[part[0]+i:], digits[part[0]:part[1]])
	}
	return string(b[:])
}

func uuidOf(raw [16]byte) string {
	var digits [32]byte
	hex.Encode(digits[:], raw[:])
	return dashed(digits)
}
