package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// readyWithin bounds the start of a server.
const readyWithin = 10 * time.Second

// A server is one redis-server of our own, on a port that was free. A server that runs
// already is left alone.
type server struct {
	addr   string
	cmd    *exec.Cmd
	exited chan struct{} // closed when the process has ended
	admin  *redis.Client // for the coordinator's own questions
}

// redisProgram returns LOCKKEEPER_REDIS_SERVER, or redis-server in PATH.
func redisProgram() (string, error) {
	program := os.Getenv("LOCKKEEPER_REDIS_SERVER")
	if program == "" {
		program = "redis-server"
	}
	path, err := exec.LookPath(program)
	if err != nil {
		return "", fmt.Errorf("redis-server is not installed: run make deps (%w)", err)
	}
	return path, nil
}

// startServer runs a server with its files in dir, and waits until it answers. It
// keeps nothing on disk but its log.
func startServer(ctx context.Context, launch *launcher, dir string) (*server, error) {
	path, err := redisProgram()
	if err != nil {
		return nil, err
	}
	for range 10 { // between choosing a port and binding it anybody can take it
		var s *server
		if s, err = tryServer(ctx, launch, path, dir); err == nil {
			return s, nil
		}
	}
	return nil, err
}

func tryServer(ctx context.Context, launch *launcher, path, dir string) (*server, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := listener.Addr().String()
	_ = listener.Close() // it was only to know the port
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	out, err := os.Create(filepath.Join(dir, "redis.log"))
	if err != nil {
		return nil, err
	}
	defer out.Close()
	s := &server{addr: addr, exited: make(chan struct{})}
	s.cmd = exec.Command(path, "--port", port, "--bind", "127.0.0.1", "--dir", dir, "--save", "", "--appendonly", "no")
	s.cmd.Stdout, s.cmd.Stderr = out, out
	if err := launch.start(s.cmd); err != nil {
		return nil, err
	}
	go func() {
		_ = s.cmd.Wait() // it ends by a signal, or does not become ready
		close(s.exited)
	}()
	s.admin = redis.NewClient(&redis.Options{Addr: addr})
	if err := s.ready(ctx); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// ready waits until it is our process that answers on the port.
func (s *server) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	ours := fmt.Sprintf("process_id:%d\r\n", s.cmd.Process.Pid)
	for {
		// Go-redis would wait between its own attempts, and log them.
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.addr)
		if err == nil {
			_ = conn.Close()
			var info string
			if info, err = s.admin.Info(ctx, "server").Result(); strings.Contains(info, ours) {
				return nil
			}
		}
		select {
		case <-s.exited:
			return errors.New("redis-server ended before it was ready")
		case <-ctx.Done():
			return fmt.Errorf("redis-server is not ready: %w", errors.Join(ctx.Err(), err))
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// stop ends the server, also a paused one.
func (s *server) stop() {
	_ = s.admin.Close()
	_ = s.cmd.Process.Kill() // it may have ended by itself
	<-s.exited
}

// pause stops the server where it stands, and returns when it has.
func (s *server) pause(ctx context.Context) error { return pauseProcess(ctx, s.cmd.Process) }

func (s *server) resume() error { return s.cmd.Process.Signal(syscall.SIGCONT) }

// pauseProcess stops a child and returns when it has stopped.
func pauseProcess(ctx context.Context, p *os.Process) error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for !isStopped(p.Pid) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Microsecond):
		}
	}
	return nil
}

// usage is what a server has done so far.
type usage struct {
	commands map[string]int64 // by name, those inside of scripts as well
	cpu      time.Duration
}

func (s *server) usage(ctx context.Context) (usage, error) {
	u := usage{commands: map[string]int64{}}
	info, err := s.admin.Do(ctx, "INFO", "commandstats", "cpu").Text()
	if err != nil {
		return u, err
	}
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch {
		case name == "used_cpu_sys" || name == "used_cpu_user":
			seconds, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return u, fmt.Errorf("INFO: %q: %w", line, err)
			}
			u.cpu += time.Duration(seconds * float64(time.Second))
		case strings.HasPrefix(name, "cmdstat_"):
			calls, _, _ := strings.Cut(strings.TrimPrefix(value, "calls="), ",")
			n, err := strconv.ParseInt(calls, 10, 64)
			if err != nil {
				return u, fmt.Errorf("INFO: %q: %w", line, err)
			}
			u.commands[strings.TrimPrefix(name, "cmdstat_")] = n
		}
	}
	return u, nil
}

// requests returns how many commands a system has sent between two moments.
func (u usage) requests(before usage, sys system) float64 {
	sum := int64(0)
	for name, n := range u.commands {
		if sys.onTheWire(name) {
			sum += n - before.commands[name]
		}
	}
	return float64(sum)
}

// expiry returns when a hold's key expires, on the clock of this process; with several
// keys, when the majority has. The server's clock is this machine's.
func (s *server) expiry(ctx context.Context, c clock, keys []string) (int64, error) {
	var at []int64
	for _, key := range keys {
		ms, err := s.admin.Do(ctx, "PEXPIRETIME", key).Int64()
		if err != nil {
			return 0, err
		}
		if ms < 0 {
			return 0, fmt.Errorf("key %q: PEXPIRETIME answered %d", key, ms)
		}
		at = append(at, c.now()+(ms*int64(time.Millisecond)-time.Now().UnixNano()))
	}
	return atMajority(at), nil
}

// addKeys adds keys with a TTL of an hour.
func (s *server) addKeys(ctx context.Context, n int) error {
	_, err := s.admin.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range n {
			p.Set(ctx, "other:"+strconv.Itoa(i), "x", time.Hour)
		}
		return nil
	})
	return err
}

// atMajority returns when more than half of the instants have passed.
func atMajority(instants []int64) int64 {
	return slices.Sorted(slices.Values(instants))[len(instants)/2]
}
