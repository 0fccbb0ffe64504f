package flush

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/flush/internal/dialect"
	"github.com/lockkeeper/lockkeeper/flush/internal/value"
)

// A Mapping says which keys become rows of which table, and how.
type Mapping struct {
	// Keys is the pattern of the keys: literal text with parts in braces, such as
	// "player:{id}:stats:{day}". A part takes one byte or more, up to the first
	// occurrence of the text that follows it, and no colon, so that "player:{id}"
	// leaves "player:7:stats" to another mapping; {id*} takes colons too. The parts
	// are the row's primary key. The first mapping that fits a key has it.
	Keys string

	// Source is what the keys are on Redis. The zero value is Hashes.
	Source Source

	// Table is the table's name; letters, digits and underscores.
	Table string

	// Key has a column for each part of the pattern, of a type that can be written in
	// one way only: Text, Bytes, Int64, Uint64, Date or UUID. An integer has no leading
	// zeros, a UUID is in lower case; a key that is written in another way is parked.
	// A column with an empty Field takes the part of its own name.
	Key []Column

	// Columns are what is set from the value.
	Columns []Column

	// Missing says what to do with a key that was changed and is not there: it has
	// expired, was evicted, or was deleted without a mark. The zero value is Keep.
	Missing Missing

	// Limit is how many elements a set, list or sorted set may have; one with more is
	// parked, since all its rows are written in one transaction. 0 is 10,000.
	Limit int

	// Scan is for applications that do not mark what they change: how often the active
	// process compares all keys of the mapping with what they were, and marks those
	// that differ. 0 is never. Redis keeps a digest of each key for that.
	Scan time.Duration

	// ScanDeletes is the largest share of the keys, from 0 to 1, whose rows one scan may
	// delete because the keys are not there any more. If more have gone, none is
	// deleted: a Redis that was emptied does not empty the database. 0 deletes none.
	ScanDeletes float64

	// Create makes the table when it is not there.
	Create bool
}

// A Source is what keys are on Redis, and how they become rows.
type Source string

// The sources. Of a set, a list and a sorted set each element is a row, and all rows of
// a key are replaced in one transaction. The fields that their columns can take are
// named here; the first of them is the last column of the primary key.
const (
	Hashes     Source = "hash"   // one row: columns take fields
	Strings    Source = "string" // one row: columns take "value"
	Documents  Source = "json"   // strings that are JSON, one row: columns take paths
	Sets       Source = "set"    // columns take "member"
	Lists      Source = "list"   // columns take "position", from 0, and "value"
	SortedSets Source = "zset"   // columns take "member" and "score"
	Streams    Source = "stream" // each entry is a row that stays: columns take "id" and fields
)

// A shape is what there is to know about a source.
type shape struct {
	kind    string   // the type on Redis
	element string   // the field that completes the primary key; "" is one row a key
	fields  []string // all that columns can take; nil is anything
	lack    string   // what is said of something else that is not there
}

var shapes = map[Source]shape{
	Hashes:     {kind: "hash", lack: "the hash has no field"},
	Strings:    {kind: "string", fields: []string{"value"}},
	Documents:  {kind: "string", lack: "the text has no value at"},
	Sets:       {kind: "set", element: "member", fields: []string{"member"}},
	Lists:      {kind: "list", element: "position", fields: []string{"position", "value"}},
	SortedSets: {kind: "zset", element: "member", fields: []string{"member", "score"}},
	Streams:    {kind: "stream", element: "id", lack: "the entry has no field"},
}

// source returns the mapping's source, without the zero value.
func (m *Mapping) source() Source {
	if m.Source == "" {
		return Hashes
	}
	return m.Source
}

func (m *Mapping) limit() int {
	if m.Limit == 0 {
		return defaultLimit
	}
	return m.Limit
}

const (
	defaultLimit = 10_000
	mostLimit    = 1_000_000
)

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
const VersionColumn = dialect.VersionColumn

// Check returns everything that is wrong with the mapping, joined, or nil.
func (m *Mapping) Check() error {
	errs := []error{checkName("table", m.Table)}
	if table := strings.ToLower(m.Table); table == "lockkeeper_fence" || strings.HasPrefix(table, "sqlite_") {
		errs = append(errs, fmt.Errorf("table name %q is reserved", m.Table))
	}
	p, err := parsePattern(m.Keys)
	errs = append(errs, err)
	if err == nil {
		errs = append(errs, m.checkKey(p.parts)...)
	}
	errs = append(errs, m.checkColumns()...)
	switch m.Missing {
	case "", Keep, Park, Delete:
	default:
		errs = append(errs, fmt.Errorf("unknown policy %q for missing keys: keep, park or delete", m.Missing))
	}
	errs = append(errs, m.checkNumbers()...)
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("flush: mapping of %q: %w", m.Keys, err)
	}
	return nil
}

