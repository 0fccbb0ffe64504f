package pipe

import (
	"sync"

	"github.com/lockkeeper/lockkeeper/lab/oracle"
)

// A table is a database behind a fence: the rules of package sqlfence, whose real
// databases can't be in a bubble. Each of its methods is one transaction.
type table struct {
	mu     sync.Mutex
	rows   map[string]*row
	writes []oracle.Write
}

// A row is a resource with its claim.
type row struct {
	fence uint64
	owner string
	epoch int64
	value int64
}

// A claim is the right to write to a resource, until a newer one.
type claim struct {
	resource, owner string
	fence           uint64
	epoch           int64
}

func newTable() *table { return &table{rows: make(map[string]*row)} }

// claim installs a pair of fence and owner. If the row has seen another fence that is not
// below, that is returned.
func (t *table) claim(resource string, fence uint64, owner string) (c claim, seen uint64, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.rows[resource]
	if r == nil {
		r = new(row)
		t.rows[resource] = r
	}
	if r.fence < fence {
		r.fence, r.owner = fence, owner
		r.epoch++
	}
	if r.fence != fence || r.owner != owner {
		return claim{}, r.fence, false
	}
	return claim{resource, owner, fence, r.epoch}, 0, true
}

func (t *table) read(resource string) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.rows[resource]; r != nil {
		return r.value
	}
	return 0
}

// write sets the value that was computed from base, if the claim still stands.
func (t *table) write(c claim, who string, base, value int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.rows[c.resource]
	if r.fence != c.fence || r.owner != c.owner {
		return false
	}
	r.value = value
	t.writes = append(t.writes, oracle.Write{
		Resource: c.resource, Who: who, Fence: c.fence, Epoch: c.epoch, Base: base, Value: value,
	})
	return true
}

// final returns the values at the end.
func (t *table) final() map[string]int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	values := make(map[string]int64)
	for resource, r := range t.rows {
		values[resource] = r.value
	}
	return values
}
