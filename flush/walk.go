package flush

import (
	"context"
	"errors"
	"math/bits"
	"slices"
	"time"
)

// A Progress is how far a long operation is.
type Progress struct {
	Table string  // the mapping that is worked on
	Done  int     // keys that were looked at
	Share float64 // of all the work, from 0 to 1, as an estimate
}

// walkSlots is how many slots of the server's table one request looks into.
const walkSlots = 1000

// walk calls f with the keys of a mapping, some at a time, each perhaps more than once.
// A key that is there during the whole walk is not missed.
func (e *Engine) walk(ctx context.Context, r *route, f func(keys []string, share float64) error) error {
	cursor, slots := "0", 0
	for {
		reply, err := e.eval(ctx, walkScript, nil, cursor, r.pattern.glob(), formatInt(walkSlots))
		if err != nil {
			return err
		}
		v, ok := reply.([]any)
		if !ok || len(v) != 3 {
			return unexpected(reply)
		}
		cursor, _ = v[0].(string)
		slots += walkSlots
		list, _ := v[2].([]any)
		var keys []string
		for _, k := range list {
			key, _ := k.(string)
			if owner, _ := e.route(key); owner == r {
				keys = append(keys, key)
			}
		}
		share := min(1, float64(slots)/float64(tableSize(number(v[1]))))
		if cursor == "0" {
			share = 1
		}
		for chunk := range slices.Chunk(keys, chunkSize) {
			if err := f(chunk, share); err != nil {
				return err
			}
		}
		if cursor == "0" {
			return nil
		}
	}
}

// tableSize is how many slots the server's table of keys has at least: the next power of
// two.
func tableSize(keys int64) int64 {
	return int64(1) << bits.Len64(uint64(max(0, keys-1)))
}

// A Resync says what Engine.Resync did.
type Resync struct {
	Keys   int `json:"keys"`   // that were found
	Marked int `json:"marked"` // that were not marked already
}

