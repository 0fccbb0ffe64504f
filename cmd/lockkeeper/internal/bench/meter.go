package bench

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/goredisconn"
)

// A meter is a Conn that counts requests, and ends the run when for some time none gets
// a usable answer: the locks would wait, and ask again.
type meter struct {
	*goredisconn.Conn
	stop     context.CancelCauseFunc
	closing  atomic.Bool // what fails from here on spoils nothing
	requests atomic.Int64
	failed   atomic.Int64
	since    atomic.Int64               // time of the first failure after the last success, in ns; 0: none
	renewals atomic.Pointer[renewalLog] // while nothing but renewals is sent
}

// patience is how long the server may be in trouble. A stall is a part of what is
// measured; an outage is not.
const patience = 5 * time.Second

// A troubleError is that the server gave no usable answer for too long.
type troubleError struct{ err error }

func (e *troubleError) Error() string { return e.err.Error() }
func (e *troubleError) Unwrap() error { return e.err }

// EvalSha implements lockkeeper.Conn.
func (m *meter) EvalSha(ctx context.Context, sha string, keys, args []string) (any, error) {
	return m.send(ctx, m.Conn.EvalSha, sha, keys, args)
}

// Eval implements lockkeeper.Conn.
func (m *meter) Eval(ctx context.Context, src string, keys, args []string) (any, error) {
	return m.send(ctx, m.Conn.Eval, src, keys, args)
}

type eval func(ctx context.Context, script string, keys, args []string) (any, error)

func (m *meter) send(ctx context.Context, f eval, script string, keys, args []string) (any, error) {
	m.requests.Add(1)
	if log := m.renewals.Load(); log != nil {
		return log.send(ctx, f, script, keys, args)
	}
	reply, err := f(ctx, script, keys, args)
	switch {
	case err != nil && isTrouble(err):
		m.fails(err, time.Now())
	case m.since.Load() != 0:
		m.since.Store(0)
	}
	return reply, err
}

// fails takes in a request without a usable answer.
func (m *meter) fails(err error, now time.Time) {
	m.failed.Add(1)
	if m.since.CompareAndSwap(0, now.UnixNano()) || m.closing.Load() {
		return
	}
	if since := m.since.Load(); since != 0 && now.Sub(time.Unix(0, since)) >= patience {
		m.stop(&troubleError{err})
	}
}

// isTrouble reports whether an error says that the server, or the way to it, is in a
// bad state. That a script is not known is none, and what the user may not do is told
// by the locks.
func isTrouble(err error) bool {
	var reply *lockkeeper.ReplyError
	if errors.As(err, &reply) {
		return reply.Code != "NOSCRIPT" && reply.Transient()
	}
	return !errors.Is(err, context.Canceled)
}

// A renewalLog sends renewals one after the other, as one connection does, and notes
// what each takes. A failure is noted too, and ends nothing: the leases live on.
type renewalLog struct {
	turn chan struct{} // has room for one; guards what follows

	took    histogram     // of each batch
	busy    time.Duration // the sum
	renewed int           // leases in them
	failed  int           // batches
	err     error         // of the last that failed
}

func newRenewalLog() *renewalLog { return &renewalLog{turn: make(chan struct{}, 1)} }

func (l *renewalLog) send(ctx context.Context, f eval, script string, keys, args []string) (any, error) {
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-l.turn }()
	begun := time.Now()
	reply, err := f(ctx, script, keys, args)
	var refused *lockkeeper.ReplyError
	switch {
	case err == nil:
		took := time.Since(begun)
		l.took.add(took)
		l.busy += took
		l.renewed += len(keys)
	case errors.As(err, &refused) && refused.Code == "NOSCRIPT": // it is sent again, in full
	default:
		l.failed++
		l.err = err
	}
	return reply, err
}

// read returns what the log has; it waits for the request that is on its way.
func (l *renewalLog) read(ctx context.Context) (*renewalLog, error) {
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-l.turn }()
	return &renewalLog{took: l.took, busy: l.busy, renewed: l.renewed, failed: l.failed, err: l.err}, nil
}
