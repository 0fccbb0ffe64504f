package flush

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// A Mapping says which keys become rows of which table, and how. The keys are
// hashes.
type Mapping struct {
	// Keys is the pattern of the keys: literal text with parts in braces, such as
	// "player:{id}:stats:{day}". A part takes one byte or more, up to the first
	// occurrence of the text that follows it, and no colon, so that "player:{id}"
	// leaves "player:7:stats" to another mapping; {id*} takes colons too. The parts
	// are the row's primary key. The first mapping that fits a key has it.
	Keys string

	// Table is the table's name; letters, digits and underscores.
	Table string

	// Key has a column for each part of the pattern, of type Text, Bytes or Int64; an
	// integer has to be written in the one usual way, without leading zeros. A column with an empty Field
	// takes the part of its own name.
	Key []Column

	// Columns are what is set from the hash's fields. A column with an empty Field
	// takes the field of its own name.
	Columns []Column

	// Missing says what to do with a key that was changed and is not there: it has
	// expired, was evicted, or was deleted without a mark. The zero value is Keep.
	Missing Missing

	// Create makes the table when it is not there.
	Create bool
}

// A Column is one column of a table and where its value comes from.
type Column struct {
	Name     string
	Field    string // field of the hash, or part of the key; "" is Name
	Type     Type
	Required bool // a row without the field is parked; otherwise it is NULL
}

func (c *Column) source() string {
	if c.Field != "" {
		return c.Field
	}
	return c.Name
}

// A Missing is what to do with a changed key that is not there any more.
type Missing string

// The policies. Absence is not a delete: Delete has to be asked for.
const (
	Keep   Missing = "keep"   // leave the row as it is
	Park   Missing = "park"   // keep the row, and park the key
	Delete Missing = "delete" // delete the row
)

// VersionColumn is the column that every mapped table has besides: which batch of
// which epoch has written the row last.
const VersionColumn = "lockkeeper_version"

// Check returns everything that is wrong with the mapping, joined, or nil.
func (m *Mapping) Check() error {
	errs := []error{checkName("table", m.Table)}
	if table := strings.ToLower(m.Table); table == "lockkeeper_fence" || strings.HasPrefix(table, "sqlite_") {
		errs = append(errs, fmt.Errorf("table name %q is reserved", m.Table))
	}
	p, err := parsePattern(m.Keys)
	errs = append(errs, err)
	if err == nil {
		errs = append(errs, m.checkKey(p.parts))
	}
	if len(m.Columns) == 0 {
		errs = append(errs, errors.New("no columns"))
	}
	for _, c := range m.Key {
		if c.Type.valid() && !slices.Contains(keyTypes, c.Type) {
			errs = append(errs, fmt.Errorf("key column %q: %s can be written in several ways; a key is text, bytes or int64", c.Name, c.Type))
		}
	}
	names := make(map[string]bool)
	for _, c := range append(append([]Column(nil), m.Key...), m.Columns...) {
		errs = append(errs, checkName("column", c.Name))
		if strings.EqualFold(c.Name, VersionColumn) {
			errs = append(errs, fmt.Errorf("column %q is reserved: every table has it besides", c.Name))
		}
		if names[strings.ToLower(c.Name)] {
			errs = append(errs, fmt.Errorf("column %q is there twice", c.Name))
		}
		names[strings.ToLower(c.Name)] = true
		if !c.Type.valid() {
			errs = append(errs, fmt.Errorf("column %q: unknown type %q: one of %s", c.Name, c.Type, typeNames()))
		}
	}
	switch m.Missing {
	case "", Keep, Park, Delete:
	default:
		errs = append(errs, fmt.Errorf("unknown policy %q for missing keys: keep, park or delete", m.Missing))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("flush: mapping of %q: %w", m.Keys, err)
	}
	return nil
}

// checkKey wants the parts of the pattern and the key's columns to be the same.
func (m *Mapping) checkKey(parts []string) error {
	var errs []error
	used := make(map[string]bool)
	for _, c := range m.Key {
		used[c.source()] = true
		found := false
		for _, p := range parts {
			found = found || p == c.source()
		}
		if !found {
			errs = append(errs, fmt.Errorf("key column %q: the pattern has no part {%s}", c.Name, c.source()))
		}
	}
	for _, p := range parts {
		if !used[p] {
			errs = append(errs, fmt.Errorf("part {%s} has no key column: two keys could become one row", p))
		}
	}
	return errors.Join(errs...)
}

// keyTypes are the types that a key column can have.
var keyTypes = []Type{Text, Bytes, Int64}

var plainName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}$`)

func checkName(what, name string) error {
	if !plainName.MatchString(name) {
		return fmt.Errorf("%s name %q: letters, digits and underscores, at most 63, not a digit first", what, name)
	}
	return nil
}

// A pattern is a parsed Mapping.Keys: literal, part, literal, part, ..., literal.
type pattern struct {
	literals []string // one more than parts
	parts    []string
	colons   []bool // whether the part takes colons
}

func parsePattern(text string) (*pattern, error) {
	p := &pattern{}
	seen := make(map[string]bool)
	rest := text
	for {
		literal, after, found := strings.Cut(rest, "{")
		if strings.Contains(literal, "}") {
			return nil, fmt.Errorf("key pattern %q: a } without its {", text)
		}
		p.literals = append(p.literals, literal)
		if !found {
			break
		}
		name, tail, closed := strings.Cut(after, "}")
		name, colons := strings.CutSuffix(name, "*")
		switch {
		case !closed:
			return nil, fmt.Errorf("key pattern %q: a { without its }", text)
		case !plainName.MatchString(name):
			return nil, fmt.Errorf("key pattern %q: part {%s}: letters, digits and underscores", text, name)
		case seen[name]:
			return nil, fmt.Errorf("key pattern %q: part {%s} is there twice", text, name)
		case len(p.parts) > 0 && literal == "":
			return nil, fmt.Errorf("key pattern %q: nothing between two parts", text)
		}
		seen[name] = true
		p.parts = append(p.parts, name)
		p.colons = append(p.colons, colons)
		rest = tail
	}
	if len(p.parts) == 0 {
		return nil, fmt.Errorf("key pattern %q: it needs a part, such as {id}", text)
	}
	return p, nil
}

// match returns the parts of a key, or false if the pattern does not fit.
func (p *pattern) match(key string) ([]string, bool) {
	rest, ok := strings.CutPrefix(key, p.literals[0])
	if !ok {
		return nil, false
	}
	parts := make([]string, len(p.parts))
	for i := range p.parts {
		literal := p.literals[i+1]
		end := len(rest)
		switch {
		case i+1 < len(p.parts):
			end = strings.Index(rest, literal)
		case !strings.HasSuffix(rest, literal):
			return nil, false
		default:
			end -= len(literal)
		}
		if end <= 0 || !p.colons[i] && strings.Contains(rest[:end], ":") {
			return nil, false
		}
		parts[i] = rest[:end]
		rest = rest[end+len(literal):]
	}
	return parts, true
}
