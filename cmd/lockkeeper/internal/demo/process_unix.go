//go:build unix

package demo

import (
	"os"
	"syscall"
)

// stop stops a process until resume.
func stop(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

// resume continues a stopped process.
func resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }

// canStop says whether processes can be stopped and continued here.
const canStop = true
