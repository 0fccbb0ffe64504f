package oracle

import "fmt"

// Updates is O2: no update is lost. The writes are in the order of their commits; each is
// computed from what the one before has set, the log of all leads to the final value, and
// the epochs of the claims never go back. A resource begins at 0 and may be left out of
// final while it is there. Writes have no time, and neither have these violations.
func Updates(writes []Write, final map[string]int64) (found []Violation) {
	last := make(map[string]*Write, len(final)) // of each resource
	claim := make(map[string]*Write, len(final))
	wrong := func(resource, format string, args ...any) {
		found = append(found, Violation{Oracle: "O2", Lock: resource, Text: fmt.Sprintf(format, args...)})
	}
	for i := range writes {
		w := &writes[i]
		value := int64(0)
		if before := last[w.Resource]; before != nil {
			value = before.Value
		}
		if w.Base != value {
			wrong(w.Resource, "lost update: commit %d, of %v, is computed from %d when %s was %d%s",
				i+1, w, w.Base, w.Resource, value, by(last[w.Resource]))
		}
		last[w.Resource] = w
		if w.Epoch == 0 {
			continue
		}
		if top := claim[w.Resource]; top != nil && w.Epoch < top.Epoch {
			wrong(w.Resource, "a write of an old claim: commit %d, of %v, sets %s to %d after %v did",
				i+1, w, w.Resource, w.Value, top)
			continue // the top stays: one claim that is late is one that all its writes are late for
		}
		claim[w.Resource] = w
	}
	for resource, w := range last {
		if final[resource] != w.Value {
			wrong(resource, "%s is %d at the end, and the last commit, of %v, has set it to %d", resource, final[resource], w, w.Value)
		}
	}
	for resource, value := range final {
		if last[resource] == nil && value != 0 {
			wrong(resource, "%s is %d at the end, and nobody has written to it", resource, value)
		}
	}
	return found
}

// String says who wrote, and under which claim.
func (w *Write) String() string {
	return fmt.Sprintf("%s (fence %d, epoch %d)", w.Who, w.Fence, w.Epoch)
}

func by(w *Write) string {
	if w == nil {
		return ", as it began"
	}
	return fmt.Sprintf(", set by %v", w)
}
