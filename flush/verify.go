package flush

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
)

// VerifyOptions say what Engine.Verify compares, and what it does about differences.
type VerifyOptions struct {
	// Table is that of the one mapping to verify; "" is all.
	Table string

	// Sample is how many keys of each mapping are compared, chosen at random. 0 compares
	// all, and looks for rows without a key besides.
	Sample int

	// Repair marks the keys that differ, so that the active process flushes them again.
	Repair bool

	// Deletes is, with Repair, the largest share of a table's rows, from 0 to 1, that may
	// be deleted because their keys are not there. If there are more, none is. 0 deletes
	// none.
	Deletes float64

	// Differences is how many differences of each mapping are returned. 0 is 20.
	Differences int

	// Progress, which may be nil, is called from time to time.
	Progress func(Progress)
}

// A Difference is where a key and its row are not the same.
type Difference struct {
	Key      string `json:"key"`
	Table    string `json:"table"`
	Column   string `json:"column,omitempty"` // "" is the whole row
	Redis    string `json:"redis"`            // the value as it should be in the database, or "no key"
	Database string `json:"database"`         // the value that is there, or "no row"
}

// Verified says what was found of one mapping.
type Verified struct {
	Table      string `json:"table"`
	Keys       int    `json:"keys"` // that were compared
	Rows       int    `json:"rows"` // that were looked for a key
	Same       int    `json:"same"`
	Differ     int    `json:"differ"`     // keys whose rows are not what they should be
	Orphans    int    `json:"orphans"`    // rows, or groups of rows, whose key is not there
	Pending    int    `json:"pending"`    // keys that have changed and are not flushed yet, which is no difference
	Parked     int    `json:"parked"`     // keys that are parked
	Unreadable int    `json:"unreadable"` // keys whose value can't be a row, and that are not parked
	Repaired   int    `json:"repaired"`   // keys that were marked
	Deleted    int    `json:"deleted"`    // keys that were marked as deleted
	TooMany    bool   `json:"too_many"`   // there are more orphans than may be deleted, so that none was

	Differences []Difference `json:"differences,omitempty"` // some of them
}

// A verifier verifies one mapping.
type verifier struct {
	*Engine
	sink  *SQL
	route *route
	o     VerifyOptions
	found Verified
	gone  []string // keys of orphans

	unreadable []parked // keys of this chunk whose value can't be a row
}

// Verify compares keys with their rows, field by field, while both may change: what is
// marked is no difference, and what looks like one is looked at again. Streams are only
// looked at for entries that are missing in the database.
func (e *Engine) Verify(ctx context.Context, s *SQL, o VerifyOptions) ([]Verified, error) {
	routes, err := e.routesOf(o.Table)
	if err != nil {
		return nil, err
	}
	if o.Sample < 0 || !(o.Deletes >= 0 && o.Deletes <= 1) || o.Deletes > 0 && !o.Repair {
		return nil, errors.New("flush: verify: a sample is not negative, a share is from 0 to 1 and needs Repair")
	}
	if o.Differences == 0 {
		o.Differences = 20
	}
	var all []Verified
	for i, r := range routes {
		v := &verifier{Engine: e, sink: s, route: r, o: o, found: Verified{Table: r.Table}}
		err := v.run(ctx, func(share float64) {
			if o.Progress != nil {
				o.Progress(Progress{Table: r.Table, Done: v.found.Keys + v.found.Rows, Share: (float64(i) + share) / float64(len(routes))})
			}
		})
		all = append(all, v.found)
		if err != nil {
			return all, err
		}
	}
	return all, nil
}

func (v *verifier) run(ctx context.Context, progress func(share float64)) error {
	if v.o.Sample > 0 {
		keys, err := v.sample(ctx)
		if err != nil {
			return err
		}
		for chunk := range slices.Chunk(keys, chunkSize) {
			if err := v.compare(ctx, chunk); err != nil {
				return err
			}
			progress(float64(v.found.Keys) / float64(len(keys)))
		}
		return nil
	}
	err := v.walk(ctx, v.route, func(keys []string, share float64) error {
		progress(share / 2)
		return v.compare(ctx, keys)
	})
	if err != nil || v.route.source() == Streams { // what is trimmed from a stream stays in the database
		return err
	}
	return v.rows(ctx, progress)
}

// sample returns keys of the mapping, each with the same chance.
func (v *verifier) sample(ctx context.Context) ([]string, error) {
	var kept []string
	seen := 0
	err := v.walk(ctx, v.route, func(keys []string, _ float64) error {
		for _, key := range keys {
			seen++
			if len(kept) < v.o.Sample {
				kept = append(kept, key)
			} else if i := rand.IntN(seen); i < len(kept) {
				kept[i] = key
			}
		}
		return nil
	})
	return kept, err
}

// looks is how often what differs is looked at, until it counts: a key that is written
// between the reads of Redis and of the database looks different once.
const looks = 3

