package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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
	clock  *wallClock      // nil if it can't be stepped
	admin  *redistest.Conn // of the nemesis
	cmd    *exec.Cmd       // nil while it does not run
	exited chan struct{}   // closed when cmd has ended
}

// Users of the server. The workers have one of their own, so that it can lose its rights
// while the nemesis keeps its.
const (
	workerUser = "worker"
	adminUser  = "admin"
	password   = "soak"
)

// allRights are the rules of a user who may do everything.
var allRights = []string{"on", ">" + password, "~*", "&*", "+@all"}

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
	if s.clock, err = newWallClock(ctx, dir); err != nil {
		return nil, err
	}
	// Snapshots can't be written to a file that is a folder, see failDisk.
	if err := os.Mkdir(filepath.Join(dir, noSnapshot), 0o700); err != nil {
		return nil, err
	}
	for range 20 {
		// Below the ports that the system gives to connections: those that are tried
		// while the server is down could take its own port away.
		s.port = 12000 + rand.IntN(20000)
		l, err := net.Listen("tcp", s.addr())
		if err != nil {
			continue
		}
		_ = l.Close() // it was only to see whether the port is free
		s.admin = redistest.NewConn(s.addr())
		s.admin.User, s.admin.Password = adminUser, password
		if err = s.start(ctx); err == nil {
			if err = s.checkClock(ctx); err == nil {
				return s, nil
			}
			s.close()
			return nil, err
		}
		s.admin.Close()
		if !s.logHas("Address already in use") {
			return nil, err
		}
	}
	return nil, errors.New("redis-server: no free port found")
}

// checkClock makes sure that the server goes by the clock that it was given.
func (s *server) checkClock(ctx context.Context) error {
	if !s.clock.step(time.Hour) {
		return nil
	}
	reply, err := s.do(ctx, "TIME")
	s.clock.step(-time.Hour)
	if err != nil {
		return err
	}
	if ahead := int64(digits(reply.([]any)[0])) - time.Now().Unix(); ahead < 3000 {
		return errors.New("redis-server does not go by the clock that it is given: is it linked statically?")
	}
	return nil
}

func (s *server) addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

func (s *server) log() string { return filepath.Join(s.dir, "redis.log") }

func (s *server) logHas(text string) bool {
	b, err := os.ReadFile(s.log())
	return err == nil && strings.Contains(string(b), text)
}

// noSnapshot is the name that snapshots would have.
const noSnapshot = "no-snapshot.rdb"

// start runs the process and waits until it answers.
func (s *server) start(ctx context.Context, options ...string) error {
	out, err := os.OpenFile(s.log(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	args := []string{"--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--protected-mode", "no",
		"--dir", s.dir, "--save", "", "--appendonly", "yes", "--appendfsync", "no", "--auto-aof-rewrite-percentage", "0",
		"--dbfilename", noSnapshot, "--busy-reply-threshold", "50"}
	for _, user := range []string{workerUser, adminUser} {
		args = append(append(args, "--user", user), allRights...)
	}
	cmd := exec.Command(s.binary, append(args, options...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, out, out
	cmd.Env = append(os.Environ(), s.clock.env()...)
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

// do runs one command.
func (s *server) do(ctx context.Context, args ...string) (any, error) {
	return s.admin.Do(ctx, args...)
}

// close ends the server for good.
func (s *server) close() {
	s.kill()
	s.admin.Close()
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

// dataDir is where the server keeps its data.
func (s *server) dataDir() string { return filepath.Join(s.dir, "appendonlydir") }

// lastWrites returns the file of the last writes: the one with the highest number.
func (s *server) lastWrites() (string, error) {
	files, err := filepath.Glob(filepath.Join(s.dataDir(), "*.incr.aof"))
	if err != nil || len(files) == 0 {
		return "", errors.Join(errors.New("the server has no file of its writes"), err)
	}
	slices.SortFunc(files, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	return files[len(files)-1], nil
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
