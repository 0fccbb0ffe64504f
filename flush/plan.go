package flush

import (
	"context"
	"errors"
	"slices"

	"github.com/lockkeeper/lockkeeper/flush/internal/value"
)

// PlanOptions say how much Engine.Plan looks at.
type PlanOptions struct {
	Keys     int            // most marks to look at; 0 is all
	Changes  int            // how many changes of each table to return; 0 is 10
	Progress func(Progress) // may be nil
}

// A Plan is what a pass would do now.
type Plan struct {
	Keys     int         `json:"keys"` // marks that were looked at
	Tables   []TablePlan `json:"tables"`
	Parked   []Parked    `json:"parked,omitempty"` // some of the keys that would be parked
	Unmapped int         `json:"unmapped"`         // keys that no mapping fits, which would be parked
	Pauses   []Pause     `json:"pauses,omitempty"`
}

// A TablePlan is what a pass would do to a table.
type TablePlan struct {
	Table   string   `json:"table"`
	Insert  int      `json:"insert"`  // keys that have no row
	Update  int      `json:"update"`  // keys whose row is different
	Same    int      `json:"same"`    // keys whose row is as it should be
	Delete  int      `json:"delete"`  // keys whose rows would be deleted
	Missing int      `json:"missing"` // keys that are not there, and whose rows would be kept
	Park    int      `json:"park"`    // keys whose value can't be a row
	Held    int      `json:"held"`    // of all these, keys that are put aside, because the mapping is paused
	Changes []Change `json:"changes,omitempty"`

	SQL     string `json:"sql"`               // what would be run
	DDL     string `json:"ddl,omitempty"`     // what would make the table, if it is not there
	Problem string `json:"problem,omitempty"` // why the table can't be written to
}

// A Change is what would become of one key.
type Change struct {
	Key     string         `json:"key"`
	Do      string         `json:"do"` // insert, update or delete
	Columns []ColumnChange `json:"columns,omitempty"`
}

// A ColumnChange is a value before and after.
type ColumnChange struct {
	Column string `json:"column"`
	Old    string `json:"old"` // "" where there is no row
	New    string `json:"new"`
}

// A planner makes a Plan.
type planner struct {
	*Engine
	sink   *SQL
	o      PlanOptions
	plan   *Plan
	tables map[*route]*TablePlan
}

// Plan says what a pass would do, and writes nothing, neither to Redis nor to the
// database. Keys that an application has put into a set in a transaction of its own are
// left out until a pass has given them versions.
func (e *Engine) Plan(ctx context.Context, s *SQL, o PlanOptions) (*Plan, error) {
	if o.Keys < 0 || o.Changes < 0 {
		return nil, errors.New("flush: plan: a number of keys can't be negative")
	}
	if o.Changes == 0 {
		o.Changes = 10
	}
	p := &planner{Engine: e, sink: s, o: o, plan: &Plan{Tables: make([]TablePlan, len(e.routes))}, tables: make(map[*route]*TablePlan)}
	for i, r := range e.routes {
		t := &p.plan.Tables[i]
		p.tables[r] = t
		t.Table = r.Table
		s.describe(ctx, s.routes[i], t)
	}
	return p.plan, p.run(ctx)
}

// describe says what is run for a table, and what is wrong with it.
func (s *SQL) describe(ctx context.Context, r *route, t *TablePlan) {
	t.SQL = s.tables.Describe(r.table)
	if err := s.tables.Probe(ctx, s.db, r.table); err != nil {
		t.Problem = err.Error()
		if r.Create {
			t.DDL = s.tables.CreateTable(r.table)
		}
	}
}

func (p *planner) run(ctx context.Context) error {
	status, err := p.Status(ctx)
	if err != nil {
		return err
	}
	p.plan.Pauses = status.Pauses
	for i, set := range append([]string{p.keys.Dirty}, p.aside()...) {
		var held *TablePlan
		if i > 1 {
			held = p.tables[p.routes[i-2]]
		}
		if err := p.set(ctx, set, held, status.Dirty); err != nil {
			return err
		}
	}
	return nil
}

