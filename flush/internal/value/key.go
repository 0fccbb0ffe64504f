package value

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"
	"unicode/utf8"
)

// How long a part of a key can be. An InnoDB index holds 3072 bytes, and counts four for
// each character of a text; with 255 a table can have three such columns in its key. MySQL
// needs the length in the column's type, and a longer value would be refused there only.
const (
	MaxKeyChars = 255 // of a Text, in code points
	MaxKeyBytes = 255 // of a Bytes
)

// InKey reports whether a column of this kind can be in a primary key. The other kinds
// have values that are written in many ways, are rounded, or can't be in an index.
func (k Kind) InKey() bool {
	switch k {
	case Text, Bytes, Int64, Uint64, Date, UUID:
		return true
	}
	return false
}

// Key converts a part of a primary key. It takes the one spelling only that Convert's
// value has, and no Rules: with two spellings two Redis keys would become one row. A
// reason says how the value has to be written.
func (t Type) Key(s string) (any, error) {
	switch t.Kind {
	case Text:
		if utf8.RuneCountInString(s) > MaxKeyChars {
			return nil, fmt.Errorf("%s is longer than a key can be, %d characters", quote(s), MaxKeyChars)
		}
	case Bytes:
		if len(s) > MaxKeyBytes {
			return nil, fmt.Errorf("%s is longer than a key can be, %d bytes", quote(s), MaxKeyBytes)
		}
	case Int64, Uint64, Date, UUID:
	default:
		if err := t.Check(); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("%s is a %s, which can't be in a key", quote(s), t)
	}
	v, err := t.Convert(s, Rules{})
	if err != nil {
		if unsigned, err2 := t.Convert(strings.TrimPrefix(s, "+"), Rules{}); err2 == nil && !strings.HasPrefix(s, "+-") {
			return nil, errSpelling(s, unsigned)
		}
		return nil, err
	}
	switch v := v.(type) {
	case int64, uint64:
		if digits := strings.TrimPrefix(s, "-"); digits[0] == '0' && s != "0" {
			return nil, errSpelling(s, v)
		}
	case string:
		if v != s {
			return nil, errSpelling(s, v)
		}
	}
	return v, nil
}

func errSpelling(s string, v any) error {
	return fmt.Errorf(`%s has to be written "%v"`, quote(s), v)
}

// Compare orders the values of one key column. The order is total, also over values of
// different columns: transactions that sort by it lock rows in one order. Texts and bytes
// are in the order of their bytes, which for UTF-8 is that of the code points. A database
// need not sort in the same way: where a Uint64 is held as text it does not. Values that
// can't be in a key are all the same, and come first.
func Compare(a, b any) int {
	switch x := a.(type) {
	case int64:
		if y, ok := b.(int64); ok {
			return cmp.Compare(x, y)
		}
	case uint64:
		if y, ok := b.(uint64); ok {
			return cmp.Compare(x, y)
		}
	case string:
		if y, ok := b.(string); ok {
			return strings.Compare(x, y)
		}
	case []byte:
		if y, ok := b.([]byte); ok {
			return bytes.Compare(x, y)
		}
	}
	return cmp.Compare(rank(a), rank(b))
}

// rank orders values of different Go types.
func rank(v any) int {
	switch v.(type) {
	case int64:
		return 1
	case uint64:
		return 2
	case string:
		return 3
	case []byte:
		return 4
	}
	return 0
}
