//go:build !linux

package main

import (
	"errors"
	"syscall"
	"time"
)

var errUnsupported = errors.New("this program needs Linux: /proc, shared memory and signals as they are there")

func supported() error                    { return errUnsupported }
func dieWithParent() *syscall.SysProcAttr { return nil }

type clock struct{ start time.Time }

func newClock() clock                             { return clock{time.Now()} }
func (c clock) now() int64                        { return time.Since(c.start).Nanoseconds() }
func (c clock) until(instant int64) time.Duration { return time.Duration(instant - c.now()) }

func cpuTime(bool) time.Duration       { return 0 }
func busyTime() (time.Duration, error) { return 0, errUnsupported }
func residentBytes() (int64, error)    { return 0, errUnsupported }
func isStopped(int) bool               { return false }
func kernel() string                   { return "unknown" }
func cpuModel() string                 { return "unknown" }
func mapGuard(string) (*guard, error)  { return nil, errUnsupported }
