//go:build !linux

package rig

import (
	"os"
	"os/exec"
	"time"
)

// Supported says whether the programs can run here: they read /proc, and their children
// must die with them.
const Supported = false

func dieWithParent(*exec.Cmd) {}
func stop(*os.Process)        {}
func resume(*os.Process)      {}

func cpuOf(int) time.Duration               { return 0 }
func cpuOfServer(string, int) time.Duration { return 0 }

// OwnCPU returns 0.
func OwnCPU() time.Duration { return 0 }

// PeakMemory returns 0.
func PeakMemory() int64 { return 0 }

// Busy returns 0.
func Busy() time.Duration { return 0 }

// Machine returns "".
func Machine() string { return "" }
