package oracle

import (
	"cmp"
	"fmt"
	"strings"
)

// Fences is O3: every hold has a fence, and each is above those of all holds of its lock
// that began before. Of holds that began at one instant nobody knows the order; their
// fences differ.
func Fences(holds []Hold) (found []Violation) {
	var top *Hold
	for _, h := range sorted(holds, byFromAndFence) {
		if h.To < h.From {
			continue // it was given back unused
		}
		if h.Fence == 0 {
			found = append(found, Violation{Oracle: "O3", Lock: h.Lock, At: h.From,
				Text: fmt.Sprintf("a hold of %s has no fence: %v", h.Lock, h)})
			continue
		}
		if top != nil && top.Lock == h.Lock && h.Fence <= top.Fence {
			found = append(found, Violation{Oracle: "O3", Lock: h.Lock, At: h.From, Text: fmt.Sprintf(
				"the fence of %s does not grow: %v, after %v; %d too low", h.Lock, h, top, top.Fence-h.Fence+1)})
			continue
		}
		top = h
	}
	return found
}

func byFromAndFence(a, b *Hold) int {
	if c := strings.Compare(a.Lock, b.Lock); c != 0 {
		return c
	}
	if c := cmp.Compare(a.From, b.From); c != 0 {
		return c
	}
	return cmp.Compare(a.Fence, b.Fence)
}