// set plans the marks of one sorted set; held is the table of those that are put aside
// because their mapping is paused.
func (p *planner) set(ctx context.Context, set string, held *TablePlan, total int) error {
	for skip := 0; ; {
		page, err := p.pageOf(ctx, set, skip)
		if err != nil {
			return err
		}
		paused := page.control.pausedTables()
		page.control = nil // what a pause holds back is what one wants to know
		if p.o.Keys > 0 {
			page.marks = page.marks[:min(len(page.marks), p.o.Keys-p.plan.Keys)]
		}
		if len(page.marks) == 0 {
			return nil
		}
		skip += len(page.marks)
		p.countHeld(page.marks, paused, held)
		if err := p.look(ctx, page); err != nil {
			return err
		}
		if p.o.Progress != nil {
			p.o.Progress(Progress{Done: p.plan.Keys, Share: min(1, float64(p.plan.Keys)/float64(max(1, total)))})
		}
	}
}

// countHeld counts the marks that are, or would be, put aside.
func (p *planner) countHeld(marks []mark, paused map[string]bool, held *TablePlan) {
	if held != nil {
		held.Held += len(marks)
		return
	}
	if len(paused) == 0 {
		return
	}
	for _, m := range marks {
		if r, _ := p.route(m.key); r != nil && paused[r.Table] {
			p.tables[r].Held++
		}
	}
}

// look plans one page of marks.
func (p *planner) look(ctx context.Context, pg *page) error {
	for len(pg.marks) > 0 {
		marks := slices.Clone(pg.marks)
		b := &batch{page: pg}
		if err := p.collect(ctx, b); err != nil {
			return err
		}
		done := b.marks
		p.plan.Keys += len(done)
		p.countOthers(b)
		if err := p.rows(ctx, b.rows); err != nil {
			return err
		}
		pg.marks = without(marks, done)
	}
	return nil
}

// countOthers counts what has no row to write.
func (p *planner) countOthers(b *batch) {
	for _, park := range b.parks {
		if park.route == nil {
			p.plan.Unmapped++
		} else {
			p.tables[park.route].Park++
		}
		if len(p.plan.Parked) < p.o.Changes {
			park.Parked.Key, park.Parked.Version = park.mark.key, park.mark.version
			p.plan.Parked = append(p.plan.Parked, park.Parked)
		}
	}
	for _, m := range b.skips {
		if r, _ := p.route(m.key); r != nil {
			p.tables[r].Missing++
		}
	}
}

// rows compares rows with what the database has.
func (p *planner) rows(ctx context.Context, rows []Row) error {
	order(rows)
	for len(rows) > 0 {
		r := rows[0].route
		n := slices.IndexFunc(rows, func(row Row) bool { return row.route != r })
		if n < 0 {
			n = len(rows)
		}
		t := p.tables[r]
		have := make([][][]any, n)
		if t.Problem == "" && r.source() != Streams { // entries are new
			var err error
			if have, err = p.sink.read(ctx, r, rows[:n]); err != nil {
				return err
			}
		}
		for i := range rows[:n] {
			p.change(t, &rows[i], have[i])
		}
		rows = rows[n:]
	}
	return nil
}

// change counts what would become of one key.
func (p *planner) change(t *TablePlan, row *Row, have [][]any) {
	c := Change{Key: row.mark.key, Do: "update"}
	r := row.route
	switch {
	case row.Delete && len(have) == 0:
		t.Same++
		return
	case row.Delete:
		t.Delete++
		c.Do = "delete"
	default:
		differences := r.compareRow(row, have)
		if len(differences) == 0 {
			t.Same++
			return
		}
		if len(have) == 0 {
			t.Insert++
			c.Do = "insert"
			c.Columns = r.inserted(row)
			break
		}
		t.Update++
		for _, d := range differences {
			c.Columns = append(c.Columns, ColumnChange{Column: d.Column, Old: d.Database, New: d.Redis})
		}
	}
	if len(t.Changes) < p.o.Changes {
		t.Changes = append(t.Changes, c)
	}
}

// inserted returns the values of a new row; of a key with several, what tells them apart.
func (r *route) inserted(row *Row) []ColumnChange {
	var list []ColumnChange
	for i, v := range row.Values {
		list = append(list, ColumnChange{Column: r.columnName(i), New: value.Show(v)})
	}
	for _, child := range row.Children[:min(len(row.Children), 10)] {
		list = append(list, ColumnChange{Column: r.columnName(0), New: value.Show(child[0])})
	}
	return list
}
