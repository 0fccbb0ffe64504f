package core

import "strings"

// A Class says what an error reply of the server means for what was asked.
type Class uint8

const (
	// Refused: it will not work until somebody changes something; report it.
	Refused Class = iota
	// Transient: the server is there and cannot now; ask again.
	Transient
)

// classes lists the codes that are not simply refused, and those that are known
// to be answered before a script has run, so that nothing has to be undone.
var classes = map[string]struct {
	class    Class
	noEffect bool
}{
	"LOADING":     {Transient, true}, // reading its data set after a start
	"BUSY":        {Transient, true}, // another script runs for too long
	"READONLY":    {Transient, true}, // a replica, or a primary that was demoted
	"MASTERDOWN":  {Transient, true}, // a replica without its primary
	"NOREPLICAS":  {Transient, true}, // min-replicas-to-write is not met
	"MISCONF":     {Transient, true}, // snapshots fail, writes are stopped
	"OOM":         {Transient, true}, // maxmemory is reached
	"CLUSTERDOWN": {Transient, true},
	"TRYAGAIN":    {Transient, true}, // the slot is being migrated
	"MOVED":       {Transient, true},
	"ASK":         {Transient, true},
	"NOSCRIPT":    {Transient, true}, // flushed between two calls
	"NOAUTH":      {Refused, true},
	"WRONGPASS":   {Refused, true},
	"DENIED":      {Refused, true}, // protected mode
	"CROSSSLOT":   {Refused, true},
}

// Classify returns the class of an error reply by its code and its whole line.
func Classify(code, line string) Class {
	if c, known := classes[code]; known {
		return c.class
	}
	if tooManyClients(line) {
		return Transient
	}
	return Refused
}

// NoEffect reports whether an error reply proves that the script did not write
// anything. NOPERM does not: it may come from the script's second command.
func NoEffect(code, line string) bool {
	return classes[code].noEffect || tooManyClients(line) || strings.Contains(line, "unauthenticated")
}

// tooManyClients recognises the refusal of a new connection, which has no code.
func tooManyClients(line string) bool { return strings.Contains(line, "max number of clients reached") }
