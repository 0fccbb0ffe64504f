package main

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/lockkeeper/lockkeeper/flush"
	"github.com/lockkeeper/lockkeeper/sqlfence"
)

// job is the name of the job.
const job = "chaos"

// setLimit is how many members a set may have.
const setLimit = 50

// mappings are one for each source.
func mappings() []flush.Mapping {
	id := []flush.Column{{Name: "id", Type: flush.Int64}}
	two := []flush.Column{{Name: "owner", Type: flush.Text}, {Name: "id", Type: flush.Int64}}
	return []flush.Mapping{
		{Keys: "h:{id}", Table: "chaos_hash", Create: true, Key: id, Columns: []flush.Column{
			{Name: "n", Type: flush.Int64}, {Name: "points", Type: flush.Int64}, {Name: "name", Type: flush.Text},
			{Name: "price", Type: flush.Decimal(12, 2)}, {Name: "active", Type: flush.Bool},
			{Name: "seen", Type: "timestamp(ms)"}, {Name: "note", Type: flush.Text},
		}},
		{Keys: "s:{id}", Table: "chaos_string", Source: flush.Strings, Create: true, Key: id,
			Columns: []flush.Column{{Name: "value", Type: flush.Text}}},
		{Keys: "j:{id}", Table: "chaos_json", Source: flush.Documents, Create: true, Key: id, Columns: []flush.Column{
			{Name: "n", Type: flush.Int64}, {Name: "city", Type: flush.Text, Field: "address.city"},
			{Name: "doc", Type: flush.JSON, Field: "."},
		}},
		{Keys: "e:{owner}:{id}", Table: "chaos_set", Source: flush.Sets, Create: true, Limit: setLimit, Key: two,
			Columns: []flush.Column{{Name: "member", Type: flush.Text}}},
		{Keys: "l:{owner}:{id}", Table: "chaos_list", Source: flush.Lists, Create: true, Key: two, Columns: []flush.Column{
			{Name: "position", Type: flush.Int64}, {Name: "value", Type: flush.Text},
		}},
		{Keys: "z:{id}", Table: "chaos_zset", Source: flush.SortedSets, Create: true, Key: id, Columns: []flush.Column{
			{Name: "member", Type: flush.Text}, {Name: "score", Type: flush.Float64},
		}},
		{Keys: "x:{id}", Table: "chaos_stream", Source: flush.Streams, Create: true, Key: id, Columns: []flush.Column{
			{Name: "entry", Type: flush.Text, Field: "id"}, {Name: "n", Type: flush.Int64}, {Name: "text", Type: flush.Text},
		}},
	}
}

// prefixes are what the keys of the tables begin with.
var prefixes = map[string]string{
	"h:": "chaos_hash", "s:": "chaos_string", "j:": "chaos_json", "e:": "chaos_set",
	"l:": "chaos_list", "z:": "chaos_zset", "x:": "chaos_stream",
}

// migrate makes the tables, of which one takes no negative points.
func migrate(ctx context.Context, kind sqlfence.Dialect, db *sql.DB, sink *flush.SQL) error {
	if err := sink.Migrate(ctx); err != nil {
		return err
	}
	const check = "CHECK (points >= 0)"
	if kind != sqlfence.SQLite {
		_, err := db.ExecContext(ctx, "ALTER TABLE chaos_hash ADD "+check)
		return err
	}
	// SQLite can't add it: the table is made once more.
	var text string
	if err := db.QueryRowContext(ctx, "SELECT sql FROM sqlite_master WHERE name = 'chaos_hash'").Scan(&text); err != nil {
		return err
	}
	with := strings.Replace(text, ") STRICT", ", "+check+") STRICT", 1)
	if with == text {
		return fmt.Errorf("no place for a CHECK in: %s", text)
	}
	_, err := db.ExecContext(ctx, "DROP TABLE chaos_hash; "+with)
	return err
}
