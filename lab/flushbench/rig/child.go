package rig

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
)

// A Child is this program once more, as a worker. It is told and tells JSON values,
// one a line, on its standard input and output.
type Child struct {
	Heard <-chan json.RawMessage // closed when its output ends

	cmd    *exec.Cmd
	in     io.WriteCloser
	mu     sync.Mutex // guards the writing
	exited chan struct{}
}

// StartChild starts this program with a variable in its environment that says that it
// is a worker. What it writes to its standard error goes to log.
func StartChild(variable string, log *os.File, env ...string) (*Child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	heard := make(chan json.RawMessage, 1024)
	c := &Child{Heard: heard, cmd: exec.Command(self), exited: make(chan struct{})}
	// The race detector would make every process end a second late.
	c.cmd.Env = append(append(os.Environ(), variable+"=1", "GORACE=atexit_sleep_ms=0"), env...)
	c.cmd.Stderr = log
	dieWithParent(c.cmd)
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { // Wait and Kill wait for it
		defer close(c.exited)
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			heard <- json.RawMessage(append([]byte(nil), lines.Bytes()...))
		}
		close(heard)
		_ = c.cmd.Wait() // it ends by a signal, or its log says why
	}()
	return c, nil
}

// Tell writes a value to the child. One that can't hear it has ended, which shows in
// Heard.
func (c *Child) Tell(v any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	line, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("rig: %v", err)) // the caller's types are fixed
	}
	_, _ = c.in.Write(append(line, '\n'))
}

// Hear decodes the next value that the child tells.
func (c *Child) Hear(v any) error {
	line, more := <-c.Heard
	if !more {
		return fmt.Errorf("the worker with process ID %d has ended", c.cmd.Process.Pid)
	}
	return json.Unmarshal(line, v)
}

// PID returns the process ID.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// Stop stops the process where it stands, until Resume.
func (c *Child) Stop() { stop(c.cmd.Process) }

// Resume lets a stopped process go on.
func (c *Child) Resume() { resume(c.cmd.Process) }

// End closes the child's input, which asks it to end.
func (c *Child) End() { _ = c.in.Close() }

// Exited is closed when the process is gone.
func (c *Child) Exited() <-chan struct{} { return c.exited }

// Kill ends the process as a crash does, and waits for its end. Somebody has to read
// Heard meanwhile, or it must have room.
func (c *Child) Kill() {
	_ = c.cmd.Process.Kill() // it may have ended by itself
	for {
		select {
		case <-c.exited:
			return
		case <-c.Heard: // nobody wants it any more
		}
	}
}

// ReadLines calls f for each line of a worker's input, until it ends.
func ReadLines(in io.Reader, f func(line []byte)) {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		f(lines.Bytes())
	}
}
