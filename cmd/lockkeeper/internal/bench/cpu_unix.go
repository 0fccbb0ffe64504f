//go:build unix

package bench

import (
	"syscall"
	"time"
)

// processCPU returns the CPU time that this process has used; it is negative
// where that is not known.
func processCPU() time.Duration {
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		return -1
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}
