package lockkeeper

import (
	"context"
	"iter"
	"strings"
)

// Conn is all that Lockkeeper asks of a Redis client. The adapters goredisconn
// and rueidisconn implement it; lockkeepertest has one in memory and the suite
// that every implementation has to pass. It must be safe for concurrent use.
//
// A Conn does one call for one call: it never retries and never decides. A
// deadline of ctx ends a call that waits for the network, at the latest then.
// Cancellation may be noticed late, since no Redis client can stop a request
// that is on the wire without giving up its connection.
//
// Replies are nil, int64, string or []any of these, in RESP2 and RESP3 alike. A
// nil reply is (nil, nil). An error that the server sent is a *ReplyError; any
// other error means that the outcome is unknown.
type Conn interface {
	// EvalSha runs a script that the server knows by its SHA-1, or answers a
	// *ReplyError with the code NOSCRIPT.
	EvalSha(ctx context.Context, sha string, keys, args []string) (any, error)

	// Eval runs a script by its source; the server knows it from then on.
	Eval(ctx context.Context, src string, keys, args []string) (any, error)

	// Listen subscribes to a channel, calls ready once the server has confirmed
	// it, and then message for each payload, in order, until ctx ends (it returns
	// promptly, with ctx's error) or the connection breaks. It calls neither
	// function after it returned.
	Listen(ctx context.Context, channel string, ready func(), message func(payload string)) error
}

// Scanner is what a Conn has to offer besides for Client.List: every key that
// matches a glob pattern, on every primary of the deployment, without blocking
// the server. A key may come twice. A key that exists during the whole scan is
// not missed.
type Scanner interface {
	Scan(ctx context.Context, match string) iter.Seq2[string, error]
}

// A ReplyError is an error that the Redis server itself answered.
type ReplyError struct {
	Code    string // the first word, such as NOSCRIPT, READONLY or ERR
	Message string // the whole line, with the code
}

// NewReplyError splits the server's error line; adapters call it.
func NewReplyError(line string) *ReplyError {
	code, _, _ := strings.Cut(line, " ")
	return &ReplyError{Code: code, Message: line}
}

// Error returns what the server said, and after it what to do about it where
// that is known.
func (e *ReplyError) Error() string {
	if advice := e.Advice(); advice != "" {
		return e.Message + " (" + advice + ")"
	}
	return e.Message
}
