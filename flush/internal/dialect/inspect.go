package dialect

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/flush/internal/value"
)

// inspect asks the catalogs, where a table is found along the search path.
func (s postgres) inspect(ctx context.Context, q Queryer, p *plan) (*found, error) {
	f := &found{}
	err := query(ctx, q, func(rows *sql.Rows) error {
		var c foundColumn
		var vague bool
		if err := rows.Scan(&c.name, &c.typ, &c.collate, &c.required, &vague); err != nil {
			return err
		}
		f.columns = append(f.columns, c)
		if vague && keyKind(p, s, c.name) == value.Text {
			f.others = append(f.others, fmt.Errorf(`the key column %q of the table %q has the collation %q, for which texts that differ can be equal: ALTER TABLE %s ALTER COLUMN %s TYPE %s COLLATE "C"`,
				c.name, p.table.Name, c.collate, p.name, s.quote(c.name), c.typ))
		}
		return nil
	}, `SELECT a.attname::text, format_type(a.atttypid, a.atttypmod), coalesce(c.collname::text, ''),
  a.attnotnull AND NOT a.atthasdef AND a.attidentity = '' AND a.attgenerated = '', NOT coalesce(c.collisdeterministic, true)
FROM pg_attribute a LEFT JOIN pg_collation c ON c.oid = a.attcollation
WHERE a.attrelid = to_regclass($1::text) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum`, p.name)
	if err != nil {
		return nil, err
	}
	// Only such an index can be what ON CONFLICT goes by.
	err = query(ctx, q, f.scanIndexed, `SELECT c.relname::text, coalesce(a.attname::text, ''), i.indisprimary
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
  CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k(attnum, n)
  LEFT JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
WHERE i.indrelid = to_regclass($1::text) AND i.indisunique AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL
  AND k.n <= i.indnkeyatts ORDER BY c.relname, k.n`, p.name)
	return f, err
}

func (f *found) scanIndexed(rows *sql.Rows) error {
	var index, column string
	var primary bool
	if err := rows.Scan(&index, &column, &primary); err != nil {
		return err
	}
	f.addIndexed(index, column, primary)
	return nil
}

// keyKind returns the kind of a key column, or 0 for what is none.
func keyKind(p *plan, s server, name string) value.Kind {
	for _, c := range p.table.Key {
		if s.sameName(c.Name, name) {
			return c.Type.Kind
		}
	}
	return 0
}

// inspect asks information_schema, in the database that the session is in.
func (s mysql) inspect(ctx context.Context, q Queryer, p *plan) (*found, error) {
	f := &found{}
	err := query(ctx, q, func(rows *sql.Rows) error {
		var c foundColumn
		if err := rows.Scan(&c.name, &c.typ, &c.collate, &c.required); err != nil {
			return err
		}
		f.columns = append(f.columns, c)
		return nil
	}, `SELECT COLUMN_NAME, COLUMN_TYPE, coalesce(COLLATION_NAME, ''),
  IS_NULLABLE = 'NO' AND COLUMN_DEFAULT IS NULL AND EXTRA NOT LIKE '%auto_increment%' AND EXTRA NOT LIKE '%GENERATED%'
FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ? ORDER BY ORDINAL_POSITION`, p.table.Name)
	if err != nil {
		return nil, err
	}
	for _, c := range f.columns {
		if keyKind(p, s, c.name) == value.Text && !exact(c.collate) {
			f.others = append(f.others, fmt.Errorf("the key column %q of the table %q has the collation %s, for which keys that differ in case or in spaces at the end can be equal: ALTER TABLE %s MODIFY %s %s CHARACTER SET utf8mb4 COLLATE %s NOT NULL",
				c.name, p.table.Name, c.collate, p.name, s.quote(c.name), c.typ, s.binary()))
		}
	}
	err = query(ctx, q, f.scanIndexed, `SELECT INDEX_NAME, concat(coalesce(COLUMN_NAME, '?'), coalesce(concat('(', SUB_PART, ')'), '')), INDEX_NAME = 'PRIMARY'
FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ? AND NON_UNIQUE = 0
ORDER BY INDEX_NAME, SEQ_IN_INDEX`, p.table.Name)
	for _, index := range f.unique {
		f.others = append(f.others, fmt.Errorf("the table %q has the unique index %q on (%s) besides its primary key: an upsert here would change the row that has the same values there, whatever its key; DROP INDEX %s ON %s",
			p.table.Name, index.name, strings.Join(index.columns, ", "), s.quote(index.name), p.name))
	}
	if err != nil {
		return nil, err
	}
	return f, s.checkEngine(ctx, q, p, f)
}

