package dialect

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/lockkeeper/lockkeeper/flush/internal/value"
)

// Limits that hold for every database: names as PostgreSQL has them, key columns as
// MySQL has them.
const mostName, mostKey = 63, 16

// Check returns everything that keeps the table from being one of this database's,
// joined, or nil. It asks nothing of the database. The other methods make it too.
func (db *DB) Check(t *Table) error {
	errs := []error{checkName("table", t.Name), checkReserved(t.Name), db.server.check(t)}
	if len(t.Key) == 0 || len(t.Key) > mostKey {
		errs = append(errs, fmt.Errorf("%d key columns: 1 to %d", len(t.Key), mostKey))
	}
	if t.Parent < 1 || t.Parent > len(t.Key) {
		errs = append(errs, fmt.Errorf("%d of %d key columns name the Redis key: at least 1", t.Parent, len(t.Key)))
	}
	seen := map[string]bool{VersionColumn: true}
	for i, c := range append(append([]Column(nil), t.Key...), t.Columns...) {
		errs = append(errs, checkName("column", c.Name), checkType(c, i < len(t.Key)))
		// SQLite and MySQL take names that differ in case for the same.
		lower := strings.ToLower(c.Name)
		switch {
		case lower == VersionColumn:
			errs = append(errs, fmt.Errorf("column %q is reserved: every table has it besides", c.Name))
		case seen[lower]:
			errs = append(errs, fmt.Errorf("column %q is there twice", c.Name))
		}
		seen[lower] = true
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("flush: table %q: %w", t.Name, err)
	}
	return nil
}

// checkName refuses what can't be quoted the same everywhere. A question mark would
// be taken for a parameter by drivers that put arguments into the text themselves.
func checkName(what, name string) error {
	if name == "" || len(name) > mostName || !utf8.ValidString(name) {
		return fmt.Errorf("%s name %q: 1 to %d bytes of UTF-8", what, name, mostName)
	}
	for _, r := range name {
		if r < ' ' || r == 0x7f || strings.ContainsRune("\"'`\\?$.;", r) || r > 0xffff {
			return fmt.Errorf("%s name %q: it can't have a %q", what, name, r)
		}
	}
	if strings.HasSuffix(name, " ") {
		return fmt.Errorf("%s name %q: it can't end with a space", what, name)
	}
	return nil
}

func checkReserved(table string) error {
	lower := strings.ToLower(table)
	if strings.HasPrefix(lower, "lockkeeper_") || strings.HasPrefix(lower, "sqlite_") {
		return errors.New("the name is reserved")
	}
	return nil
}

func checkType(c Column, inKey bool) error {
	err := c.Type.Check()
	switch {
	case err != nil:
		return fmt.Errorf("column %q: %w", c.Name, err)
	case inKey && !c.Type.Kind.InKey():
		return fmt.Errorf("column %q: %s can't be in a key", c.Name, c.Type)
	}
	return nil
}

// CreateTable returns the statement that makes the table if it is not there, with a
// semicolon and a newline at its end. It is empty for a table that Check refuses.
func (db *DB) CreateTable(t *Table) string {
	p, err := db.plan(t)
	if err != nil {
		return ""
	}
	var b strings.Builder
	b.WriteString("CREATE TABLE IF NOT EXISTS " + p.name + " (\n")
	for i := range p.columns {
		b.WriteString("  " + db.definition(p.columns[i], i < len(t.Key)) + ",\n")
	}
	b.WriteString("  " + db.versionDefinition() + ",\n")
	b.WriteString("  PRIMARY KEY (" + list(p.key(len(t.Key))) + ")\n")
	b.WriteString(db.server.tableEnd())
	return b.String()
}

// definition is one column as CREATE TABLE and ADD COLUMN have it.
func (db *DB) definition(c Column, inKey bool) string {
	text := db.server.quote(c.Name) + " " + db.server.columnType(c.Type, inKey)
	if inKey || c.NotNull {
		text += " NOT NULL"
	}
	return text
}

func (db *DB) versionDefinition() string {
	return db.definition(Column{Name: VersionColumn, Type: value.Type{Kind: value.Int64}, NotNull: true}, false) + " DEFAULT 0"
}
