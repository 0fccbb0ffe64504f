package oracle

import (
	"cmp"
	"fmt"
	"strings"
)

// Overlaps is O1: no two holds of one lock are believed in at once. Holds that touch are
// none, nor is one whose belief had ended before its process learned of it. A hold
// without length counts where it is inside of another one: a fake clock stands still
// while much happens.
func Overlaps(holds []Hold) (found []Violation) {
	var last *Hold // the one that ends last of those before
	for _, h := range sorted(holds, byFrom) {
		if h.To < h.From {
			continue
		}
		if last == nil || last.Lock != h.Lock {
			last = h
			continue
		}
		if h.From < last.To {
			found = append(found, Violation{Oracle: "O1", Lock: h.Lock, At: h.From, Text: fmt.Sprintf(
				"two have %s: %v, while %v; both for %s", h.Lock, h, last, h.From.until(min(h.To, last.To)))})
		}
		if h.To > last.To {
			last = h
		}
	}
	return found
}

func byFrom(a, b *Hold) int {
	if c := strings.Compare(a.Lock, b.Lock); c != 0 {
		return c
	}
	if c := cmp.Compare(a.From, b.From); c != 0 {
		return c
	}
	return cmp.Compare(a.To, b.To)
}
