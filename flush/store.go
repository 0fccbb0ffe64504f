package flush

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/sqlfence"
)

// store writes a batch, and takes its marks away after the commit.
func (s *Session) store(ctx context.Context, b *batch) (Stats, error) {
	e := s.engine
	for table := range b.control.pausedTables() {
		s.paused[table] = true // and those that this pass has paused since the batch was read
	}
	order(b.rows)
	if err := s.count(ctx, b); err != nil {
		return Stats{}, err
	}
	if e.cfg.Trace.Read != nil {
		e.cfg.Trace.Read(len(b.marks))
	}
	w := &writing{batch: b, waiting: make(map[string]string)}
	if err := s.write(ctx, w, b.rows); err != nil {
		return Stats{}, err
	}
	stats := w.stats()
	if err := s.putAside(ctx, w, &stats); err != nil {
		return Stats{}, err
	}
	if err := s.acknowledge(ctx, w, &stats); err != nil {
		return Stats{}, err
	}
	if err := s.advance(ctx, w); err != nil {
		return Stats{}, err
	}
	s.again = s.again || b.later > 0
	if e.cfg.Trace.Wrote != nil {
		e.cfg.Trace.Wrote(stats)
	}
	return stats, nil
}

// A writing is a batch on its way into the database.
type writing struct {
	*batch
	written []Row
	waiting map[string]string // key whose mark waits: for a stream the first entry that does
}

func (w *writing) stats() Stats {
	stats := Stats{Keys: len(w.marks), Missing: len(w.skips)}
	for i := range w.written {
		switch row := &w.written[i]; {
		case row.Delete:
			stats.Deletes++
		case row.Values != nil:
			stats.Upserts++
		default:
			stats.Upserts += len(row.Children)
		}
	}
	return stats
}

// write writes rows in one transaction. If one of them is refused, it is found by
// halving, and the others go on.
func (s *Session) write(ctx context.Context, w *writing, rows []Row) error {
	rows = s.withoutPaused(w, rows)
	if len(rows) == 0 {
		return nil
	}
	s.number++
	err := s.transact(ctx, rows)
	if err == nil {
		w.written = append(w.written, rows...)
		s.forgetTries(rows)
		return nil
	}
	if errors.Is(err, sqlfence.ErrFenced) {
		return err
	}
	switch class := s.engine.sink.Class(err); class {
	case BadRow, BadReference:
		if len(rows) == 1 {
			return s.refuse(ctx, w, &rows[0], class, err)
		}
		if err := s.write(ctx, w, rows[:len(rows)/2]); err != nil {
			return err
		}
		return s.write(ctx, w, rows[len(rows)/2:])
	case BadSchema:
		var at *TableError
		if !errors.As(err, &at) {
			return err
		}
		if err := s.pause(ctx, at.Table, at.Err.Error(), true); err != nil {
			return err
		}
		return s.write(ctx, w, rows)
	}
	return err
}

// transact writes rows in one transaction, whose time is bounded: a database that does not
// answer at all must not keep the job from a process that can reach it.
func (s *Session) transact(ctx context.Context, rows []Row) error {
	ctx, cancel := context.WithTimeout(ctx, writeMost)
	defer cancel()
	return s.term.Write(ctx, s.number, rows)
}

// withoutPaused puts the marks aside whose mappings are paused, and returns the other
// rows.
func (s *Session) withoutPaused(w *writing, rows []Row) []Row {
	if len(s.paused) == 0 {
		return rows
	}
	rest := rows[:0:0]
	for i := range rows {
		if !s.paused[rows[i].route.Table] {
			rest = append(rest, rows[i])
			continue
		}
		w.hold(s.engine.keys.Held(rows[i].route.Table), rows[i].mark)
	}
	return rest
}

// patience is how often the row of a mark may fail to refer to what it refers to, until
// it is parked. Between two times there is at least a second.
const patience = 10

