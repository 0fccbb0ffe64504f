package config

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// boolean returns true or false.
func (r *reader) boolean(e entry) bool {
	n, ok := e.value.(*ast.BoolNode)
	if !ok {
		r.fail(e.value, "%s: %s, where true or false belongs", e.name, kind(e.value))
		return false
	}
	return n.Value
}

// integer returns a whole number between two bounds.
func (r *reader) integer(e entry, least, most int) int {
	if _, ok := e.value.(*ast.IntegerNode); ok {
		n, err := strconv.Atoi(e.value.GetToken().Value)
		if err == nil && n >= least && n <= most {
			return n
		}
	}
	r.fail(e.value, "%s: a whole number from %d to %d belongs here", e.name, least, most)
	return 0
}

// duration returns a time of at least that, in whole milliseconds.
func (r *reader) duration(e entry, least time.Duration) time.Duration {
	switch n := e.value.(type) {
	case *ast.IntegerNode, *ast.FloatNode:
		r.fail(n, "%s: a number without a unit; write %ss or %sms", e.name, n.GetToken().Value, n.GetToken().Value)
		return 0
	case *ast.StringNode:
		d, err := time.ParseDuration(n.Value)
		switch {
		case err != nil:
			r.fail(n, "%s: %q is no time; write 500ms, 10s or 1m30s", e.name, n.Value)
		case d < least:
			r.fail(n, "%s: at least %s", e.name, least)
		case d%time.Millisecond != 0:
			r.fail(n, "%s: whole milliseconds belong here", e.name)
		default:
			return d
		}
	default:
		r.fail(n, "%s: %s, where a time belongs, such as 10s", e.name, kind(n))
	}
	return 0
}

// share returns a percentage of at least that, as a share from 0 to 1.
func (r *reader) share(e entry, least float64) float64 {
	text := ""
	switch n := e.value.(type) {
	case *ast.StringNode:
		text = n.Value
	case *ast.IntegerNode, *ast.FloatNode:
		text = n.GetToken().Value
	default:
		r.fail(n, "%s: %s, where a percentage belongs, such as 5%%", e.name, kind(n))
		return 0
	}
	share, err := Share(text)
	switch {
	case err != nil:
		r.fail(e.value, "%s: %s", e.name, err)
	case share < least:
		r.fail(e.value, "%s: at least %v%%", e.name, 100*least)
	}
	return share
}

// Share reads a percentage such as 5% or 0.1%, from 0% to 100%, and returns it as a share
// from 0 to 1.
func Share(text string) (float64, error) {
	digits, ok := strings.CutSuffix(text, "%")
	if !ok {
		return 0, fmt.Errorf("%q is no percentage; write it with its sign, such as 5%%", text)
	}
	n, err := strconv.ParseFloat(digits, 64)
	if err != nil || math.IsNaN(n) || n < 0 || n > 100 {
		return 0, fmt.Errorf("%q is no percentage from 0%% to 100%%", text)
	}
	return n / 100, nil
}

// literal returns a text, a number, true or false as it is written in the file: what it
// means is up to the column's type.
func (r *reader) literal(e entry) (string, bool) {
	text, err := literalOf(e.value)
	if err != nil {
		r.fail(e.value, "%s: %s", e.name, err)
	}
	return text, err == nil
}

func literalOf(n ast.Node) (string, error) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, nil
	case *ast.LiteralNode:
		return n.Value.Value, nil
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, nil
	case *ast.NullNode:
		return "", errors.New("null, where a text belongs; put it in quotes if it is one, and leave it out if it is not")
	}
	return "", fmt.Errorf("%s, where a text belongs", kind(n))
}

// literals returns a list of them.
func (r *reader) literals(e entry) []string {
	list, ok := e.value.(*ast.SequenceNode)
	if !ok {
		r.fail(e.value, "%s: %s, where a list belongs, such as [\"null\", \"-\"]", e.name, kind(e.value))
		return nil
	}
	var texts []string
	for _, n := range list.Values {
		text, err := literalOf(n)
		switch {
		case err != nil:
			r.fail(n, "%s: %s", e.name, err)
		case slices.Contains(texts, text):
			r.fail(n, "%s: %q is there twice", e.name, text)
		default:
			texts = append(texts, text)
		}
	}
	if len(list.Values) == 0 {
		r.fail(list, "%s: it is empty", e.name)
	}
	return texts
}

// word returns one word of a few, of which one is null, which YAML takes for nothing.
func (r *reader) word(e entry) string {
	if n, ok := e.value.(*ast.NullNode); ok && n.GetToken().Type == token.NullType && n.GetToken().Value == "null" {
		return "null"
	}
	text, _ := r.text(e)
	return text
}

// choice returns one of two words, or "".
func (r *reader) choice(e entry, a, b string) string {
	text, ok := r.text(e)
	if !ok || text == a || text == b {
		return text
	}
	r.fail(e.value, "%s: %q is unknown: %s or %s", e.name, text, a, b)
	return ""
}
