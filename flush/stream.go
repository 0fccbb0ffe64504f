package flush

import (
	"cmp"
	"strconv"
	"strings"
)

// mostEntries is how many entries of one stream go into a batch; the rest is for the
// next one.
const mostEntries = 1000

// takeEntries makes a row of each entry of a stream. One that can't be a row is parked
// for itself, and does not hold up those after it.
func (r *route) takeEntries(p pending, reply []any, b *batch) {
	before, _ := reply[0].(string)
	t := tail{mark: p.mark, route: r, before: before, last: before, more: len(reply)-1 == mostEntries}
	for _, entry := range reply[1:] {
		pair, _ := entry.([]any)
		if len(pair) != 2 {
			continue // no server answers that
		}
		id, _ := pair[0].(string)
		list, _ := pair[1].([]any)
		t.last = id
		child, err := r.child(func(name string) (string, bool) { return entryField(id, list, name) })
		if err != nil {
			park := r.park(p.mark, err.column, "%s", err.reason)
			park.Entry = id
			b.parks = append(b.parks, park)
			continue
		}
		b.rows = append(b.rows, Row{Mapping: r.Mapping, Key: p.key, Children: [][]any{child}, route: r, mark: p.mark, entry: id})
	}
	if t.more {
		b.later++
	}
	b.tails = append(b.tails, t)
}

// entryField returns a field of an entry; the first, where it has several of one name.
func entryField(id string, list []any, name string) (string, bool) {
	if name == "id" {
		return id, true
	}
	for i := 0; i+1 < len(list); i += 2 {
		if list[i] == name {
			text, there := list[i+1].(string)
			return text, there
		}
	}
	return "", false
}

// compareIDs compares two IDs of entries, such as 1526919030474-55.
func compareIDs(a, b string) int {
	am, an := parseID(a)
	bm, bn := parseID(b)
	return cmp.Or(cmp.Compare(am, bm), cmp.Compare(an, bn))
}

func parseID(id string) (ms, n uint64) {
	left, right, _ := strings.Cut(id, "-")
	ms, _ = strconv.ParseUint(left, 10, 64) // the server has made it
	n, _ = strconv.ParseUint(right, 10, 64)
	return ms, n
}

// justBefore returns the ID that comes before another.
func justBefore(id string) string {
	ms, n := parseID(id)
	switch {
	case n > 0:
		n--
	case ms > 0:
		ms, n = ms-1, 1<<64-1
	}
	return strconv.FormatUint(ms, 10) + "-" + strconv.FormatUint(n, 10)
}
