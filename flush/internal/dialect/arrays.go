package dialect

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/flush/internal/value"
)

// arrays returns for each column the array of the rows' values, in PostgreSQL's
// notation.
func arrays(columns []Column, rows [][]any) ([]any, error) {
	args := make([]any, len(columns), len(columns)+1)
	var b []byte // used again for each column
	for i := range columns {
		kind := columns[i].Type.Kind
		b = append(b[:0], '{')
		for j, row := range rows {
			if j > 0 {
				b = append(b, ',')
			}
			var err error
			if b, err = appendElement(b, kind, row[i]); err != nil {
				return nil, fmt.Errorf("column %q: %w", columns[i].Name, err)
			}
		}
		b = append(b, '}')
		args[i] = string(b)
	}
	return args, nil
}

// appendElement appends a value as an element of an array. In quotes nothing has a
// meaning but the quote and the backslash.
func appendElement(b []byte, kind value.Kind, v any) ([]byte, error) {
	if v == nil {
		return append(b, "NULL"...), nil
	}
	switch v := v.(type) {
	case Unreadable:
		return appendQuoted(b, fmt.Sprint(v.raw)), nil
	case string:
		if !isText(kind) {
			return b, wrongValue(kind, v)
		}
		return appendQuoted(b, v), nil
	case []byte, time.Time:
		b = append(b, '"')
		if kind == value.Bytes {
			b = append(b, '\\') // before the backslash of \x
		}
		b, err := appendBare(b, kind, v)
		return append(b, '"'), err
	}
	return appendBare(b, kind, v)
}

// isText reports whether values of the kind are strings.
func isText(kind value.Kind) bool {
	switch kind {
	case value.Text, value.Decimal, value.Date, value.UUID, value.JSON:
		return true
	}
	return false
}

func appendQuoted(b []byte, s string) []byte {
	b = append(b, '"')
	for {
		i := strings.IndexAny(s, `"\`)
		if i < 0 {
			return append(append(b, s...), '"')
		}
		b = append(b, s[:i]...)
		b = append(b, '\\', s[i])
		s = s[i+1:]
	}
}

// appendBare appends a value as PostgreSQL reads it on its own.
func appendBare(b []byte, kind value.Kind, v any) ([]byte, error) {
	switch v := v.(type) {
	case string:
		if isText(kind) {
			return append(b, v...), nil
		}
	case Unreadable:
		return fmt.Append(b, v.raw), nil
	case []byte:
		if kind == value.Bytes {
			return hex.AppendEncode(append(b, `\x`...), v), nil
		}
	case int64:
		if kind == value.Int64 {
			return strconv.AppendInt(b, v, 10), nil
		}
	case uint64:
		if kind == value.Uint64 {
			return strconv.AppendUint(b, v, 10), nil
		}
	case float64:
		if kind == value.Float64 {
			return strconv.AppendFloat(b, v, 'g', -1, 64), nil
		}
	case bool:
		if kind == value.Bool {
			return strconv.AppendBool(b, v), nil
		}
	case time.Time:
		if kind == value.Timestamp {
			return v.UTC().AppendFormat(b, "2006-01-02 15:04:05.999999Z"), nil
		}
	}
	return b, wrongValue(kind, v)
}

// wrongValue is for a value that Convert does not give for the kind.
func wrongValue(kind value.Kind, v any) error {
	return fmt.Errorf("%w: %T for %s", errValue, v, kind)
}
