//go:build !linux

package lockkeeper

import "time"

// sinceBoot is not known here: while the machine is suspended, belief stands
// still too. docs/GUARANTEES.md says so.
func sinceBoot() (time.Duration, bool) { return 0, false }
