package value

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// FromDB takes what a driver of database/sql gave for the column, and returns it as
// Convert would have given it, so that [Equal] compares them; nil stays nil. It reads what
// the drivers of all the databases give, text and binary, and needs not be told which:
//
//   - text as a string or as bytes; a text column can also be whole numbers;
//   - a bool as 0 and 1, and as the byte of a BIT(1);
//   - a decimal with another number of digits after the point, if it is the same number;
//     a decimal that the database holds as a float, if 15 digits say all of it;
//   - a timestamp without a zone as UTC; a time.Time is the moment that it is;
//   - a UUID as 16 bytes.
//
// An error says that the database holds what Convert never gives for this type. Text and
// Bytes are not checked: what is read is returned. A []byte is kept, not copied.
func (t Type) FromDB(v any) (any, error) {
	if err := t.Check(); err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case nil:
		return nil, nil
	case string:
		return t.fromText(v)
	case []byte:
		return t.fromBytes(v)
	case [16]byte:
		return t.fromBytes(v[:])
	case int64:
		return t.fromInt(v)
	case uint64:
		return t.fromUint(v)
	case float64:
		return t.fromFloat(v)
	case float32:
		return t.fromFloat(float64(v))
	case bool:
		if t.Kind == Bool {
			return v, nil
		}
	case time.Time:
		return t.fromTime(v)
	}
	return nil, errForeign(t, v)
}

func errForeign(t Type, v any) error {
	return fmt.Errorf("%s is not a %s: the database holds it as %T", Show(v), t, v)
}

func (t Type) fromText(s string) (any, error) {
	switch t.Kind {
	case Text:
		return s, nil
	case Timestamp:
		return toMoment(s, true)
	}
	return t.Convert(s, Rules{})
}

func (t Type) fromBytes(b []byte) (any, error) {
	switch {
	case t.Kind == Bytes && b == nil:
		return []byte{}, nil
	case t.Kind == Bytes:
		return b, nil
	case t.Kind == UUID && len(b) == 16:
		return uuidOf([16]byte(b)), nil
	case t.Kind == Bool && len(b) == 1 && b[0] <= 1:
		return b[0] == 1, nil
	}
	return t.fromText(string(b))
}

func (t Type) fromInt(n int64) (any, error) {
	switch t.Kind {
	case Int64:
		return n, nil
	case Float64:
		if f := float64(n); int64(f) == n && f < math.MaxInt64 {
			return f, nil
		}
	case Uint64, Decimal, Bool, Text:
		return t.fromText(strconv.FormatInt(n, 10))
	}
	return nil, errForeign(t, n)
}

func (t Type) fromUint(n uint64) (any, error) {
	if n <= math.MaxInt64 {
		return t.fromInt(int64(n))
	}
	switch t.Kind {
	case Uint64:
		return n, nil
	case Decimal, Text:
		return t.fromText(strconv.FormatUint(n, 10))
	}
	return nil, errForeign(t, n)
}

// fromFloat takes a decimal only if the way through the float has lost nothing for sure,
// which is so up to 15 digits.
func (t Type) fromFloat(f float64) (any, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, errForeign(t, f)
	}
	switch t.Kind {
	case Float64:
		return f + 0, nil
	case Decimal:
		short := strconv.FormatFloat(f, 'e', -1, 64)
		var buf [40]byte
		if n, err := parseNumber(short, buf[:0]); err == nil && len(n.digits) <= 15 {
			return t.toDecimal(short, false)
		}
	}
	return nil, errForeign(t, f)
}

// fromTime takes the date from the time's own zone: the driver has put it there.
func (t Type) fromTime(at time.Time) (any, error) {
	switch t.Kind {
	case Timestamp:
		return moment(at.Format(time.RFC3339Nano), at.Unix(), int64(at.Nanosecond()))
	case Date:
		midnight := at.Hour() == 0 && at.Minute() == 0 && at.Second() == 0 && at.Nanosecond() == 0
		if year := at.Year(); midnight && year >= 1 && year <= 9999 {
			return at.Format(time.DateOnly), nil
		}
	}
	return nil, errForeign(t, at)
}
