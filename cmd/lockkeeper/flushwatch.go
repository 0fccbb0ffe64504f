package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

const (
	watchEvery = time.Second     // on a terminal
	blockEvery = 2 * time.Second // elsewhere

	// ratesOver is how far rates look back.
	ratesOver = 10 * time.Second
)

// watchStatus shows the status until ctx ends. A Redis that does not answer is shown, too.
func (a *app) watchStatus(ctx context.Context, c *console, asJSON bool) error {
	s := a.newScreen(a.stdout)
	every := blockEvery
	if s.live && !asJSON {
		every = watchEvery
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	m := &meter{}
	for {
		status, err := c.look(ctx)
		var unavailable unavailableError
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.As(err, &unavailable):
			status = noStatus(c.job, err)
		case err != nil:
			return err
		default:
			status.Rates = m.add(status)
			status.judge() // again, now with the rates
		}
		if err := a.showStatus(s, status, asJSON); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// noStatus is what there is to say when Redis does not answer.
func noStatus(j *job, err error) *jobStatus {
	return &jobStatus{
		Job:    j.Job,
		State:  stateUnreachable,
		States: []jobState{{Name: stateUnreachable, Text: plainLine(err.Error())}},
		Held:   []jobHeld{}, Pauses: []jobPause{}, Processes: []jobProcess{},
		At: time.Now().UTC().Truncate(time.Millisecond),
		of: j,
	}
}

// showStatus shows one status: in the place of the last one on a terminal, and elsewhere
// as a block, or as a line of JSON.
func (a *app) showStatus(s *screen, status *jobStatus, asJSON bool) error {
	if asJSON {
		encoder := json.NewEncoder(a.stdout)
		encoder.SetEscapeHTML(false)
		return encoder.Encode(status)
	}
	lines := []string{status.States[0].line()}
	if status.State != stateUnreachable {
		lines = status.lines(time.Now())
	}
	if s.live {
		s.draw(lines)
		return nil
	}
	block := status.At.Format(time.RFC3339) + "\n" + strings.Join(lines, "\n") + "\n\n"
	_, err := io.WriteString(a.stdout, block)
	return err
}

// rates are how fast keys become dirty, and are flushed.
type rates struct {
	In           float64 `json:"in"`            // keys a second
	Out          float64 `json:"out"`           // keys a second
	EmptySeconds float64 `json:"empty_seconds"` // until nothing waits; negative: it does not come to that
}

func (r *rates) String() string {
	text := fmt.Sprintf("in %s/s, out %s/s", grouped(int(r.In+0.5)), grouped(int(r.Out+0.5)))
	if r.EmptySeconds > 0 {
		text += ", empty in " + short(ofSeconds(r.EmptySeconds))
	}
	return text
}

// A meter makes rates of what one status after the other says.
type meter struct {
	samples []sample // the oldest first
	out     int      // keys that were flushed since the first status
	last    map[string]int
}

type sample struct {
	at         time.Time
	dirty, out int
}

// add takes in a status, and returns the rates over the last while; nil at first.
func (m *meter) add(s *jobStatus) *rates {
	before := m.last
	m.last = make(map[string]int)
	for i := range s.Processes {
		p := &s.Processes[i]
		flushed := p.Total.Keys - p.Total.Changed // the others stay dirty
		m.last[p.ID] = flushed
		if was, known := before[p.ID]; known {
			m.out += max(0, flushed-was)
		} else if before != nil {
			m.out += flushed // it has come since
		}
	}
	m.samples = append(m.samples, sample{s.At, s.Dirty, m.out})
	for len(m.samples) > 2 && s.At.Sub(m.samples[1].at) >= ratesOver {
		m.samples = m.samples[1:]
	}
	first := m.samples[0]
	took := s.At.Sub(first.at).Seconds()
	if took <= 0 {
		return nil
	}
	out := max(m.out-first.out, first.dirty-s.Dirty) // what a long pass has done is told at its end
	in := max(0, s.Dirty-first.dirty+out)
	r := &rates{In: float64(in) / took, Out: float64(out) / took}
	switch {
	case s.Dirty == 0:
	case r.Out > r.In:
		r.EmptySeconds = float64(s.Dirty) / (r.Out - r.In)
	default:
		r.EmptySeconds = -1
	}
	return r
}