// exact reports whether a collation compares bytes, and all of them. A column of bytes has none.
func exact(collation string) bool {
	return collation == "" || collation == "binary" ||
		strings.HasSuffix(collation, "_nopad_bin") || strings.HasSuffix(collation, "_0900_bin")
}

// checkEngine refuses tables that do not roll back.
func (s mysql) checkEngine(ctx context.Context, q Queryer, p *plan, f *found) error {
	return query(ctx, q, func(rows *sql.Rows) error {
		var engine string
		if err := rows.Scan(&engine); err != nil {
			return err
		}
		if !strings.EqualFold(engine, "InnoDB") {
			f.others = append(f.others, fmt.Errorf("the table %q is of the engine %q, which has no transactions such as the fence needs: ALTER TABLE %s ENGINE=InnoDB",
				p.table.Name, engine, p.name))
		}
		return nil
	}, `SELECT coalesce(ENGINE, '') FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ?`, p.table.Name)
}

// inspect asks the pragmas that are tables.
func (s sqlite) inspect(ctx context.Context, q Queryer, p *plan) (*found, error) {
	f := &found{}
	primary := make(map[int]string)
	err := query(ctx, q, func(rows *sql.Rows) error {
		var c foundColumn
		var place int
		if err := rows.Scan(&c.name, &c.typ, &c.required, &place); err != nil {
			return err
		}
		f.columns = append(f.columns, c)
		primary[place] = c.name
		return nil
	}, `SELECT name, type, "notnull" AND dflt_value IS NULL AND hidden = 0, pk FROM pragma_table_xinfo(?)`, p.table.Name)
	if err != nil {
		return nil, err
	}
	for i := 1; primary[i] != ""; i++ {
		f.primary = append(f.primary, primary[i])
	}
	for _, c := range p.columns {
		if has := f.column(s, c.Name); has != nil && isStoredAsText(c.Type.Kind) && numeric(has.typ) {
			f.others = append(f.others, fmt.Errorf("the column %q of the table %q is %s, which would make numbers of %s: it must be TEXT",
				c.Name, p.table.Name, has.typ, c.Type))
		}
	}
	return f, s.inspectIndexes(ctx, q, p, f)
}

func (s sqlite) inspectIndexes(ctx context.Context, q Queryer, p *plan, f *found) error {
	vague := make(map[string]error) // why an index takes keys that differ for the same
	primary := ""
	err := query(ctx, q, func(rows *sql.Rows) error {
		var index, column, collation, origin string
		if err := rows.Scan(&index, &column, &collation, &origin); err != nil {
			return err
		}
		if keyKind(p, s, column) == value.Text && !strings.EqualFold(collation, "BINARY") {
			vague[index] = fmt.Errorf("the key column %q of the table %q has the collation %s in its index, for which keys that differ can be equal: it must be BINARY",
				column, p.table.Name, collation)
		}
		if origin == "pk" {
			primary = index
			return nil
		}
		f.addIndexed(index, column, false)
		return nil
	}, `SELECT l.name, coalesce(x.name, ''), x.coll, l.origin FROM pragma_index_list(?) AS l, pragma_index_xinfo(l.name) AS x
WHERE l."unique" AND NOT l.partial AND x.key ORDER BY l.seq, x.seqno`, p.table.Name)
	if err != nil {
		return err
	}
	if vague[primary] != nil {
		f.others = append(f.others, vague[primary])
	}
	// The others count only where they can be what ON CONFLICT goes by.
	f.unique = slices.DeleteFunc(f.unique, func(index foundIndex) bool { return vague[index.name] != nil })
	return nil
}

func isStoredAsText(kind value.Kind) bool {
	return isText(kind) || kind == value.Timestamp || kind == value.Uint64
}

// numeric reports whether a column of this declared type has an affinity to numbers,
// by SQLite's rules.
func numeric(declared string) bool {
	upper := strings.ToUpper(declared)
	has := func(parts ...string) bool {
		return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(upper, part) })
	}
	switch {
	case has("INT"):
		return true
	case has("CHAR", "CLOB", "TEXT", "BLOB"), declared == "", upper == "ANY":
		return false
	}
	return true
}
