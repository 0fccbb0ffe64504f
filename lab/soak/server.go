package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/redistest"
)

// A server is the redis-server of a round. It writes everything to its file before it
// answers, so that a restart keeps its memory. It does not wait for the disk: the process
// dies here and not the machine, and a disk that others keep busy would hold up everybody
// for seconds. (With "everysec" it may answer before it writes.) Only one goroutine at a
// time may use it, but for do.
//
// It is not a redistest.Server, because that belongs to a test, ends it when something
// fails, and would outlive a parent that is killed.
type server struct {
	binary string
	dir    string
	port   int
	cmd    *exec.Cmd     // nil while it does not run
	exited chan struct{} // closed when cmd has ended
}

// startServer starts a server on a free port, with its data and its log in a folder.
func startServer(ctx context.Context, dir string) (*server, error) {
	name := os.Getenv("LOCKKEEPER_REDIS_SERVER")
	if name == "" {
		name = "redis-server"
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return nil, fmt.Errorf("redis-server is not installed: run make deps (%w)", err)
	}
	s := &server{binary: path, dir: dir}
	for range 20 {
		// Below the ports that the system gives to connections: those that are tried
		// while the server is down could take its own port away.
		s.port = 12000 + rand.IntN(20000)
		l, err := net.Listen("tcp", s.addr())
		if err != nil {
			continue
		}
		_ = l.Close() // it was only to see whether the port is free
		if err = s.start(ctx); err == nil {
			return s, nil
		}
		if !s.logHas("Address already in use") {
			return nil, err
		}
	}
	return nil, errors.New("redis-server: no free port found")
}

func (s *server) addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

func (s *server) log() string { return filepath.Join(s.dir, "redis.log") }

func (s *server) logHas(text string) bool {
	b, err := os.ReadFile(s.log())
	return err == nil && strings.Contains(string(b), text)
}

// start runs the process and waits until it answers.
func (s *server) start(ctx context.Context) error {
	out, err := os.OpenFile(s.log(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	cmd := exec.Command(s.binary, "--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--protected-mode", "no",
		"--dir", s.dir, "--save", "", "--appendonly", "yes", "--appendfsync", "no", "--auto-aof-rewrite-percentage", "0")
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, out, out
	dieWithParent(cmd)
	if err := cmd.Start(); err != nil {
		return err
	}
	exited := make(chan struct{})
	s.cmd, s.exited = cmd, exited
	go func() { // kill waits for it
		_ = cmd.Wait() // it ends by a signal, or its log says why
		close(exited)
	}()
	return s.ready(ctx)
}

// startWithin bounds a start. It is far above what one takes on a loaded machine.
const startWithin = 30 * time.Second

// ready waits until the server answers.
func (s *server) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	for {
		if _, err := s.do(ctx, "PING"); err == nil {
			return nil
		}
		select {
		case <-s.exited:
			s.cmd = nil
			return fmt.Errorf("redis-server ended before it was ready, see %s", s.log())
		case <-ctx.Done():
			s.kill()
			return fmt.Errorf("redis-server does not answer: %w", ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// do runs one command on a connection of its own.
func (s *server) do(ctx context.Context, args ...string) (any, error) {
	c := redistest.NewConn(s.addr())
	defer c.Close()
	return c.Do(ctx, args...)
}

// kill ends the server as a crash does.
func (s *server) kill() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill() // it may have ended by itself
	<-s.exited
	s.cmd = nil
}

// restart kills the server, and starts it again: with its data, or without.
func (s *server) restart(ctx context.Context, empty bool) error {
	s.kill()
	if empty {
		if err := os.RemoveAll(filepath.Join(s.dir, "appendonlydir")); err != nil {
			return err
		}
	}
	return s.start(ctx)
}

// fenceSuffix ends the names of the keys that outlive all holders.
const fenceSuffix = ":lk-fence"

// keys returns all keys of the server.
func (s *server) keys(ctx context.Context) ([]string, error) {
	reply, err := s.do(ctx, "KEYS", "*")
	if err != nil {
		return nil, err
	}
	var keys []string
	for _, key := range reply.([]any) {
		keys = append(keys, key.(string))
	}
	return keys, nil
}
