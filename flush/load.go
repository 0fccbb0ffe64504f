package flush

import "context"

// load reads a batch: marks, and then their values, so that a value that is newer than
// its mark is harmless: it has a newer mark. Keys of the batch before, which is being
// written, are left out.
func (e *Engine) load(ctx context.Context, before *batch) (*batch, error) {
	var busy []mark
	if before != nil {
		busy = before.marks
	}
	p, err := e.pageAll(ctx, len(busy))
	if err != nil {
		return nil, err
	}
	full := len(p.marks) == e.cfg.Batch
	b := &batch{page: p}
	p.marks = without(p.marks, busy)
	if err := e.collect(ctx, b); err != nil {
		return nil, err
	}
	// Marks can have moved up meanwhile: what is read ahead is never known to be the end.
	b.full = full || b.later > 0 || before != nil
	return b, nil
}

// without returns the marks, in their place, whose keys are not among others.
func without(marks, others []mark) []mark {
	if len(marks) == 0 || len(others) == 0 {
		return marks
	}
	busy := make(map[string]bool, len(others))
	for _, m := range others {
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
