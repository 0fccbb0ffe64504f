package flush

import (
	"fmt"
	"maps"
	"slices"

	"github.com/lockkeeper/lockkeeper/flush/internal/value"
)

// compareRow returns where the rows of a key are not what they should be.
func (r *route) compareRow(want *Row, have [][]any) []Difference {
	key := want.mark.key
	rows := want.Children
	if want.Values != nil {
		rows = [][]any{want.Values}
	}
	width := len(r.key)
	byID := make(map[string][]any, len(have))
	for _, row := range have {
		byID[r.childID(row[width:])] = row[width:]
	}
	var list []Difference
	for _, row := range rows {
		id := r.childID(row)
		other, there := byID[id]
		delete(byID, id)
		if !there {
			list = append(list, Difference{Key: key, Table: r.Table, Redis: r.showRow(row), Database: "no row"})
			continue
		}
		for i := range row {
			if !value.Equal(row[i], other[i]) {
				list = append(list, Difference{Key: key, Table: r.Table, Column: r.columnName(i) + r.showChild(row), Redis: value.Show(row[i]), Database: value.Show(other[i])})
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		if r.source() != Streams {
			list = append(list, Difference{Key: key, Table: r.Table, Redis: "no " + r.rowWord(), Database: r.showRow(byID[id])})
		}
	}
	return list
}

// childID tells the rows of a key apart.
func (r *route) childID(row []any) string {
	if r.element == nil {
		return ""
	}
	return value.Show(row[0]) + value.Spell(row[0])
}

// showRow shows what a row is known by.
func (r *route) showRow(row []any) string {
	if r.element == nil {
		return "a row"
	}
	return r.shape.element + " " + value.Show(row[0])
}

func (r *route) showChild(row []any) string {
	if r.element == nil {
		return ""
	}
	return fmt.Sprintf(" of %s %s", r.shape.element, value.Show(row[0]))
}

func (r *route) rowWord() string {
	if r.element == nil {
		return "key"
	}
	return r.shape.element
}

// columnName returns the name of the i-th of the columns after the key's.
func (r *route) columnName(i int) string {
	switch {
	case r.element == nil:
		return r.columns[i].Name
	case i == 0:
		return r.element.Name
	}
	return r.columns[i-1].Name
}
