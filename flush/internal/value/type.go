package value

import (
	"fmt"
	"strconv"
	"strings"
)

// A Kind is what a value is, without its size.
type Kind int

// The kinds. The zero Kind is none of them.
const (
	Text      Kind = iota + 1 // UTF-8 without NUL
	Bytes                     // anything
	Int64                     // decimal digits with an optional minus
	Uint64                    // decimal digits
	Decimal                   // an exact number with a fixed number of digits after the point
	Float64                   // a finite number
	Bool                      // 1 0 true false t f yes no, in any case of letters
	Timestamp                 // a moment, to the microsecond
	Date                      // a day of the calendar, such as 2006-01-02
	UUID                      // 32 hexadecimal digits, with or without the dashes
	JSON                      // kept as the text that it is, after a check
)

// A Unit is how a Timestamp is written in Redis.
type Unit int

// The units. All but the first count from 1970-01-01T00:00:00Z and can be negative.
const (
	RFC3339 Unit = iota
	Seconds
	Millis
	Micros
	Nanos
)

// A Type is what a column holds. Types can be compared. The zero Type is invalid: its
// methods return errors.
type Type struct {
	Kind      Kind
	Precision int  // of a Decimal: how many digits in all
	Scale     int  // of a Decimal: how many of them after the point
	Unit      Unit // of a Timestamp
}

// What all the databases hold. MySQL takes 30 digits after the point at most, where
// MariaDB takes 38; more than 38 digits in all would be fine with these, and few other
// programs read them.
const (
	MaxPrecision = 38
	MaxScale     = 30
)

// Parse reads the name of a type:
//
//	text bytes int64 uint64 float64 bool date uuid json
//	decimal(p,s)           p digits in all, s of them after the point
//	timestamp              RFC 3339
//	timestamp(s|ms|us|ns)  since 1970
//
// Names are in lower case. Only inside the parentheses there can be spaces.
func Parse(text string) (Type, error) {
	name, inside, open := strings.Cut(text, "(")
	inside, closed := strings.CutSuffix(inside, ")")
	k, known := kindNamed(name)
	if !known || open != closed {
		return Type{}, fmt.Errorf("unknown type %s: one of %s", quote(text), Names())
	}
	t := Type{Kind: k}
	switch {
	case k == Decimal:
		return parseDecimal(text, inside)
	case k == Timestamp && open:
		t.Unit = unitNamed(strings.Trim(inside, " "))
		if t.Unit == RFC3339 {
			return Type{}, fmt.Errorf("type %s: timestamp(s), timestamp(ms), timestamp(us) or timestamp(ns), "+
				"or timestamp alone for RFC 3339", quote(text))
		}
	case open:
		return Type{}, fmt.Errorf("type %s: %s takes nothing in parentheses", quote(text), name)
	}
	return t, nil
}

func parseDecimal(text, inside string) (Type, error) {
	p, s, _ := strings.Cut(inside, ",")
	precision, err1 := strconv.ParseUint(strings.Trim(p, " "), 10, 8)
	scale, err2 := strconv.ParseUint(strings.Trim(s, " "), 10, 8)
	t := Type{Kind: Decimal, Precision: int(precision), Scale: int(scale)}
	if err1 != nil || err2 != nil || !t.decimalFits() {
		return Type{}, fmt.Errorf("type %s: decimal(p,s) with 1 to %d digits in all (p), and 0 to %d of them after the point (s)",
			quote(text), MaxPrecision, MaxScale)
	}
	return t, nil
}

// decimalFits reports whether precision and scale are within what all databases hold.
func (t Type) decimalFits() bool {
	return t.Precision >= 1 && t.Precision <= MaxPrecision &&
		t.Scale >= 0 && t.Scale <= min(t.Precision, MaxScale)
}

// Check returns why this is no type that Parse gives, or nil.
func (t Type) Check() error {
	plain := Type{Kind: t.Kind}
	switch t.Kind {
	case Decimal:
		plain.Precision, plain.Scale = t.Precision, t.Scale
		if !t.decimalFits() {
			return errInvalid(t)
		}
	case Timestamp:
		plain.Unit = t.Unit
		if t.Unit < RFC3339 || t.Unit > Nanos {
			return errInvalid(t)
		}
	}
	if t.Kind < Text || t.Kind > JSON || t != plain {
		return errInvalid(t)
	}
	return nil
}

// Names lists the types, for messages.
func Names() string {
	return "text, bytes, int64, uint64, decimal(p,s), float64, bool, timestamp, timestamp(s|ms|us|ns), date, uuid, json"
}

// String returns the name that Parse reads, and for an invalid type a text that it does
// not.
func (t Type) String() string {
	switch {
	case t.Check() != nil:
		return fmt.Sprintf("invalid type {%d %d %d %d}", t.Kind, t.Precision, t.Scale, t.Unit)
	case t.Kind == Decimal:
		return fmt.Sprintf("decimal(%d,%d)", t.Precision, t.Scale)
	case t.Kind == Timestamp && t.Unit != RFC3339:
		return "timestamp(" + t.Unit.String() + ")"
	}
	return t.Kind.String()
}

// String returns the kind's name, such as "decimal".
func (k Kind) String() string {
	switch k {
	case Text:
		return "text"
	case Bytes:
		return "bytes"
	case Int64:
		return "int64"
	case Uint64:
		return "uint64"
	case Decimal:
		return "decimal"
	case Float64:
		return "float64"
	case Bool:
		return "bool"
	case Timestamp:
		return "timestamp"
	case Date:
		return "date"
	case UUID:
		return "uuid"
	case JSON:
		return "json"
	}
	return fmt.Sprintf("invalid kind %d", int(k))
}

func kindNamed(name string) (Kind, bool) {
	for k := Text; k <= JSON; k++ {
		if k.String() == name {
			return k, true
		}
	}
	return 0, false
}

// String returns the unit as it is written in a type's name, such as "ms".
func (u Unit) String() string {
	switch u {
	case RFC3339:
		return "RFC 3339"
	case Seconds:
		return "s"
	case Millis:
		return "ms"
	case Micros:
		return "us"
	case Nanos:
		return "ns"
	}
	return fmt.Sprintf("invalid unit %d", int(u))
}

// unitNamed returns RFC3339 for what is no unit in parentheses.
func unitNamed(name string) Unit {
	for u := Seconds; u <= Nanos; u++ {
		if u.String() == name {
			return u
		}
	}
	return RFC3339
}

func errInvalid(t Type) error {
	return fmt.Errorf("not a valid type: {%d %d %d %d}", t.Kind, t.Precision, t.Scale, t.Unit)
}
