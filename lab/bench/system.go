package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// errHeld is what try returns for a lock that somebody else has.
var errHeld = errors.New("held by another")

// A mutex is one lock, prepared for one goroutine, as a user who takes it often
// would keep it. It remembers the hold between lock and unlock.
type mutex interface {
	// lock waits until it has the lock or ctx ends. Where the library gives up
	// earlier by itself, lock calls it again: that is what its users have to do.
	lock(ctx context.Context) error
	try(ctx context.Context) error
	unlock(ctx context.Context) error
}

// A renewer is a mutex of a library that renews nothing by itself: its user calls
// renew in time.
type renewer interface {
	renew(ctx context.Context) error
}

// A watched mutex is one of a library that renews by itself and tells of a loss: by
// err, and by a context that ends with the hold. They are asked for while it is held.
type watched interface {
	err() error
	boundContext(ctx context.Context) (context.Context, context.CancelFunc)
}

// A doer runs a function while it holds the lock, with a context as of watched.
type doer interface {
	do(ctx context.Context, fn func(ctx context.Context)) error
}

// A session is what a process has of a system: its client and its connections.
type session interface {
	mutex(name string) mutex
	close()
}

type kind int

const (
	rawLoop kind = iota // the commands alone: a lower bound, not a library
	peer
	ours
)

// A system is one library in one setting.
type system struct {
	name    string
	kind    kind
	setting string
	raw     string   // the lower bound with the same client
	sends   []string // commands that it sends outside of scripts, besides those of every client
	open    func(addr string, ttl time.Duration) (session, error)
	keys    func(name string) []string // what a held lock is on the server
}

// systems returns all of them, in the order of the tables.
func systems() []system {
	return slices.Concat(rawSystems(), redsyncSystems(), redislockSystems(), rueidislockSystems(), lockkeeperSystems())
}

// systemNamed returns the system of that name.
func systemNamed(name string) (system, error) {
	all := systems()
	i := slices.IndexFunc(all, func(s system) bool { return s.name == name })
	if i < 0 {
		var names []string
		for _, s := range all {
			names = append(names, s.name)
		}
		return system{}, fmt.Errorf("no system %q; there are %s", name, strings.Join(names, ", "))
	}
	return all[i], nil
}

// onTheWire says whether a command that the server counted came over the wire. The
// server counts what scripts call as well, and no system sends by itself what its
// scripts call: TestWireCommands watches that.
func (s system) onTheWire(command string) bool {
	command, _, _ = strings.Cut(command, "|")
	switch command {
	case "eval", "evalsha", "fcall", "hello", "auth", "select", "client", "cluster", "script", "ping",
		"subscribe", "unsubscribe", "ssubscribe", "sunsubscribe", "psubscribe", "punsubscribe":
		return true
	}
	return slices.Contains(s.sends, command)
}

func oneKey(format string) func(name string) []string {
	return func(name string) []string { return []string{fmt.Sprintf(format, name)} }
}
