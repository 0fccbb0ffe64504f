package dialect

// Describe returns the statements that set and delete the rows of one key, for people.
func (db *DB) Describe(t *Table) string {
	p, err := db.plan(t)
	if err != nil {
		return ""
	}
	several := t.Parent < len(t.Key)
	var set, remove string
	switch s := db.server.(type) {
	case postgres:
		set, remove = s.upsertText(p), s.removeText(p, t.Parent, several)
	case mysql:
		set, remove = s.upsertText(p, 1), s.removeText(p, t.Parent, 1, several)
	case sqlite:
		set, remove = s.upsertText(p, 1), s.removeText(p, t.Parent, 1, several)
	}
	return set + ";\n" + remove + ";\n"
}
