package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/redistest"
)

// asWorker makes this program, or its test, a worker.
const asWorker = "LOCKKEEPER_SOAK_WORKER"

// A fleet is the workers of a round.
type fleet struct {
	dir     string
	journal *journal // the parent's
	locks   []lockSpec
	loops   int
	seed    uint64
	lull    bool // new processes begin in it
	slots   []*slot
	host    host
}

// A slot is one place for a worker. The process in it dies and is replaced; its proxy
// stays.
type slot struct {
	index   int
	proxy   *redistest.Proxy
	started int

	// Each is held by the fault that has it in hand.
	process sync.Mutex
	network sync.Mutex

	current *process // guarded by process
}

// A process is one worker process.
type process struct {
	name   string
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	log    string
	exited chan struct{}
	err    error // of Wait, once exited is closed
}

// A host is what redistest.NewProxy asks of a test, where there is none.
type host struct {
	testing.TB // nil: what is not below is not called
	cleanups   []func()
}

func (h *host) Helper()                           {}
func (h *host) Cleanup(f func())                  { h.cleanups = append(h.cleanups, f) }
func (h *host) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// start starts the workers.
func (f *fleet) start(workers int, redis string) error {
	for i := range workers {
		s := &slot{index: i, proxy: redistest.NewProxy(&f.host, redis)}
		f.slots = append(f.slots, s)
		if err := f.fill(s, i%4 == 0); err != nil {
			return err
		}
	}
	return nil
}

// label begins the names of the processes in a slot, and of no others.
func (s *slot) label() string { return fmt.Sprintf("worker-%d.", s.index+1) }

// fill starts a process in a slot.
func (f *fleet) fill(s *slot, closeFirst bool) error {
	s.started++
	name := s.label() + strconv.Itoa(s.started)
	a := assignment{
		Name:       name,
		Redis:      s.proxy.Addr(),
		Adapter:    []string{onGoRedis, onRueidis}[s.index%2],
		Database:   filepath.Join(f.dir, databaseFile),
		Journal:    filepath.Join(f.dir, name+journalSuffix),
		Locks:      f.locks,
		Loops:      f.loops,
		Seed:       f.seed + uint64(s.index)<<20 + uint64(s.started),
		CloseFirst: closeFirst,
		Lull:       f.lull,
	}
	p := &process{name: name, log: filepath.Join(f.dir, name+".log"), exited: make(chan struct{})}
	if err := p.start(a); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	s.current = p
	return nil
}

// databaseFile is the database of a round, in its folder.
const databaseFile = "soak.db"

func (p *process) start(a assignment) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	logFile, err := os.Create(p.log)
	if err != nil {
		return err
	}
	defer func() { _ = logFile.Close() }() // the child has its own
	p.cmd = exec.Command(self)
	// The race detector would make every process end a second late.
	p.cmd.Env = append(os.Environ(), asWorker+"=1", "GORACE=atexit_sleep_ms=0")
	p.cmd.Stdout, p.cmd.Stderr = logFile, logFile
	dieWithParent(p.cmd)
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	go func() { // end and kill wait for it
		p.err = p.cmd.Wait()
		close(p.exited)
	}()
	if err := json.NewEncoder(p.stdin).Encode(a); err != nil {
		p.destroy()
		return err
	}
	return nil
}

// destroy kills the process and waits for its end.
func (p *process) destroy() {
	_ = p.cmd.Process.Kill() // it may have ended by itself
	<-p.exited
}

// kill is the fault: the process dies. The caller has the slot's process in hand.
func (f *fleet) kill(s *slot) {
	p, wrong := s.current, ""
	if !p.alive() {
		wrong = fmt.Sprintf("had ended by itself: %v", p.err)
	}
	f.journal.write(event{What: killed, Who: p.name})
	p.destroy()
	f.bury(p, wrong)
}

// endWithin bounds the end of a worker, that of its client included.
const endWithin = closeWithin + joinWithin + 10*time.Second

// end asks a process to end, and waits for that. One that does not end is made to
// print its stacks.
func (f *fleet) end(s *slot) {
	p := s.current
	f.journal.write(event{What: told, Who: p.name})
	_ = p.stdin.Close() // the message
	wrong := ""
	select {
	case <-p.exited:
	case <-time.After(endWithin):
		wrong = fmt.Sprintf("did not end within %s, its stacks are in %s", endWithin, p.log)
		quitProcess(p.cmd.Process)
		select {
		case <-p.exited:
		case <-time.After(time.Second):
			p.destroy()
		}
	}
	if p.err != nil && wrong == "" {
		wrong = fmt.Sprintf("ended with %v", p.err)
	}
	f.bury(p, wrong)
}

// bury writes down that a process has ended, and what its log says against it: a race
// or a panic counts even if the process was killed after it.
func (f *fleet) bury(p *process, wrong string) {
	text, err := os.ReadFile(p.log)
	if err != nil {
		wrong = err.Error()
	}
	for _, sign := range []string{"DATA RACE", "panic:", "fatal error:"} {
		if _, after, found := strings.Cut(string(text), sign); found {
			wrong = strings.TrimSpace(fmt.Sprintf("%s\n%s has a %s%.2000s", wrong, p.log, sign, after))
			break
		}
	}
	f.journal.write(event{What: gone, Who: p.name, Text: wrong})
}

// alive reports whether the process still runs.
func (p *process) alive() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// heal lets all go on: processes that are stopped, connections that are broken.
func (f *fleet) heal() {
	for _, s := range f.slots {
		s.proxy.Delay(0)
		s.proxy.Heal()
		resumeProcess(s.current.cmd.Process)
	}
}

// tell writes a line to a worker. One that can't hear it has ended, which others find.
func (p *process) tell(line string) { _, _ = io.WriteString(p.stdin, line+"\n") }

// tell writes a line to all workers. No fault may be on its way.
func (f *fleet) tell(line string) {
	f.lull = line == lullLine
	for _, s := range f.slots {
		s.current.tell(line)
	}
}

// destroy ends all at once, whatever state they are in.
func (f *fleet) destroy() {
	for _, s := range f.slots {
		if s.current != nil {
			s.current.destroy()
		}
	}
	for _, cleanup := range f.host.cleanups {
		cleanup()
	}
}
