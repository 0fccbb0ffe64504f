//go:build !unix

package demo

import (
	"errors"
	"os"
)

var errNoSignals = errors.New("this system can't stop and continue a process")

func stop(*os.Process) error { return errNoSignals }

func resume(*os.Process) error { return errNoSignals }

const canStop = false
