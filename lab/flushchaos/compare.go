package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/sqlfence"
)

// Rows are the rows of all tables as texts: "table|key|key" to the other columns. This
// is on purpose a second way from Redis to rows, beside the engine's.
type rows map[string]string

// null is what is no value.
const null = "<NULL>"

func rowName(parts ...string) string { return strings.Join(parts, "|") }
func rowText(cells ...string) string { return strings.Join(cells, "|") }

// A picture is what there is on Redis.
type picture struct {
	rows  rows
	good  map[string]bool   // keys that are rows
	bad   map[string]string // keys that can't be, and why not
	entry map[string]string // rows of streams, by their stream
	value map[string]int64  // what the ledger knows of a key
}

// look reads all data keys.
func look(ctx context.Context, rdb *redis.Client) (*picture, error) {
	p := &picture{rows: make(rows), good: make(map[string]bool), bad: make(map[string]string), entry: make(map[string]string), value: make(map[string]int64)}
	keys := rdb.Scan(ctx, 0, "*", 1000).Iterator()
	for keys.Next(ctx) {
		key := keys.Val()
		if p.good[key] || p.bad[key] != "" || strings.HasPrefix(key, lockkeeper.DefaultPrefix) {
			continue // seen, or no data
		}
		prefix, rest, _ := strings.Cut(key, ":")
		table, known := prefixes[prefix+":"]
		if !known {
			p.bad[key] = "no mapping"
			continue
		}
		why, err := p.read(ctx, rdb, key, table, strings.ReplaceAll(rest, ":", "|"))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		if why != "" {
			p.bad[key] = why
			continue
		}
		p.good[key] = true
	}
	return p, keys.Err()
}

// read makes rows of one key, or says why that can't be.
func (p *picture) read(ctx context.Context, rdb *redis.Client, key, table, id string) (why string, err error) {
	if _, err := strconv.ParseInt(id[strings.LastIndexByte(id, '|')+1:], 10, 64); err != nil {
		return "the key is no number", nil
	}
	switch key[0] {
	case 'h':
		fields, err := rdb.HGetAll(ctx, key).Result()
		if err != nil {
			return "", err
		}
		return p.hash(key, rowName(table, id), fields), nil
	case 's':
		text, err := rdb.Get(ctx, key).Result()
		if err != nil && strings.HasPrefix(err.Error(), "WRONGTYPE") {
			return "no string", nil
		}
		p.rows[rowName(table, id)] = text
		digits, _, _ := strings.Cut(text, " ")
		p.value[key], _ = strconv.ParseInt(digits, 10, 64)
		return "", err
	case 'j':
		text, err := rdb.Get(ctx, key).Result()
		if err != nil {
			return "", err
		}
		return p.document(key, rowName(table, id), text), nil
	}
	return p.children(ctx, rdb, key, rowName(table, id))
}

func (p *picture) hash(key, name string, fields map[string]string) (why string) {
	cell := func(name string) string {
		if text, there := fields[name]; there {
			return text
		}
		return null
	}
	if points, there := fields["points"]; there {
		switch n, err := strconv.ParseInt(points, 10, 64); {
		case err != nil:
			return "points are no number"
		case n < 0:
			return "points are negative"
		}
	}
	_, decimals, _ := strings.Cut(fields["price"], ".")
	if len(decimals) > 2 {
		return "price has three decimals"
	}
	if strings.Contains(fields["name"], "\x00") {
		return "name has a NUL"
	}
	seen := cell("seen")
	if ms, err := strconv.ParseInt(seen, 10, 64); err == nil {
		seen = time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000000Z")
	}
	price := cell("price")
	if price != null && decimals == "" {
		price += ".00"
	}
	p.rows[name] = rowText(cell("n"), cell("points"), cell("name"), price, cell("active"), seen, cell("note"))
	p.value[key], _ = strconv.ParseInt(fields["n"], 10, 64)
	return ""
}

func (p *picture) document(key, name, text string) (why string) {
	var doc struct {
		N       json.Number
		Address struct{ City *string }
	}
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		return err.Error()
	}
	n, err := doc.N.Int64()
	if err != nil {
		return "n is no whole number"
	}
	city := null
	if doc.Address.City != nil {
		city = *doc.Address.City
	}
	p.rows[name] = rowText(strconv.FormatInt(n, 10), city, text)
	p.value[key] = n
	return ""
}

