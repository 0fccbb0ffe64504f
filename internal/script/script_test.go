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

// The two forms of text, and their sums as sha1sum prints them.
const (
	shebang    = "#!lua flags=allow-oom\n" + text
	plain      = "redis.replicate_commands()\n" + text
	shebangSHA = "2dda136113451b452e06bd2a0c2081e94f6c396c"
	plainSHA   = "ac1fd52747bafa84c58510f81fd2a0e1f75c7a73"
)

// A server is as much of a Redis as this package sees.
type server struct {
	old     bool  // it takes no shebang
	failure error // of every call, if there is one

	mu    sync.Mutex
	known []string // SHA-1s
	sent  []string // what was called, in order
}

// A line is an error of the server.
type line string

func (l line) Error() string { return "the server says: " + string(l) }
func (l line) Line() string  { return string(l) }

func (s *server) EvalSha(_ context.Context, sha string, _, _ []string) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = append(s.sent, "EVALSHA "+sha)
	switch {
	case s.failure != nil:
		return nil, s.failure
	case !slices.Contains(s.known, sha):
		return nil, line("NOSCRIPT No matching script. Please use EVAL.")
	}
	return int64(42), nil
}

func (s *server) Eval(_ context.Context, src string, _, _ []string) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = append(s.sent, "EVAL "+src)
	switch {
	case s.failure != nil:
		return nil, s.failure
	case s.old && strings.HasPrefix(src, "#!"):
		return nil, line("ERR Error compiling script (new function): user_script:1: unexpected symbol near '#'")
	case src == shebang:
		s.known = append(s.known, shebangSHA)
	case src == plain:
		s.known = append(s.known, plainSHA)
	}
	return int64(42), nil
}

// run runs the script n times and compares what was sent.
func run(t *testing.T, s *server, d *script.Dialect, n int, want ...string) {
	t.Helper()
	s.sent = nil
	for range n {
		reply, err := script.New(text).Run(t.Context(), s, d, []string{"k"}, []string{"a"})
		if reply != int64(42) || err != nil {
			t.Fatalf("got %v, %v", reply, err)
		}
	}
	if !slices.Equal(s.sent, want) {
		t.Errorf("sent:\n%s\nwant:\n%s", strings.Join(s.sent, "\n"), strings.Join(want, "\n"))
	}
}

func TestSourceOnlyWhenTheServerLacksIt(t *testing.T) {
	s, d := new(server), new(script.Dialect)
	run(t, s, d, 2, "EVALSHA "+shebangSHA, "EVAL "+shebang, "EVALSHA "+shebangSHA)
	s.known = nil // SCRIPT FLUSH
	run(t, s, d, 2, "EVALSHA "+shebangSHA, "EVAL "+shebang, "EVALSHA "+shebangSHA)
}

func TestOldServerIsFoundOutOnce(t *testing.T) {
	s, d := &server{old: true}, new(script.Dialect)
	run(t, s, d, 3, "EVALSHA "+shebangSHA, "EVAL "+shebang, "EVALSHA "+plainSHA, "EVAL "+plain,
		"EVALSHA "+plainSHA, "EVALSHA "+plainSHA)
	s.known = nil
	run(t, s, d, 1, "EVALSHA "+plainSHA, "EVAL "+plain)
	run(t, s, new(script.Dialect), 1, "EVALSHA "+shebangSHA, "EVAL "+shebang, "EVALSHA "+plainSHA) // another connection
}

func TestScriptWithoutFlags(t *testing.T) {
	for _, text := range []string{"-- flags:\nreturn 1", "return 1"} {
		s := new(server)
		if _, err := script.New(text).Run(t.Context(), s, new(script.Dialect), nil, nil); err != nil {
			t.Fatal(err)
		}
		if want := "EVAL #!lua\n" + text; s.sent[1] != want {
			t.Errorf("sent %q, want %q", s.sent[1], want)
		}
	}
}

// Any other error is the caller's, after one request, and does not change the form.
func TestOtherErrors(t *testing.T) {
	for _, failure := range []error{
		errors.New("connection reset: unexpected symbol near '#' when compiling script"), // not the server's
		line("OOM command not allowed when used memory > 'maxmemory'."),
		line("ERR Error compiling script (new function): user_script:7: unexpected symbol near ')'"),
		line("ERR user_script:7: '#'"),
	} {
		s, d := &server{failure: failure}, new(script.Dialect)
		if _, err := script.New(text).Run(t.Context(), s, d, nil, nil); err != failure {
			t.Errorf("got %v, want %v", err, failure)
		}
		if len(s.sent) != 1 {
			t.Errorf("%v: sent %q", failure, s.sent)
		}
		s.failure = nil
		run(t, s, d, 1, "EVALSHA "+shebangSHA, "EVAL "+shebang)
	}
}

func TestConcurrentDialect(t *testing.T) {
	s, d := &server{old: true}, new(script.Dialect)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			if reply, err := script.New(text).Run(t.Context(), s, d, nil, nil); reply != int64(42) || err != nil {
				t.Errorf("got %v, %v", reply, err)
			}
		})
	}
	wg.Wait()
	run(t, s, d, 1, "EVALSHA "+plainSHA)
}
