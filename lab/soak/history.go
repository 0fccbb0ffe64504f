package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A history is what happened in a round, as the oracles see it.
type history struct {
	*round
	zero     int64   // the time of the first event
	events   []event // by time
	calls    []*attempt
	holds    map[string][]*span // by name, in the order of their beginning
	quiets   []event
	faults   []event
	backs    []event
	stalls   []event
	counters map[string]int64
	entries  []entry
	judged   *judged // once it was asked for
}

// An attempt is one call of a worker, from its beginning to its answer.
type attempt struct {
	who, name, how string
	id             int64
	from, to       int64  // to: when it was answered, or its process died
	outcome        what   // held, stale, failed; "" if it was never answered
	reason         kind   // of failed
	refusal        string // of failed: the code of the server's
	late           int64  // of failed: how long ago its context had ended
}

// A span is the time in which a process believed that it held a lock. It is never
// longer than the belief was.
type span struct {
	*attempt
	from, to int64
	fence    uint64
	owner    string
	until    int64 // the last deadline that was written down
	end      what  // free, ended; "" if neither was written down
	early    int64 // when the loss was seen, if that was before the deadline
	promises []deadline
}

// A deadline is until when a lease was to be believed, as it said at a time.
type deadline struct{ at, until int64 }

// readHistory reads the files of a round.
func readHistory(ctx context.Context, dir string) (*history, error) {
	text, err := os.ReadFile(filepath.Join(dir, roundFile))
	if err != nil {
		return nil, err
	}
	r := &round{dir: dir}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("%s: %w", roundFile, err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"+journalSuffix))
	if err != nil {
		return nil, err
	}
	var events []event
	for _, file := range files {
		some, err := readJournal(file)
		if err != nil {
			return nil, err
		}
		events = append(events, some...)
	}
	l, err := openLedger(filepath.Join(dir, databaseFile))
	if err != nil {
		return nil, err
	}
	defer l.close()
	h := newHistory(r, events)
	h.counters, h.entries, err = l.read(ctx)
	return h, err
}

// newHistory makes calls and holds of events. The events of each process are in the
// order in which they were written.
func newHistory(r *round, events []event) *history {
	h := &history{round: r, holds: make(map[string][]*span)}
	deaths, closings := make(map[string]int64), make(map[string]int64)
	for _, e := range events {
		switch e.What {
		case quiet:
			h.quiets = append(h.quiets, e)
		case fault:
			h.faults = append(h.faults, e)
		case back:
			h.backs = append(h.backs, e)
		case stall:
			h.stalls = append(h.stalls, e)
		case killed, gone:
			if _, dead := deaths[e.Who]; !dead {
				deaths[e.Who] = e.At
			}
		case closing:
			closings[e.Who] = e.At
		}
	}
	h.follow(events, deaths, closings)
	h.events = slices.Clone(events)
	slices.SortStableFunc(h.events, func(a, b event) int { return cmp.Compare(a.At, b.At) })
	if len(h.events) > 0 {
		h.zero = h.events[0].At
	}
	for _, spans := range h.holds {
		for _, s := range spans {
			s.to = max(s.to, s.from) // it was believed at its beginning
		}
		slices.SortStableFunc(spans, func(a, b *span) int { return cmp.Compare(a.from, b.from) })
	}
	return h
}

// follow goes through what the workers wrote.
func (h *history) follow(events []event, deaths, closings map[string]int64) {
	type key struct {
		who string
		id  int64
	}
	calls, spans := make(map[key]*attempt), make(map[key]*span)
	for _, e := range events {
		k := key{e.Who, e.Call}
		if e.What == asks {
			death, dead := deaths[e.Who]
			if !dead {
				death = math.MaxInt64
			}
			calls[k] = &attempt{who: e.Who, id: e.Call, name: e.Name, how: e.Text, from: e.At, to: death}
			h.calls = append(h.calls, calls[k])
		}
		call := calls[k]
		if call == nil {
			continue // it is not about a call
		}
		switch e.What {
		case failed, stale, held:
			call.to, call.outcome, call.reason, call.late, call.refusal = e.At, e.What, kind(e.Text), e.N, e.Error
		}
		if e.What == held {
			s := &span{attempt: call, from: e.At, to: e.Until, until: e.Until, fence: e.Fence, owner: e.Owner}
			s.promises = []deadline{{e.At, e.Until}}
			if at, ok := closings[e.Who]; ok {
				s.to = min(s.to, max(at, s.from)) // it may have been given back ever since
			}
			spans[k] = s
			h.holds[e.Name] = append(h.holds[e.Name], s)
		}
		if s := spans[k]; s != nil {
			s.follow(e, closings[e.Who])
		}
	}
}

// follow takes in an event of a hold.
func (s *span) follow(e event, closing int64) {
	switch e.What {
	case renewed:
		s.promises = append(s.promises, deadline{e.At, e.Until})
		if s.end == "" {
			s.to = max(s.to, e.Until)
			s.until = max(s.until, e.Until)
			if closing > 0 {
				s.to = min(s.to, max(closing, s.from))
			}
		}
	case free: // it was believed until then
		s.end, s.to = free, e.At
		if closing > 0 {
			s.to = min(s.to, max(closing, s.from))
		}
	case ended:
		s.end, s.to = ended, min(s.to, e.At)
	}
	// A loss that is known before its deadline was no loss by time: somebody has
	// taken the key away.
	if (e.What == ended || e.What == released) && kind(e.Text) == kindLost && e.At < s.until {
		s.early = e.At
	}
}

// lastWords returns what happened to a name, and beside it, before a time.
func (h *history) lastWords(name string, until int64, most int) string {
	var lines []string
	for _, e := range slices.Backward(h.events) {
		if e.At > until || e.Name != "" && name != "" && e.Name != name {
			continue
		}
		if lines = append(lines, e.words(h.zero)); len(lines) == most {
			break
		}
	}
	slices.Reverse(lines)
	return strings.Join(lines, "\n")
}
