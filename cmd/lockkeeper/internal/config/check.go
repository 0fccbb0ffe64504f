package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/lockkeeper/lockkeeper/flush"
)

// A placed is a mapping with the places of what the file says about it.
type placed struct {
	node    ast.Node
	entries map[string]entry
	details map[string]map[string]entry // of the columns by their name: "" is the column itself
	told    []string                    // what was said about the columns
}

// trialKey is the key column of a mapping that is made to check another column.
const trialKey = "lockkeeper_trial"

// checkColumn asks package flush about one column, so that what is wrong has the
// column's line.
func (r *reader) checkColumn(p *placed, c flush.Column) {
	trial := flush.Mapping{
		Keys:    "{" + trialKey + "}",
		Table:   "trial",
		Key:     []flush.Column{{Name: trialKey, Type: flush.Text}},
		Columns: []flush.Column{c},
	}
	for _, message := range leaves(trial.Check()) {
		r.fail(p.ofColumn(c.Name, message), "%s", message)
		p.told = append(p.told, message)
	}
}

// settings say which setting of a column an error of package flush is about, by what it
// has. Others are about the column.
var settings = []struct{ part, key string }{
	{": unknown type ", "type"},
	{": type ", "type"},
	{" can be written in several ways", "type"},
	{" is of type ", "type"},
	{": only a decimal can be rounded", "scale"},
	{": only in a text can bytes be replaced", "invalid"},
	{" for empty texts", "empty"},
	{": default ", "default"},
	{": with a default nothing is required", "required"},
	{": a key has no default", "default"},
	{" has no \"", "field"},
}

// ofColumn returns the place that a message about a column is about.
func (p *placed) ofColumn(name, message string) ast.Node {
	details := p.details[name]
	for _, s := range settings {
		if e, given := details[s.key]; given && strings.Contains(message, s.part) {
			return e.value
		}
	}
	return details[""].key
}

// places say which value of a mapping an error of package flush is about, by how it
// begins. Others are about the mapping.
var places = []struct{ prefix, key string }{
	{"key pattern", "keys"},
	{"table name", "table"},
	{"unknown source", "source"},
	{"unknown policy", "missing"},
	{"no columns", "columns"},
	{"columns: ", "columns"},
	{"key column", "key"},
	{"part {", "key"},
	{"limit ", "limit"},
	{"scan ", "scan"},
}

// checkMapping asks package flush about the whole mapping. What was told already, or is
// because something is missing, is left out.
func (r *reader) checkMapping(p *placed, m *flush.Mapping) {
	for _, message := range leaves(m.Check()) {
		if slices.Contains(p.told, message) {
			continue
		}
		if at, given := p.of(message, m); given {
			r.fail(at, "%s", message)
		}
	}
}

// of returns the place of a message about a mapping, and whether the file has said what
// it is about.
func (p *placed) of(message string, m *flush.Mapping) (at ast.Node, given bool) {
	if name, ok := columnIn(message); ok {
		if _, known := p.details[name]; known {
			return p.ofColumn(name, message), true
		}
	}
	for _, place := range places {
		if strings.HasPrefix(message, place.prefix) {
			return p.entries[place.key].value, has(m, place.key)
		}
	}
	return p.node, true
}

// columnIn returns the name of the column that a message begins with.
func columnIn(message string) (name string, ok bool) {
	rest, ok := strings.CutPrefix(strings.TrimPrefix(message, "key "), "column ")
	if !ok {
		return "", false
	}
	if _, err := fmt.Sscanf(rest, "%q", &name); err != nil {
		return "", false // "column name ..."
	}
	return name, true
}

// has reports whether the file has given a value that could be read.
func has(m *flush.Mapping, key string) bool {
	switch key {
	case "keys":
		return m.Keys != ""
	case "table":
		return m.Table != ""
	case "source":
		return m.Source != ""
	case "missing":
		return m.Missing != ""
	case "limit":
		return m.Limit != 0
	case "scan":
		return m.Scan != 0 || m.ScanDeletes != 0
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
