package sqltest

import (
	"context"
	"sync"
	"testing"
)

// shared are the servers that the tests of this process share. This is global because
// the process is what they belong to: starting one for each test would take most of the
// time of the tests, and there is no other place that outlives a test.
var shared = map[Kind]func() (*Server, error){
	Postgres: sync.OnceValues(func() (*Server, error) { return runShared(Postgres) }),
	MariaDB:  sync.OnceValues(func() (*Server, error) { return runShared(MariaDB) }),
}

func runShared(kind Kind) (*Server, error) {
	s, err := Run(context.Background(), kind)
	if err == nil {
		s.shared = true
	}
	return s, err
}

// Shared returns the server of its kind that all tests of this process use; the first
// of them starts it. It can't be killed or stopped. It ends with the process.
func Shared(tb testing.TB, kind Kind) *Server {
	tb.Helper()
	start, ok := shared[kind]
	if !ok {
		tb.Fatalf("sqltest: unknown %s", kind)
	}
	s, err := start()
	if err != nil {
		giveUp(tb, err)
	}
	return s
}
