package sqltest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// patience bounds everything here that waits for a server. It is far above what any of
// it takes on a loaded machine.
const patience = 60 * time.Second

// ErrNotInstalled is returned when a program of the server is not on this machine.
var ErrNotInstalled = errors.New("sqltest: not installed: run make deps")

// ErrShared is returned by what would take a server away from other tests.
var ErrShared = errors.New("sqltest: this server is shared with other tests: use Start")

// A Kind is a kind of database server. The zero value is none.
type Kind int

// The kinds of servers.
const (
	Postgres Kind = iota + 1
	MariaDB
)

// String returns "PostgreSQL" or "MariaDB".
func (k Kind) String() string {
	switch k {
	case Postgres:
		return "PostgreSQL"
	case MariaDB:
		return "MariaDB"
	}
	return "Kind(" + strconv.Itoa(int(k)) + ")"
}

// An engine is what one kind of server needs.
type engine interface {
	// prepare makes the data in the server's folder, with s.data not there yet.
	prepare(ctx context.Context, s *Server) error
	// command runs the server in the foreground on s.port.
	command(s *Server) *exec.Cmd
	// ready is what the log says when clients can connect, taken what the log says
	// when the port was not free.
	ready() string
	taken() string
	// quit is the signal that ends the server at once, without leaving anything behind.
	quit() string
	// client runs one statement in a database, in the default one when it is empty.
	client(ctx context.Context, s *Server, database, statement string) *exec.Cmd
	url(s *Server, database string) string
}

// A Server is one running server. Its methods may be called by one goroutine at a
// time, except for URL, Addr, Port, NewDatabase and CreateDatabase, which are for any;
// the server itself serves everybody.
type Server struct {
	kind    Kind
	engine  engine
	folder  *folder
	port    int
	durable bool
	args    []string
	shared  bool
	tls     bool

	databases atomic.Int64
	closing   sync.Once

	process *os.Process   // nil when the server is not running
	exited  chan struct{} // closed when process has ended
	logged  int64         // size of the log when the process was started
}

// An Option changes how Start and Run make a server.
type Option func(*Server)

// Durable makes the server's commits survive a power loss, which is how servers are
// set up by themselves. Without it they only survive the death of the server's
// processes, for tests that are several times faster on a slow disk.
func Durable() Option { return func(s *Server) { s.durable = true } }

// Args adds arguments to the command line of the server. They come last, so that they
// win over those that are there:
//
//	sqltest.Start(t, sqltest.Postgres, sqltest.Args("-c", "max_connections=10"))
//	sqltest.Start(t, sqltest.MariaDB, sqltest.Args("--max-connections=10"))
func Args(args ...string) Option {
	return func(s *Server) { s.args = append(s.args, args...) }
}

// Run makes a server with no data and starts it. It returns when the server answers.
// ctx bounds the start only; Close ends the server. The error matches ErrNotInstalled
// when the machine does not have it.
func Run(ctx context.Context, kind Kind, opts ...Option) (*Server, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	s := &Server{kind: kind}
	for _, opt := range opts {
		opt(s)
	}
	var err error
	if s.engine, err = find(kind); err != nil {
		return nil, err
	}
	if s.folder, err = newFolder(s.engine.quit()); err != nil {
		return nil, err
	}
	if err := s.prepare(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("sqltest: prepare %s: %w", kind, err), s.Close())
	}
	// Between choosing a port and binding it anybody can take it.
	for range 10 {
		if s.port, err = freePort(); err != nil {
			break
		}
		if err = s.start(ctx); err == nil || !strings.Contains(s.tail(), s.engine.taken()) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Server) prepare(ctx context.Context) error {
	if s.tls {
		if err := s.writeCertificate(); err != nil {
			return err
		}
	}
	return s.engine.prepare(ctx, s)
}

func find(kind Kind) (engine, error) {
	switch kind {
	case Postgres:
		return findPostgres()
	case MariaDB:
		return findMariaDB()
	}
	return nil, fmt.Errorf("sqltest: unknown %s", kind)
}

// Start runs a server for one test alone, and stops it when the test ends. When the
// test has failed, the end of the server's log is printed.
func Start(tb testing.TB, kind Kind, opts ...Option) *Server {
	tb.Helper()
	s, err := Run(tb.Context(), kind, opts...)
	if err != nil {
		giveUp(tb, err)
	}
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("the log of %s on port %d:\n%s", kind, s.port, s.tail())
		}
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

// giveUp ends a test that has no server.
func giveUp(tb testing.TB, err error) {
	tb.Helper()
	if errors.Is(err, ErrNotInstalled) && os.Getenv("CI") != "true" {
		tb.Skip("optional: ", err)
	}
	tb.Fatal(err)
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("sqltest: %w", err)
	}
	defer func() { _ = l.Close() }() // it was only to know the port
	return l.Addr().(*net.TCPAddr).Port, nil
}

// Kind returns the kind of the server.
func (s *Server) Kind() Kind { return s.kind }

// Addr returns host and port, which stay the same over Restart.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// Port returns the port.
func (s *Server) Port() int { return s.port }

// URL names a database of this server to clients, with the name and password of a user
// who may do everything:
//
//	postgres://lockkeeper@127.0.0.1:PORT/DATABASE?sslmode=disable
//	mariadb://lockkeeper:lockkeeper@127.0.0.1:PORT/DATABASE
//
// The database need not be there.
func (s *Server) URL(database string) string { return s.engine.url(s, database) }

// NewDatabase makes a database with nothing in it for one test, and returns its URL.
// On a shared server it goes away with the test, also when clients are still connected.
func (s *Server) NewDatabase(tb testing.TB) (url string) {
	tb.Helper()
	name := fmt.Sprint("t", s.databases.Add(1))
	url, err := s.CreateDatabase(tb.Context(), name)
	if err != nil {
		tb.Fatalf("%v\n%s", err, s.tail())
	}
	if s.shared && s.kind == Postgres { // where one takes 8 MB; others take nothing to speak of
		tb.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			if err := s.Exec(ctx, "", "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
				tb.Error(err)
			}
		})
	}
	return url
}

// CreateDatabase makes a database with nothing in it, and returns its URL. The name
// goes into the statement as it is.
func (s *Server) CreateDatabase(ctx context.Context, name string) (url string, err error) {
	if err := s.Exec(ctx, "", "CREATE DATABASE "+name); err != nil {
		return "", err
	}
	return s.URL(name), nil
}

// Exec runs one statement through the database's own command line client, for what has
// to be done from outside and where there is no driver. An empty database is the one for
// administration. What the statement returns is lost.
func (s *Server) Exec(ctx context.Context, database, statement string) error {
	cmd := s.engine.client(ctx, s, database, statement)
	cmd.Dir = s.folder.path
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("sqltest: %s: %s: %w: %s", s.kind, statement, err, strings.TrimSpace(string(out)))
	}
	return nil
}

func (s *Server) logFile() string { return filepath.Join(s.folder.path, "log") }
func (s *Server) data() string    { return filepath.Join(s.folder.path, "data") }

// Close ends the server without ceremony, and removes all that it has kept. It does
// nothing the second time.
func (s *Server) Close() error {
	if s.shared {
		return ErrShared
	}
	var err error
	s.closing.Do(func() {
		s.Quit()
		err = s.folder.remove()
	})
	return err
}
