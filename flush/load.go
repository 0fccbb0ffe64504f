package flush

import "context"

// load reads a batch: marks, and then their values, so that a value that is newer than
// its mark is harmless: it has a newer mark. Keys of the batch before, which is being
// written, are left out.
func (e *Engine) load(ctx context.Context, before *batch) (*batch, error) {
	skip := 0
	if before != nil {
		skip = len(before.marks)
	}
	p, err := e.pageAll(ctx, skip)
	if err != nil {
		return nil, err
	}
	full := len(p.marks) == e.cfg.Batch
	b := &batch{page: p}
	p.marks = without(p.marks, before)
	if err := e.collect(ctx, b); err != nil {
		return nil, err
	}
	// Marks can have moved up meanwhile: what is read ahead is never known to be the end.
	b.full = full || b.later > 0 || before != nil
	return b, nil
}

// without returns the marks of keys that are not in a batch.
func without(marks []mark, before *batch) []mark {
	if before == nil || len(marks) == 0 {
		return marks
	}
	busy := make(map[string]bool, len(before.marks))
	for _, m := range before.marks {
		busy[m.key] = true
	}
	rest := marks[:0]
	for _, m := range marks {
		if !busy[m.key] {
			rest = append(rest, m)
		}
	}
	return rest
}

// A reading is a batch that is being read while the one before is written.
type reading struct {
	done  chan struct{}
	batch *batch
	err   error
}

func (e *Engine) loadAhead(ctx context.Context, before *batch) *reading {
	r := &reading{done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.batch, r.err = e.load(ctx, before)
	}()
	return r
}

func (r *reading) wait() (*batch, error) {
	<-r.done
	return r.batch, r.err
}
