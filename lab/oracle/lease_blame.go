package oracle

import (
	"fmt"
	"strings"
	"time"
)

// mostAround is how many operations are told around an answer that can't be.
const mostAround = 8

// blame says in words what is wrong with an answer, and what was around it: what has or
// may have changed something, and what was going on.
func blame(ops []*Op, culprit *Op, slack time.Duration) string {
	var around []*Op
	for _, op := range ops {
		if op != culprit && op.Call <= culprit.Return && (op.Outcome != No || op.Return >= culprit.Call) {
			around = append(around, op)
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "no order of what has happened allows this answer: %v", culprit)
	for i, op := range around[max(0, len(around)-mostAround):] {
		if i == 0 {
			b.WriteString("; around it:")
		}
		fmt.Fprintf(&b, "\n\t%v", op)
		if op.Kind != Release && op.Outcome != No {
			fmt.Fprintf(&b, ", ends between %v and %v", op.Call.add(op.TTL-slack), op.Return.add(op.TTL+slack))
		}
	}
	return b.String()
}
