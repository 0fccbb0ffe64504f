package rig

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

// A Redis is a redis-server that ends with this process. It is not a redistest.Server,
// because that belongs to a test. One goroutine at a time may use it, but for Do.
type Redis struct {
	binary string
	dir    string
	args   []string
	port   int
	cmd    *exec.Cmd     // nil while it does not run
	exited chan struct{} // closed when cmd has ended
}

// StartRedis starts a server on a free port, with its data and its log in a folder.
func StartRedis(ctx context.Context, dir string, args ...string) (*Redis, error) {
	name := os.Getenv("LOCKKEEPER_REDIS_SERVER")
	if name == "" {
		name = "redis-server"
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return nil, fmt.Errorf("redis-server is not installed: run make deps (%w)", err)
	}
	r := &Redis{binary: path, dir: dir, args: args}
	for range 20 {
		// Below the ports that the system gives to connections: those that are tried
		// while the server is down could take its own port away.
		r.port = 12000 + rand.IntN(20000)
		l, err := net.Listen("tcp", r.Addr())
		if err != nil {
			continue
		}
		_ = l.Close() // it was only to see whether the port is free
		if err = r.Start(ctx); err == nil {
			return r, nil
		}
		if log, _ := os.ReadFile(r.log()); !strings.Contains(string(log), "Address already in use") {
			return nil, err
		}
	}
	return nil, errors.New("redis-server: no free port found")
}

// Addr returns host and port, which stay the same.
func (r *Redis) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(r.port)) }

// Binary returns the program.
func (r *Redis) Binary() string { return r.binary }

func (r *Redis) log() string { return filepath.Join(r.dir, "redis.log") }

// startWithin bounds a start. It is far above what one takes on a loaded machine.
const startWithin = 60 * time.Second

// Start runs the process, and waits until it answers.
func (r *Redis) Start(ctx context.Context) error {
	out, err := os.OpenFile(r.log(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }() // the process has its own
	cmd := exec.Command(r.binary, append([]string{"--port", strconv.Itoa(r.port), "--bind", "127.0.0.1", "--protected-mode", "no",
		"--dir", r.dir, "--save", ""}, r.args...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = r.dir, out, out
	dieWithParent(cmd)
	if err := cmd.Start(); err != nil {
		return err
	}
	exited := make(chan struct{})
	r.cmd, r.exited = cmd, exited
	go func() { // Kill waits for it
		_ = cmd.Wait() // it ends by a signal, or its log says why
		close(exited)
	}()
	return r.ready(ctx)
}

func (r *Redis) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	for {
		if _, err := r.Do(ctx, "PING"); err == nil {
			return nil
		}
		select {
		case <-r.exited:
			r.cmd = nil
			return fmt.Errorf("redis-server ended before it was ready, see %s", r.log())
		case <-ctx.Done():
			r.Kill()
			return fmt.Errorf("redis-server does not answer: %w", ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Do runs one command on a connection of its own.
func (r *Redis) Do(ctx context.Context, args ...string) (any, error) {
	c := redistest.NewConn(r.Addr())
	defer c.Close()
	return c.Do(ctx, args...)
}

// UsedMemory returns what Redis has allocated.
func (r *Redis) UsedMemory(ctx context.Context) (int64, error) {
	reply, err := r.Do(ctx, "INFO", "memory")
	if err != nil {
		return 0, err
	}
	text, _ := reply.(string)
	for line := range strings.Lines(text) {
		if n, found := strings.CutPrefix(line, "used_memory:"); found {
			return strconv.ParseInt(strings.TrimSpace(n), 10, 64)
		}
	}
	return 0, errors.New("redis-server says nothing of its memory")
}

// CPU returns what the server has used.
func (r *Redis) CPU() time.Duration {
	if r.cmd == nil {
		return 0
	}
	return cpuOf(r.cmd.Process.Pid)
}

// Kill ends the server as a crash does.
func (r *Redis) Kill() {
	if r.cmd == nil {
		return
	}
	_ = r.cmd.Process.Kill() // it may have ended by itself
	<-r.exited
	r.cmd = nil
}
