package config

import (
	"regexp"

	"github.com/goccy/go-yaml/ast"

	"github.com/lockkeeper/lockkeeper/flush"
)

// columns reads columns, in the order of the file: either "name: type", or "name:" and
// what is known in braces.
func (r *reader) columns(e entry, p *placed, known ...string) []flush.Column {
	var columns []flush.Column
	entries := r.entries(e.value, e.name)
	if m, ok := e.value.(*ast.MappingNode); ok && len(m.Values) == 0 {
		r.fail(e.value, "%s: no columns", e.name)
	}
	for _, c := range entries {
		column := flush.Column{Name: c.name}
		details := map[string]entry{"": c}
		switch c.value.(type) {
		case *ast.StringNode:
			column.Type = r.columnType(c)
			details["type"] = c
		case *ast.MappingNode:
			r.longColumn(c, &column, details, known)
		default:
			r.fail(c.value, "column %q: %s, where a type belongs, such as text", c.name, kind(c.value))
		}
		if column.Type == "" { // told already
			column.Type = flush.Text
		}
		p.details[c.name] = details
		r.checkColumn(p, column)
		columns = append(columns, column)
	}
	return columns
}

func (r *reader) columnType(e entry) flush.Type {
	text, _ := r.text(e)
	return flush.Type(text)
}

// longColumn reads the form in braces. Where each setting is comes into details.
func (r *reader) longColumn(c entry, column *flush.Column, details map[string]entry, known []string) {
	if at, half := halfDecimal(c.value); half != "" {
		r.fail(at, "column %q: in braces a comma ends a value; put the type in quotes: \"%s,...)\"", c.name, half)
		return
	}
	o := r.object(c.value, "column "+c.name, known...)
	for name, e := range o {
		details[name] = e
		switch name {
		case "type":
			column.Type = r.columnType(e)
		case "field":
			column.Field, _ = r.text(e)
		case "required":
			column.Required = r.boolean(e)
		case "default":
			if text, ok := r.literal(e); ok {
				column.Default = &text
			}
		case "nulls":
			column.Nulls = r.literals(e)
		case "empty":
			column.Empty = flush.Empty(r.word(e))
		case "scale":
			column.Round = r.choice(e, "error", "round") == "round"
		case "invalid":
			column.Replace = r.choice(e, "park", "replace") == "replace"
		}
	}
	if _, ok := o["type"]; !ok {
		r.fail(c.key, "column %q has no type", c.name)
	}
}

var openDecimal = regexp.MustCompile(`^decimal\([0-9 ]*$`)

// halfDecimal finds a type such as decimal(9,2) in braces and without quotes, of which
// YAML makes two values.
func halfDecimal(n ast.Node) (at ast.Node, text string) {
	m, ok := n.(*ast.MappingNode)
	if !ok || !m.IsFlowStyle {
		return nil, ""
	}
	for _, v := range m.Values {
		if s, ok := v.Value.(*ast.StringNode); ok && openDecimal.MatchString(s.Value) {
			return s, s.Value
		}
	}
	return nil, ""
}
