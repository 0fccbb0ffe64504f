package lockkeeper

import (
	"sync/atomic"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/core"
)

// A clock gives the instants that belief is counted in. It never goes back, and
// it counts the time that the machine is suspended, where the system tells.
type clock struct {
	origin time.Time
	boot   time.Duration // sinceBoot at origin; 0: do not ask
	read   func() (time.Duration, bool)
	ahead  atomic.Int64 // of Go's clock, as now saw it last
}

// newClock starts a clock. Where the server lives in this process (see
// lockkeepertest) it is suspended together with us, and only Go's clock counts.
func newClock(conn Conn) *clock {
	c := &clock{origin: time.Now(), read: sinceBoot}
	if in, ok := conn.(interface{ InProcess() bool }); ok && in.InProcess() {
		return c
	}
	c.boot, _ = c.read()
	return c
}

func (c *clock) now() core.Instant {
	if c.boot == 0 {
		return core.Instant(time.Since(c.origin))
	}
	// In this order: a pause between the two reads must not look like a suspension.
	boot, ok := c.read()
	elapsed := time.Since(c.origin)
	ahead := time.Duration(0)
	if ok {
		ahead = max(0, boot-c.boot-elapsed)
	}
	c.ahead.Store(int64(ahead))
	return core.Instant(elapsed + ahead)
}

// about returns an instant that is now, or earlier by a suspension that now has not been
// asked about since. It is cheap, and right for what may count from too early, such as
// when a request was sent.
func (c *clock) about() core.Instant {
	return core.Instant(time.Since(c.origin)) + core.Instant(c.ahead.Load())
}

// until returns how long a timer for i has to run.
func (c *clock) until(i core.Instant) time.Duration { return i.Sub(c.now()) }

// deadline returns i as a deadline for a request. It reads no clock, so it does not
// see a suspension since now was called last; a deadline may be late, belief may not.
func (c *clock) deadline(i core.Instant) time.Time {
	return c.origin.Add(time.Duration(int64(i) - c.ahead.Load()))
}

// at returns i as a time for people.
func (c *clock) at(i core.Instant) time.Time { return time.Now().Add(c.until(i)) }
