package flush

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// What the simulator knows to be right, and the oracles that compare.

// The mappings of the simulated job.
var simMappings = []Mapping{
	{
		Keys: "parent:{id}", Table: "parent", Key: []Column{{Name: "id", Type: Int64}}, Missing: Park,
		Columns: []Column{{Name: "name", Type: Text}, {Name: "n", Type: Int64}},
	},
	{
		Keys: "child:{id}", Table: "child", Key: []Column{{Name: "id", Type: Int64}},
		Columns: []Column{{Name: "n", Type: Int64}, {Name: "parent", Type: Int64}},
	},
	{
		Keys: "text:{id}", Table: "text", Key: []Column{{Name: "id", Type: Int64}}, Missing: Delete, Source: Strings, Scan: time.Hour, ScanDeletes: 1,
		Columns: []Column{{Name: "value", Type: Int64}},
	},
	{
		Keys: "set:{id}", Table: "sets", Key: []Column{{Name: "id", Type: Int64}}, Missing: Delete, Source: Sets, Limit: 3,
		Columns: []Column{{Name: "member", Type: Int64}},
	},
	{
		Keys: "log:{id}", Table: "log", Key: []Column{{Name: "key", Field: "id", Type: Int64}}, Source: Streams,
		Columns: []Column{{Name: "entry", Field: "id", Type: Text}, {Name: "n", Type: Int64}, {Name: "parent", Type: Int64}},
	},
}

// refusedValue is a number that the database does not take.
const refusedValue = 666

// hasParent reports whether the last column of a table refers to a row of the table
// parent.
func hasParent(table string) bool { return table == "child" || table == "log" }

// A truth is all that has become of a key.
type truth struct {
	key       string
	mapping   *Mapping
	bySets    bool    // its producer uses the sets changed and deleted
	mixed     bool    // or the mark script, as it comes
	unmarked  bool    // its producer marks nothing: a scan has to find it
	states    []state // the first is that it is not there
	committed int     // the state that is in the database; 0 also before there is one
	dropped   int     // how many states there were when an operator has forgotten that it is parked
	entries   []*entryTruth
}

// A state is what a key was between two writes.
type state struct {
	absent   bool
	recorded bool   // absent: somebody has deleted it, and said so
	idle     bool   // absent: a write has changed nothing
	scanned  bool   // absent: a scan has seen it before
	text     string // of its row
	bad      bool   // its value can't be converted
	refused  bool   // the database does not take it
	parent   string // the key that it refers to, or ""
}

// An entryTruth is one entry of a stream.
type entryTruth struct {
	id         string
	state          // of its row
	from       int // the state of the stream that has added it
	gone       bool
	committed  bool
	wasDropped bool
	writtenAt  int // when it was written last, and parked last, as the world counts
	parkedAt   int
}

// newState looks at a key after a write.
func (w *world) newState(key string, recorded bool) {
	t := w.byKey[key]
	o := w.redis.keys[key]
	s := state{absent: o == nil}
	switch {
	case o == nil:
		// What takes the last field or element of a key deletes it, if it is marked so.
		before := t.states[len(t.states)-1]
		s.recorded = recorded || before.recorded
		s.idle = before.absent && !recorded
		_, s.scanned = w.redis.hget(w.keys.Digests(t.mapping.Table), key)
		for _, e := range t.entries {
			e.gone = true
		}
	case o.kind != shapes[t.mapping.source()].kind:
		s.bad = true
	case o.kind == "hash":
		s = stateOf(t.mapping, o.hash)
	case o.kind == "string":
		s.text = "[" + o.text + "]"
		s.bad, s.refused = judge(o.text)
	case o.kind == "set":
		s = stateOfSet(o)
	case o.kind == "stream":
		last := o.stream[len(o.stream)-1]
		fields := make(map[string]string)
		for pair := range slices.Chunk(last.fields, 2) {
			fields[pair[0]] = pair[1]
		}
		of := stateOf(t.mapping, fields)
		t.entries = append(t.entries, &entryTruth{id: last.id, state: of, from: len(t.states)})
	}
	t.states = append(t.states, s)
}

// stateOf is about a hash, or an entry of a stream.
func stateOf(m *Mapping, fields map[string]string) state {
	var s state
	row := make([]string, 0, 2)
	for i := range m.Columns {
		c := &m.Columns[i]
		text, there := fields[c.Name]
		switch {
		case c.Field == "id":
			continue
		case !there:
			text = "<nil>"
		case c.Type == Int64:
			isBad, refused := judge(text)
			s.bad, s.refused = s.bad || isBad, s.refused || refused
		}
		if c.Name == "parent" && there {
			s.parent = "parent:" + text
		}
		row = append(row, text)
	}
	s.text = fmt.Sprint(row)
	return s
}

