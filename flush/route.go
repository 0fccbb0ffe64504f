package flush

import (
	"slices"

	"github.com/lockkeeper/lockkeeper/flush/internal/dialect"
	"github.com/lockkeeper/lockkeeper/flush/internal/value"
)

// A route is a mapping made ready for work.
type route struct {
	*Mapping
	shape
	rank    int // in the order of the mappings
	pattern *pattern
	key     []column
	places  []int   // for each column of the key the part it takes
	element *column // what tells the rows of a key apart; nil is one row a key
	columns []column
	table   *dialect.Table
}

func newRoute(m *Mapping, rank int) (*route, error) {
	if err := m.Check(); err != nil {
		return nil, err
	}
	p, err := parsePattern(m.Keys)
	if err != nil {
		return nil, err
	}
	r := &route{Mapping: m, shape: shapes[m.source()], rank: rank, pattern: p, table: &dialect.Table{Name: m.Table}}
	for i := range m.Key {
		c, err := newColumn(&m.Key[i], part(&m.Key[i]))
		if err != nil {
			return nil, err
		}
		r.key = append(r.key, c)
		r.places = append(r.places, slices.Index(p.parts, c.source))
		r.table.Key = append(r.table.Key, dialect.Column{Name: c.Name, Type: c.kind, NotNull: true})
	}
	r.table.Parent = len(r.key)
	for i := range m.Columns {
		c, err := newColumn(&m.Columns[i], m.field(&m.Columns[i]))
		if err != nil {
			return nil, err
		}
		c.lack = r.lack
		if r.shape.element != "" && c.source == r.shape.element {
			r.element = &c
			r.table.Key = append(r.table.Key, dialect.Column{Name: c.Name, Type: c.kind, NotNull: true})
			continue
		}
		r.columns = append(r.columns, c)
		r.table.Columns = append(r.table.Columns, dialect.Column{Name: c.Name, Type: c.kind, NotNull: c.Required})
	}
	return r, nil
}

// fields are what the scripts that read values take last: the fields of a hash, or the most
// elements.
func (r *route) fields() []string {
	if r.source() != Hashes {
		return []string{formatInt(int64(r.limit()))}
	}
	fields := make([]string, len(r.columns))
	for i := range r.columns {
		fields[i] = r.columns[i].source
	}
	return fields
}

// keyOf converts the parts of a key to the primary key. A part that could be written in
// another way is refused: player:7 and player:07 would be one row, and the delete of
// the one would delete the other's.
func (r *route) keyOf(m mark, parts []string) ([]any, *parked) {
	key := make([]any, len(r.key))
	for i := range r.key {
		v, err := r.key[i].kind.Key(parts[r.places[i]])
		if err != nil {
			p := r.park(m, r.key[i].Name, "%s", err)
			return nil, &p
		}
		key[i] = v
	}
	return key, nil
}

// nameOf returns the key on Redis of a primary key.
func (r *route) nameOf(key []any) string {
	parts := make([]string, len(key))
	for i, v := range key {
		parts[r.places[i]] = value.Spell(v)
	}
	return r.pattern.key(parts)
}

func compareKeys(a, b []any) int {
	for i := range a {
		if c := value.Compare(a[i], b[i]); c != 0 {
			return c
		}
	}
	return 0
}