// compare compares keys with their rows.
func (v *verifier) compare(ctx context.Context, keys []string) error {
	v.found.Keys += len(keys)
	if v.route.source() == Streams {
		return v.compareStreams(ctx, keys)
	}
	var last map[string][]Difference
	for range looks {
		states, err := v.states(ctx, keys)
		if err != nil {
			return err
		}
		want, err := v.expected(ctx, keys, states)
		if err != nil {
			return err
		}
		last, err = v.differences(ctx, want)
		if err != nil {
			return err
		}
		v.found.Same += len(want) - len(last)
		if err := v.tellUnreadable(ctx); err != nil {
			return err
		}
		if len(last) == 0 {
			return nil
		}
		keys = slices.Sorted(maps.Keys(last))
	}
	// Whatever was written after the last look at the marks is marked now.
	states, err := v.states(ctx, keys)
	if err != nil {
		return err
	}
	differ := keys[:0]
	for i, key := range keys {
		if states[i].marked {
			v.found.Pending++
			continue
		}
		differ = append(differ, key)
		v.note(last[key]...)
	}
	v.found.Differ += len(differ)
	return v.repair(ctx, differ)
}

func (v *verifier) repair(ctx context.Context, keys []string) error {
	if !v.o.Repair {
		return nil
	}
	n, err := v.touchAll(ctx, v.route.Table, keys, "U")
	v.found.Repaired += n
	return err
}

// tellUnreadable tells of keys whose value can't be a row. Marked again, they are parked
// with their reason.
func (v *verifier) tellUnreadable(ctx context.Context) error {
	keys := make([]string, len(v.unreadable))
	for i, p := range v.unreadable {
		keys[i] = p.mark.key
		v.note(Difference{Key: keys[i], Table: v.route.Table, Column: p.Column, Redis: "no value for a row: " + p.Reason, Database: "not compared"})
	}
	v.found.Unreadable += len(keys)
	v.unreadable = nil
	return v.repair(ctx, keys)
}

// note keeps some of the differences.
func (v *verifier) note(list ...Difference) {
	room := max(0, v.o.Differences-len(v.found.Differences))
	v.found.Differences = append(v.found.Differences, list[:min(room, len(list))]...)
}

// expected returns the rows that should be there for keys. Those that are marked,
// parked or not there are counted and left out.
func (v *verifier) expected(ctx context.Context, keys []string, states []keyState) ([]Row, error) {
	var reads []pending
	for i, key := range keys {
		switch {
		case states[i].marked:
			v.found.Pending++
			continue
		case states[i].parked:
			v.found.Parked++
			continue
		case !states[i].there: // deleted since the walk has found it
			continue
		}
		_, parts := v.Engine.route(key)
		id, bad := v.route.keyOf(mark{key: key}, parts)
		if bad != nil {
			v.unreadable = append(v.unreadable, *bad)
			continue
		}
		reads = append(reads, pending{mark{key: key}, id})
	}
	b := &batch{page: &page{}}
	for len(reads) > 0 {
		left := mostBytes
		unread, err := v.Engine.read(ctx, v.route, reads, b, &left)
		if err != nil {
			return nil, err
		}
		reads = unread
	}
	v.unreadable = append(v.unreadable, b.parks...)
	return b.rows, nil
}

// differences compares rows with what the database has, and returns those of each key
// that differs.
func (v *verifier) differences(ctx context.Context, want []Row) (map[string][]Difference, error) {
	found := make(map[string][]Difference)
	for chunk := range slices.Chunk(want, chunkSize) {
		have, err := v.sink.read(ctx, v.route, chunk)
		if err != nil {
			return nil, err
		}
		for i := range chunk {
			if list := v.route.compareRow(&chunk[i], have[i]); len(list) > 0 {
				found[chunk[i].mark.key] = list
			}
		}
	}
	return found, nil
}

// read returns the rows that the database has for keys, for each in the order of their
// own key.
func (s *SQL) read(ctx context.Context, r *route, keys []Row) ([][][]any, error) {
	order := make([]int, len(keys))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return compareKeys(keys[a].Key, keys[b].Key) })
	parents := make([][]any, 0, len(keys))
	for _, i := range order {
		if n := len(parents); n == 0 || compareKeys(parents[n-1], keys[i].Key) != 0 {
			parents = append(parents, keys[i].Key)
		}
	}
	rows, err := s.tables.Read(ctx, s.db, s.routes[r.rank].table, parents)
	if err != nil {
		return nil, fmt.Errorf("flush: table %s: %w", r.Table, err)
	}
	byKey := make(map[string][][]any)
	for _, row := range rows {
		name := r.nameOf(row[:len(r.key)])
		byKey[name] = append(byKey[name], row)
	}
	found := make([][][]any, len(keys))
	for i := range keys {
		found[i] = byKey[keys[i].mark.key]
	}
	return found, nil
}
