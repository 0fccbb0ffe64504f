package demo

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// silenceEnds is how long Redis may be silent before the show is given up.
const silenceEnds = 10 * time.Second

// errInterrupted is why a show that was told to end has failed.
var errInterrupted = errors.New("interrupted; nothing was proved")

// A silenceError is why a show ends whose Redis is gone.
type silenceError struct{ redis string }

func (e *silenceError) Error() string {
	return fmt.Sprintf("%s has not answered for %g s; nothing was proved", e.redis, silenceEnds.Seconds())
}

// A pulse asks Redis all the time whether it is there, for the screen, and to end the
// show when it is not: all parts of the show would wait for it.
type pulse struct {
	ping func(context.Context) error
	most time.Duration // silenceEnds, but in tests

	mu       sync.Mutex
	answered time.Time // the last time; or when it began
	err      error     // of the last request; nil: it answers
}

func newPulse(ping func(context.Context) error) *pulse {
	return &pulse{ping: ping, most: silenceEnds, answered: time.Now()}
}

// run asks until ctx ends, and calls silent once Redis has been silent for too long.
func (p *pulse) run(ctx context.Context, silent func()) {
	for ctx.Err() == nil {
		asking, cancel := context.WithTimeout(ctx, time.Second)
		err := p.ping(asking)
		cancel()
		if ctx.Err() != nil {
			return // that was us
		}
		if p.heard(err) >= p.most {
			silent()
			return
		}
		pause(ctx, 200*time.Millisecond)
	}
}

// heard takes in the outcome of a request, and returns for how long there was no answer.
func (p *pulse) heard(err error) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
	if err == nil {
		p.answered = time.Now()
	}
	return time.Since(p.answered)
}

// silence returns for how long Redis has not answered and what came instead, or nil.
func (p *pulse) silence() (time.Duration, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		return 0, nil
	}
	return time.Since(p.answered), p.err
}

// halted returns why a show was ended before its end, or nil.
func halted(ctx context.Context) error {
	var silence *silenceError
	switch {
	case ctx.Err() == nil:
		return nil
	case errors.As(context.Cause(ctx), &silence):
		return silence
	}
	return errInterrupted
}
