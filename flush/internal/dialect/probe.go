package dialect

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// found is what a database says about a table.
type found struct {
	columns []foundColumn // none: there is no such table
	primary []string      // the columns of the primary key, in its order
	unique  []foundIndex  // the other unique indexes
	others  []error       // what is wrong besides
}

type foundColumn struct {
	name     string
	typ      string // as the database writes it
	collate  string // "" for none, or one that does no harm
	required bool   // NOT NULL, without a default
}

type foundIndex struct {
	name    string
	columns []string
}

// Probe returns why rows can't be written to the database's table, and what to do
// about it: it is not there, or lacks a column; a column besides has to be set; the
// primary key is not exactly Key; or two keys that differ would be one row, since a key
// column ignores case or spaces. On MySQL and MariaDB a second unique index is one of
// the reasons: an upsert there takes its rows for the same. Of types it looks at that of
// the version only.
func (db *DB) Probe(ctx context.Context, q Queryer, t *Table) error {
	p, err := db.plan(t)
	if err != nil {
		return err
	}
	f, err := db.server.inspect(ctx, q, p)
	if err != nil {
		return fmt.Errorf("look at the table %q: %w", t.Name, err)
	}
	if len(f.columns) == 0 {
		return fmt.Errorf("there is no table %q that this user may see; it can be made with\n%s", t.Name, db.CreateTable(t))
	}
	errs := append(db.missing(p, f), f.others...)
	errs = append(errs, db.unset(p, f)...)
	errs = append(errs, db.checkVersion(p, f), db.checkIndexes(t, f))
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return db.try(ctx, q, p)
}

// try reads nothing from the table: the catalogs know its names better than whether this
// user may read it. The answer's columns are always the same, so that no driver's cached
// plan goes stale when the table changes.
func (db *DB) try(ctx context.Context, q Queryer, p *plan) error {
	rows, err := q.QueryContext(ctx, "SELECT count(*) FROM (SELECT "+list(p.names)+", "+db.server.quote(VersionColumn)+
		" FROM "+p.name+" LIMIT 0) AS probe")
	if err != nil {
		return fmt.Errorf("read the table %q: %w", p.table.Name, err)
	}
	return each(rows, func(*sql.Rows) error { return nil })
}

// missing names the columns that the table lacks.
func (db *DB) missing(p *plan, f *found) []error {
	var errs []error
	for i, c := range p.columns {
		switch {
		case f.column(db.server, c.Name) != nil:
		case i < len(p.table.Key):
			errs = append(errs, fmt.Errorf("the table %q has no column %q, which is in the mapping's key", p.table.Name, c.Name))
		default:
			c.NotNull = false // there may be rows
			errs = append(errs, db.lacks(p, c.Name, db.definition(c, false)))
		}
	}
	if f.column(db.server, VersionColumn) == nil {
		errs = append(errs, db.lacks(p, VersionColumn, db.versionDefinition()))
	}
	return errs
}

func (db *DB) lacks(p *plan, column, definition string) error {
	return fmt.Errorf("the table %q has no column %q: ALTER TABLE %s ADD COLUMN %s", p.table.Name, column, p.name, definition)
}

// checkVersion wants a version to fit into its column: in 32 bits not even the first one
// does. SQLite's integers all have 64.
func (db *DB) checkVersion(p *plan, f *found) error {
	c := f.column(db.server, VersionColumn)
	if _, is := db.server.(sqlite); is || c == nil {
		return nil
	}
	typ := strings.ToLower(c.typ)
	for _, wide := range []string{"bigint", "numeric", "decimal"} {
		if strings.HasPrefix(typ, wide) {
			return nil
		}
	}
	return fmt.Errorf("the column %q of the table %q is of the type %s, and has to be BIGINT", c.name, p.table.Name, c.typ)
}

// unset names the columns that every new row would have to set and does not.
func (db *DB) unset(p *plan, f *found) []error {
	var errs []error
	for _, c := range f.columns {
		mapped := slices.ContainsFunc(p.columns, func(m Column) bool { return db.server.sameName(m.Name, c.name) })
		if c.required && !mapped && !db.server.sameName(c.name, VersionColumn) {
			errs = append(errs, fmt.Errorf("the column %q of the table %q is NOT NULL, has no default and is not mapped: no new row could be written; give it a default, or map it",
				c.name, p.table.Name))
		}
	}
	return errs
}

// checkIndexes wants a unique index on exactly the key. The order counts too: without
// it, walking through the table in the key's order would sort all of it for each page.
func (db *DB) checkIndexes(t *Table, f *found) error {
	var key []string
	for _, c := range t.Key {
		key = append(key, c.Name)
	}
	if slices.EqualFunc(f.primary, key, db.server.sameName) {
		return nil
	}
	// An upsert of the others names the columns of the index that it goes by.
	if _, first := db.server.(mysql); !first {
		for _, index := range f.unique {
			if slices.EqualFunc(index.columns, key, db.server.sameName) {
				return nil
			}
		}
	}
	has := "no primary key"
	if len(f.primary) > 0 {
		has = "the primary key (" + strings.Join(f.primary, ", ") + ")"
	}
	return fmt.Errorf("the table %q has %s, and the mapping has the key (%s): they must be the same, in the same order",
		t.Name, has, strings.Join(key, ", "))
}

// column returns the column of a name, or nil.
func (f *found) column(s server, name string) *foundColumn {
	for i := range f.columns {
		if s.sameName(f.columns[i].name, name) {
			return &f.columns[i]
		}
	}
	return nil
}

// addIndexed notes one column of a unique index; they come index by index, in order.
func (f *found) addIndexed(index, column string, primary bool) {
	if primary {
		f.primary = append(f.primary, column)
		return
	}
	if n := len(f.unique); n == 0 || f.unique[n-1].name != index {
		f.unique = append(f.unique, foundIndex{name: index})
	}
	last := &f.unique[len(f.unique)-1]
	last.columns = append(last.columns, column)
}
