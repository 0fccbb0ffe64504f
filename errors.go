package lockkeeper

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/core"
)

// The errors that callers tell apart, with [errors.Is]. Each comes with detail in
// a type of its own; an error that is due to a context also satisfies
// errors.Is(err, context.Canceled) or context.DeadlineExceeded.
var (
	// ErrHeld is returned when somebody else holds the lock: by Try at once, by
	// Acquire when the wait has ended. The error is a *HeldError.
	ErrHeld = errors.New("lockkeeper: held by another")

	// ErrQueueFull is returned by Acquire when too many wait already, see
	// Config.MaxQueue. The error is a *HeldError and matches ErrHeld as well.
	ErrQueueFull = errors.New("lockkeeper: the waiting line is full")

	// ErrLost is returned, and is the cause of the work's context, when a lease
	// ended before it was released. The error is a *LostError.
	ErrLost = errors.New("lockkeeper: lease lost")

	// ErrNotHeld is returned for a lease that was released, and by Break for a
	// lock that nobody holds.
	ErrNotHeld = errors.New("lockkeeper: not held")

	// ErrUnavailable is returned when Redis gave no usable answer: it can't be
	// reached, or refuses to work. The error is an *UnavailableError.
	ErrUnavailable = errors.New("lockkeeper: Redis gave no usable answer")

	// ErrInvalid is returned for input that can't be right, before anything is
	// sent.
	ErrInvalid = errors.New("lockkeeper: invalid")

	// ErrClosed is returned by everything that is used after Client.Close, and
	// is the cause of contexts that Close has ended.
	ErrClosed = errors.New("lockkeeper: client is closed")
)

// A HeldError says who holds a lock. It matches [ErrHeld], and the context's error
// when a wait was ended by it.
type HeldError struct {
	Name   string
	Holder Holder
	Left   time.Duration // until the holder's TTL ends unless it renews; negative: no TTL
	Err    error         // why the wait ended; nil when nobody waited
}

func (e *HeldError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "lockkeeper: %q is held by %s", e.Name, e.Holder)
	switch {
	case e.Left < 0:
		b.WriteString(", without a TTL")
	case e.Left > 0:
		fmt.Fprintf(&b, ", %s left unless renewed", e.Left)
	}
	if e.Err != nil {
		fmt.Fprintf(&b, " (%s)", e.Err)
	}
	return b.String()
}

// Is matches ErrHeld.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// Unwrap returns why the wait ended.
func (e *HeldError) Unwrap() error { return e.Err }

// A LostError says why a lease ended. It matches [ErrLost], and the last error of
// a renewal when there was one.
type LostError struct {
	Name   string
	Fence  Fence
	Reason string // in words
	Err    error  // the last renewal's error, or nil
}

func (e *LostError) Error() string {
	s := fmt.Sprintf("lockkeeper: lease on %q (fence %s) lost: %s", e.Name, e.Fence, e.Reason)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Is matches ErrLost.
func (e *LostError) Is(target error) bool { return target == ErrLost }

// Unwrap returns the last renewal's error.
func (e *LostError) Unwrap() error { return e.Err }

// An UnavailableError says what could not be done because Redis gave no usable
// answer. It matches [ErrUnavailable] and what it wraps: a *ReplyError, an error of
// the network, or the context's.
type UnavailableError struct {
	Op   string // what was tried, such as "acquire"
	Name string
	Err  error
}

func (e *UnavailableError) Error() string {
	return fmt.Sprintf("lockkeeper: %s %q: no usable answer from Redis: %s", e.Op, e.Name, e.Err)
}

// Is matches ErrUnavailable.
func (e *UnavailableError) Is(target error) bool { return target == ErrUnavailable }

// Unwrap returns the cause.
func (e *UnavailableError) Unwrap() error { return e.Err }

// invalidf returns an error that matches ErrInvalid.
func invalidf(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...)
}

// Line returns what the server said, unchanged.
func (e *ReplyError) Line() string { return e.Message }

// advice says what to do about an error of the server, by its code.
var advice = map[string]string{
	"LOADING":     "the server is reading its data; it will answer when that is done",
	"BUSY":        "a script blocks the server; find it with SLOWLOG, end it with SCRIPT KILL",
	"READONLY":    "this is a replica: connect to the primary, or let Sentinel or Cluster find it",
	"MASTERDOWN":  "this is a replica that has lost its primary: connect to the primary",
	"NOREPLICAS":  "min-replicas-to-write is not met: bring replicas back",
	"MISCONF":     "the server can't save to its disk and stops writes: see its log",
	"OOM":         "maxmemory is reached: raise it or free memory; keep locks on a server with noeviction",
	"CLUSTERDOWN": "a part of the cluster is down: see CLUSTER INFO",
	"TRYAGAIN":    "the slot is being moved; it will answer when that is done",
	"MOVED":       "this is one node of a cluster: use a cluster client",
	"ASK":         "this is one node of a cluster: use a cluster client",
	"NOAUTH":      "the server wants a password: set it in the client's options or the URL",
	"WRONGPASS":   "user name or password is wrong, or the user is off",
	"NOPERM":      "the ACL user lacks a right: docs/PROTOCOL.md lists the commands, keys and channels",
	"DENIED":      "protected mode: set a password, or bind the server to an address on purpose",
	"CROSSSLOT":   "keys of one name in two cluster slots: this is a bug in Lockkeeper",
	"WRONGTYPE":   "a key of this name is used by something else: choose another name or prefix",
	"NOSCRIPT":    "scripts are flushed faster than they are loaded",
}

// Advice returns what to do about the error, or "" when that is not known.
func (e *ReplyError) Advice() string {
	switch {
	case e.Code != "ERR":
	case strings.Contains(e.Message, "user executing the script can't"):
		return advice["NOPERM"] // as Redis 7.0 says it of a command in a script
	case strings.Contains(e.Message, "unauthenticated"):
		return advice["NOAUTH"] // as Redis says it of a request with more than ten words
	}
	return advice[e.Code]
}

// Transient reports whether the same request may succeed later without anybody changing
// anything: the server loads, is busy, full, or not the primary now.
func (e *ReplyError) Transient() bool {
	return core.Classify(e.Code, e.Message) == core.Transient
}

// A Fence is the number of one hold. For one name it only grows from hold to
// hold, as long as the server keeps its memory or its clock does not go back; see
// docs/GUARANTEES.md for what covers the rest. The zero value is no fence, and is
// refused wherever one is needed.
type Fence uint64

// Valid reports whether f is a fence at all.
func (f Fence) Valid() bool { return f != 0 }

// String returns the decimal digits.
func (f Fence) String() string { return strconv.FormatUint(uint64(f), 10) }
