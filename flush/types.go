package flush

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A Type is what a column holds. Values are checked and converted before the
// database sees them, the same for every database.
type Type string

// The types.
const (
	Text    Type = "text"    // UTF-8 without NUL
	Bytes   Type = "bytes"   // anything
	Int64   Type = "int64"   // decimal digits with an optional minus
	Float64 Type = "float64" // a finite decimal number
	Bool    Type = "bool"    // 1 0 true false t f yes no, in any case
	JSON    Type = "json"    // kept as the text that it is, after a check
)

func (t Type) valid() bool { return converters[t] != nil }

func typeNames() string { return "text, bytes, int64, float64, bool, json" }

var converters = map[Type]func(string) (any, error){
	Text:    toText,
	Bytes:   func(s string) (any, error) { return []byte(s), nil },
	Int64:   toInt64,
	Float64: toFloat64,
	Bool:    toBool,
	JSON:    toJSON,
}

// convert returns the value for the database, or why it can't be one.
func (t Type) convert(s string) (any, error) { return converters[t](s) }

func toText(s string) (any, error) {
	switch {
	case !utf8.ValidString(s):
		return nil, fmt.Errorf("%s is not UTF-8", quote(s))
	case strings.IndexByte(s, 0) >= 0:
		return nil, fmt.Errorf("%s has a NUL byte", quote(s))
	}
	return s, nil
}

func toInt64(s string) (any, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || strings.HasPrefix(s, "+") {
		return nil, fmt.Errorf("%s is not a 64-bit integer", quote(s))
	}
	return n, nil
}

func toFloat64(s string) (any, error) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsInf(f, 0) || math.IsNaN(f) || strings.ContainsAny(s, "xXpP_") {
		return nil, fmt.Errorf("%s is not a finite number", quote(s))
	}
	return f, nil
}

func toBool(s string) (any, error) {
	switch strings.ToLower(s) {
	case "1", "true", "t", "yes":
		return true, nil
	case "0", "false", "f", "no":
		return false, nil
	}
	return nil, fmt.Errorf("%s is not a bool", quote(s))
}

func toJSON(s string) (any, error) {
	if _, err := toText(s); err != nil {
		return nil, err
	}
	if !json.Valid([]byte(s)) {
		return nil, fmt.Errorf("%s is not JSON", quote(s))
	}
	return s, nil
}

// quote shows a value in a reason, cut where it is long.
func quote(s string) string {
	const most = 40
	if len(s) > most {
		return strconv.Quote(s[:most]) + "..."
	}
	return strconv.Quote(s)
}

// Check returns why a value can't be one of this type, or nil.
func (t Type) Check(s string) error {
	if !t.valid() {
		return fmt.Errorf("unknown type %q", t)
	}
	_, err := t.convert(s)
	return err
}
