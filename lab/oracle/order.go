package oracle

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Order is O6: no place in the line whose process lives and hears is passed over by more
// than most later ones, that is, by grants to places which are behind it, made while it
// was there. Places of one instant are not before each other.
func Order(places []Place, most int) (found []Violation) {
	granted := sorted(places, byGranted)
	for i := range places {
		p := &places[i]
		until := min(p.Gone, p.Granted)
		if p.Deaf || until <= p.Joined {
			continue
		}
		after, _ := slices.BinarySearchFunc(granted, p.Joined+1, func(q *Place, at Time) int {
			if c := strings.Compare(q.Lock, p.Lock); c != 0 {
				return c
			}
			return cmp.Compare(q.Granted, at)
		})
		var first, last *Place
		passed := 0
		for _, q := range granted[after:] {
			if q.Lock != p.Lock || q.Granted >= until {
				break
			}
			if q.Since <= p.Since {
				continue
			}
			if passed++; passed == 1 {
				first = q
			}
			if passed == most+1 {
				last = q
			}
		}
		if last != nil {
			found = append(found, p.overtaken(passed, most, first, last))
		}
	}
	return found
}

func (p *Place) overtaken(passed, most int, first, last *Place) Violation {
	return Violation{Oracle: "O6", Lock: p.Lock, At: last.Granted, Text: fmt.Sprintf(
		"%s (owner %s) stands in the line of %s since %v, there from %v to %v, and %d that came later were served before it, at most %d may be; "+
			"the first of them is %s (owner %s), since %v, at %v",
		p.Who, p.Owner, p.Lock, p.Since, p.Joined, min(p.Gone, p.Granted), passed, most,
		first.Who, first.Owner, first.Since, first.Granted)}
}

func byGranted(a, b *Place) int {
	if c := strings.Compare(a.Lock, b.Lock); c != 0 {
		return c
	}
	return cmp.Compare(a.Granted, b.Granted)
}
