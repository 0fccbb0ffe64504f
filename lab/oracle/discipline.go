package oracle

import (
	"cmp"
	"fmt"
	"math"
	"strings"
)

// nothing is what belief without a proof is carried to.
const nothing Time = math.MinInt64

// carried returns until when the proofs carry belief. Each counts only if it was learned
// while the one before still carried: belief that has ended does not come back. What
// happens at the very instant of the end is not held against anybody.
func (h *Hold) carried() Time {
	if len(h.Proofs) == 0 || h.Proofs[0].Learned > h.Proofs[0].Until {
		return nothing
	}
	until := h.Proofs[0].Until
	for _, p := range h.Proofs[1:] {
		if p.Learned <= until {
			until = max(until, p.Until)
		}
	}
	return until
}

// Discipline is O8: nobody believes in a hold, and nobody begins a step because of it,
// before its proof was there or beyond what its proofs carry, as worked out here; and no
// step is begun after belief has ended, for whatever reason.
func Discipline(holds []Hold, steps []Step) (found []Violation) {
	for i := range holds {
		if h := &holds[i]; h.To >= h.From {
			found = h.unproven(found)
		}
	}
	list := sorted(holds, byTurn)
	for i := range steps {
		if text := steps[i].outside(list); text != "" {
			s := &steps[i]
			found = append(found, Violation{Oracle: "O8", Lock: s.Lock, At: s.At, Text: fmt.Sprintf(
				"%s (owner %s, fence %d) does a step under %s at %v %s", s.Who, s.Owner, s.Fence, s.Lock, s.At, text)})
		}
	}
	return found
}

// unproven adds what is wrong with the belief in a hold.
func (h *Hold) unproven(found []Violation) []Violation {
	wrong := func(at Time, text string) {
		found = append(found, Violation{Oracle: "O8", Lock: h.Lock, At: at,
			Text: fmt.Sprintf("belief in %s, %v, %s", h.Lock, h, text)})
	}
	carried := h.carried()
	if carried == nothing {
		wrong(h.From, "has no proof that was in time")
		return found
	}
	if learned := h.Proofs[0].Learned; h.From < learned {
		wrong(h.From, fmt.Sprintf("begins %s before its proof is there, at %v", h.From.until(learned), learned))
	}
	if h.To > carried {
		wrong(carried, fmt.Sprintf("is carried to %v only: %s too long", carried, carried.until(h.To)))
	}
	return found
}

// outside returns how a step is outside of its hold, or "". The holds are sorted by
// turn; of several that are the step's, one that covers it is enough.
func (s *Step) outside(holds []*Hold) (text string) {
	text = "without a hold"
	for _, h := range holds[s.search(holds):] {
		if s.compare(h) != 0 {
			break
		}
		carried := h.carried()
		switch {
		case carried == nothing:
			text = "without a proof that was in time"
		case s.At < max(h.From, h.Proofs[0].Learned):
			text = fmt.Sprintf("%s before belief begins", s.At.until(max(h.From, h.Proofs[0].Learned)))
		case s.At > carried:
			text = fmt.Sprintf("%s after what its proofs carry, to %v", carried.until(s.At), carried)
		case s.At > h.To:
			text = fmt.Sprintf("%s after belief has ended, at %v", h.To.until(s.At), h.To)
		default:
			return ""
		}
	}
	return text
}

// search returns the first hold that is not before the step's turn.
func (s *Step) search(holds []*Hold) int {
	low, high := 0, len(holds)
	for low < high {
		if middle := (low + high) / 2; s.compare(holds[middle]) > 0 {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low
}

// compare orders the step's turn and a hold as byTurn orders holds.
func (s *Step) compare(h *Hold) int {
	if c := cmp.Compare(s.Fence, h.Fence); c != 0 {
		return c
	}
	return compareNames(s.Lock, h.Lock, s.Owner, h.Owner, s.Who, h.Who)
}

// byTurn puts the fence first: it alone tells most turns apart, and is quickly compared.
func byTurn(a, b *Hold) int {
	if c := cmp.Compare(a.Fence, b.Fence); c != 0 {
		return c
	}
	return compareNames(a.Lock, b.Lock, a.Owner, b.Owner, a.Who, b.Who)
}

// compareNames compares pairs of names, the first pair that differs decides.
func compareNames(pairs ...string) int {
	for i := 0; i < len(pairs); i += 2 {
		if c := strings.Compare(pairs[i], pairs[i+1]); c != 0 {
			return c
		}
	}
	return 0
}
