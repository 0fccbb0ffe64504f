package dialect

import (
	"slices"
	"strings"
	"sync"
)

// A plan is a table with what is worked out only once for it.
type plan struct {
	table   *Table
	name    string   // quoted, as all names here
	columns []Column // Key and Columns
	names   []string // of columns
	width   int      // of a row: columns and the version

	mu    sync.Mutex
	texts map[textKey]string
}

// A textKey says which SQL text it is.
type textKey struct {
	what  string
	width int // how many key columns
	rows  int
	flag  bool
}

// mostTexts and mostPlans bound what is kept. Callers have a handful of tables; the
// bound is for those that make a Table for every call.
const mostTexts, mostPlans = 256, 1024

// plan returns the table's plan, or why it can't be a table of this database.
func (db *DB) plan(t *Table) (*plan, error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if p := db.plans[t]; p != nil {
		return p, nil
	}
	if err := db.Check(t); err != nil {
		return nil, err
	}
	if len(db.plans) >= mostPlans {
		clear(db.plans)
	}
	p := newPlan(t, db.server.quote)
	db.plans[t] = p
	return p, nil
}

func newPlan(t *Table, quote func(string) string) *plan {
	p := &plan{
		table:   t,
		name:    quote(t.Name),
		columns: slices.Concat(t.Key, t.Columns),
		texts:   make(map[textKey]string),
	}
	for _, c := range p.columns {
		p.names = append(p.names, quote(c.Name))
	}
	p.width = len(p.columns) + 1
	return p
}

// text returns a text that was written before, or writes it.
func (p *plan) text(k textKey, write func() string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if text, ok := p.texts[k]; ok {
		return text
	}
	if len(p.texts) >= mostTexts {
		clear(p.texts)
	}
	text := write()
	p.texts[k] = text
	return text
}

// key returns the names of the first key columns.
func (p *plan) key(width int) []string { return p.names[:width] }

// assignments returns what an upsert sets, as "name = " and what set makes of it.
func (p *plan) assignments(version string, set func(name string) string) string {
	var b strings.Builder
	for _, name := range p.names[len(p.table.Key):] {
		b.WriteString(name + " = " + set(name) + ", ")
	}
	b.WriteString(version + " = " + set(version))
	return b.String()
}

// list joins names.
func list(names []string) string { return strings.Join(names, ", ") }

// repeated is "item, item, ..., item".
func repeated(item string, n int) string {
	return strings.Repeat(item+", ", n-1) + item
}
