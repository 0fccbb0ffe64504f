package bench

import (
	"context"
	"errors"
	"sync"
	"time"
)

// A worker does its work again and again while log.goesOn, and notes each time. ctx ends
// only when waiting any longer is of no use.
type worker func(ctx context.Context, log *samples) error

// samples are the times that one worker has noted.
type samples struct {
	over        <-chan struct{} // closed when the work is to end
	from, until time.Time       // what is not within is not counted
	took        histogram
	all         int // also those that are not counted
}

func (s *samples) goesOn() bool {
	select {
	case <-s.over:
		return false
	default:
		return true
	}
}

// add takes in a time.
func (s *samples) add(began, ended time.Time) {
	s.all++
	if !began.Before(s.from) && !ended.After(s.until) {
		s.took.add(ended.Sub(began))
	}
}

// A tally is what a crew has noted together.
type tally struct {
	took    histogram
	elapsed time.Duration // in which they were noted
	all     int
	early   bool // it was ended before its time
}

var errTimeUp = errors.New("the time is up")

// grace is how long workers have to come to an end. A wait that is cut short leaves a
// request behind that the client takes seconds to take back; so that it is better to
// let the lock come round once more.
const grace = time.Second

// crew runs workers for d and adds up what they have noted. The first twentieth is not
// counted: connections are made and scripts are loaded then. The first error ends all.
func crew(parent context.Context, d time.Duration, workers []worker) (*tally, error) {
	over, end := context.WithCancelCause(parent)
	defer end(nil)
	waits, cut := context.WithCancel(context.WithoutCancel(parent))
	defer cut()
	from := time.Now().Add(d / 20)
	until := from.Add(d - d/20)
	logs := make([]samples, len(workers))
	var wg sync.WaitGroup
	for i, w := range workers {
		logs[i] = samples{over: over.Done(), from: from, until: until}
		wg.Go(func() {
			if err := w(waits, &logs[i]); err != nil {
				end(err)
			}
		})
	}
	// No deadline: it would cut the last requests short.
	timer := time.AfterFunc(d, func() { end(errTimeUp) })
	defer timer.Stop()
	home := make(chan struct{})
	go func() {
		wg.Wait()
		close(home)
	}()
	select {
	case <-home:
	case <-over.Done():
		if mayLinger(parent, context.Cause(over)) {
			within(grace, home)
		}
		cut()
		<-home
	}
	t := &tally{elapsed: min(time.Since(from), until.Sub(from)), early: time.Now().Before(until)}
	t.add(logs)
	if err := context.Cause(over); err != nil && !errors.Is(err, errTimeUp) {
		return t, err
	}
	return t, nil
}

// mayLinger reports whether a crew was ended in good order: by the time, or by the user.
func mayLinger(parent context.Context, cause error) bool {
	var trouble *troubleError
	return errors.Is(cause, errTimeUp) || parent.Err() != nil && !errors.As(cause, &trouble)
}

// within waits until done is closed, for d at most.
func within(d time.Duration, done <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

func (t *tally) add(logs []samples) {
	for i := range logs {
		t.took.merge(&logs[i].took)
		t.all += logs[i].all
	}
}