// Covers reports whether every key that fits other fits m as well, so that other, after
// m in the list, would never have one. It sees what is plain to see: the same pattern
// with other names of parts, or with {id*} for {id}.
func (m *Mapping) Covers(other *Mapping) bool {
	a, err := parsePattern(m.Keys)
	if err != nil {
		return false
	}
	b, err := parsePattern(other.Keys)
	return err == nil && a.covers(b)
}

func (m *Mapping) checkNumbers() []error {
	var errs []error
	if m.Limit < 0 || m.Limit > mostLimit {
		errs = append(errs, fmt.Errorf("limit of %d elements: 1 to %d", m.Limit, mostLimit))
	}
	if m.Scan < 0 || m.Scan > 0 && m.Scan < time.Second {
		errs = append(errs, fmt.Errorf("scan every %s: at least 1s", m.Scan))
	}
	if !(m.ScanDeletes >= 0 && m.ScanDeletes <= 1) {
		errs = append(errs, fmt.Errorf("scan deletes a share of %v: 0 to 1", m.ScanDeletes))
	}
	if m.ScanDeletes > 0 && m.Scan == 0 {
		errs = append(errs, errors.New("scan deletes need a scan"))
	}
	return errs
}

// checkColumns looks at the names and types of all columns, and at what they take.
func (m *Mapping) checkColumns() []error {
	var errs []error
	if len(m.Columns) == 0 {
		errs = append(errs, errors.New("no columns"))
	}
	names := make(map[string]bool)
	for _, c := range append(append([]Column(nil), m.Key...), m.Columns...) {
		errs = append(errs, c.check()...)
		if strings.EqualFold(c.Name, VersionColumn) {
			errs = append(errs, fmt.Errorf("column %q is reserved: every table has it besides", c.Name))
		}
		if names[strings.ToLower(c.Name)] {
			errs = append(errs, fmt.Errorf("column %q is there twice", c.Name))
		}
		names[strings.ToLower(c.Name)] = true
	}
	shape, known := shapes[m.source()]
	if !known {
		return append(errs, fmt.Errorf("unknown source %q: hash, string, json, set, list, zset or stream", m.Source))
	}
	elements := 0
	for i := range m.Columns {
		c := &m.Columns[i]
		field := m.field(c)
		if shape.fields != nil && !slices.Contains(shape.fields, field) {
			errs = append(errs, fmt.Errorf("column %q: a %s has no %q: %s", c.Name, m.source(), field, strings.Join(shape.fields, " or ")))
		}
		if shape.element != "" && field == shape.element {
			elements++
			errs = append(errs, checkKeyColumn(c)...)
			if want := elementTypes[m.source()]; want != "" && c.Type != want {
				errs = append(errs, fmt.Errorf("column %q: the %s of a %s is of type %s", c.Name, field, m.source(), want))
			}
		}
	}
	if shape.element != "" && elements != 1 && len(m.Columns) > 0 {
		errs = append(errs, fmt.Errorf("columns: exactly one takes the field %q of a %s: it tells the rows of a key apart", shape.element, m.source()))
	}
	return errs
}

// elementTypes are the types of what tells the rows of a key apart, where there is no
// choice.
var elementTypes = map[Source]Type{Lists: Int64, Streams: Text}

// field returns what a column of the value takes.
func (m *Mapping) field(c *Column) string {
	switch {
	case m.source() == Strings && c.Field == "":
		return "value"
	case c.Field != "":
		return c.Field
	}
	return c.Name
}

// part returns the part of the pattern that a column of the key takes.
func part(c *Column) string {
	if c.Field != "" {
		return c.Field
	}
	return c.Name
}

// checkKey wants the parts of the pattern and the key's columns to be the same.
func (m *Mapping) checkKey(parts []string) []error {
	var errs []error
	used := make(map[string]bool)
	for i := range m.Key {
		c := &m.Key[i]
		used[part(c)] = true
		if !slices.Contains(parts, part(c)) {
			errs = append(errs, fmt.Errorf("key column %q: the pattern has no part {%s}", c.Name, part(c)))
		}
		errs = append(errs, checkKeyColumn(c)...)
	}
	for _, p := range parts {
		if !used[p] {
			errs = append(errs, fmt.Errorf("part {%s} has no key column: two keys could become one row", p))
		}
	}
	return errs
}

func checkKeyColumn(c *Column) []error {
	var errs []error
	if t, err := value.Parse(string(c.Type)); err == nil && !t.Kind.InKey() {
		errs = append(errs, fmt.Errorf("key column %q: %s can be written in several ways; a key is text, bytes, int64, uint64, date or uuid", c.Name, c.Type))
	}
	if !c.plainKey() {
		errs = append(errs, fmt.Errorf("key column %q: a key has no default, no nulls, no rounding and no replacing", c.Name))
	}
	return errs
}

var plainName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}$`)

func checkName(what, name string) error {
	if !plainName.MatchString(name) {
		return fmt.Errorf("%s name %q: letters, digits and underscores, at most 63, not a digit first", what, name)
	}
	return nil
}
