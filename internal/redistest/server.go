package redistest

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A Server is one redis-server process that belongs to one test. Its methods are
// for the test's goroutine, one at a time; the server itself serves everybody.
type Server struct {
	tb       testing.TB
	binary   string
	dir      string
	port     int
	args     []string
	password string      // of the default user, taken from the arguments
	tls      *tls.Config // for clients; nil without TLS

	process *os.Process   // nil when the server is not running
	exited  chan struct{} // closed when process has ended
	log     string        // the file that has the server's output
	logged  int64         // size of the log when the process was started
}

// An Option changes how Start runs the server.
type Option func(*Server)

// Args adds arguments to the command line of the server, where every directive of
// its configuration can be given:
//
//	redistest.Start(t, redistest.Args("--maxmemory", "4mb"))
//	redistest.Start(t, redistest.Args("--requirepass", "secret"))
//	redistest.Start(t, redistest.Args("--user", "worker", "on", ">pw", "~lock:*", "&*", "+@all"))
//
// The methods of Server use the password of --requirepass.
func Args(args ...string) Option {
	return func(s *Server) { s.args = append(s.args, args...) }
}

// TLS makes the server speak TLS only, with a certificate that TLSConfig trusts.
func TLS() Option {
	return func(s *Server) {
		args, config := certificates(s.tb, s.dir)
		s.args = append(s.args, args...)
		s.tls = config
	}
}

// Start runs a redis-server on a free port of the loopback interface, waits until
// it answers, and stops it when the test ends. It keeps nothing on disk unless
// Args says so. When the test has failed, the end of the server's log is printed.
//
// The binary is LOCKKEEPER_REDIS_SERVER, or redis-server in PATH. Without one the
// test is skipped, or fails where CI=true, so that no run there is green for
// having tested nothing.
func Start(tb testing.TB, opts ...Option) *Server {
	tb.Helper()
	s := &Server{tb: tb, binary: binary(tb), dir: tb.TempDir()}
	s.log = filepath.Join(s.dir, "redis.log")
	for _, opt := range opts {
		opt(s)
	}
	for i, arg := range s.args[:max(0, len(s.args)-1)] {
		if arg == "--requirepass" {
			s.password = s.args[i+1]
		}
	}
	tb.Cleanup(s.cleanup)

	// Between choosing a port and binding it anybody can take it.
	for range 10 {
		s.port = freePort(tb)
		err := s.run()
		if err == nil {
			return s
		}
		if !strings.Contains(s.tail(), "Address already in use") {
			tb.Fatalf("redistest: %v\n%s", err, s.tail())
		}
	}
	tb.Fatal("redistest: found no free port")
	return nil
}

// binary returns the path of the server's program.
func binary(tb testing.TB) string {
	tb.Helper()
	name := os.Getenv("LOCKKEEPER_REDIS_SERVER")
	if name == "" {
		name = "redis-server"
	}
	path, err := exec.LookPath(name)
	switch {
	case err == nil:
		return path
	case os.Getenv("CI") == "true":
		tb.Fatalf("redis-server is not installed: run make deps (%v)", err)
	default:
		tb.Skip("redis-server is not installed: run make deps")
	}
	return ""
}

// freePort returns a port that nobody listened on a moment ago. In a cluster a node
// uses the port 10000 above as well, so that it must be a valid one.
func freePort(tb testing.TB) int {
	tb.Helper()
	for {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			tb.Fatalf("redistest: %v", err)
		}
		_ = l.Close() // it was only to know the port
		if port := l.Addr().(*net.TCPAddr).Port; port <= 65535-10000 {
			return port
		}
	}
}

// run starts the process and waits until it answers.
func (s *Server) run() error {
	out, err := os.OpenFile(s.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	if s.logged, err = out.Seek(0, io.SeekEnd); err != nil {
		return err
	}
	ports := []string{"--port", strconv.Itoa(s.port)}
	if s.tls != nil {
		ports = []string{"--port", "0", "--tls-port", strconv.Itoa(s.port)}
	}
	cmd := exec.Command(s.binary)
	cmd.Args = append(cmd.Args, ports...)
	cmd.Args = append(cmd.Args, "--bind", "127.0.0.1", "--protected-mode", "no", "--dir", s.dir,
		"--save", "", "--appendonly", "no", "--enable-debug-command", "yes")
	cmd.Args = append(cmd.Args, s.args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, out, out
	if err := cmd.Start(); err != nil {
		return err
	}
	s.process, s.exited = cmd.Process, make(chan struct{})
	go func(exited chan struct{}) {
		_ = cmd.Wait() // it ends by a signal, or its log says why
		close(exited)
	}(s.exited)
	return s.ready()
}

// ready waits until the server answers commands. The line in the log makes sure
// that it is this process that answers, not another that took the port.
func (s *Server) ready() error {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if strings.Contains(s.tail(), "Ready to accept connections") && s.answers() {
			return nil
		}
		select {
		case <-s.exited:
			s.process = nil
			return errors.New("redis-server ended before it was ready")
		case <-time.After(2 * time.Millisecond):
		}
	}
	s.Kill()
	return fmt.Errorf("redis-server was not ready after %s", patience)
}

// answers reports whether the server replies to PING, be it with an error such as
// NOAUTH; but not while it loads its data.
func (s *Server) answers() bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	c := s.conn()
	defer c.Close()
	_, err := c.Do(ctx, "PING")
	code, isReply := replyCode(err)
	return err == nil || isReply && code != "LOADING"
}

