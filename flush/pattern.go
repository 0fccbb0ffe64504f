package flush

import (
	"fmt"
	"slices"
	"strings"
)

// A pattern is a parsed Mapping.Keys: literal, part, literal, part, ..., literal.
type pattern struct {
	literals []string // one more than parts
	parts    []string
	colons   []bool // whether the part takes colons
}

func parsePattern(text string) (*pattern, error) {
	p := &pattern{}
	seen := make(map[string]bool)
	rest := text
	for {
		literal, after, found := strings.Cut(rest, "{")
		if strings.Contains(literal, "}") {
			return nil, fmt.Errorf("key pattern %q: a } without its {", text)
		}
		p.literals = append(p.literals, literal)
		if !found {
			break
		}
		name, tail, closed := strings.Cut(after, "}")
		name, colons := strings.CutSuffix(name, "*")
		switch {
		case !closed:
			return nil, fmt.Errorf("key pattern %q: a { without its }", text)
		case !plainName.MatchString(name):
			return nil, fmt.Errorf("key pattern %q: part {%s}: letters, digits and underscores", text, name)
		case seen[name]:
			return nil, fmt.Errorf("key pattern %q: part {%s} is there twice", text, name)
		case len(p.parts) > 0 && literal == "":
			return nil, fmt.Errorf("key pattern %q: nothing between two parts", text)
		}
		seen[name] = true
		p.parts = append(p.parts, name)
		p.colons = append(p.colons, colons)
		rest = tail
	}
	if len(p.parts) == 0 {
		return nil, fmt.Errorf("key pattern %q: it needs a part, such as {id}", text)
	}
	return p, nil
}

// match returns the parts of a key, or false if the pattern does not fit.
func (p *pattern) match(key string) ([]string, bool) {
	rest, ok := strings.CutPrefix(key, p.literals[0])
	if !ok {
		return nil, false
	}
	parts := make([]string, len(p.parts))
	for i := range p.parts {
		literal := p.literals[i+1]
		end := len(rest)
		switch {
		case i+1 < len(p.parts):
			end = strings.Index(rest, literal)
		case !strings.HasSuffix(rest, literal):
			return nil, false
		default:
			end -= len(literal)
		}
		if end <= 0 || !p.colons[i] && strings.Contains(rest[:end], ":") {
			return nil, false
		}
		parts[i] = rest[:end]
		rest = rest[end+len(literal):]
	}
	return parts, true
}

// covers reports whether every key that fits other fits p as well, as far as that is
// plain to see.
func (p *pattern) covers(other *pattern) bool {
	if !slices.Equal(p.literals, other.literals) {
		return false
	}
	for i := range p.colons {
		if other.colons[i] && !p.colons[i] {
			return false
		}
	}
	return true
}

// key returns the key that has these parts.
func (p *pattern) key(parts []string) string {
	var b strings.Builder
	for i, part := range parts {
		b.WriteString(p.literals[i])
		b.WriteString(part)
	}
	b.WriteString(p.literals[len(parts)])
	return b.String()
}

// glob returns the pattern for SCAN; it finds more than the pattern does.
func (p *pattern) glob() string {
	var b strings.Builder
	for i, literal := range p.literals {
		if i > 0 {
			b.WriteByte('*')
		}
		for _, c := range []byte(literal) {
			if strings.IndexByte(`*?[]\\^-`, c) >= 0 {
				b.WriteByte('\\')
			}
			b.WriteByte(c)
		}
	}
	return b.String()
}
