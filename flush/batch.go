package flush

import (
	"cmp"
	"slices"
)

// A batch is what one step of a pass has read: rows to write, marks to park, to put
// aside, and to take away without writing.
type batch struct {
	*page
	full  bool // there are probably more
	rows  []Row
	parks []parked
	skips []mark            // keys that are gone, and that the mapping keeps
	tails []tail            // of streams
	holds map[string][]mark // to put aside, by the sorted set that they go into
	later int               // keys whose value, or its rest, is for the next batch
}

// A tail is what a batch has read of one stream. Each entry is a Row of its own, all
// with one mark.
type tail struct {
	mark
	route  *route
	before string // ID of the last entry that was in the database before; "" is none
	last   string // ID of the last entry that was read
	more   bool   // there are probably more
}

// A mark is a changed key with its version and U or D, as it was read; the version
// is "" for a key that was marked without one, which counts as a new value.
type mark struct{ key, version string }

func (m mark) isDelete() bool {
	return m.version != "" && m.version[len(m.version)-1:] == opDelete
}

// hold puts a mark aside.
func (b *batch) hold(where string, m mark) {
	if b.holds == nil {
		b.holds = make(map[string][]mark)
	}
	b.holds[where] = append(b.holds[where], m)
}

// order sorts rows by mapping and primary key, so that all transactions lock in one
// order. Each primary key is there once, since a row has one key that can be written
// in one way only, see route.keyOf.
func order(rows []Row) {
	slices.SortFunc(rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(a.route.rank, b.route.rank), compareKeys(a.Key, b.Key), compareEntries(a, b))
	})
}

// compareEntries orders the entries of one stream as the stream does.
func compareEntries(a, b Row) int {
	if a.entry == "" || b.entry == "" {
		return 0
	}
	return compareIDs(a.entry, b.entry)
}
