package flush

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/sqlfence"
)

// A simDB is the database of a world. The row of the claim is locked from the check of
// the fence to the end of the transaction.
type simDB struct {
	epoch  int64
	fence  uint64
	owner  string
	locked *request
	rows   map[string]simRow // by key; of a stream by key and entry
	broken map[string]bool   // tables that take nothing
	takes  bool              // also what it refuses at other times
}

// A simRow is the row, or the rows, of a key.
type simRow struct {
	text   string
	parent string // the key of the row that it refers to, or ""
	kids   map[string]int64
}

// A refusal is an error of the database.
type refusal struct {
	class Class
	text  string
}

func (e *refusal) Error() string { return e.text }

// The mistakes that can be planted in the database, or in the order of its steps.
const (
	noFence           flaw = "no fence: a transaction does not look at the claim"
	fenceBefore       flaw = "the fence is checked before the transaction, not in it"
	replyBeforeCommit flaw = "a write says that it is done before it is committed"
)

// simSink is one worker's way to the database.
type simSink struct{ slot *slot }

var _ Sink = simSink{}

func (s simSink) Check(context.Context) error { return nil }

func (s simSink) Class(err error) Class {
	var refused *refusal
	if errors.As(err, &refused) {
		return refused.class
	}
	return Transient
}

func (s simSink) Claim(_ context.Context, _ string, holder sqlfence.Holder) (Term, error) {
	db, t := s.slot.world.db, &simTerm{slot: s.slot}
	fence, owner := uint64(holder.Fence()), holder.Owner()
	r := &request{slot: s.slot, what: "claim", blocked: func() bool { return db.locked != nil }}
	r.steps = []func() bool{
		func() bool {
			switch {
			case fence < db.fence:
				r.err = fmt.Errorf("%w: the claim of %s stands", sqlfence.ErrFenced, db.owner)
			case fence > db.fence:
				db.fence, db.owner = fence, owner
				db.epoch++
			}
			t.epoch, t.slot.epoch = db.epoch, db.epoch
			s.slot.world.note(s.slot.name, "claims", fmt.Sprint("epoch ", db.epoch, " error ", r.err))
			return false
		},
		func() bool { return true },
	}
	s.slot.world.submit(r)
	if r.err != nil {
		return nil, r.err
	}
	return t, nil
}

type simTerm struct {
	slot  *slot
	epoch int64
}

func (t *simTerm) Epoch() int64 { return t.epoch }

func (t *simTerm) stands() bool { return t.slot.fence == t.slot.world.db.fence }

func (t *simTerm) RaiseEpoch(_ context.Context, seen int64) error {
	db := t.slot.world.db
	r := &request{slot: t.slot, what: "raise", blocked: func() bool { return db.locked != nil }}
	raised := int64(0)
	r.steps = []func() bool{
		func() bool {
			if !t.stands() {
				r.err = sqlfence.ErrFenced
				return false
			}
			db.epoch = max(db.epoch, seen) + 1
			raised, t.slot.epoch = db.epoch, db.epoch
			return false
		},
		func() bool { return true },
	}
	t.slot.world.submit(r)
	if r.err == nil {
		t.epoch = raised
	}
	return r.err
}

// A change is a row of a transaction.
type change struct {
	row   Row
	state int // of its key, as it was read
}

func (t *simTerm) Write(_ context.Context, number int64, rows []Row) error {
	w, db := t.slot.world, t.slot.world.db
	changes := make([]change, len(rows))
	for i := range rows {
		changes[i] = change{rows[i], t.slot.reads[rows[i].mark.key]}
		if rows[i].mark.isDelete() {
			changes[i].state = w.marks[rows[i].mark.key+" "+rows[i].mark.version]
		}
	}
	inOrder := slices.IsSortedFunc(rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(a.route.rank, b.route.rank), cmp.Compare(a.Key[0].(int64), b.Key[0].(int64)))
	})
	r := &request{slot: t.slot, what: "write", args: namesOf(rows)}
	r.undo = func() {
		if db.locked == r {
			db.locked = nil
		}
	}
	r.blocked = func() bool { return r.phase == 1 && db.locked != nil }
	fencedBefore := !t.stands()
	r.steps = []func() bool{
		func() bool {
			if !inOrder {
				w.fail("the rows of %s are in no order: %v", t.slot.name, r.args)
			}
			for i := range rows {
				if !t.slot.paged[rows[i].mark.key+" "+rows[i].mark.version] {
					w.fail("%s writes what it has read in a pause: %s", t.slot.name, r.args[i])
				}
			}
			_, r.err = db.apply(t.epoch<<epochShift|number, changes)
			w.note(t.slot.name, "write, first step", fmt.Sprint(r.args, " error ", r.err))
			if r.err != nil {
				w.countRefusal(t.slot, rows, r.err)
			}
			return r.err != nil
		},
		func() bool {
			standing := t.stands()
			switch w.flaw {
			case noFence:
				standing = true
			case fenceBefore:
				standing = !fencedBefore
			default:
				if standing {
					db.locked = r
				}
			}
			if !standing {
				r.err = fmt.Errorf("%w: the claim of %s stands", sqlfence.ErrFenced, db.owner)
				w.note(t.slot.name, "write is fenced", nil)
			}
			return r.err != nil
		},
		func() bool {
			if w.flaw == replyBeforeCommit && w.rng.IntN(2) == 0 {
				w.late = append(w.late, t.lateCommit(number, changes))
				r.undo()
				return true
			}
			t.commit(number, changes)
			r.undo()
			return false
		},
		func() bool { return true },
	}
	w.submit(r)
	return r.err
}

