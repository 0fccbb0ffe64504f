package lockkeeper

import (
	"syscall"
	"time"
	"unsafe"
)

// sinceBoot returns the time since the machine started, with the time that it was
// suspended: Go's own monotonic clock stands still then.
func sinceBoot() (time.Duration, bool) {
	const clockBoottime = 7
	var ts syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&ts)), 0)
	return time.Duration(ts.Nano()), errno == 0
}