// children makes the rows of a set, list, sorted set or stream.
func (p *picture) children(ctx context.Context, rdb *redis.Client, key, name string) (why string, err error) {
	switch key[0] {
	case 'e':
		all, err := rdb.SMembers(ctx, key).Result()
		if len(all) > setLimit {
			return "too many members", err
		}
		for _, member := range all {
			p.rows[rowName(name, member)] = ""
		}
		return "", err
	case 'l':
		all, err := rdb.LRange(ctx, key, 0, -1).Result()
		for i, v := range all {
			p.rows[rowName(name, strconv.Itoa(i))] = v
		}
		return "", err
	case 'z':
		all, err := rdb.ZRangeWithScores(ctx, key, 0, -1).Result()
		for _, z := range all {
			if z.Score > 1e300 {
				return "the score is infinite", err
			}
			p.rows[rowName(name, z.Member.(string))] = strconv.FormatFloat(z.Score, 'g', -1, 64)
		}
		return "", err
	}
	all, err := rdb.XRange(ctx, key, "-", "+").Result()
	for _, e := range all {
		row := rowName(name, e.ID)
		p.rows[row] = rowText(fmt.Sprint(e.Values["n"]), fmt.Sprint(e.Values["text"]))
		p.entry[row] = key
	}
	return "", err
}

// selects are the columns of the tables, those of the key first.
var selects = []struct {
	table   string
	keys    int
	columns string
}{
	{"chaos_hash", 1, "id, n, points, name, {price}, {active}, {seen}, note"},
	{"chaos_string", 1, "id, value"},
	{"chaos_json", 1, "id, n, city, {doc}"},
	{"chaos_set", 3, "owner, id, member"},
	{"chaos_list", 3, "owner, id, position, value"},
	{"chaos_zset", 2, "id, member, score"},
	{"chaos_stream", 2, "id, entry, n, text"},
}

// expressions say how a database writes a value as this program does.
var expressions = map[sqlfence.Dialect]*strings.Replacer{
	sqlfence.SQLite: strings.NewReplacer("{price}", "price", "{active}", "active", "{seen}", "seen", "{doc}", "doc"),
	sqlfence.Postgres: strings.NewReplacer("{price}", "price::text", "{active}", "active::int", "{doc}", "doc::text",
		"{seen}", `to_char(seen AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`),
	sqlfence.MariaDB: strings.NewReplacer("{price}", "CAST(price AS CHAR)", "{active}", "active", "{doc}", "doc",
		"{seen}", "DATE_FORMAT(seen, '%Y-%m-%dT%H:%i:%s.%fZ')"),
}

// stored reads all rows of the database.
func stored(ctx context.Context, kind sqlfence.Dialect, db *sql.DB) (rows, error) {
	all := make(rows)
	for _, s := range selects {
		if err := all.read(ctx, db, s.table, s.keys, expressions[kind].Replace(s.columns)); err != nil {
			return nil, fmt.Errorf("%s: %w", s.table, err)
		}
	}
	return all, nil
}

func (all rows) read(ctx context.Context, db *sql.DB, table string, keys int, columns string) error {
	found, err := db.QueryContext(ctx, "SELECT "+columns+" FROM "+table)
	if err != nil {
		return err
	}
	defer func() { _ = found.Close() }() // Err says what is wrong
	names, err := found.Columns()
	if err != nil {
		return err
	}
	values := make([]any, len(names))
	places := make([]any, len(names))
	for i := range values {
		places[i] = &values[i]
	}
	for found.Next() {
		if err := found.Scan(places...); err != nil {
			return err
		}
		cells := make([]string, len(values))
		for i, v := range values {
			cells[i] = cell(v, names[i])
		}
		all[rowName(slices.Concat([]string{table}, cells[:keys])...)] = rowText(cells[keys:]...)
	}
	return found.Err()
}

// cell writes what a driver returns as a text.
func cell(v any, column string) string {
	switch v := v.(type) {
	case nil:
		return null
	case []byte:
		if column == "score" {
			return number(string(v))
		}
		return string(v)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return fmt.Sprint(v)
}

func number(text string) string {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return text
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}
