package flush

import (
	"context"
	"fmt"

	"github.com/lockkeeper/lockkeeper/internal/script"
	"github.com/lockkeeper/lockkeeper/sqlfence"
)

// putAside moves the marks that can't be flushed now. Marks of a mapping that was paused
// in the middle of a batch are put aside too, instead of parked.
func (s *Session) putAside(ctx context.Context, w *writing, stats *Stats) error {
	e := s.engine
	parks := w.parks[:0]
	for _, p := range w.parks {
		if p.route != nil && s.paused[p.route.Table] {
			w.hold(e.keys.Held(p.route.Table), p.mark)
			continue
		}
		parks = append(parks, p)
	}
	w.parks = parks
	for where, marks := range w.holds {
		stats.Held += len(marks)
		args := make([]string, 0, 1+2*len(marks))
		args = append(args, formatInt(s.term.Epoch()))
		for _, m := range marks {
			args = append(args, m.key, m.version)
		}
		keys := []string{e.keys.Epoch, e.keys.Dirty, e.keys.Versions, where}
		if _, err := s.eval(ctx, holdScript, keys, args...); err != nil {
			return err
		}
	}
	return nil
}

// acknowledge takes the marks of a written batch away, as far as they are still what
// was read.
func (s *Session) acknowledge(ctx context.Context, w *writing, stats *Stats) error {
	e := s.engine
	args := make([]string, 0, 2+3*len(w.marks))
	args = append(args, formatInt(s.term.Epoch()), w.read)
	for i := range w.written {
		row := &w.written[i]
		switch {
		case row.entry == "":
			args = append(args, row.mark.key, row.mark.version, "")
		case w.parked > 0: // it may be one of them, that was tried again
			args = append(args, row.name(), "", "")
		}
	}
	for _, m := range w.skips {
		args = append(args, m.key, m.version, "")
	}
	for i := range w.tails {
		if t := &w.tails[i]; !t.more && !w.isHeld(t.mark) {
			args = append(args, t.mark.key, t.mark.version, "")
		}
	}
	for i := range w.parks {
		p := &w.parks[i]
		version := p.mark.version
		if p.Entry != "" {
			version = "" // its stream has a mark, it has none
		}
		args = append(args, p.field(), version, p.json())
		e.cfg.Logger.Warn("key parked", "job", e.cfg.Job, "key", p.field(), "column", p.Column, "reason", p.Reason)
	}
	if len(args) == 2 {
		return nil
	}
	keys := append([]string{e.keys.Epoch, e.keys.Dirty, e.keys.Versions, e.keys.Parked}, e.aside()...)
	reply, err := s.eval(ctx, ackScript, keys, args...)
	if err != nil {
		return err
	}
	v, ok := reply.([]any)
	if !ok || len(v) != 3 {
		return unexpected(reply)
	}
	stats.Parked, stats.Changed = int(number(v[1])), int(number(v[2]))
	return nil
}

// isHeld reports whether a mark is put aside.
func (b *batch) isHeld(m mark) bool {
	for _, marks := range b.holds {
		for i := range marks {
			if marks[i].key == m.key {
				return true
			}
		}
	}
	return false
}

// advance records how far streams are in the database, after their marks are dealt with:
// if it does not come to that, entries are written once more.
func (s *Session) advance(ctx context.Context, w *writing) error {
	args := []string{formatInt(s.term.Epoch())}
	for i := range w.tails {
		t := &w.tails[i]
		last := t.last
		first, waits := w.waiting[t.mark.key]
		switch {
		case s.paused[t.route.Table]: // some of its entries may be neither written nor parked
			last = t.before
		case waits:
			last = justBefore(first)
		}
		if last != t.before || t.last == "" {
			args = append(args, t.mark.key, t.before, last)
		}
	}
	if len(args) == 1 {
		return nil
	}
	_, err := s.eval(ctx, advanceScript, []string{s.engine.keys.Epoch, s.engine.keys.Cursors}, args...)
	return err
}

// eval runs a script that does nothing where another epoch stands, and says so then.
func (s *Session) eval(ctx context.Context, run *script.Script, keys []string, args ...string) (any, error) {
	reply, err := s.engine.eval(ctx, run, keys, args...)
	if err != nil {
		return nil, err
	}
	if v, ok := reply.([]any); ok && len(v) == 2 && v[0] == "fenced" {
		return nil, fmt.Errorf("%w: Redis has epoch %v, ours is %d", sqlfence.ErrFenced, v[1], s.term.Epoch())
	}
	return reply, nil
}
