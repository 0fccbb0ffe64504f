package value

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxNesting is far below where a database's own reader gives up or runs out of stack.
const maxNesting = 500

func toJSON(s string) (any, error) {
	if !utf8.ValidString(s) {
		return nil, fmt.Errorf("%s is not UTF-8", quote(s))
	}
	// The nesting comes first: json.Valid also gives up on it, and could not say so.
	if tooDeep(s) {
		return nil, fmt.Errorf("%s is JSON nested more than %d deep", quote(s), maxNesting)
	}
	if !json.Valid([]byte(s)) {
		return nil, fmt.Errorf("%s is not JSON", quote(s))
	}
	if what := badEscape(s); what != "" {
		return nil, fmt.Errorf("%s has %s in JSON", quote(s), what)
	}
	return s, nil
}

// tooDeep counts the brackets outside of strings. It also takes what is not JSON.
func tooDeep(s string) bool {
	depth, inside := 0, false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case inside && c == '\\':
			i++ // also over a quote
		case c == '"':
			inside = !inside
		case inside:
		case c == '[' || c == '{':
			depth++
			if depth > maxNesting {
				return true
			}
		case c == ']' || c == '}':
			depth--
		}
	}
	return false
}

// badEscape takes valid JSON, which has backslashes in strings only, and four hexadecimal
// digits after each \u. It returns what PostgreSQL would not take, or nothing.
func badEscape(s string) string {
	const half = "half of a surrogate pair"
	for {
		i := strings.IndexByte(s, '\\')
		if i < 0 {
			return ""
		}
		s = s[i:]
		unit, ok := escapedUnit(s)
		if !ok {
			s = s[2:]
			continue
		}
		s = s[6:]
		switch {
		case unit == 0:
			return `the escape \u0000`
		case unit >= 0xDC00 && unit <= 0xDFFF:
			return half
		case unit >= 0xD800 && unit <= 0xDBFF:
			low, ok := escapedUnit(s)
			if !ok || low < 0xDC00 || low > 0xDFFF {
				return half
			}
			s = s[6:]
		}
	}
}

// escapedUnit returns the UTF-16 unit of the \u escape that s starts with.
func escapedUnit(s string) (uint64, bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	unit, err := strconv.ParseUint(s[2:6], 16, 16)
	return unit, err == nil
}
