package oracle

import (
	"fmt"
	"slices"
	"time"
)

// String says a time as seconds: 12.345678 s.
func (t Time) String() string {
	if t == Never {
		return "never"
	}
	return fmt.Sprintf("%.6f s", time.Duration(t).Seconds())
}

// add returns t + d, which is never more than Never.
func (t Time) add(d time.Duration) Time {
	if t > Never-Time(max(d, 0)) {
		return Never
	}
	return t + Time(d)
}

// until says how long it is from one time to another.
func (t Time) until(other Time) string {
	if other == Never {
		return "without end"
	}
	return time.Duration(other - t).String()
}

// String says whose hold it is and how long it was believed in.
func (h *Hold) String() string {
	return fmt.Sprintf("%s (owner %s, fence %d) from %v to %v", h.Who, h.Owner, h.Fence, h.From, h.To)
}

// sorted returns the items in an order. They are large and stay where they are.
func sorted[T any](items []T, compare func(a, b *T) int) []*T {
	list := make([]*T, len(items))
	for i := range items {
		list[i] = &items[i]
	}
	slices.SortFunc(list, compare)
	return list
}
