package flush

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
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

// key converts the parts of a key to the primary key.
func (r *route) key(m mark, parts []string) ([]any, *parked) {
	key := make([]any, len(r.Key))
	for i, c := range r.Key {
		v, err := c.Type.convert(parts[r.places[i]])
		if err != nil {
			p := park(m, c.Name, "%s", err)
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

// order sorts rows by table and primary key, so that transactions lock in one order,
// and leaves of two keys that became one row the later change. The other is then
// acknowledged with it.
func order(rows []Row, routes []route) (kept []Row, beaten []mark) {
	rank := make(map[*Mapping]int, len(routes))
	for i := range routes {
		rank[routes[i].Mapping] = i
	}
	slices.SortStableFunc(rows, func(a, b Row) int {
		if c := cmp.Compare(rank[a.Mapping], rank[b.Mapping]); c != 0 {
			return c
		}
		return cmp.Or(
			compareKeys(a.Key, b.Key),
			cmp.Compare(len(a.mark), len(b.mark)), // versions are numbers
			cmp.Compare(a.mark, b.mark),
		)
	})
	for i, row := range rows {
		if i+1 < len(rows) && rows[i+1].Mapping == row.Mapping && compareKeys(rows[i+1].Key, row.Key) == 0 {
			beaten = append(beaten, mark{row.source, row.mark})
			continue
		}
		kept = append(kept, row)
	}
	return kept, beaten
}

// compareKeys compares two primary keys of one mapping as a database does: 0 and -0
// are one key.
func compareKeys(a, b []any) int {
	for i := range a {
		if c := compareValues(a[i], b[i]); c != 0 {
			return c
		}
	}
	return 0
}

// compareValues compares two values of one column; see converters for what they are.
func compareValues(a, b any) int {
	switch a := a.(type) {
	case int64:
		return cmp.Compare(a, b.(int64))
	case float64:
		return cmp.Compare(a, b.(float64))
	case string:
		return cmp.Compare(a, b.(string))
	case []byte:
		return bytes.Compare(a, b.([]byte))
	case bool:
		if a == b.(bool) {
			return 0
		} else if a {
			return 1
		}
		return -1
	}
	panic(fmt.Sprintf("flush: a key of type %T", a))
}
