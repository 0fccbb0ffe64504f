package flush

import (
	"fmt"
	"slices"

	"github.com/lockkeeper/lockkeeper/flush/internal/value"
)

// A Type is what a column holds. Values are checked and converted before the
// database sees them, the same for every database; nothing passes through a float
// but a float64.
type Type string

// The types. Decimal returns more.
const (
	Text      Type = "text"      // UTF-8 without NUL
	Bytes     Type = "bytes"     // anything
	Int64     Type = "int64"     // decimal digits with an optional minus
	Uint64    Type = "uint64"    // decimal digits up to 2^64-1
	Float64   Type = "float64"   // a finite decimal number
	Bool      Type = "bool"      // 1 0 true false t f yes no, in any case
	Timestamp Type = "timestamp" // RFC 3339; also timestamp(s), (ms), (us), (ns): since 1970, in that unit. Kept in UTC to the microsecond
	Date      Type = "date"      // a day, as 2006-01-02
	UUID      Type = "uuid"      // kept in lower case with dashes
	JSON      Type = "json"      // kept as the text that it is, after a check
)

// Decimal returns the type of exact numbers with so many digits in all, at most 38,
// and so many of them after the point.
func Decimal(precision, scale int) Type {
	return Type(fmt.Sprintf("decimal(%d,%d)", precision, scale))
}

// Check returns why a value can't be one of this type, or nil.
func (t Type) Check(s string) error {
	parsed, err := value.Parse(string(t))
	if err != nil {
		return err
	}
	_, err = parsed.Convert(s, value.Rules{})
	return err
}

// A Column is one column of a table and where its value comes from.
type Column struct {
	Name string

	// Field is what the value is taken from: a field of the hash or of the stream's
	// entry, a part of the key, the path to a value in a JSON text such as
	// "address.city" (a single point is the whole text), or, for other sources, one
	// of the words that Source names. "" is the column's Name.
	Field string

	Type Type

	// Required parks a row that has no value for the column, or NULL.
	Required bool

	// Default is the value of a field that is not there. nil is NULL.
	Default *string

	// Nulls are texts that mean NULL, such as "null" or "\\N".
	Nulls []string

	// Empty says what an empty text is. The zero value takes it as it is: a text of
	// no length, which is no value of any type but Text and Bytes.
	Empty Empty

	// Round rounds a decimal that has more digits after the point than the column,
	// half away from zero. Otherwise the row is parked.
	Round bool

	// Replace puts U+FFFD in the place of what is not UTF-8, and of NUL, in a Text.
	// Otherwise the row is parked. Bytes take anything.
	Replace bool
}

// An Empty is what to do with an empty text.
type Empty string

// The policies for empty texts.
const (
	EmptyValue Empty = "value" // take it as it is; the zero value does the same
	EmptyNull  Empty = "null"  // it is NULL
	EmptyPark  Empty = "park"  // park the row
)

// check returns what is wrong with a column for itself.
func (c *Column) check() []error {
	errs := []error{checkName("column", c.Name)}
	t, err := value.Parse(string(c.Type))
	if err != nil {
		return append(errs, fmt.Errorf("column %q: %w", c.Name, err))
	}
	rules := value.Rules{Round: c.Round, Replace: c.Replace}
	if c.Round && t.Kind != value.Decimal {
		errs = append(errs, fmt.Errorf("column %q: only a decimal can be rounded", c.Name))
	}
	if c.Replace && t.Kind != value.Text {
		errs = append(errs, fmt.Errorf("column %q: only in a text can bytes be replaced", c.Name))
	}
	switch c.Empty {
	case "", EmptyValue, EmptyNull, EmptyPark:
	default:
		errs = append(errs, fmt.Errorf("column %q: unknown policy %q for empty texts: value, null or park", c.Name, c.Empty))
	}
	if c.Default == nil {
		return errs
	}
	if _, err := t.Convert(*c.Default, rules); err != nil {
		errs = append(errs, fmt.Errorf("column %q: default %w", c.Name, err))
	}
	if c.Required {
		errs = append(errs, fmt.Errorf("column %q: with a default nothing is required", c.Name))
	}
	return errs
}

// plainKey reports whether a column has none of the settings that make no sense in a
// key.
func (c *Column) plainKey() bool {
	return c.Default == nil && c.Nulls == nil && (c.Empty == "" || c.Empty == EmptyValue) && !c.Round && !c.Replace
}

// A column is a Column with its parsed type.
type column struct {
	*Column
	source string
	lack   string // what is said when it is not there
	kind   value.Type
	rules  value.Rules
}

func newColumn(c *Column, source string) (column, error) {
	kind, err := value.Parse(string(c.Type))
	return column{c, source, "there is no", kind, value.Rules{Round: c.Round, Replace: c.Replace}}, err
}

// convert returns the value of a field, or why it can't be one.
func (c *column) convert(text string) (any, error) {
	switch {
	case slices.Contains(c.Nulls, text), text == "" && c.Empty == EmptyNull:
		return c.null("it is NULL, and required")
	case text == "" && c.Empty == EmptyPark:
		return nil, fmt.Errorf("it is empty")
	}
	return c.kind.Convert(text, c.rules)
}

// absent returns the value of a field that is not there.
func (c *column) absent() (any, error) {
	if c.Default != nil {
		return c.kind.Convert(*c.Default, c.rules)
	}
	return c.null(fmt.Sprintf("%s %q", c.lack, c.source))
}

func (c *column) null(why string) (any, error) {
	if c.Required {
		return nil, fmt.Errorf("%s", why)
	}
	return nil, nil
}
