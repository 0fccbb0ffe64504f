package script_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/lockkeeper/lockkeeper/internal/script"
)

const text = "-- answer: 42.\n-- flags:   allow-oom\n-- KEYS:    none\nreturn 42\n"

// A server is as much of a Redis as this package sees.
type server struct {
	old     bool // takes no shebang
	failure error
	known   map[string]bool

	mu   sync.Mutex
	sent []string
}

type line string

func (l line) Error() string { return "the server says: " + string(l) }
func (l line) Line() string  { return string(l) }

func (s *server) EvalSha(_ context.Context, sha string, keys, args []string) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = append(s.sent, "evalsha")
	switch {
	case s.failure != nil:
		return nil, s.failure
	case !s.known[sha]:
		return nil, line("NOSCRIPT No matching script. Please use EVAL.")
	}
	return []any{keys, args}, nil
}

func (s *server) Eval(_ context.Context, src string, keys, args []string) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = append(s.sent, src)
	if s.old && strings.HasPrefix(src, "#!") {
		return nil, line("ERR Error compiling script (new function): user_script:1: unexpected symbol near '#'")
	}
	for _, sha := range shas {
		s.known[sha] = true // whichever it was: a test uses one script
	}
	return []any{keys, args}, nil
}

// shas of the two forms of text, by an independent sum (sha1sum).
var shas = []string{}

func TestForms(t *testing.T) {
	s := &server{known: map[string]bool{}}
	if _, err := script.New(text).Run(t.Context(), s, new(script.Dialect), nil, nil); err != nil {
		t.Fatal(err)
	}
	if want := "#!lua flags=allow-oom\n" + text; s.sent[1] != want {
		t.Errorf("source %q, want %q", s.sent[1], want)
	}
	s = &server{known: map[string]bool{}}
	if _, err := script.New("-- flags:\nreturn 1").Run(t.Context(), s, new(script.Dialect), nil, nil); err != nil {
		t.Fatal(err)
	}
	if want := "#!lua\n-- flags:\nreturn 1"; s.sent[1] != want {
		t.Errorf("source without flags %q, want %q", s.sent[1], want)
	}
}
