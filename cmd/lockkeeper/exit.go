package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/config"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/store"
)

// The exit codes of every command. Those from 64 on are of sysexits.h. 76 (a lock was
// lost), 126 and 127 (a command can't be run) are kept for the command that runs another
// under a lock, as is every code of that other.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 64
	exitUnavailable = 69
	exitTimeout     = 75
)

// exitHelp explains the codes above.
func exitHelp() string {
	codes := []struct {
		code    int
		meaning string
	}{
		{exitOK, "done; also when a signal ended what runs until then"},
		{exitFailed, "failed; the message says why"},
		{exitUsage, "the command line, the environment or a file is wrong; nothing was touched"},
		{exitUnavailable, "Redis or the database can't be reached, or refuses"},
		{exitTimeout, "it did not come to that within --timeout"},
	}
	var b strings.Builder
	for _, c := range codes {
		fmt.Fprintf(&b, "  %-3d %s\n", c.code, c.meaning)
	}
	return b.String()
}

// A usageError is something that the user has to write differently.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// An unavailableError is about Redis or a database that does not do its part.
type unavailableError struct{ error }

func (e unavailableError) Unwrap() error { return e.error }

// A timeoutError is something that did not happen within --timeout.
type timeoutError struct{ error }

// exitCode returns the code for what a command returned.
func exitCode(err error) int {
	var usage usageError
	var file *config.Errors
	var unavailable unavailableError
	var late timeoutError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &usage), errors.As(err, &file),
		errors.Is(err, store.ErrURL), errors.Is(err, lockkeeper.ErrInvalid):
		return exitUsage
	case errors.As(err, &unavailable), errors.Is(err, lockkeeper.ErrUnavailable):
		return exitUnavailable
	case errors.As(err, &late):
		return exitTimeout
	}
	return exitFailed
}

// finish tells what went wrong and returns the exit code.
func (a *app) finish(err error) int {
	var file *config.Errors
	switch {
	case err == nil:
	case errors.As(err, &file): // each line begins with its place, as editors want it
		fmt.Fprintf(a.stderr, "lockkeeper: %s; nothing was touched\n%s\n", count(len(file.List), "error", "errors"), file)
	default:
		fmt.Fprintf(a.stderr, "lockkeeper: %s\n", strings.TrimPrefix(err.Error(), "lockkeeper: "))
	}
	return exitCode(err)
}
