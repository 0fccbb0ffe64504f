package demo

import (
	"os/exec"
	"syscall"
)

// dieWithParent makes the worker die with this process, even while it is stopped.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
