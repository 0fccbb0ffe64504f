package flush

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/lockkeeper/lockkeeper/flush/internal/value"
)

// A badValue is why a value can't be a row.
type badValue struct{ column, reason string }

func bad(c *column, err error) *badValue { return &badValue{c.Name, err.Error()} }

// row makes a row of what the scripts have read of a key.
func (r *route) row(p pending, reply []any) (Row, *badValue) {
	row := Row{Mapping: r.Mapping, Key: p.key, route: r, mark: p.mark}
	var err *badValue
	switch r.source() {
	case Hashes:
		row.Values, err = r.cells(func(i int) (string, bool) {
			text, there := reply[i].(string)
			return text, there
		})
	case Strings:
		text, _ := reply[0].(string)
		row.Values, err = r.cells(func(int) (string, bool) { return text, true })
	case Documents:
		text, _ := reply[0].(string)
		row.Values, err = r.document(text)
	default:
		row.Children, err = r.elements(reply)
	}
	return row, err
}

// cells converts one value for each column.
func (r *route) cells(field func(i int) (text string, there bool)) ([]any, *badValue) {
	values := make([]any, len(r.columns))
	for i := range r.columns {
		c := &r.columns[i]
		text, there := field(i)
		v, err := c.absentOr(text, there)
		if err != nil {
			return nil, bad(c, err)
		}
		values[i] = v
	}
	return values, nil
}

func (c *column) absentOr(text string, there bool) (any, error) {
	if !there {
		return c.absent()
	}
	return c.convert(text)
}

// elements makes the rows of a set, list or sorted set.
func (r *route) elements(reply []any) ([][]any, *badValue) {
	n := int(number(reply[0]))
	if n > r.limit() {
		return nil, &badValue{"", fmt.Sprintf("it has %d elements, and the limit is %d", n, r.limit())}
	}
	texts := reply[1:]
	width := 1
	if r.source() == SortedSets {
		width = 2
	}
	children := make([][]any, 0, len(texts)/width)
	for i := 0; i+width <= len(texts); i += width {
		first, _ := texts[i].(string)
		fields := map[string]string{"member": first, "value": first, "position": strconv.Itoa(i)}
		if width == 2 {
			fields["score"], _ = texts[i+1].(string)
		}
		child, err := r.child(func(name string) (string, bool) { return fields[name], true })
		if err != nil {
			return nil, err
		}
		children = append(children, child)
	}
	return children, r.sort(children)
}

// child converts what tells a row of a key apart, and then its columns.
func (r *route) child(field func(name string) (string, bool)) ([]any, *badValue) {
	text, _ := field(r.element.source)
	id, err := r.element.kind.Key(text)
	if err != nil {
		return nil, bad(r.element, err)
	}
	cells, wrong := r.cells(func(i int) (string, bool) { return field(r.columns[i].source) })
	if wrong != nil {
		wrong.reason = fmt.Sprintf("%s %s: %s", r.shape.element, value.Show(id), wrong.reason)
		return nil, wrong
	}
	return append([]any{id}, cells...), nil
}

// sort brings the rows of a key into the order of their primary key.
func (r *route) sort(children [][]any) *badValue {
	slices.SortFunc(children, func(a, b []any) int { return value.Compare(a[0], b[0]) })
	for i := 1; i < len(children); i++ {
		if value.Compare(children[i-1][0], children[i][0]) == 0 {
			return &badValue{r.element.Name, fmt.Sprintf("%s is there twice", value.Show(children[i][0]))}
		}
	}
	return nil
}

// document takes the columns out of a JSON text. Numbers stay the digits that they are.
func (r *route) document(text string) ([]any, *badValue) {
	whole := value.Type{Kind: value.JSON}
	if _, err := whole.Convert(text, value.Rules{}); err != nil {
		return nil, &badValue{"", err.Error()}
	}
	values := make([]any, len(r.columns))
	for i := range r.columns {
		c := &r.columns[i]
		raw, there := lookup(json.RawMessage(text), c.source)
		v, err := c.fromJSON(raw, there)
		if err != nil {
			return nil, bad(c, err)
		}
		values[i] = v
	}
	return values, nil
}

// lookup follows a path through objects.
func lookup(raw json.RawMessage, path string) (json.RawMessage, bool) {
	if path == "." {
		return raw, true
	}
	for name := range strings.SplitSeq(path, ".") {
		var object map[string]json.RawMessage
		if json.Unmarshal(raw, &object) != nil { // it is no object
			return nil, false
		}
		next, there := object[name]
		if !there {
			return nil, false
		}
		raw = next
	}
	return raw, true
}

// fromJSON converts a value inside of a JSON text, which is valid.
func (c *column) fromJSON(raw json.RawMessage, there bool) (any, error) {
	text := strings.TrimSpace(string(raw))
	switch {
	case !there:
		return c.absent()
	case text == "null":
		return c.null("it is null, and required")
	case c.kind.Kind == value.JSON:
		return c.convert(text)
	case text[0] == '"':
		var s string
		if err := json.Unmarshal(raw, &s); err != nil {
			return nil, err
		}
		return c.convert(s)
	case text[0] == '{', text[0] == '[':
		return nil, fmt.Errorf("it is an object or array: only a json column takes these")
	}
	return c.convert(text)
}
