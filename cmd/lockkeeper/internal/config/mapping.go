package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/lockkeeper/lockkeeper/flush"
)

func (r *reader) mappings(f *File, e entry) {
	list, ok := e.value.(*ast.SequenceNode)
	if !ok {
		r.fail(e.value, "mappings: %s, where a list belongs: lines that begin with \"- keys:\"", kind(e.value))
		return
	}
	if len(list.Values) == 0 {
		r.fail(list, "mappings: it is empty")
	}
	tables := make(map[string]int)
	for _, n := range list.Values {
		f.Mappings = append(f.Mappings, r.mapping(n, tables))
	}
}

// mapping reads one mapping. tables has the tables of those before, with their lines.
func (r *reader) mapping(n ast.Node, tables map[string]int) (m flush.Mapping) {
	o := r.object(n, "a mapping", "keys", "table", "create", "missing", "key", "columns")
	var told []string // by the columns
	for name, e := range o {
		switch name {
		case "keys":
			m.Keys, _ = r.text(e)
		case "table":
			m.Table, _ = r.text(e)
		case "create":
			m.Create = r.boolean(e)
		case "missing":
			text, _ := r.text(e)
			m.Missing = flush.Missing(text)
		case "key":
			m.Key = r.columns(e, &told, "type", "field")
		case "columns":
			m.Columns = r.columns(e, &told, "type", "field", "required")
		}
	}
	if _, ok := n.(*ast.MappingNode); !ok {
		return m
	}
	for _, name := range []string{"keys", "table", "key", "columns"} {
		if _, ok := o[name]; !ok {
			r.fail(n, "a mapping without %q", name)
		}
	}
	r.checkMapping(n, o, &m, told)
	if line, taken := tables[strings.ToLower(m.Table)]; taken && m.Table != "" {
		r.fail(o["table"].value, "the table %s is already that of the mapping in line %d; each needs its own", m.Table, line)
	}
	tables[strings.ToLower(m.Table)], _ = position(n)
	return m
}

// columns reads columns, in the order of the file: either "name: type", or "name:" and
// what is known in braces.
func (r *reader) columns(e entry, told *[]string, known ...string) []flush.Column {
	var columns []flush.Column
	entries := r.entries(e.value, e.name)
	if m, ok := e.value.(*ast.MappingNode); ok && len(m.Values) == 0 {
		r.fail(e.value, "%s: no columns", e.name)
	}
	for _, c := range entries {
		column := flush.Column{Name: c.name}
		at := c.value
		switch c.value.(type) {
		case *ast.StringNode:
			column.Type = r.columnType(c)
		case *ast.MappingNode:
			at = r.longColumn(c, &column, known)
		default:
			r.fail(c.value, "column %q: %s, where a type belongs, such as text", c.name, kind(c.value))
		}
		if column.Type == "" { // told already
			column.Type = flush.Text
		}
		r.checkColumn(c.key, at, column, told)
		columns = append(columns, column)
	}
	return columns
}

func (r *reader) columnType(e entry) flush.Type {
	text, _ := r.text(e)
	return flush.Type(text)
}

// longColumn reads the form in braces, and returns where the type is.
func (r *reader) longColumn(c entry, column *flush.Column, known []string) ast.Node {
	at := c.key
	o := r.object(c.value, "column "+c.name, known...)
	for name, e := range o {
		switch name {
		case "type":
			column.Type, at = r.columnType(e), e.value
		case "field":
			column.Field, _ = r.text(e)
		case "required":
			column.Required = r.boolean(e)
		}
	}
	if _, ok := o["type"]; !ok {
		r.fail(c.key, "column %q has no type", c.name)
	}
	return at
}

// trialKey is the key column of a mapping that is made to check another column.
const trialKey = "lockkeeper_trial"

// checkColumn asks package flush about one column, so that what is wrong has the
// column's line.
func (r *reader) checkColumn(name, kind ast.Node, c flush.Column, told *[]string) {
	c.Field = ""
	trial := flush.Mapping{
		Keys:    "{" + trialKey + "}",
		Table:   "trial",
		Key:     []flush.Column{{Name: trialKey, Type: flush.Text}},
		Columns: []flush.Column{c},
	}
	for _, message := range leaves(trial.Check()) {
		at := name
		if strings.Contains(message, "unknown type") {
			at = kind
		}
		r.fail(at, "%s", message)
		*told = append(*told, message)
	}
}

// places say which value of a mapping an error of package flush is about, by how it
// begins. Others are about the mapping.
var places = []struct{ prefix, key string }{
	{"key pattern", "keys"},
	{"table name", "table"},
	{"unknown policy", "missing"},
	{"no columns", "columns"},
	{"key column", "key"},
	{"part {", "key"},
}

// checkMapping asks package flush about the whole mapping. What was told already, or is
// because something is missing, is left out.
func (r *reader) checkMapping(n ast.Node, o map[string]entry, m *flush.Mapping, told []string) {
	for _, message := range leaves(m.Check()) {
		if slices.Contains(told, message) {
			continue
		}
		at := n
		given := true
		for _, p := range places {
			if strings.HasPrefix(message, p.prefix) {
				at, given = o[p.key].value, has(m, p.key)
			}
		}
		if at == n {
			at = columnOf(message, o, n)
		}
		if given {
			r.fail(at, "%s", message)
		}
	}
}

// columnOf returns the last column that a message begins with, or else.
func columnOf(message string, o map[string]entry, otherwise ast.Node) ast.Node {
	at := otherwise
	for _, key := range []string{"key", "columns"} {
		m, ok := o[key].value.(*ast.MappingNode)
		if !ok {
			continue
		}
		for _, v := range m.Values {
			if strings.HasPrefix(message, fmt.Sprintf("column %q", v.Key.GetToken().Value)) {
				at = v.Key
			}
		}
	}
	return at
}

// has reports whether the file has given a value that could be read.
func has(m *flush.Mapping, key string) bool {
	switch key {
	case "keys":
		return m.Keys != ""
	case "table":
		return m.Table != ""
	case "missing":
		return m.Missing != ""
	case "key":
		return len(m.Key) > 0
	}
	return len(m.Columns) > 0
}

// leaves returns the messages of joined errors, one by one.
func leaves(err error) []string {
	if err == nil {
		return nil
	}
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) {
		return []string{plain(err)}
	}
	var all []string
	for _, e := range joined.Unwrap() {
		all = append(all, leaves(e)...)
	}
	return all
}
