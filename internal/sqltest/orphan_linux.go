package sqltest

import "syscall"

// endWithParent makes a server end with this process. The thread that starts it is what
// the kernel watches: Go's threads live as long as the process, but for those of a
// goroutine that ends locked to one.
func endWithParent(attr *syscall.SysProcAttr, sig syscall.Signal) { attr.Pdeathsig = sig }
