package oracle

import (
	"fmt"
	"time"
)

// Liveness is O5: once all faults are healed, every wait that is still open, and every
// one that begins later, is over within a time. One that the end came too early for is
// not judged.
func Liveness(waits []Wait, healed Time, within time.Duration, end Time) (found []Violation) {
	for i := range waits {
		w := &waits[i]
		latest := max(w.From, healed).add(within)
		over := min(w.To, end)
		if over <= latest {
			continue
		}
		fate := "it still waits at the end"
		if w.To <= end {
			fate = "it was over at " + w.To.String()
			if w.Served {
				fate = "it was served at " + w.To.String()
			}
		}
		found = append(found, Violation{Oracle: "O5", Lock: w.Lock, At: latest, Text: fmt.Sprintf(
			"%s call %d waits for %s from %v on, all is well from %v on, and it should be over at %v: %s, %s too late",
			w.Who, w.Call, w.Lock, w.From, healed, latest, fate, latest.until(over))})
	}
	return found
}
