package demo

import (
	"fmt"
	"io"
	"time"

	"github.com/lockkeeper/lockkeeper/flush"
)

// A Summary is what came out of a show; --json prints it.
type Summary struct {
	OK       bool    `json:"ok"`
	Seconds  float64 `json:"seconds"`
	Redis    string  `json:"redis"`
	Database string  `json:"database"`

	Written struct {
		Sets    int64 `json:"sets"`
		Deletes int64 `json:"deletes"`
		Retries int64 `json:"retries"`
	} `json:"written"`
	Flushed  flush.Stats `json:"flushed"`
	Batches  int         `json:"batches"`
	Parked   int         `json:"parked"`
	DrainMS  float64     `json:"drain_ms"`
	Compared Comparison  `json:"compared"`

	Takeovers []Takeover `json:"takeovers"`
	Refused   int        `json:"refused_stale_writes"`
	Failures  []string   `json:"failures,omitempty"` // why OK is false

	drained  bool     // DrainMS says something
	compared bool     // Compared says something
	kept     []string // what stays behind, and where
}

// fail notes what went wrong; nil is nothing.
func (s *Summary) fail(err error) {
	if err != nil {
		s.Failures = append(s.Failures, err.Error())
	}
}

func (s *Summary) failf(bad bool, format string, args ...any) {
	if bad {
		s.Failures = append(s.Failures, fmt.Sprintf(format, args...))
	}
}

// left notes what stays behind.
func (s *Summary) left(format string, args ...any) {
	s.kept = append(s.kept, fmt.Sprintf(format, args...))
}

// finish takes in all counts and decides whether the show is what it promises. One that
// was ended before its end is not judged: its failure has been noted.
func (s *Summary) finish(show *show, c *Comparison, ended bool) {
	b := show.board
	b.mu.Lock()
	defer b.mu.Unlock()
	s.Seconds = float64(time.Since(b.start).Milliseconds()) / 1000 // three decimals
	s.Written.Sets, s.Written.Deletes = show.writer.sets.Load(), show.writer.deletes.Load()
	s.Written.Retries = show.writer.errors.Load()
	s.Flushed, s.Batches = b.flushed, b.batches
	s.Takeovers, s.Refused = b.takeover, b.refused
	if ended {
		return
	}
	if c != nil {
		s.Compared, s.compared = *c, true
		s.failf(c.Differences > 0, "%d differences between Redis and the database", c.Differences)
		s.failf(c.Keys == 0, "nothing was compared: there is no key")
		lost := show.data.restore && c.Keys != len(show.data.records)
		s.failf(lost, "%d of %d records of the input are there at the end", c.Keys, len(show.data.records))
	}
	s.failf(s.Parked > 0, "%d keys could not be flushed and are parked", s.Parked)
	s.failf(len(s.Takeovers) == 0, "there was no takeover")
	s.failf(s.Refused == 0, "no stale write was refused")
	s.OK = len(s.Failures) == 0
}

// Print writes the summary for people.
func (s *Summary) Print(w io.Writer) {
	p := func(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
	p("")
	p("written     %d sets and %d deletes in Redis, in %.1f s", s.Written.Sets, s.Written.Deletes, s.Seconds)
	p("flushed     %d upserts and %d deletes in %d batches", s.Flushed.Upserts, s.Flushed.Deletes, s.Batches)
	if s.drained {
		p("drained     the last of it %.0f ms after the last write", s.DrainMS)
	} else {
		p("drained     no")
	}
	for _, t := range s.Takeovers {
		p("takeover    %s to %s (%s): nobody was active for %.0f ms", t.From, t.To, t.Cause, t.GapMS)
	}
	p("refused     %d stale writes, by the fence in the database", s.Refused)
	if s.compared {
		p("compared    %d keys with %d rows, %d fields: %d differences",
			s.Compared.Keys, s.Compared.Rows, s.Compared.Fields, s.Compared.Differences)
	} else {
		p("compared    nothing: not compared")
	}
	for _, e := range s.Compared.Examples {
		p("            %s", e)
	}
	if s.OK {
		p("OK          nothing was lost, and nothing stale was written")
	}
	for _, f := range s.Failures {
		p("FAILED      %s", f)
	}
	for _, k := range s.kept {
		p("left        %s", k)
	}
}
