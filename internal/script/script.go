package script

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"strings"
	"sync/atomic"
)

// A Runner is the part of a connection that scripts need.
type Runner interface {
	EvalSha(ctx context.Context, sha string, keys, args []string) (any, error)
	Eval(ctx context.Context, src string, keys, args []string) (any, error)
}

// An ErrorLine is an error that the server answered, as one line that begins
// with its code.
type ErrorLine interface {
	error
	Line() string
}

// A Script is one Lua script in its two forms. It is immutable.
type Script struct {
	shebang, plain form
}

type form struct{ src, sha string }

func newForm(src string) form {
	sum := sha1.Sum([]byte(src))
	return form{src: src, sha: hex.EncodeToString(sum[:])}
}

// New makes a script from the text of its file.
func New(text string) *Script {
	header := "#!lua"
	for line := range strings.Lines(text) {
		if flags, ok := strings.CutPrefix(line, "-- flags:"); ok {
			if flags = strings.TrimSpace(flags); flags != "" {
				header += " flags=" + flags
			}
			break
		}
	}
	// Servers before 7 replicate scripts as text unless told otherwise, and
	// refuse a write after TIME. Later ones ignore the call.
	plain := "redis.replicate_commands()\n" + text
	return &Script{shebang: newForm(header + "\n" + text), plain: newForm(plain)}
}

// A Dialect remembers which form the server behind a connection takes. The zero
// value is ready, and it is safe for concurrent use.
type Dialect struct{ old atomic.Bool }

// Run runs the script through r. It sends one request when the server knows the
// script, two when it does not, and two more once when it takes no shebang.
func (s *Script) Run(ctx context.Context, r Runner, d *Dialect, keys, args []string) (any, error) {
	old := d.old.Load()
	reply, err := s.form(old).run(ctx, r, keys, args)
	if old || err == nil || !rejectsShebang(err) {
		return reply, err
	}
	d.old.Store(true)
	return s.plain.run(ctx, r, keys, args)
}

func (s *Script) form(old bool) *form {
	if old {
		return &s.plain
	}
	return &s.shebang
}

func (f *form) run(ctx context.Context, r Runner, keys, args []string) (any, error) {
	reply, err := r.EvalSha(ctx, f.sha, keys, args)
	if err != nil && strings.HasPrefix(line(err), "NOSCRIPT") {
		return r.Eval(ctx, f.src, keys, args)
	}
	return reply, err
}

// rejectsShebang recognises the compile error that a server gives that takes the
// first line for Lua.
func rejectsShebang(err error) bool {
	l := line(err)
	return strings.Contains(l, "compiling script") && strings.Contains(l, "'#'")
}

func line(err error) string {
	var e ErrorLine
	if errors.As(err, &e) {
		return e.Line()
	}
	return ""
}
