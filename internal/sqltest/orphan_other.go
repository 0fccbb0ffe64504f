//go:build !linux

package sqltest

import "syscall"

// endWithParent has nothing to set here: the janitor of the folder ends the server.
func endWithParent(*syscall.SysProcAttr, syscall.Signal) {}
