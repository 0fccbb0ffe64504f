package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"
)

// laneCount is how many layers run beside each other.
const laneCount = 2

// A layer is one way of checking.
type layer struct {
	name    string
	what    string
	lane    int
	short   bool // part of the short programme
	targets []target
	run     func(ctx context.Context, w io.Writer, o options) (counts, error)
}

// A target is what a layer has to do at least, so that finding nothing means something.
type target struct {
	key         string
	short, long int64
}

// counts are what a layer has done, by name.
type counts map[string]int64

// A result is what came of a layer. The zero value is one that was not run.
type result struct {
	layer
	counts  counts
	missed  []string // targets
	err     error
	took    time.Duration
	stopped bool // by the bound of time
}

func (r result) failed() bool { return r.err != nil || len(r.missed) > 0 }

// do runs a layer.
func (l layer) do(ctx context.Context, w io.Writer, o options) result {
	fmt.Fprintf(w, "%s: begins\n", l.name)
	began := time.Now()
	r := result{layer: l}
	r.counts, r.err = l.run(ctx, &prefixed{w: w, prefix: l.name + ": "}, o)
	r.took, r.stopped = time.Since(began).Round(time.Second), ctx.Err() != nil
	if o.quick == 1 {
		r.missed = l.missed(r.counts, o.short)
	}
	verdict := "ends"
	switch {
	case r.err != nil:
		verdict = "FAILED: " + r.err.Error()
	case len(r.missed) > 0:
		verdict = "FELL SHORT: " + strings.Join(r.missed, ", ")
	}
	fmt.Fprintf(w, "%s: %s after %s\n", l.name, verdict, r.took)
	return r
}

// missed says which targets were not reached.
func (l layer) missed(c counts, short bool) (missed []string) {
	for _, t := range l.targets {
		want := t.long
		if short {
			want = t.short
		}
		if c[t.key] < want {
			missed = append(missed, fmt.Sprintf("%d %s, want %d", c[t.key], t.key, want))
		}
	}
	return missed
}

// A prefixed writer begins each line that is written at once with a name.
type prefixed struct {
	w      io.Writer
	prefix string
}

func (p *prefixed) Write(b []byte) (int, error) {
	text := strings.TrimSuffix(string(b), "\n")
	if _, err := io.WriteString(p.w, p.prefix+strings.ReplaceAll(text, "\n", "\n"+p.prefix)+"\n"); err != nil {
		return 0, err
	}
	return len(b), nil
}