// lateCommit is what is left of a write that has said it is done.
func (t *simTerm) lateCommit(number int64, changes []change) *request {
	r := &request{slot: t.slot, what: "late commit"}
	r.steps = []func() bool{func() bool {
		if t.stands() && !t.slot.crashed {
			t.commit(number, changes)
		}
		return true
	}}
	return r
}

func namesOf(rows []Row) []string {
	names := make([]string, len(rows))
	for i := range rows {
		names[i] = rows[i].name() + "@" + rows[i].mark.version
		if rows[i].Delete {
			names[i] += " delete"
		}
	}
	return names
}

// commit makes changes in the database, and checks them.
func (t *simTerm) commit(number int64, changes []change) {
	w := t.slot.world
	w.note(t.slot.name, "commits", number&0xff)
	if !t.stands() && w.flaw != noFence && w.flaw != fenceBefore {
		w.fail("%s has written after a newer claim", t.slot.name)
	}
	broken, takes := w.db.broken, w.db.takes
	w.db.broken, w.db.takes = nil, true // who wants to change a table has to wait for the transaction
	rows, err := w.db.apply(t.epoch<<epochShift|number, changes)
	w.db.broken, w.db.takes = broken, takes
	if err != nil {
		return // with some of the planted mistakes only: another one has written meanwhile
	}
	w.db.rows = rows
	for i := range changes {
		w.checkRow(&changes[i])
	}
}

// apply returns the rows as they are after some changes.
func (db *simDB) apply(version int64, changes []change) (map[string]simRow, error) {
	rows := maps.Clone(db.rows)
	for i := range changes {
		row := &changes[i].row
		if db.broken[row.Mapping.Table] {
			return nil, &TableError{row.Mapping.Table, &refusal{BadSchema, "no such column"}}
		}
		if err := db.applyRow(rows, row, version); err != nil {
			return nil, &TableError{row.Mapping.Table, err}
		}
	}
	return rows, nil
}

func (db *simDB) applyRow(rows map[string]simRow, row *Row, version int64) error {
	key := row.mark.key
	switch {
	case row.Delete:
		for _, other := range rows {
			if other.parent == key {
				return &refusal{BadReference, "a row refers to it"}
			}
		}
		delete(rows, key)
		return nil
	case row.entry != "":
		key += "|" + row.entry
	case row.Values == nil:
		return db.applyKids(rows, row, version)
	}
	values := row.Values
	if row.entry != "" {
		values = row.Children[0][1:]
	}
	next := simRow{text: fmt.Sprint(values)}
	if slices.Contains(values, any(int64(refusedValue))) && !db.takes {
		return &refusal{BadRow, "a check refuses it"}
	}
	if parent := values[len(values)-1]; parent != nil && hasParent(row.Mapping.Table) {
		next.parent = fmt.Sprintf("parent:%d", parent)
		if _, there := rows[next.parent]; !there {
			return &refusal{BadReference, "there is no " + next.parent}
		}
	}
	rows[key] = next
	return nil
}

// applyKids replaces the rows of a set: those that do not get the version go.
func (db *simDB) applyKids(rows map[string]simRow, row *Row, version int64) error {
	kids := make(map[string]int64)
	maps.Copy(kids, rows[row.mark.key].kids)
	for _, child := range row.Children {
		if child[0] == any(int64(refusedValue)) && !db.takes {
			return &refusal{BadRow, "a check refuses it"}
		}
		kids[fmt.Sprint(child[0])] = version
	}
	maps.DeleteFunc(kids, func(_ string, v int64) bool { return v != version })
	rows[row.mark.key] = simRow{text: textOfKids(kids), kids: kids}
	return nil
}

func textOfKids(kids map[string]int64) string {
	return strings.Join(slices.Sorted(maps.Keys(kids)), " ")
}

func (w *world) countRefusal(s *slot, rows []Row, err error) {
	var refused *refusal
	if errors.As(err, &refused) && refused.class == BadReference && len(rows) == 1 {
		s.refusals[rows[0].name()]++
	}
}
