package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/flush"
)

// A verdict is what is wrong at the end of a run, and figures.
type verdict struct {
	violations []string
	keys, rows int // on Redis, in the database
	gone       int // keys that were deleted and have no row
	planted    int
	leftovers  int // rows of streams that were deleted, which stay
}

func (v *verdict) wrong(format string, args ...any) {
	v.violations = append(v.violations, fmt.Sprintf(format, args...))
}

// judge compares everything, when nothing is dirty any more.
func (r *run) judge(ctx context.Context) (*verdict, error) {
	v := &verdict{}
	p, err := look(ctx, r.rdb)
	if err != nil {
		return nil, err
	}
	all, err := stored(ctx, r.db.Kind, r.sql)
	if err != nil {
		return nil, err
	}
	var parked []string
	if err := r.engine.EachParked(ctx, func(p flush.Parked) bool {
		parked = append(parked, p.Name())
		return true
	}); err != nil {
		return nil, err
	}
	v.keys, v.rows = len(p.good)+len(p.bad), len(all)
	planted, deleted := make(map[string]bool), make(map[string]bool)
	for _, w := range r.choir.writers {
		maps.Copy(planted, w.planted)
		maps.Copy(deleted, w.deleted)
		v.ledger(w, p)
	}
	v.planted = len(planted)
	v.compare(p, all, deleted)
	v.parked(parked, planted, p)
	if r.fleet.heard.refusedDB == 0 || r.fleet.heard.refusedAck == 0 {
		v.wrong("refused: no stale write was refused by the database (%d), or no stale acknowledgement by Redis (%d)",
			r.fleet.heard.refusedDB, r.fleet.heard.refusedAck)
	}
	return v, r.verify(ctx, v)
}

// ledger looks whether each key of a writer is what its last write has made of it, so
// that no write is lost on Redis already, and the comparison means something.
func (v *verdict) ledger(w *writer, p *picture) {
	for key, a := range w.accounts {
		if !a.allows(p.value[key]) {
			v.wrong("ledger: %s has number %d on Redis, and was confirmed with %d, or perhaps one of %v", key, p.value[key], a.certain, a.maybe)
		}
		if a.certain == 0 && p.value[key] == 0 {
			v.gone++
		}
	}
}

// compare wants each key to be its rows, and no other rows.
func (v *verdict) compare(p *picture, all rows, deleted map[string]bool) {
	for name, want := range p.rows {
		switch got, there := all[name]; {
		case !there:
			v.wrong("lost: row %q is not there, want %q", name, want)
		case got != want:
			v.wrong("different: row %q has %q, want %q", name, got, want)
		}
	}
	for name, got := range all {
		if _, there := p.rows[name]; there {
			continue
		}
		key := keyOfRow(name)
		switch {
		case p.bad[key] != "": // what was there before it could not be written any more
		case key[0] == 'x' && deleted[key]:
			v.leftovers++
		default:
			v.wrong("left over: row %q has %q, and its key has no such value", name, got)
		}
	}
}

// keyOfRow returns the key that a row is of.
func keyOfRow(name string) string {
	parts := strings.Split(name, "|")
	for prefix, table := range prefixes {
		if table != parts[0] {
			continue
		}
		if prefix == "e:" || prefix == "l:" {
			return prefix + parts[1] + ":" + parts[2]
		}
		return prefix + parts[1]
	}
	return name
}

// parked wants exactly what was planted to be parked, and to be bad on Redis.
func (v *verdict) parked(parked []string, planted map[string]bool, p *picture) {
	for _, key := range parked {
		if !planted[key] {
			v.wrong("parked: %s is, and was not planted; on Redis it is %s", key, says(p.bad[key]))
		}
	}
	for key := range planted {
		if !slices.Contains(parked, key) {
			v.wrong("not parked: %s, which was planted; on Redis it is %s", key, says(p.bad[key]))
		}
	}
	for key, why := range p.bad {
		if !planted[key] {
			v.wrong("planted: %s was not, and is bad on Redis: %s", key, why)
		}
	}
}

func says(why string) string {
	if why == "" {
		return "good"
	}
	return "bad: " + why
}

// verify wants the engine's own comparison to come to the same end.
func (r *run) verify(ctx context.Context, v *verdict) error {
	found, err := r.engine.Verify(ctx, r.sink, flush.VerifyOptions{})
	if err != nil {
		return err
	}
	differ, unreadable, pending, keys := 0, 0, 0, 0
	var some []string
	for _, f := range found {
		differ += f.Differ + f.Orphans
		unreadable += f.Unreadable
		pending += f.Pending
		keys += f.Keys
		for _, d := range f.Differences {
			some = append(some, fmt.Sprintf("%s %s.%s: Redis %q, database %q", d.Key, d.Table, d.Column, d.Redis, d.Database))
		}
	}
	ours := slices.ContainsFunc(v.violations, func(text string) bool {
		return strings.HasPrefix(text, "lost:") || strings.HasPrefix(text, "different:") || strings.HasPrefix(text, "left over:")
	})
	switch {
	case pending > 0 || unreadable > 0:
		v.wrong("Verify: %d keys are pending and %d can't be read, after everything was flushed", pending, unreadable)
	case differ > 0 && !ours:
		v.wrong("Verify: %d differences that this program does not see: %s", differ, strings.Join(some[:min(5, len(some))], "; "))
	case differ == 0 && ours:
		v.wrong("Verify: it compared %d keys and sees nothing", keys)
	}
	return nil
}

// mostViolations is how many are told in full.
const mostViolations = 15

// print tells what happened.
func (r *run) print(w io.Writer, v *verdict) {
	line := func(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
	confirmed, unknown, deletes, mended := 0, 0, 0, 0
	for _, w := range r.choir.writers {
		confirmed += w.confirmed
		unknown += w.unknown
		deletes += w.deletes
		mended += w.mended
	}
	h := r.fleet.heard
	line("%s, seed %d: %d writes confirmed (%d deletes), %d without an answer; %d keys and %d rows compared, %d keys gone, %d leftovers of deleted streams",
		r.db.Kind, r.seed, confirmed, deletes, unknown, v.keys, v.rows, v.gone, v.leftovers)
	line("%d terms, %d batches, %d rows set, %d keys deleted; %d stale writes refused by the database, %d stale acknowledgements by Redis, of %d freezes",
		h.terms, h.batches, h.stats.Upserts, h.stats.Deletes, h.refusedDB, h.refusedAck, h.freezes)
	line("%d keys parked in all, %d of them mended by writers; %d planted for good; drained in %.1f s after the end",
		h.stats.Parked, mended, v.planted, r.drained.Seconds())
	total := 0
	for _, n := range r.faults {
		total += n
	}
	line("%d faults:", total)
	for _, name := range slices.Sorted(maps.Keys(r.faults)) {
		line("  %4d %s", r.faults[name], name)
	}
	for i, text := range v.violations {
		if i == mostViolations {
			line("VIOLATION: and %d more", len(v.violations)-i)
			break
		}
		line("VIOLATION: %s", text)
	}
	line("%d violations", len(v.violations))
}
