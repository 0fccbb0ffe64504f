package main

import (
	"os"
	"os/exec"
	"syscall"
	"time"
	"unsafe"
)

// supported says whether the soak can run here: it needs one clock for all
// processes, and children that die with their parent.
const supported = true

// monotonic returns CLOCK_MONOTONIC in nanoseconds. It is the same clock in every
// process of the machine, so that times of different workers can be compared, which
// Go's own, counted from the start of the process, can't.
func monotonic() int64 {
	const clockMonotonic = 1
	var ts syscall.Timespec
	// It fails only for a clock that does not exist.
	_, _, _ = syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&ts)), 0)
	return ts.Nano()
}

// monotonicAt returns a time on the same clock: the exact one, or, when this process
// is held up in between, an earlier one.
func monotonicAt(t time.Time) int64 {
	now := monotonic()
	return now + int64(time.Until(t))
}

// dieWithParent makes a child die with this process, even while it is stopped, and
// keeps a terminal's interrupt from it.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

// Signals of the faults. One that comes too late, to a process that has ended, is
// no fault.
func stopProcess(p *os.Process)   { _ = p.Signal(syscall.SIGSTOP) }
func resumeProcess(p *os.Process) { _ = p.Signal(syscall.SIGCONT) }
func quitProcess(p *os.Process)   { _ = p.Signal(syscall.SIGQUIT) }
