package flush

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
)

// A batch is what one step of a pass has read: rows to write, marks to park, and
// marks to take away without writing.
type batch struct {
	read  string // server time in microseconds when the marks were read
	rows  []Row
	parks []parked
	skips []mark // keys that are gone, and that the mapping keeps
}

// A mark is a changed key with its version and U or D, as it was read; the version
// is "" for a key that was marked by hand, which counts as a new value.
type mark struct{ key, version string }

func (m mark) isDelete() bool {
	return m.version != "" && m.version[len(m.version)-1:] == opDelete
}

type parked struct {
	mark
	reason Parked
}

// A Parked is why a key is not flushed, as it is kept on Redis.
type Parked struct {
	Column  string `json:"column,omitempty"`
	Reason  string `json:"reason"`
	Version string `json:"version"`
}

func (p parked) json() string {
	text, err := json.Marshal(p.reason)
	if err != nil {
		return `{"reason":"unknown"}` // strings can't fail
	}
	return string(text)
}

func park(m mark, column, format string, args ...any) parked {
	return parked{m, Parked{Column: column, Reason: fmt.Sprintf(format, args...), Version: m.version}}
}

// A route is a mapping with its parsed pattern.
type route struct {
	*Mapping
	pattern *pattern
	fields  []string // of the hash, in the order of Columns
	places  []int    // for each key column the part it takes
}

func newRoute(m *Mapping) (route, error) {
	if err := m.Check(); err != nil {
		return route{}, err
	}
	p, err := parsePattern(m.Keys)
	if err != nil {
		return route{}, err
	}
	r := route{Mapping: m, pattern: p}
	for _, c := range m.Columns {
		r.fields = append(r.fields, c.source())
	}
	for _, c := range m.Key {
		r.places = append(r.places, slices.Index(p.parts, c.source()))
	}
	return r, nil
}

// key converts the parts of a key to the primary key. A part that could be written in
// another way is refused: player:7 and player:07 would be one row, and the delete of
// the one would delete the other's.
func (r *route) key(m mark, parts []string) ([]any, *parked) {
	key := make([]any, len(r.Key))
	for i, c := range r.Key {
		v, err := c.Type.convert(parts[r.places[i]])
		if err != nil {
			p := park(m, c.Name, "%s", err)
			return nil, &p
		}
		if n, isInt := v.(int64); isInt && strconv.FormatInt(n, 10) != parts[r.places[i]] {
			p := park(m, c.Name, "%s in a key has to be written %d", quote(parts[r.places[i]]), n)
			return nil, &p
		}
		key[i] = v
	}
	return key, nil
}

// values converts what the hash has, in the order of the columns.
func (r *route) values(m mark, fields []any) ([]any, *parked) {
	values := make([]any, len(r.Columns))
	for i, c := range r.Columns {
		text, there := fields[i].(string)
		if !there {
			if c.Required {
				p := park(m, c.Name, "the hash has no field %q", c.source())
				return nil, &p
			}
			continue
		}
		v, err := c.Type.convert(text)
		if err != nil {
			p := park(m, c.Name, "%s", err)
			return nil, &p
		}
		values[i] = v
	}
	return values, nil
}

// order sorts rows by table and primary key, so that all transactions lock in one
// order. Each primary key is there once, since a row has one key that can be written
// in one way only, see route.key.
func order(rows []Row, routes []route) {
	rank := make(map[*Mapping]int, len(routes))
	for i := range routes {
		rank[routes[i].Mapping] = i
	}
	slices.SortFunc(rows, func(a, b Row) int {
		if c := cmp.Compare(rank[a.Mapping], rank[b.Mapping]); c != 0 {
			return c
		}
		return compareKeys(a.Key, b.Key)
	})
}

func compareKeys(a, b []any) int {
	for i := range a {
		if c := compareValues(a[i], b[i]); c != 0 {
			return c
		}
	}
	return 0
}

// compareValues compares two values of one key column; see keyTypes.
func compareValues(a, b any) int {
	switch a := a.(type) {
	case int64:
		return cmp.Compare(a, b.(int64))
	case string:
		return cmp.Compare(a, b.(string))
	case []byte:
		return bytes.Compare(a, b.([]byte))
	}
	panic(fmt.Sprintf("flush: a key of type %T", a))
}
