//go:build !linux

package main

import (
	"os"
	"os/exec"
	"time"
)

const supported = false

func monotonic() int64 { return 0 }

func monotonicAt(time.Time) int64 { return 0 }

func dieWithParent(*exec.Cmd) {}

func stopProcess(*os.Process)   {}
func resumeProcess(*os.Process) {}
func quitProcess(*os.Process)   {}
