package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// A fleet is the worker processes, seen from the parent.
type fleet struct {
	processes []*process
	events    chan report // every event of every worker, in the order of arrival; closed by stop
	readers   sync.WaitGroup
}

// A report is an event with where it came from and when.
type report struct {
	worker *process
	at     time.Time
	event
}

// A process is one worker.
type process struct {
	name  string
	cmd   *exec.Cmd
	stdin io.WriteCloser
	log   string
}

// startFleet starts the workers. Their logs go to files in dir.
func startFleet(o *Options, dir string, a assignment) (*fleet, error) {
	f := &fleet{events: make(chan report, 1000)}
	for i := range o.Workers {
		a.Name = fmt.Sprintf("worker-%d", i+1)
		p, err := f.start(o, dir, a)
		if err != nil {
			f.abort()
			return nil, fmt.Errorf("demo: start %s: %w", a.Name, err)
		}
		f.processes = append(f.processes, p)
	}
	return f, nil
}

func (f *fleet) start(o *Options, dir string, a assignment) (*process, error) {
	p := &process{name: a.Name, log: filepath.Join(dir, a.Name+".log")}
	logFile, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = logFile.Close() }() // the child has its own
	p.cmd = exec.Command(o.Executable, o.WorkerArgs...)
	p.cmd.Stderr = logFile
	dieWithParent(p.cmd)
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	f.readers.Go(func() { f.read(p, stdout) })
	return p, json.NewEncoder(p.stdin).Encode(a)
}

func (f *fleet) read(p *process, stdout io.Reader) {
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		r := report{worker: p, at: time.Now()}
		if json.Unmarshal(lines.Bytes(), &r.event) == nil {
			f.events <- r
		}
	}
}

func (f *fleet) names() []string {
	var names []string
	for _, p := range f.processes {
		names = append(names, p.name)
	}
	return names
}

// tell sends a worker a command.
func (p *process) tell(command string) error {
	_, err := io.WriteString(p.stdin, command+"\n")
	return err
}

func (p *process) kill() error { return p.cmd.Process.Kill() }

// stop ends the workers in good order: their standard input ends, each gives its lock
// back. It waits for them, and kills them when ctx ends.
func (f *fleet) stop(ctx context.Context) error {
	for _, p := range f.processes {
		// One that was stopped could not end, nor one that is told not to hear of its loss.
		_ = resume(p.cmd.Process)
		_ = p.tell(cmdNeverMind)
		_ = p.stdin.Close()
	}
	kill := context.AfterFunc(ctx, f.killAll)
	defer kill()
	var errs []error
	f.readers.Wait() // before Wait, which closes the pipes
	close(f.events)
	for _, p := range f.processes {
		if err := p.cmd.Wait(); err != nil && p.cmd.ProcessState != nil && p.cmd.ProcessState.Exited() {
			errs = append(errs, fmt.Errorf("%s: %w (log: %s)", p.name, err, p.log))
		}
	}
	return errors.Join(errs...)
}

func (f *fleet) killAll() {
	for _, p := range f.processes {
		_ = p.kill()
	}
}

// abort kills what runs, and drops what it has told.
func (f *fleet) abort() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	go func() { // ends when stop closes events
		for range f.events {
		}
	}()
	_ = f.stop(ctx)
}