// Resync marks all keys of the mapping of a table, or with "" of all mappings, so that
// they are flushed again; streams from their first entry on. Rows whose keys are not there
// are left as they are. progress, which may be nil, is called from time to time.
func (e *Engine) Resync(ctx context.Context, table string, progress func(Progress)) (Resync, error) {
	var total Resync
	routes, err := e.routesOf(table)
	if err != nil {
		return total, err
	}
	for i, r := range routes {
		err := e.walk(ctx, r, func(keys []string, share float64) error {
			if err := e.rewindAll(ctx, r, keys); err != nil {
				return err
			}
			n, err := e.touchAll(ctx, r.Table, keys, "U")
			total.Keys += len(keys)
			total.Marked += n
			if progress != nil {
				progress(Progress{Table: r.Table, Done: total.Keys, Share: (float64(i) + share) / float64(len(routes))})
			}
			return err
		})
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

// rewindAll has streams read from their first entry on.
func (e *Engine) rewindAll(ctx context.Context, r *route, keys []string) error {
	if r.source() != Streams {
		return nil
	}
	args := make([]string, 0, 2*len(keys))
	for _, key := range keys {
		args = append(args, key, "0-0")
	}
	_, err := e.eval(ctx, rewindScript, []string{e.keys.Cursors}, args...)
	return err
}

// routesOf returns the routes of a table, or with "" all.
func (e *Engine) routesOf(table string) ([]*route, error) {
	if table == "" {
		return e.routes, nil
	}
	for _, r := range e.routes {
		if r.Table == table {
			return []*route{r}, nil
		}
	}
	return nil, errNoTable(table)
}

// A ScanResult says what one comparison of all keys of a mapping has found; see
// Mapping.Scan.
type ScanResult struct {
	Table   string        `json:"table"`
	At      time.Time     `json:"at"` // when it ended, by the process's clock
	Took    time.Duration `json:"took"`
	Keys    int           `json:"keys"`              // that were there
	Changed int           `json:"changed"`           // that were marked
	Gone    int           `json:"gone"`              // that were there before, and are not any more
	Deleted int           `json:"deleted"`           // of these, whose rows are deleted
	Refused bool          `json:"refused,omitempty"` // more had gone than may be deleted at once, so that none was
	Trouble string        `json:"trouble,omitempty"`
}

// A scanner compares keys beside the passes of a term.
type scanner struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// scanBeside starts the comparisons that the mappings ask for. The first of each begins
// at once: who was active before may have missed one.
func (e *Engine) scanBeside(ctx context.Context) *scanner {
	ctx, cancel := context.WithCancel(ctx)
	s := &scanner{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		due := make(map[*route]time.Time)
		for ctx.Err() == nil {
			next := time.Now().Add(time.Minute)
			for _, r := range e.routes {
				if r.Scan == 0 {
					continue
				}
				if !time.Now().Before(due[r]) {
					e.scanOnce(ctx, r)
					due[r] = time.Now().Add(r.Scan)
				}
				if due[r].Before(next) {
					next = due[r]
				}
			}
			_ = rest(ctx, time.Until(next)) // the loop looks at ctx
		}
	}()
	return s
}

func (s *scanner) stop() {
	s.cancel()
	<-s.done
}

// scanOnce compares the keys of one mapping, and says what came of it.
func (e *Engine) scanOnce(ctx context.Context, r *route) {
	result, err := e.Scan(ctx, r.Table)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		result.Trouble = err.Error()
		e.cfg.Logger.Warn("scan failed; the next one tries again", "job", e.cfg.Job, "table", r.Table, "error", err)
	}
	if result.Refused {
		e.cfg.Logger.Error("scan: too many keys have gone, no row is deleted", "job", e.cfg.Job, "table", r.Table,
			"gone", result.Gone, "of", result.Keys+result.Gone, "most", r.ScanDeletes)
	}
	e.self.change(func(m *Member) {
		m.Scans = slices.DeleteFunc(slices.Clone(m.Scans), func(s ScanResult) bool { return s.Table == r.Table })
		m.Scans = append(m.Scans, result)
	})
}

// Scan compares all keys of the mapping of a table with what they were at the last scan,
// and marks those that differ; see Mapping.Scan. The active process does it on its
// schedule.
func (e *Engine) Scan(ctx context.Context, table string) (ScanResult, error) {
	began := time.Now()
	result := ScanResult{Table: table}
	routes, err := e.routesOf(table)
	if err != nil || table == "" {
		return result, errNoTable(table)
	}
	r := routes[0]
	k := e.keys
	head := []string{k.Dirty, k.Versions, k.Clock, k.Digests(r.Table)}
	args := []string{r.kind, formatInt(int64(r.limit()))}
	if r.source() == Hashes {
		args = append(args, r.fields()...)
	}
	err = e.walk(ctx, r, func(keys []string, _ float64) error {
		reply, err := e.eval(ctx, digestScript, append(slices.Clone(head), keys...), args...)
		if err != nil {
			return err
		}
		v, ok := reply.([]any)
		if !ok || len(v) != 3 {
			return unexpected(reply)
		}
		result.Changed += int(number(v[0]))
		result.Keys += int(number(v[0]) + number(v[1]))
		return nil
	})
	if err == nil {
		err = e.scanGone(ctx, r, &result)
	}
	result.At, result.Took = time.Now().UTC().Truncate(time.Millisecond), time.Since(began).Round(time.Millisecond)
	return result, err
}

// scanGone finds the keys that were there before and have gone, and marks them as
// deleted if that is wanted, and if they are not too many.
func (e *Engine) scanGone(ctx context.Context, r *route, result *ScanResult) error {
	known := 0
	gone, err := e.goneKeys(ctx, r, &known)
	if err != nil {
		return err
	}
	result.Gone = len(gone)
	if r.ScanDeletes == 0 || len(gone) == 0 {
		return nil
	}
	if float64(len(gone)) > r.ScanDeletes*float64(known) {
		result.Refused = true
		return nil
	}
	for chunk := range slices.Chunk(gone, chunkSize) {
		n, err := e.touchAll(ctx, r.Table, chunk, "D")
		result.Deleted += n
		if err != nil {
			return err
		}
	}
	return nil
}

// goneKeys returns the keys that have a digest and are not there.
func (e *Engine) goneKeys(ctx context.Context, r *route, known *int) ([]string, error) {
	seen := make(map[string]bool) // a walk through a hash can come by twice
	var names, gone []string
	look := func() error {
		states, err := e.states(ctx, names)
		for i := range states {
			if !states[i].there && !seen[names[i]] {
				seen[names[i]] = true
				gone = append(gone, names[i])
			}
		}
		names = names[:0]
		return err
	}
	var failed error
	err := e.eachField(ctx, e.keys.Digests(r.Table), func(name, _ string) bool {
		*known++
		if names = append(names, name); len(names) == chunkSize {
			failed = look()
		}
		return failed == nil
	})
	return gone, errors.Join(err, failed, look())
}

// A keyState is what Redis knows of a key, beside its value.
type keyState struct {
	there  bool
	marked bool // it has changed, and is not flushed yet
	parked bool
}

// states asks for the states of keys.
func (e *Engine) states(ctx context.Context, names []string) ([]keyState, error) {
	if len(names) == 0 {
		return nil, nil
	}
	k := e.keys
	keys := append([]string{k.Dirty, k.Versions, k.Parked, k.Changed, k.Deleted}, names...)
	values, err := e.list(ctx, markedScript, keys, len(names))
	if err != nil {
		return nil, err
	}
	if len(values) != len(names) {
		return nil, unexpected(values)
	}
	states := make([]keyState, len(names))
	for i, v := range values {
		bits := number(v)
		states[i] = keyState{there: bits&1 != 0, marked: bits&2 != 0, parked: bits&4 != 0}
	}
	return states, nil
}
