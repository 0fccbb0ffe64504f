package value

import (
	"bytes"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"
)

// Equal compares two results of Convert or FromDB for one column. Nil equals only nil.
func Equal(a, b any) bool {
	switch x := a.(type) {
	case nil:
		return b == nil
	case []byte:
		y, ok := b.([]byte)
		return ok && bytes.Equal(x, y)
	case time.Time:
		y, ok := b.(time.Time)
		return ok && x.Equal(y)
	case string:
		y, ok := b.(string)
		return ok && x == y
	case int64:
		y, ok := b.(int64)
		return ok && x == y
	case uint64:
		y, ok := b.(uint64)
		return ok && x == y
	case float64:
		y, ok := b.(float64)
		return ok && x == y
	case bool:
		y, ok := b.(bool)
		return ok && x == y
	}
	return false
}

const (
	showMost  = 60 // bytes of a value that Show shows
	quoteMost = 40 // bytes of a value that a reason starts with
)

// Show returns a value for people to read, on one line without control characters: texts
// and bytes quoted with escapes and cut where they are long, nil as NULL. It can't be read
// back.
func Show(v any) string {
	switch v := v.(type) {
	case nil:
		return "NULL"
	case string:
		return quoteCut(v, showMost)
	case []byte:
		return quoteBytes(v)
	case time.Time:
		return v.Format(time.RFC3339Nano)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	case int64, uint64, bool:
		return fmt.Sprint(v)
	}
	return quoteCut(fmt.Sprint(v), showMost)
}

// quote shows a value in a reason.
func quote(s string) string { return quoteCut(s, quoteMost) }

// quoteCut cuts between two characters, if there are any.
func quoteCut(s string, most int) string {
	if len(s) <= most {
		return strconv.Quote(s)
	}
	end := most
	for end > most-utf8.UTFMax && !utf8.RuneStart(s[end]) {
		end--
	}
	return strconv.Quote(s[:end]) + "..."
}

// quoteBytes escapes all that is not ASCII: bytes are no text.
func quoteBytes(b []byte) string {
	shown := b[:min(len(b), showMost)]
	out := []byte{'"'}
	for _, c := range shown {
		switch {
		case c == '"' || c == '\\':
			out = append(out, '\\', c)
		case c >= ' ' && c <= '~':
			out = append(out, c)
		default:
			out = fmt.Appendf(out, `\x%02x`, c)
		}
	}
	out = append(out, '"')
	if len(b) > len(shown) {
		out = append(out, "..."...)
	}
	return string(out)
}