// conn returns a client of the server with the rights of the default user.
func (s *Server) conn() *Conn {
	c := NewConn(s.Addr())
	c.Password, c.TLS = s.password, s.tls
	return c
}

// tail returns the end of what the running process has logged.
func (s *Server) tail() string {
	b, err := os.ReadFile(s.log)
	if err != nil {
		return err.Error()
	}
	b = b[min(s.logged, int64(len(b))):]
	if lines := bytes.SplitAfter(b, []byte("\n")); len(lines) > 100 {
		b = bytes.Join(lines[len(lines)-100:], nil)
	}
	return string(b)
}

func (s *Server) cleanup() {
	s.Kill()
	if s.tb.Failed() {
		s.tb.Logf("the log of redis-server on port %d:\n%s", s.port, s.tail())
	}
}

// Addr returns host and port, for clients.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// Port returns the port, which stays the same over Restart.
func (s *Server) Port() int { return s.port }

// URL returns redis://127.0.0.1:port, or rediss:// with TLS; without a password.
func (s *Server) URL() string {
	if s.tls != nil {
		return "rediss://" + s.Addr()
	}
	return "redis://" + s.Addr()
}

// TLSConfig returns what a client needs to trust the server, each call a copy of
// its own; nil without the option TLS.
func (s *Server) TLSConfig() *tls.Config { return s.tls.Clone() }

// Pause stops the process where it stands, and returns when it has: its connections
// stay open, the kernel still accepts new ones, and nothing is answered until
// Resume.
func (s *Server) Pause() {
	s.tb.Helper()
	s.signal(syscall.SIGSTOP)
	Until(s.tb, "the server has stopped", s.stopped)
}

// stopped reports whether the kernel has stopped the process, which it does a
// moment after the signal. Where there is no /proc that moment is not waited for.
func (s *Server) stopped() bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.process.Pid))
	if err != nil {
		return true
	}
	// The state follows the program's name, which is in parentheses.
	_, rest, _ := bytes.Cut(stat, []byte(") "))
	return bytes.HasPrefix(rest, []byte("T"))
}

// Resume lets a paused server go on, with all that clients have sent since.
func (s *Server) Resume() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig os.Signal) {
	s.tb.Helper()
	if s.process == nil {
		s.tb.Fatal("redistest: the server is not running")
	}
	if err := s.process.Signal(sig); err != nil {
		s.tb.Fatalf("redistest: %v: %v", sig, err)
	}
}

// Kill ends the server as a crash does, and returns when it is gone. It does
// nothing when the server is not running.
func (s *Server) Kill() {
	if s.process == nil {
		return
	}
	_ = s.process.Kill() // it may have ended by itself
	<-s.exited
	s.process = nil
}

// Restart starts the server again on its port and in its folder, after killing it
// if it still runs. Its data is what it has kept on disk: nothing, unless Args
// configured it.
func (s *Server) Restart() {
	s.tb.Helper()
	s.Kill()
	if err := s.run(); err != nil {
		s.tb.Fatalf("redistest: restart: %v\n%s", err, s.tail())
	}
}

// Do runs one command as the default user on a connection of its own, and returns
// its reply: nil, int64, string or []any. An error ends the test, which tb is.
func (s *Server) Do(tb testing.TB, args ...string) any {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c := s.conn()
	defer c.Close()
	reply, err := c.Do(ctx, args...)
	if err != nil {
		tb.Fatalf("redistest: %s: %v", strings.Join(args, " "), err)
	}
	return reply
}

// Commands returns how often each command was executed since the last ResetStats:
// by its name in lower case, with its subcommand as in "config|resetstat". The
// commands of Do and of clients that connect are counted like any other.
func (s *Server) Commands(tb testing.TB) map[string]int64 {
	tb.Helper()
	info, _ := s.Do(tb, "INFO", "commandstats").(string)
	calls := make(map[string]int64)
	for line := range strings.Lines(info) {
		name, rest, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		if !ok {
			continue
		}
		count, _, _ := strings.Cut(rest, ",")
		n, err := strconv.ParseInt(count, 10, 64)
		if err != nil {
			tb.Fatalf("redistest: INFO commandstats: %q: %v", line, err)
		}
		calls[name] = n
	}
	return calls
}

// ResetStats sets the counters of Commands to zero, except for the command that
// does it.
func (s *Server) ResetStats(tb testing.TB) {
	tb.Helper()
	s.Do(tb, "CONFIG", "RESETSTAT")
}
