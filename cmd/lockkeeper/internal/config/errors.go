package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// An Error is one thing that is wrong with a file.
type Error struct {
	Line, Column int // from 1
	Message      string
}

// Errors are all that is wrong with a file, in the order of its lines.
type Errors struct {
	File string
	List []Error
}

// Error returns a line for each of them, as file:line:column: message.
func (e *Errors) Error() string {
	lines := make([]string, len(e.List))
	for i, one := range e.List {
		lines[i] = fmt.Sprintf("%s:%d:%d: %s", e.File, one.Line, one.Column, one.Message)
	}
	return strings.Join(lines, "\n")
}

// fail records what is wrong at a node.
func (r *reader) fail(at ast.Node, format string, args ...any) {
	line, column := position(at)
	r.errors = append(r.errors, Error{line, column, fmt.Sprintf(format, args...)})
}

// err returns what was recorded, or nil.
func (r *reader) err() error {
	if len(r.errors) == 0 {
		return nil
	}
	slices.SortStableFunc(r.errors, func(a, b Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return &Errors{File: r.file, List: r.errors}
}

// position returns where a node begins. A mapping's own token is its first colon.
func position(n ast.Node) (line, column int) {
	if m, ok := n.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		n = m.Values[0].Key
	}
	if n == nil || n.GetToken() == nil || n.GetToken().Position == nil {
		return 1, 1
	}
	p := n.GetToken().Position
	return max(p.Line, 1), max(p.Column, 1)
}

// similar returns the known word that is most like one, in the form of a question, or
// "".
func similar(word string, known []string) string {
	best, least := "", 3
	for _, k := range known {
		if d := distance(strings.ToLower(word), k); d < least {
			best, least = k, d
		}
	}
	if best == "" || 2*least >= len(best) { // half of it is another word
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// distance is how many letters have to be changed, added or left out to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		last := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := last
			if a[i] != b[j] {
				replaced++
			}
			last = row[j+1]
			row[j+1] = min(replaced, row[j]+1, last+1)
		}
	}
	return row[len(b)]
}
