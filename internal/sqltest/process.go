package sqltest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// start starts the process and waits until it can be connected to.
func (s *Server) start(ctx context.Context) error {
	out, err := os.OpenFile(s.logFile(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("sqltest: %w", err)
	}
	defer func() { _ = out.Close() }() // the process has its own
	if s.logged, err = out.Seek(0, io.SeekEnd); err != nil {
		return fmt.Errorf("sqltest: %w", err)
	}
	cmd := s.engine.command(s)
	cmd.Args = append(cmd.Args, s.args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.folder.path, out, out
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("sqltest: %w", err)
	}
	s.process, s.exited = cmd.Process, make(chan struct{})
	s.folder.watch(s.process.Pid)
	go func(exited chan struct{}) {
		_ = cmd.Wait() // it ends by a signal, or its log says why
		close(exited)
	}(s.exited)
	return s.waitReady(ctx)
}

// waitReady waits until the server accepts clients. The line in the log makes sure that
// it is this process that answers, not another that took the port.
func (s *Server) waitReady(ctx context.Context) error {
	for {
		if strings.Contains(s.tail(), s.engine.ready()) && s.accepts() {
			return nil
		}
		select {
		case <-s.exited:
			s.process = nil
			s.folder.watch(0)
			return fmt.Errorf("sqltest: %s ended before it was ready:\n%s", s.kind, s.tail())
		case <-ctx.Done():
			s.Kill()
			return fmt.Errorf("sqltest: %s was not ready: %w\n%s", s.kind, ctx.Err(), s.tail())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (s *Server) accepts() bool {
	conn, err := net.DialTimeout("tcp", s.Addr(), time.Second)
	if err != nil {
		return false
	}
	_ = conn.Close() // it was only to know
	return true
}

// tail returns the end of what the running process has logged.
func (s *Server) tail() string {
	b, err := os.ReadFile(s.logFile())
	if err != nil {
		return err.Error()
	}
	b = b[min(s.logged, int64(len(b))):]
	if lines := bytes.SplitAfter(b, []byte("\n")); len(lines) > 100 {
		b = bytes.Join(lines[len(lines)-100:], nil)
	}
	return string(b)
}

// Kill ends all processes of the server as a crash does, and returns when they are
// gone. It does nothing when the server is not running. A shared server panics.
func (s *Server) Kill() {
	if s.shared {
		panic(ErrShared)
	}
	if s.process == nil {
		return
	}
	// A stopped process has no more children than those that are found now.
	_ = s.process.Signal(syscall.SIGSTOP) // it may have ended by itself
	pids, _ := children(s.process.Pid)
	_ = s.process.Kill()
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	s.gone(pids)
}

// Quit ends the server at once, but lets it tidy up after itself. A server of which no
// data is wanted any more ends so. It does nothing when the server is not running.
func (s *Server) Quit() {
	if s.shared {
		panic(ErrShared)
	}
	if s.process == nil {
		return
	}
	pids, _ := children(s.process.Pid)
	if s.engine.quit() != "QUIT" {
		s.Kill()
		return
	}
	_ = s.process.Signal(syscall.SIGQUIT) // it may have ended by itself
	_ = s.Continue()                      // a stopped one gets no signals
	select {
	case <-s.exited:
		s.gone(pids)
	case <-time.After(patience):
		s.Kill()
	}
}

// gone waits until the process and its children are, as they keep their data from the
// next process.
func (s *Server) gone(pids []int) {
	<-s.exited
	s.process = nil
	s.folder.watch(0)
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if !slices.ContainsFunc(pids, alive) {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// Restart starts the server again on its port with the data it has, after killing it if
// it still runs. What was committed is there.
func (s *Server) Restart() error {
	if s.shared {
		return ErrShared
	}
	s.Kill()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return s.start(ctx)
}

// Pause stops all processes of the server where they stand, and returns when they have:
// connections stay open, the kernel still accepts new ones, and nothing is answered until
// Continue.
func (s *Server) Pause() error {
	if err := s.running(); err != nil {
		return err
	}
	// The parent first: it has no new children then.
	if err := stop(s.process.Pid); err != nil {
		return err
	}
	pids, err := children(s.process.Pid)
	if err != nil {
		return err
	}
	for _, pid := range pids {
		if err := stop(pid); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	return nil
}

// Continue lets a paused server go on, with all that clients have sent since.
func (s *Server) Continue() error {
	if err := s.running(); err != nil {
		return err
	}
	pids, err := children(s.process.Pid)
	if err != nil {
		return err
	}
	for _, pid := range append(pids, s.process.Pid) {
		if err := syscall.Kill(pid, syscall.SIGCONT); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("sqltest: continue: %w", err)
		}
	}
	return nil
}

func (s *Server) running() error {
	switch {
	case s.shared:
		return ErrShared
	case s.process == nil:
		return errors.New("sqltest: the server is not running")
	}
	return nil
}

// stop stops a process and waits until the kernel has, which is a moment after the
// signal.
func stop(pid int) error {
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return fmt.Errorf("sqltest: stop: %w", err)
	}
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if s := state(pid); s == "T" || !strings.Contains("RSD", s) {
			return nil
		}
		time.Sleep(time.Millisecond)
	}
	return fmt.Errorf("sqltest: process %d does not stop", pid)
}

// alive reports whether a process is there and not just waiting to be reaped.
func alive(pid int) bool { return syscall.Kill(pid, 0) == nil && state(pid) != "Z" }

// state returns the letter that ps has for the state of a process, "" for none.
func state(pid int) string {
	fields := ps("-o", "stat=", "-p", strconv.Itoa(pid))
	if len(fields) == 0 {
		return ""
	}
	return fields[0][:1]
}

// children returns the processes whose parent this is.
func children(parent int) ([]int, error) {
	fields := ps("-A", "-o", "pid=,ppid=")
	if len(fields) == 0 {
		return nil, errors.New("sqltest: ps shows no processes")
	}
	var pids []int
	for pair := range slices.Chunk(fields, 2) {
		if len(pair) == 2 && pair[1] == strconv.Itoa(parent) {
			if pid, err := strconv.Atoi(pair[0]); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids, nil
}

// ps returns the words that ps prints.
func ps(args ...string) []string {
	out, _ := exec.Command("ps", args...).Output() // fails when there is no such process
	return strings.Fields(string(out))
}
