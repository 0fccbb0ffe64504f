package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"time"
)

// workerEnv is set in the environment of a worker: the same program, which then does
// one job. A variable, unlike an argument, does it for the program of the tests too.
const workerEnv = "LOCKKEEPER_BENCH_WORKER"

// A message is one line between the coordinator and a worker, in either direction.
type message struct {
	Kind string          `json:"kind"`
	Data json.RawMessage `json:"data,omitempty"`
}

func newMessage(kind string, data any) (message, error) {
	encoded, err := json.Marshal(data)
	return message{kind, encoded}, err
}

// open checks that a message is of a kind and decodes it; an error that was sent is
// returned as one.
func (m message) open(kind string, data any) error {
	switch m.Kind {
	case kind:
	case "error":
		var text string
		if err := json.Unmarshal(m.Data, &text); err != nil {
			return err
		}
		return errors.New(text)
	default:
		return fmt.Errorf("message %q came instead of %q", m.Kind, kind)
	}
	if data == nil {
		return nil
	}
	return json.Unmarshal(m.Data, data)
}

// A launcher starts all child processes from one thread that lives as long as it: the
// kernel kills a child when the thread that started it ends, not the process.
type launcher struct {
	starts chan func()
	ended  chan struct{}
}

func newLauncher() *launcher {
	l := &launcher{make(chan func()), make(chan struct{})}
	go func() {
		defer close(l.ended)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for start := range l.starts {
			start()
		}
	}()
	return l
}

func (l *launcher) start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = dieWithParent()
	result := make(chan error, 1)
	l.starts <- func() { result <- cmd.Start() }
	return <-result
}

// close is called when all children have ended.
func (l *launcher) close() {
	close(l.starts)
	<-l.ended
}

// A process is a worker as the coordinator sees it.
type process struct {
	cmd      *exec.Cmd
	in       io.WriteCloser
	messages chan message
	exited   chan struct{}
	err      error // how it ended, once exited is closed
}

// startWorker starts a worker and gives it its job. It ends when its input does, so at
// the latest with this process.
func (l *launcher) startWorker(j job) (*process, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(path), messages: make(chan message, 16), exited: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), workerEnv+"=1")
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := l.start(p.cmd); err != nil {
		return nil, err
	}
	go p.read(out)
	if err := p.send("job", j); err != nil {
		p.kill()
		return nil, err
	}
	return p, nil
}

// read passes on what the worker says until it has ended.
func (p *process) read(out io.Reader) {
	decoder := json.NewDecoder(out)
	for {
		var m message
		if decoder.Decode(&m) != nil {
			break // how the worker ended says more than this error
		}
		p.messages <- m
	}
	close(p.messages)
	p.err = p.cmd.Wait()
	close(p.exited)
}

func (p *process) send(kind string, data any) error {
	m, err := newMessage(kind, data)
	if err != nil {
		return err
	}
	return json.NewEncoder(p.in).Encode(m)
}

// receive waits for the worker's next message, which must be of that kind.
func (p *process) receive(ctx context.Context, kind string, data any) error {
	select {
	case m, ok := <-p.messages:
		if !ok {
			<-p.exited
			return fmt.Errorf("worker ended before it said %q: %v", kind, p.err)
		}
		return m.open(kind, data)
	case <-ctx.Done():
		return fmt.Errorf("worker has not said %q: %w", kind, ctx.Err())
	}
}

// finish tells the worker to end.
func (p *process) finish() {
	_ = p.in.Close() // fails when it has ended
	go func() {      // ends with the worker; what it still says is of no interest
		for range p.messages {
		}
	}()
}

// stop lets the worker end, and reports how it did.
func (p *process) stop() error {
	p.finish()
	select {
	case <-p.exited:
	case <-time.After(3 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.exited
	}
	return p.err
}

// kill ends the worker as a crash does.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended by itself
	_ = p.stop()             // by a signal
}
