package demo

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sort"
	"strconv"

	"github.com/lockkeeper/lockkeeper/flush"
)

// A record is one hash in Redis.
type record struct {
	id     string
	fields map[string]string
}

// A dataset is what the writer writes.
type dataset struct {
	columns []flush.Column
	records []record
	restore bool // write every record back at the end, so that the database must equal the input
}

// mapping returns how the dataset's keys become rows.
func (d *dataset) mapping(prefix string) flush.Mapping {
	return flush.Mapping{
		Keys:    prefix + ":{id*}",
		Table:   "items",
		Create:  true,
		Key:     []flush.Column{{Name: "id", Type: flush.Text}},
		Columns: d.columns,
	}
}

// madeUp returns n items of a shop.
func madeUp(n int) *dataset {
	d := &dataset{columns: []flush.Column{
		{Name: "name", Type: flush.Text, Required: true},
		{Name: "price_cents", Type: flush.Int64},
		{Name: "stock", Type: flush.Int64},
		{Name: "rating", Type: flush.Float64},
		{Name: "listed", Type: flush.Bool},
		{Name: "note", Type: flush.Text},
	}}
	adjectives := []string{"red", "blue", "small", "heavy", "quiet", "früh", "日本"}
	nouns := []string{"lamp", "chair", "kettle", "radio", "carpet", "clock"}
	for i := range n {
		d.records = append(d.records, record{strconv.Itoa(i), map[string]string{
			"name":        adjectives[i%len(adjectives)] + " " + nouns[i%len(nouns)] + " " + strconv.Itoa(i),
			"price_cents": strconv.Itoa(100 + rand.IntN(100_000)),
			"stock":       strconv.Itoa(rand.IntN(500)),
			"rating":      strconv.FormatFloat(float64(rand.IntN(50))/10, 'f', 1, 64),
			"listed":      strconv.FormatBool(i%3 != 0),
			"note":        "",
		}})
	}
	return d
}

// change returns a new value for a column that had old.
func change(t flush.Type, old string, n int) string {
	switch t {
	case flush.Int64:
		return strconv.Itoa(n)
	case flush.Float64:
		return strconv.FormatFloat(float64(n)/8, 'f', -1, 64)
	case flush.Bool:
		return strconv.FormatBool(n%2 == 0)
	}
	return old + " #" + strconv.Itoa(n)
}

// loadInput reads JSON lines, one flat object with an id each, and finds out the
// columns and their types. It refuses what would be lost on the way.
func loadInput(path string) (*dataset, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%w: --input: %w", ErrUsage, err)
	}
	defer func() { _ = f.Close() }()
	d, err := parseInput(f)
	if err != nil {
		return nil, fmt.Errorf("%w: --input %s: %w", ErrUsage, path, err)
	}
	return d, nil
}

func parseInput(r io.Reader) (*dataset, error) {
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, 16<<20)
	d := &dataset{restore: true}
	kinds := make(map[string]flush.Type)
	lines := make(map[string]int)
	for line := 1; scanner.Scan(); line++ {
		text := bytes.TrimSpace(scanner.Bytes())
		if len(text) == 0 {
			continue
		}
		rec, err := parseLine(text, kinds)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		if first, twice := lines[rec.id]; twice {
			return nil, fmt.Errorf("line %d: id %q was on line %d already", line, rec.id, first)
		}
		lines[rec.id] = line
		d.records = append(d.records, rec)
	}
	if err := scanner.Err(); err != nil {
		return nil, err
	}
	if len(d.records) == 0 || len(kinds) == 0 {
		return nil, fmt.Errorf("no object with an id and another field")
	}
	for name, kind := range kinds {
		d.columns = append(d.columns, flush.Column{Name: name, Type: kind})
	}
	sort.Slice(d.columns, func(i, j int) bool { return d.columns[i].Name < d.columns[j].Name })
	m := d.mapping("check")
	return d, m.Check()
}

// parseLine reads one object, and widens the types of the columns to what it has.
func parseLine(text []byte, kinds map[string]flush.Type) (record, error) {
	var object map[string]any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber() // numbers stay as they are written
	if err := decoder.Decode(&object); err != nil {
		return record{}, fmt.Errorf("not a JSON object: %w", err)
	}
	if decoder.More() {
		return record{}, fmt.Errorf("more than one JSON value")
	}
	rec := record{fields: make(map[string]string)}
	for name, value := range object {
		kind, v, err := scalar(value)
		switch {
		case err != nil:
			return record{}, fmt.Errorf("field %q: %w", name, err)
		case value == nil:
			continue // as if it were not there
		case name == "id":
			rec.id = v
			continue
		}
		rec.fields[name] = v
		if old, seen := kinds[name]; seen && old != kind {
			kind = flush.Text
		}
		kinds[name] = kind
	}
	if rec.id == "" {
		return record{}, fmt.Errorf("no id")
	}
	if len(rec.fields) == 0 {
		return record{}, fmt.Errorf("id %q has no other field", rec.id)
	}
	return rec, nil
}

func scalar(value any) (flush.Type, string, error) {
	switch v := value.(type) {
	case nil:
		return flush.Text, "", nil
	case string:
		if err := flush.Text.Check(v); err != nil {
			return "", "", err
		}
		return flush.Text, v, nil
	case bool:
		return flush.Bool, strconv.FormatBool(v), nil
	case json.Number:
		if flush.Int64.Check(v.String()) == nil {
			return flush.Int64, v.String(), nil
		}
		return flush.Text, v.String(), nil // exact, where a float might not be
	}
	return "", "", fmt.Errorf("a nested value; the object must be flat")
}
