package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// supported is nil where the program can run.
func supported() error { return nil }

// dieWithParent makes the kernel kill a child, even a stopped one, when the thread
// that started it ends.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// A clock reads CLOCK_MONOTONIC, which is the same for all processes of a machine.
// It asks the kernel once, and counts on with Go's clock, which is the same one but
// needs no system call.
type clock struct {
	origin int64
	start  time.Time
}

func newClock() clock {
	var best clock
	narrowest := int64(1) << 62
	for range 20 {
		before := time.Now()
		var ts unix.Timespec
		_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // it exists wherever Go runs
		if width := time.Since(before).Nanoseconds(); width < narrowest {
			narrowest, best = width, clock{ts.Nano() - width/2, before}
		}
	}
	return best
}

func (c clock) now() int64 { return c.origin + time.Since(c.start).Nanoseconds() }

// until returns how long it is to an instant of the clock.
func (c clock) until(instant int64) time.Duration { return time.Duration(instant - c.now()) }

// cpuTime returns what this process has used, or its children that were waited for.
func cpuTime(children bool) time.Duration {
	who := unix.RUSAGE_SELF
	if children {
		who = unix.RUSAGE_CHILDREN
	}
	var usage unix.Rusage
	_ = unix.Getrusage(who, &usage) // it fails for a wrong who only
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// busyTime returns what all CPUs have spent on anything, and on what the hypervisor
// kept from this machine.
func busyTime() (time.Duration, error) {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	line, _, _ := strings.Cut(string(stat), "\n")
	fields := strings.Fields(line) // cpu user nice system idle iowait irq softirq steal
	if len(fields) < 9 {
		return 0, fmt.Errorf("/proc/stat begins with %q", line)
	}
	var ticks int64
	for _, i := range []int{1, 2, 3, 6, 7, 8} {
		n, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * (time.Second / 100), nil // USER_HZ is 100 everywhere
}

// residentBytes returns how much memory of this process is in RAM.
func residentBytes() (int64, error) {
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(statm))
	if len(fields) < 2 {
		return 0, errors.New("/proc/self/statm is short")
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize()), err
}

// isStopped reports whether SIGSTOP has reached a process.
func isStopped(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, _ := bytes.Cut(stat, []byte(") ")) // the name before it is in parentheses
	return err == nil && bytes.HasPrefix(state, []byte("T"))
}

// kernel returns the name and version of the system.
func kernel() string {
	var name unix.Utsname
	if unix.Uname(&name) != nil {
		return "unknown"
	}
	return unix.ByteSliceToString(name.Sysname[:]) + " " + unix.ByteSliceToString(name.Release[:])
}

// cpuModel returns what the first CPU calls itself.
func cpuModel() string {
	info, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(info)) {
		if key, value, _ := strings.Cut(line, ":"); strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

// mapGuard returns the guard in a file, which it makes as long as needed. All who map
// the file have the same one, until the process ends.
func mapGuard(path string) (*guard, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size := int(unsafe.Sizeof(guard{}))
	if err := f.Truncate(int64(size)); err != nil {
		return nil, err
	}
	memory, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", path, err)
	}
	return (*guard)(unsafe.Pointer(&memory[0])), nil
}