// refuse deals with one row that the database does not take.
func (s *Session) refuse(ctx context.Context, w *writing, row *Row, class Class, err error) error {
	p := row.route.park(row.mark, "", "the database refuses it: %s", reason(err))
	p.Code, p.Entry = errorCode(s.engine.sink, err), row.entry
	if class == BadReference {
		s.tries[row.name()]++
		if s.tries[row.name()] < patience {
			w.wait(row, s.engine.keys.Waiting)
			return s.waitsOne(ctx, &p)
		}
		delete(s.tries, row.name())
	}
	w.parks = append(w.parks, p)
	return s.parkedOne(ctx, &p)
}

// forgetTries forgets how often rows were tried that are written now.
func (s *Session) forgetTries(rows []Row) {
	if len(s.tries) == 0 {
		return
	}
	for i := range rows {
		delete(s.tries, rows[i].name())
	}
}

// reason returns the error of the database without what was wrapped around it.
func reason(err error) string {
	var at *TableError
	if errors.As(err, &at) {
		err = at.Err
	}
	return err.Error()
}

// wait puts the mark of a row aside until the row that it refers to may be there.
func (w *writing) wait(row *Row, where string) {
	key := row.mark.key
	first, waits := w.waiting[key]
	if !waits {
		w.hold(where, row.mark)
	}
	if !waits || row.entry != "" && compareIDs(row.entry, first) < 0 {
		w.waiting[key] = row.entry
	}
}

// count counts the keys of the pass by mapping, and those that are parked because of
// their values.
func (s *Session) count(ctx context.Context, b *batch) error {
	for i := range b.rows {
		s.tallyOf(b.rows[i].route).keys++
	}
	for i := range b.parks {
		if r := b.parks[i].route; r != nil {
			s.tallyOf(r).keys++
		}
	}
	for i := range b.parks {
		if b.parks[i].route != nil {
			if err := s.parkedOne(ctx, &b.parks[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Session) tallyOf(r *route) *tally {
	t := s.tally[r.Table]
	if t == nil {
		t = &tally{}
		s.tally[r.Table] = t
	}
	return t
}

// fewParked is how many keys of a mapping may be parked in a pass whatever share of it
// they are.
const fewParked = 20

// parkedOne pauses a mapping of which too large a share would be parked: that is a wrong
// mapping or a migration, and not bad rows.
func (s *Session) parkedOne(ctx context.Context, p *parked) error {
	r := p.route
	t := s.tallyOf(r)
	t.parked++
	if s.paused[r.Table] || !s.tooMany(t.parked, t.keys) {
		return nil
	}
	return s.pause(ctx, r.Table, fmt.Sprintf("%d of %d keys can't be written, such as %s; is the mapping right?", t.parked, t.keys, p.show()), false)
}

// waitsOne pauses a mapping for some time of which too many rows refer to rows that are
// not there: to find each of them would hold up everything else.
func (s *Session) waitsOne(ctx context.Context, p *parked) error {
	r := p.route
	t := s.tallyOf(r)
	t.waits++
	if s.paused[r.Table] || !s.tooMany(t.waits, t.keys) {
		return nil
	}
	return s.pause(ctx, r.Table, fmt.Sprintf("%d of %d keys refer to rows that are not there, such as %s", t.waits, t.keys, p.show()), true)
}

// tooMany reports whether so many keys of a mapping are more than may be parked.
func (s *Session) tooMany(n, of int) bool {
	return n > fewParked && float64(n) > s.engine.cfg.MaxParked*float64(of)
}

// pause pauses a mapping.
func (s *Session) pause(ctx context.Context, table, why string, retries bool) error {
	e := s.engine
	s.paused[table] = true
	if retries {
		s.retryLater(table)
	}
	e.cfg.Logger.Error("mapping paused; its changes are kept", "job", e.cfg.Job, "table", table, "reason", why, "retries", retries)
	return e.Pause(ctx, Pause{Table: table, Reason: why, By: e.cfg.Label, Auto: true, Retries: retries})
}

// retryLater says when a mapping that is paused is tried again: each time later.
func (s *Session) retryLater(table string) {
	rest := s.retryIn[table]
	s.retryIn[table] = min(max(pausedRest, 2*rest), mostPausedRest)
	s.retryAt[table] = time.Now().Add(s.retryIn[table])
}