// judge says whether a text is no number, or one that the database does not take.
func judge(text string) (isBad, refused bool) {
	n, err := strconv.Atoi(text)
	return err != nil, n == refusedValue
}

func stateOfSet(o *object) state {
	s := state{text: textOfSet(o), bad: len(o.set) > 3}
	for m := range o.set {
		isBad, refused := judge(m)
		s.bad = s.bad || isBad
		s.refused = s.refused || refused
	}
	return s
}

func textOfSet(o *object) string {
	return strings.Join(slices.Sorted(maps.Keys(o.set)), " ")
}

// checkRow looks at a row that was committed a moment ago.
func (w *world) checkRow(c *change) {
	key := c.row.mark.key
	t := w.byKey[key]
	if c.row.entry != "" {
		w.checkEntry(t, c.row.entry)
		return
	}
	if c.state < t.committed {
		w.fail("%s went back: state %d is written over %d", key, c.state, t.committed)
	}
	t.committed = c.state
	w.done[key+" "+c.row.mark.version] = true
	s := &t.states[c.state]
	switch {
	case c.row.Delete && !c.row.mark.isDelete() && t.mapping.Missing != Delete:
		w.fail("%s is deleted, and nobody said so", key)
	case c.row.Delete != s.absent:
		w.fail("%s: delete is %v, and state %d is %+v", key, c.row.Delete, c.state, *s)
	case !c.row.Delete && w.db.rows[key].text != s.text:
		w.fail("%s is written as %q, and state %d is %q", key, w.db.rows[key].text, c.state, s.text)
	}
}

func (w *world) checkEntry(t *truth, id string) {
	for _, e := range t.entries {
		if e.id != id {
			continue
		}
		w.ticks++
		e.committed, e.writtenAt = true, w.ticks
		if got := w.db.rows[t.key+"|"+id].text; got != e.text {
			w.fail("entry %s of %s is written as %q, and it is %q", id, t.key, got, e.text)
		}
		return
	}
	w.fail("there is no entry %s in %s", id, t.key)
}

// isParked reports whether a key or an entry is parked now.
func (w *world) isParked(name string) bool {
	_, there := w.redis.hget(w.keys.Parked, name)
	return there
}

// safe reports whether an entry is in the database or parked, or needs to be neither.
func (w *world) safe(t *truth, e *entryTruth) bool {
	return e.committed || e.gone || e.wasDropped || w.isParked(parkedName(t.key, e.id))
}

// checkCursors makes sure that no cursor has moved over an entry that is not safe.
func (w *world) checkCursors(before shot, by string) {
	o := w.redis.keys[w.keys.Cursors]
	if o == nil {
		return
	}
	for key, cursor := range o.hash {
		if before.cursors[key] == cursor {
			continue
		}
		t := w.byKey[key]
		for _, e := range t.entries {
			if compareIDs(e.id, cursor) <= 0 && !w.safe(t, e) {
				w.fail("%s has moved the cursor of %s to %s, over entry %s", by, key, cursor, e.id)
			}
		}
	}
}

// checkHold makes sure that only marks were put aside that were read.
func (w *world) checkHold(s *slot, before shot, set string) {
	o := w.redis.keys[set]
	if o == nil || s.lateNow {
		return
	}
	for key := range o.zset {
		if _, was := before.aside[set][key]; was {
			continue
		}
		version, _ := w.redis.hget(w.keys.Versions, key)
		if _, read := s.paged[key+" "+version]; !read {
			w.fail("%s has put the mark %s of %s aside, which it has not read", s.name, version, key)
		}
	}
}

// checkAck makes sure that what was taken away was written, or need not be.
func (w *world) checkAck(s *slot, before shot, args []string, reply any) {
	if list := reply.([]any); len(list) != 3 {
		return // fenced
	}
	for i := 2; i+2 < len(args); i += 3 {
		name, version, why := args[i], args[i+1], args[i+2]
		if before.versions[name] != version {
			continue
		}
		key, id, isEntry := strings.Cut(name, " entry ")
		t := w.byKey[key]
		switch {
		case isEntry && why != "":
			w.checkParkedEntry(s, t, id)
		case isEntry:
		case t == nil:
			w.fail("%s has acknowledged %s, which nobody wrote", s.name, name)
		case why != "":
			w.checkParked(s, t, version, why)
		case t.mapping.source() == Streams:
			for _, e := range t.entries {
				if from, known := w.marks[key+" "+version]; known && e.from <= from && !w.safe(t, e) {
					w.fail("%s has acknowledged %s of %s, and entry %s is not written", s.name, version, key, e.id)
				}
			}
		default:
			w.checkTaken(s, t, version)
		}
	}
}

