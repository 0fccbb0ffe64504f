package config

import (
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
	known := []string{"keys", "source", "table", "create", "missing", "limit", "scan", "key", "columns"}
	o := r.object(n, "a mapping", known...)
	p := &placed{node: n, entries: o, details: make(map[string]map[string]entry)}
	for _, name := range known { // in this order, since what is known of a column is that of the last with its name
		e, given := o[name]
		if !given {
			continue
		}
		switch name {
		case "keys":
			m.Keys, _ = r.text(e)
		case "source":
			text, _ := r.text(e)
			m.Source = flush.Source(text)
		case "table":
			m.Table, _ = r.text(e)
		case "create":
			m.Create = r.boolean(e)
		case "missing":
			text, _ := r.text(e)
			m.Missing = flush.Missing(text)
		case "limit":
			m.Limit = r.integer(e, 1, mostLimit)
		case "scan":
			r.scan(e, &m)
		case "key":
			m.Key = r.columns(e, p, "type", "field")
		case "columns":
			m.Columns = r.columns(e, p, "type", "field", "required", "default", "nulls", "empty", "scale", "invalid")
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
	r.checkMapping(p, &m)
	if line, taken := tables[strings.ToLower(m.Table)]; taken && m.Table != "" {
		r.fail(o["table"].value, "the table %s is already that of the mapping in line %d; each needs its own", m.Table, line)
	}
	tables[strings.ToLower(m.Table)], _ = position(n)
	return m
}

// scan reads how often keys are compared, and how many rows that may delete.
func (r *reader) scan(e entry, m *flush.Mapping) {
	o := r.object(e.value, "scan", "every", "deletes")
	for name, e := range o {
		switch name {
		case "every":
			m.Scan = r.duration(e, leastScan)
		case "deletes":
			m.ScanDeletes = r.share(e, 0)
		}
	}
	if _, ok := e.value.(*ast.MappingNode); !ok {
		return
	}
	if _, ok := o["every"]; !ok {
		r.fail(e.value, "scan without \"every\": how often, such as 1m")
		m.ScanDeletes = 0 // its check would say the same
	}
}
