package demo

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/lockkeeper/lockkeeper/flush"
)

// A Comparison is what came out of comparing every key with its row.
type Comparison struct {
	Keys        int      `json:"keys"`   // in Redis
	Rows        int      `json:"rows"`   // in the database
	Fields      int      `json:"fields"` // that were compared
	Differences int      `json:"differences"`
	Examples    []string `json:"examples,omitempty"` // the first few differences
}

func (c *Comparison) differ(format string, args ...any) {
	c.Differences++
	if len(c.Examples) < 10 {
		c.Examples = append(c.Examples, fmt.Sprintf(format, args...))
	}
}

// compare compares every key under the prefix with the database, field by field, and
// every row with Redis: a deleted key must have no row.
func compare(ctx context.Context, rdb *redis.Client, db *sql.DB, prefix string, m *flush.Mapping) (*Comparison, error) {
	rows, err := readRows(ctx, db, m)
	if err != nil {
		return nil, fmt.Errorf("demo: read the rows: %w", err)
	}
	c := &Comparison{Rows: len(rows)}
	seen := make(map[string]bool)
	iter := rdb.Scan(ctx, 0, prefix+":*", 1000).Iterator()
	for iter.Next(ctx) {
		key := iter.Val()
		if seen[key] {
			continue
		}
		seen[key] = true
		fields, err := rdb.HGetAll(ctx, key).Result()
		if err != nil {
			return nil, fmt.Errorf("demo: read %s: %w", key, err)
		}
		id := strings.TrimPrefix(key, prefix+":")
		c.one(id, fields, rows[id], m)
		delete(rows, id)
	}
	if err := iter.Err(); err != nil {
		return nil, fmt.Errorf("demo: scan: %w", err)
	}
	c.Keys = len(seen)
	for id := range rows {
		c.differ("row %s: there is no such key: a delete was lost", id)
	}
	return c, nil
}

// one compares one key.
func (c *Comparison) one(id string, fields map[string]string, row map[string]string, m *flush.Mapping) {
	if row == nil {
		c.differ("key %s: it has no row", id)
		return
	}
	for _, column := range m.Columns {
		c.Fields++
		want, inRedis := fields[column.Name]
		got, inRow := row[column.Name]
		if inRedis != inRow || canonical(column.Type, want) != got {
			c.differ("key %s, field %s: Redis %q (%t), database %q (%t)", id, column.Name, want, inRedis, got, inRow)
		}
	}
}

// readRows reads the whole table as text, by primary key; a NULL is not there.
func readRows(ctx context.Context, db *sql.DB, m *flush.Mapping) (map[string]map[string]string, error) {
	names := []string{m.Key[0].Name}
	for _, c := range m.Columns {
		names = append(names, c.Name)
	}
	rows, err := db.QueryContext(ctx, `SELECT "`+strings.Join(names, `", "`)+`" FROM "`+m.Table+`"`)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	out := make(map[string]map[string]string)
	values := make([]any, len(names))
	targets := make([]any, len(names))
	for i := range values {
		targets[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(targets...); err != nil {
			return nil, err
		}
		row := make(map[string]string)
		for i, c := range m.Columns {
			if values[i+1] != nil {
				row[c.Name] = asText(c.Type, values[i+1])
			}
		}
		out[asText(flush.Text, values[0])] = row
	}
	return out, rows.Err()
}

// asText is how the writer writes a value.
func asText(t flush.Type, value any) string {
	switch v := value.(type) {
	case int64:
		if t == flush.Bool {
			return strconv.FormatBool(v != 0)
		}
		return strconv.FormatInt(v, 10)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case []byte:
		return string(v)
	}
	return fmt.Sprint(value)
}

// canonical is the text of a value that can be written in several ways, as asText
// writes it: 3.0 is 3.
func canonical(t flush.Type, text string) string {
	if t != flush.Float64 {
		return text
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return text
	}
	return asText(t, f)
}
