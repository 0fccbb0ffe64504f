package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/flush"
	"github.com/lockkeeper/lockkeeper/sqlfence"
)

// The bugs that a worker can have, to see them found.
const (
	plantPopFirst   = "pop-first"   // marks are taken away before the commit
	plantAnyVersion = "any-version" // marks are taken away whatever their version is
	plantNoFence    = "no-fence"    // the database does not check the claim, nor Redis the epoch
	plantParkAll    = "park-all"    // any error of the database is taken for a bad row
	plantNoDeletes  = "no-deletes"  // recorded deletes are acknowledged and not made
)

var plants = []string{plantPopFirst, plantAnyVersion, plantNoFence, plantParkAll, plantNoDeletes}

// watched is the worker's sink: it can freeze between commit and acknowledgement, and
// have a bug.
type watched struct {
	*flush.SQL
	w *worker
}

// Claim implements flush.Sink.
func (s *watched) Claim(ctx context.Context, job string, holder sqlfence.Holder) (flush.Term, error) {
	term, err := s.SQL.Claim(ctx, job, holder)
	if err != nil {
		return nil, err
	}
	return &watchedTerm{term, s}, nil
}

// Class implements flush.Sink.
func (s *watched) Class(err error) flush.Class {
	if s.w.Plant == plantParkAll {
		return flush.BadRow
	}
	return s.SQL.Class(err)
}

type watchedTerm struct {
	flush.Term
	sink *watched
}

// Write implements flush.Term.
func (t *watchedTerm) Write(ctx context.Context, number int64, rows []flush.Row) error {
	w := t.sink.w
	switch w.Plant {
	case plantPopFirst:
		if err := w.pop(ctx, rows); err != nil {
			return err
		}
	case plantNoDeletes:
		rows = withoutDeletes(rows)
	}
	err := t.Term.Write(ctx, number, rows)
	if w.Plant == plantNoFence && errors.Is(err, sqlfence.ErrFenced) {
		err = t.force(ctx, number, rows)
	}
	if err == nil && w.Plant == plantAnyVersion {
		err = w.pop(ctx, rows)
	}
	// After the acknowledgement Redis checks the epoch for streams once more: a batch
	// without these shows that the acknowledgement itself is refused.
	if err == nil && !slices.ContainsFunc(rows, isStream) {
		w.freeze(freezeAck)
	}
	return err
}

func isStream(row flush.Row) bool { return row.Mapping.Source == flush.Streams }

// pop takes marks away without a look at their versions.
func (w *worker) pop(ctx context.Context, rows []flush.Row) error {
	keys := flush.KeysOf("", job)
	p := w.rdb.Pipeline()
	for _, row := range rows {
		if isStream(row) {
			continue // its mark is that of many rows
		}
		p.ZRem(ctx, keys.Dirty, keyOf(row))
		p.HDel(ctx, keys.Versions, keyOf(row))
	}
	_, err := p.Exec(ctx)
	return err
}

// keyOf returns the key on Redis that a row is of.
func keyOf(row flush.Row) string {
	prefix, _, _ := strings.Cut(row.Mapping.Keys, "{")
	parts := make([]string, len(row.Key))
	for i, part := range row.Key {
		parts[i] = fmt.Sprint(part)
	}
	return prefix + strings.Join(parts, ":")
}

func withoutDeletes(rows []flush.Row) (rest []flush.Row) {
	for _, row := range rows {
		if !row.Delete {
			rest = append(rest, row)
		}
	}
	return rest
}

// force writes under the claim of somebody else, as if nothing was checked. The marks
// stay, as far as Redis knows its epoch.
func (t *watchedTerm) force(ctx context.Context, number int64, rows []flush.Row) error {
	stands, err := t.sink.Current(ctx, job)
	if err != nil {
		return err
	}
	term, err := t.sink.SQL.Claim(ctx, job, thief{stands})
	if err != nil {
		return err
	}
	return term.Write(ctx, number, rows)
}

// A thief is a holder with another's fence and owner.
type thief struct{ stands sqlfence.Row }

func (t thief) Fence() lockkeeper.Fence { return t.stands.Fence }
func (t thief) Owner() string           { return t.stands.Owner }

// RaiseFence refuses.
func (thief) RaiseFence(context.Context, lockkeeper.Fence) error { return lockkeeper.ErrLost }
