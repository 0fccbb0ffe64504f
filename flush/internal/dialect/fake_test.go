package dialect_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/lockkeeper/lockkeeper/flush/internal/dialect"
	"github.com/lockkeeper/lockkeeper/flush/internal/value"
	"github.com/lockkeeper/lockkeeper/sqlfence"
)

// A fake is a database that notes what it is told, and answers with what it was given.
type fake struct {
	log    []call
	answer func(text string, args []any) [][]any // for queries; nil: no rows
	fail   error                                 // of each statement
}

type call struct {
	how  string // "exec", "prepare", "run" for a prepared one, "close", "query"
	text string
	args []any
}

func (f *fake) note(how, text string, named []driver.NamedValue) []any {
	args := make([]any, len(named))
	for i, v := range named {
		args[i] = v.Value
	}
	f.log = append(f.log, call{how, text, args})
	return args
}

func (f *fake) Connect(context.Context) (driver.Conn, error) { return f, nil }
func (f *fake) Driver() driver.Driver                        { return nil }
func (f *fake) Close() error                                 { return nil }
func (f *fake) Begin() (driver.Tx, error)                    { return f, nil }
func (f *fake) Commit() error                                { return nil }
func (f *fake) Rollback() error                              { return nil }

// CheckNamedValue lets everything through, as drivers with types of their own do.
func (f *fake) CheckNamedValue(*driver.NamedValue) error { return nil }

func (f *fake) Prepare(text string) (driver.Stmt, error) {
	f.note("prepare", text, nil)
	return &fakeStatement{f, text}, nil
}

func (f *fake) ExecContext(_ context.Context, text string, args []driver.NamedValue) (driver.Result, error) {
	f.note("exec", text, args)
	return driver.RowsAffected(0), f.fail
}

func (f *fake) QueryContext(_ context.Context, text string, named []driver.NamedValue) (driver.Rows, error) {
	args := f.note("query", text, named)
	if f.fail != nil {
		return nil, f.fail
	}
	rows := &fakeRows{}
	if f.answer != nil {
		rows.rows = f.answer(text, args)
	}
	return rows, nil
}

type fakeStatement struct {
	fake *fake
	text string
}

func (s *fakeStatement) Close() error                               { s.fake.note("close", s.text, nil); return nil }
func (s *fakeStatement) NumInput() int                              { return -1 }
func (s *fakeStatement) Exec([]driver.Value) (driver.Result, error) { panic("not called") }
func (s *fakeStatement) Query([]driver.Value) (driver.Rows, error)  { panic("not called") }
func (s *fakeStatement) ExecContext(_ context.Context, args []driver.NamedValue) (driver.Result, error) {
	s.fake.note("run", s.text, args)
	return driver.RowsAffected(0), s.fake.fail
}

type fakeRows struct{ rows [][]any }

func (r *fakeRows) Columns() []string {
	if len(r.rows) == 0 {
		return nil
	}
	return make([]string, len(r.rows[0]))
}
func (r *fakeRows) Close() error { return nil }
func (r *fakeRows) Next(into []driver.Value) error {
	if len(r.rows) == 0 {
		return io.EOF
	}
	for i, v := range r.rows[0] {
		into[i] = v
	}
	r.rows = r.rows[1:]
	return nil
}

// A rig is a dialect with a fake database.
type rig struct {
	*fake
	db *dialect.DB
	q  *sql.DB
}

func newRig(t *testing.T, d sqlfence.Dialect) *rig {
	t.Helper()
	db, err := dialect.New(d)
	check(t, err)
	f := &fake{}
	q := sql.OpenDB(f)
	t.Cleanup(func() { check(t, q.Close()) })
	return &rig{f, db, q}
}

// inTx runs f in a transaction, and returns what was said in it.
func (r *rig) inTx(t *testing.T, f func(tx *sql.Tx) error) ([]call, error) {
	t.Helper()
	r.log = nil
	tx, err := r.q.Begin()
	check(t, err)
	err = f(tx)
	said := r.log
	check(t, tx.Rollback())
	return said, err
}

var all = []sqlfence.Dialect{sqlfence.SQLite, sqlfence.Postgres, sqlfence.MySQL, sqlfence.MariaDB}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func column(t *testing.T, name, typ string) dialect.Column {
	t.Helper()
	name, required := strings.CutSuffix(name, "!")
	parsed, err := value.Parse(typ)
	check(t, err)
	return dialect.Column{Name: name, Type: parsed, NotNull: required}
}

// table makes a table of "name type" texts, of which the first are the key; a name with
// an exclamation mark is NOT NULL.
func table(t *testing.T, name string, key, parent int, columns ...string) *dialect.Table {
	t.Helper()
	out := &dialect.Table{Name: name, Parent: parent}
	for i, c := range columns {
		name, typ, _ := strings.Cut(c, " ")
		if i < key {
			out.Key = append(out.Key, column(t, name, typ))
		} else {
			out.Columns = append(out.Columns, column(t, name, typ))
		}
	}
	return out
}

// same compares by what is shown, with the types.
func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if g, w := fmt.Sprintf("%#v", got), fmt.Sprintf("%#v", want); g != w {
		t.Errorf("%s:\n got %s\nwant %s", what, g, w)
	}
}
