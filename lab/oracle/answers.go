package oracle

import (
	"fmt"
	"slices"
	"strings"
)

// Answers is O7: what a call told its caller is true of the moment, so that a lock that
// another has and a server that can't be reached are never taken for each other.
func Answers(answers []Answer) (found []Violation) {
	for i := range answers {
		a := &answers[i]
		if slices.Contains(a.Allowed, a.Said) {
			continue
		}
		allowed := "there was nothing to say"
		if len(a.Allowed) > 0 {
			allowed = "it may have been " + strings.Join(a.Allowed, " or ")
		}
		found = append(found, Violation{Oracle: "O7", Lock: a.Lock, At: a.At,
			Text: fmt.Sprintf("%s was told %q about %s at %v: %s", a.Who, a.Said, a.Lock, a.At, allowed)})
	}
	return found
}

// Losses is the other half of O7, where the server keeps its memory: nobody is told that
// the lock is lost while what the server has answered carries belief in it.
func Losses(holds []Hold) (found []Violation) {
	for i := range holds {
		h := &holds[i]
		if h.Early == 0 {
			continue
		}
		text := fmt.Sprintf("%s was lost before its time: %v was told so at %v", h.Lock, h, h.Early)
		if len(h.Proofs) > 0 {
			carried := h.carried()
			if h.Early >= carried {
				continue
			}
			text += fmt.Sprintf(", %s too early", h.Early.until(carried))
		}
		found = append(found, Violation{Oracle: "O7", Lock: h.Lock, At: h.Early, Text: text})
	}
	return found
}
