package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// A reader takes a syntax tree apart and records what is wrong with it.
type reader struct {
	file   string
	errors []Error
}

// parse returns the one document of a file, or nil.
func (r *reader) parse(data []byte) ast.Node {
	// Keys that are there twice are found later, with everything else.
	tree, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		r.syntax(err)
		return nil
	}
	var body ast.Node
	for _, document := range tree.Docs {
		switch {
		case document.Body == nil:
		case body != nil:
			r.fail(document.Body, "a second document: a file describes one flush")
			return nil
		default:
			body = document.Body
		}
	}
	if body == nil {
		r.fail(nil, "the file is empty")
	}
	return body
}

// syntax records an error of the parser, without the piece of the file that it shows.
func (r *reader) syntax(err error) {
	e := Error{Line: 1, Column: 1, Message: "this is not YAML"}
	var at yaml.Error
	if errors.As(err, &at) {
		e.Message = at.GetMessage()
		if token := at.GetToken(); token != nil && token.Position != nil {
			e.Line, e.Column = max(token.Position.Line, 1), max(token.Position.Column, 1)
		}
	}
	r.errors = append(r.errors, e)
}

// An entry is one key of a mapping, with its value.
type entry struct {
	name  string
	key   ast.Node
	value ast.Node
}

// entries returns what a node has, in the order of the file, each name once. what names
// the node in errors.
func (r *reader) entries(n ast.Node, what string) []entry {
	m, ok := n.(*ast.MappingNode)
	if !ok {
		r.fail(n, "%s: %s, where \"key: value\" lines belong", what, kind(n))
		return nil
	}
	var list []entry
	first := make(map[string]int)
	for _, v := range m.Values {
		name, ok := r.key(v.Key)
		if !ok {
			continue
		}
		if line, twice := first[name]; twice {
			r.fail(v.Key, "%q is there twice, first in line %d", name, line)
			continue
		}
		first[name], _ = position(v.Key)
		list = append(list, entry{name, v.Key, v.Value})
	}
	return list
}

// key returns the text of a mapping's key.
func (r *reader) key(n ast.MapKeyNode) (string, bool) {
	switch n.(type) {
	case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode:
		return n.GetToken().Value, true
	case *ast.MergeKeyNode:
		r.fail(n, "<<, anchors and aliases are not supported: write it out")
	default:
		r.fail(n, "%s can't be a key", kind(n))
	}
	return "", false
}

// object returns the entries by name, and records names that are not among the known.
func (r *reader) object(n ast.Node, what string, known ...string) map[string]entry {
	byName := make(map[string]entry)
	for _, e := range r.entries(n, what) {
		if !slices.Contains(known, e.name) {
			r.fail(e.key, "unknown key %q%s", e.name, suggestion(e.name, known))
			continue
		}
		byName[e.name] = e
	}
	return byName
}

func suggestion(name string, known []string) string {
	if s := similar(name, known); s != "" {
		return s
	}
	return "; known here: " + strings.Join(known, ", ")
}

// text returns a string value.
func (r *reader) text(e entry) (string, bool) {
	switch n := e.value.(type) {
	case *ast.StringNode:
		if n.Value != "" {
			return n.Value, true
		}
		r.fail(n, "%s: it is empty", e.name)
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		r.fail(n, "%s: %s, where text belongs; put it in quotes: %q", e.name, kind(n), n.GetToken().Value)
	default:
		r.fail(n, "%s: %s, where text belongs", e.name, kind(n))
	}
	return "", false
}

// kind says what a node is, in words.
func kind(n ast.Node) string {
	switch n.(type) {
	case nil, *ast.NullNode:
		return "nothing"
	case *ast.StringNode:
		return "text"
	case *ast.LiteralNode:
		return "text over several lines"
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return "a number"
	case *ast.BoolNode:
		return "true or false"
	case *ast.MappingNode, *ast.MappingValueNode:
		return "\"key: value\" lines"
	case *ast.SequenceNode:
		return "a list"
	case *ast.AnchorNode, *ast.AliasNode:
		return "an anchor or alias, which are not supported"
	case *ast.TagNode:
		return "a tag, which are not supported"
	}
	return fmt.Sprintf("a %s", strings.ToLower(n.Type().String()))
}
