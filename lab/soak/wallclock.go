package main

import (
	"context"
	"embed"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// clockSource is a library that lets the server's wall clock be stepped while it runs.
// It is compiled with what the race detector needs as well.
//
//go:embed wallclock/clock.c
var clockSource embed.FS

// A wallClock is the wall clock of a server. It can be stepped; a nil one can't.
type wallClock struct {
	library string
	offsets string // the file with its distance from the machine's

	mu     sync.Mutex
	offset int64
}

// compiler returns the C compiler, or "" where there is none. In a CI there must be one.
func compiler() (string, error) {
	path, err := exec.LookPath("gcc")
	if err != nil && os.Getenv("CI") == "true" {
		return "", fmt.Errorf("a C compiler is needed to step the server's clock: run make deps (%w)", err)
	}
	return path, nil
}

// newWallClock makes a clock, with its files in a folder; nil where there is no compiler.
func newWallClock(ctx context.Context, dir string) (*wallClock, error) {
	compiler, err := compiler()
	if err != nil || compiler == "" {
		return nil, err
	}
	text, err := clockSource.ReadFile("wallclock/clock.c")
	if err != nil {
		return nil, err
	}
	c := &wallClock{library: filepath.Join(dir, "clock.so"), offsets: filepath.Join(dir, "clock.offset")}
	source := filepath.Join(dir, "clock.c")
	if err := errors.Join(os.WriteFile(source, text, 0o600), os.WriteFile(c.offsets, make([]byte, 8), 0o600)); err != nil {
		return nil, err
	}
	out, err := exec.CommandContext(ctx, compiler, "-shared", "-fPIC", "-O2", "-o", c.library, source).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("compile the clock: %w: %s", err, out)
	}
	return c, nil
}

// env is the environment of a program that is to have the clock.
func (c *wallClock) env() []string {
	if c == nil {
		return nil
	}
	return []string{"LD_PRELOAD=" + c.library, "SOAK_CLOCK_FILE=" + c.offsets}
}

// step moves the clock at once, and reports whether it did.
func (c *wallClock) step(by time.Duration) bool {
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	f, err := os.OpenFile(c.offsets, os.O_WRONLY, 0)
	if err != nil {
		return false
	}
	c.offset += int64(by)
	// Not os.WriteFile: the file must never be empty, because the server has it in memory.
	_, err = f.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(c.offset)), 0)
	return errors.Join(err, f.Close()) == nil
}
