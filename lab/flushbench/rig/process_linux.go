package rig

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Supported says whether the programs can run here.
const Supported = true

// dieWithParent makes a child die with this process, even while it is stopped, and
// keeps a terminal's interrupt from it.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

// stop and resume are faults. A signal that comes to a process that has ended is none.
func stop(p *os.Process)   { _ = p.Signal(syscall.SIGSTOP) }
func resume(p *os.Process) { _ = p.Signal(syscall.SIGCONT) }

// tick is the unit of /proc: USER_HZ is 100 everywhere.
const tick = time.Second / 100

// stat returns the fields of /proc/PID/stat from the third on: the name before them is
// in parentheses and may have blanks.
func stat(pid int) []string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // nothing if it is gone
	_, rest, _ := strings.Cut(string(text), ") ")
	return strings.Fields(rest)
}

// cpuOf returns what a process has used, with the children that it has waited for.
func cpuOf(pid int) time.Duration {
	fields := stat(pid)
	if len(fields) < 15 {
		return 0
	}
	var ticks int64
	for _, field := range fields[11:15] { // utime stime cutime cstime
		n, _ := strconv.ParseInt(field, 10, 64)
		ticks += n
	}
	return time.Duration(ticks) * tick
}

// cpuOfServer returns what the server on a port has used, with its children. It is a
// child of this process.
func cpuOfServer(program string, port int) (sum time.Duration) {
	parents := make(map[int]int)
	server := 0
	files, _ := filepath.Glob("/proc/[0-9]*") // fails for a bad pattern only
	for _, file := range files {
		pid, _ := strconv.Atoi(filepath.Base(file))
		fields := stat(pid)
		if len(fields) < 2 {
			continue
		}
		parents[pid], _ = strconv.Atoi(fields[1])
		if parents[pid] != os.Getpid() {
			continue
		}
		line, _ := os.ReadFile(filepath.Join(file, "cmdline"))
		if strings.Contains(string(line), program) && strings.Contains(string(line), "port="+strconv.Itoa(port)+"\x00") {
			server = pid
		}
	}
	for pid, parent := range parents {
		if pid == server || parent == server && server != 0 {
			sum += cpuOf(pid)
		}
	}
	return sum
}

// OwnCPU returns what this process has used.
func OwnCPU() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage) // it fails for a wrong who only
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// PeakMemory returns the most memory that this process has had in RAM, in bytes.
func PeakMemory() int64 {
	text, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(text)) {
		if rest, found := strings.CutPrefix(line, "VmHWM:"); found {
			kib, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return kib << 10
		}
	}
	return 0
}

// Busy returns what all CPUs have spent on anything, and on what the hypervisor kept
// from this machine.
func Busy() time.Duration {
	text, _ := os.ReadFile("/proc/stat")
	line, _, _ := strings.Cut(string(text), "\n")
	fields := strings.Fields(line) // cpu user nice system idle iowait irq softirq steal
	if len(fields) < 9 {
		return 0
	}
	var ticks int64
	for _, i := range []int{1, 2, 3, 6, 7, 8} {
		n, _ := strconv.ParseInt(fields[i], 10, 64)
		ticks += n
	}
	return time.Duration(ticks) * tick
}

// Machine describes the machine in a line.
func Machine() string {
	var name syscall.Utsname
	release := ""
	if syscall.Uname(&name) == nil {
		for _, c := range name.Release {
			if c == 0 {
				break
			}
			release += string(rune(c))
		}
	}
	model := "unknown CPU"
	info, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(info)) {
		if key, value, _ := strings.Cut(line, ":"); strings.TrimSpace(key) == "model name" {
			model = strings.TrimSpace(value)
			break
		}
	}
	return model + "; Linux " + release
}