// checkTaken is about a mark that was taken away as written, or as missing.
func (w *world) checkTaken(s *slot, t *truth, version string) {
	if version == "" || w.done[t.key+" "+version] {
		return
	}
	missing := t.mapping.Missing == "" && !strings.HasSuffix(version, opDelete)
	if missing && (t.states[s.reads[t.key]].absent || s.lateNow) {
		return
	}
	w.fail("%s has acknowledged %s of %s, which is not written", s.name, version, t.key)
}

func (w *world) checkParkedEntry(s *slot, t *truth, id string) {
	for _, e := range t.entries {
		if e.id != id {
			continue
		}
		w.ticks++
		e.parkedAt = w.ticks
		if !e.bad && !e.refused && !s.lateNow && (e.parent == "" || s.refusals[parkedName(t.key, id)] < patience) {
			w.fail("%s has parked entry %s of %s without a reason", s.name, id, t.key)
		}
	}
}

func (w *world) checkParked(s *slot, t *truth, version, why string) {
	if s.lateNow {
		return
	}
	of := &t.states[s.reads[t.key]]
	if strings.HasSuffix(version, opDelete) {
		of = &t.states[w.marks[t.key+" "+version]]
	}
	// One that is in the set of deleted keys by now is parked for a moment; one that an
	// operator has tried again after it was deleted is parked again.
	missing := of.absent && (!of.recorded || of.idle || t.bySets || w.touched[t.key+" "+version]) && t.mapping.Missing == Park
	if !of.bad && !of.refused && !missing && s.refusals[t.key] < patience {
		w.fail("%s has parked %s without a reason: %s", s.name, t.key, why)
	}
}

// checkEnd compares everything when there is nothing left to do.
func (w *world) checkEnd() {
	k := w.keys
	for _, key := range append([]string{k.Dirty, k.Versions, k.Changed, k.Deleted}, w.admin.aside()...) {
		if o := w.redis.keys[key]; o.size() > 0 {
			w.fail("at the end %s has %v%v%v", key, o.hash, o.set, o.zset)
		}
	}
	for _, t := range w.truths {
		if t.mapping.source() == Streams {
			w.checkEntries(t)
			continue
		}
		w.checkKey(t)
	}
}

func (w *world) checkEntries(t *truth) {
	for _, e := range t.entries {
		name := parkedName(t.key, e.id)
		row, there := w.db.rows[t.key+"|"+e.id]
		switch {
		case !w.safe(t, e):
			w.fail("LOST: entry %s of %s", e.id, t.key)
		case there && row.text != e.text:
			w.fail("DIVERGED: entry %s of %s is %q and not %q", e.id, t.key, row.text, e.text)
		case there && w.isParked(name) && e.writtenAt > e.parkedAt && !e.gone:
			w.fail("entry %s of %s is written, and still parked", e.id, t.key)
		}
	}
}

func (w *world) checkKey(t *truth) {
	s := &t.states[len(t.states)-1]
	row, there := w.db.rows[t.key]
	put := w.isParked(t.key) || t.dropped == len(t.states)
	refers := s.parent != ""
	_, parentThere := w.db.rows[s.parent]
	referred := false
	for _, other := range w.db.rows {
		referred = referred || other.parent == t.key
	}
	switch {
	case s.absent && t.unmarked:
		if there && s.scanned {
			w.fail("DIVERGED: %s is gone, which a scan has to find, and its row is there", t.key)
		}
	case s.absent && !s.recorded:
		if put && t.mapping.Missing != Park && len(t.states) == 1 {
			w.fail("%s is parked, and was never there", t.key)
		}
	case s.absent && there && !(put && t.mapping.Table == "parent"):
		w.fail("DIVERGED: %s was deleted, and its row is there", t.key)
	case s.absent && w.isParked(t.key) && t.mapping.Table != "parent":
		w.fail("%s was deleted, and is parked", t.key)
	case s.absent:
	case put && s.refused: // the database may take it by now
	case s.bad || s.refused && !there || refers && !parentThere:
		if !put {
			w.fail("LOST: %s can't be written, and is not parked", t.key)
		}
	case put && refers, put && referred && !there: // its time was over before the other row came
	case put && w.isParked(t.key):
		w.fail("%s is parked, and can be written", t.key)
	case !there || row.text != s.text:
		w.fail("DIVERGED: %s is %q in the database, and %q on Redis", t.key, row.text, s.text)
	}
}
