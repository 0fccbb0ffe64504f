package sim

import (
	"github.com/lockkeeper/lockkeeper/internal/core"
	"github.com/lockkeeper/lockkeeper/lab/oracle"
)

// A database has a row for each lock, with a value, and with the fence of package
// sqlfence. What it does is one transaction each.
type database struct {
	w    *world
	rows []row
	last int64 // value that was written; no two are the same
}

type row struct {
	fence uint64
	owner string
	epoch int64
	value int64
}

// A claim is a pair of fence and owner.
type claim struct {
	key   int
	fence uint64
	owner string
	epoch int64
}

// A flaw is a mistake in how the database is used, for tests of the oracles.
type flaw uint8

const (
	none      flaw = iota
	claimLate      // after the first read
	atLeast        // no claim: a write is accepted if no larger fence has written
	noCheck        // no check when it writes
)

// install makes a claim's pair the row's, if no larger fence is there. The same pair
// again is the same claim.
func (d *database) install(c claim) (row, bool) {
	r := &d.rows[c.key]
	if c.fence < r.fence {
		return *r, false
	}
	if c.fence == r.fence && c.owner != r.owner {
		return *r, false
	}
	if c.fence > r.fence {
		r.epoch++
	}
	r.fence, r.owner = c.fence, c.owner
	return *r, true
}

// stands reports whether a write of a claim is accepted.
func (d *database) stands(c claim) bool {
	r := &d.rows[c.key]
	switch d.w.flaw {
	case noCheck:
		return true
	case atLeast:
		r.fence = max(r.fence, c.fence)
		return c.fence >= r.fence
	}
	return r.fence == c.fence && r.owner == c.owner
}

// write sets a value that was computed from base.
func (d *database) write(p *process, c claim, base int64) bool {
	if !d.stands(c) {
		return false
	}
	d.last++
	d.rows[c.key].value = d.last
	d.w.history.writes = append(d.w.history.writes, oracle.Write{
		Resource: d.w.name(c.key), Who: p.name, Fence: c.fence, Epoch: c.epoch, Base: base, Value: d.last,
	})
	d.w.history.written = append(d.w.history.written, d.w.now)
	if d.w.trace {
		d.w.note("database", "%s sets %s: %d becomes %d, with fence %s", p.name, d.w.name(c.key), base, d.last, d.w.fence(c.fence))
	}
	return true
}

// final is what the rows have in the end.
func (d *database) final() map[string]int64 {
	out := make(map[string]int64, len(d.rows))
	for i, r := range d.rows {
		out[d.w.name(i)] = r.value
	}
	return out
}

// query does something in the database, and goes on with what came of it.
func query[T any](p *process, run func() T, done func(T)) {
	w := p.w
	there := w.Storage/4 + p.upTo(w.Storage/2)
	if d, yes := p.strikes(WorkStalls); yes {
		there += d.upTo(3 * w.Terms.TTL)
	}
	back := w.Storage/4 + p.upTo(w.Storage/2)
	w.after(there, nil, func() {
		r := run()
		w.after(back, p, func() { done(r) })
	})
}

// fenced is work on the database: claim, read, and write what was computed from that.
func (t *turn) fenced() {
	switch t.hold.p.w.flaw {
	case claimLate, atLeast:
		t.read()
	default:
		t.install(3, t.read)
	}
}

// install claims the resource, and repairs the fence if need be. Then it goes on.
func (t *turn) install(repairs int, then func()) {
	p, d := t.hold.p, &t.hold.p.w.base
	if !t.step() {
		t.end()
		return
	}
	c := claim{key: t.hold.way.key, fence: t.fence, owner: t.owner()}
	type answer struct {
		row row
		ok  bool
	}
	query(p, func() answer {
		r, ok := d.install(c)
		if d.w.trace {
			d.w.note("database", "%s claims %s with fence %s: %s", p.name, d.w.name(c.key), d.w.fence(c.fence), map[bool]string{true: "accepted", false: "refused"}[ok])
		}
		return answer{r, ok}
	}, func(a answer) {
		switch {
		case a.ok:
			c.epoch = a.row.epoch
			t.claim = c
			then()
		case repairs == 0:
			t.end()
		default:
			t.raise(a.row.fence, func() { t.install(repairs-1, then) })
		}
	})
}

// raise gives the lease a fence above one that the database has seen, as RaiseFence does.
func (t *turn) raise(seen uint64, then func()) {
	h := t.hold
	p := h.p
	if !t.valid() {
		t.end()
		return
	}
	send(p, h.core.Lease.Bound(p.now()), func() uint64 { return p.w.server.raise(h.way, seen) }, func(fence uint64, f fate) {
		switch {
		case !f.answered():
			t.end()
			return
		case fence == 0:
			if end := p.keeper.Taken(&h.core.Lease); end != core.Withdrawn {
				h.lose(end)
			}
			t.end()
			return
		case fence <= seen:
			t.end()
			return
		}
		h.core.Raise(fence, !t.over)
		if t.over {
			t.end()
			return
		}
		t.fence = h.core.Fence()
		then()
	})
}

// read reads the value.
func (t *turn) read() {
	p, d, key := t.hold.p, &t.hold.p.w.base, t.hold.way.key
	if !t.step() {
		t.end()
		return
	}
	query(p, func() int64 {
		if d.w.trace {
			d.w.note("database", "%s reads %s: it is %d", p.name, d.w.name(key), d.rows[key].value)
		}
		return d.rows[key].value
	}, func(base int64) {
		then := func() { t.write(base) }
		if d.w.flaw == claimLate && t.claim.owner == "" {
			then = func() { t.install(3, func() { t.write(base) }) }
		}
		// The next value takes a while to compute.
		p.w.after(t.pause, p, then)
	})
}

// write writes what was computed from base.
func (t *turn) write(base int64) {
	p, d := t.hold.p, &t.hold.p.w.base
	if !t.step() {
		t.end()
		return
	}
	c := t.claim
	if d.w.flaw == atLeast {
		c = claim{key: t.hold.way.key, fence: t.fence, owner: t.owner()}
	}
	query(p, func() bool {
		ok := d.write(p, c, base)
		if !ok && d.w.trace {
			d.w.note("database", "the write of %s to %s with fence %s is refused", p.name, d.w.name(c.key), d.w.fence(c.fence))
		}
		return ok
	}, func(ok bool) {
		_, lost := p.strikes(CommitLost)
		if lost || ok && p.w.now < t.until {
			t.read() // what is there now: what was written may or may not be
			return
		}
		t.end()
	})
}
