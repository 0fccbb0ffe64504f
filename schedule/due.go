package schedule

import "time"

// The kinds of runs, as the scripts name them.
const (
	tick    = "tick"
	trigger = "trigger"
)

const (
	// earlyMost is how far a tick may be ahead of the server's clock when it is run. A machine
	// whose clock is wrong by more must not use up the ticks of the future.
	earlyMost = 10 * time.Second

	// lookEvery is how often a process that waits for a tick looks for what it was not told.
	lookEvery = 5 * time.Second
)

// A work is what to do next for a job, and when. Its zero value is nothing.
type work struct {
	kind      string
	number    int64 // of a tick, its time in ms; of a request, its own
	scheduled time.Time
	at        time.Time // when to begin, by the clock of this process; it is due if that is not after now
}

func (w *work) due(now time.Time) bool { return w.kind != "" && !w.at.After(now) }

// next decides what to do next for a job in this state.
func (j *Job) next(st state, now time.Time) work {
	w := j.nextTick(st, now)
	if st.request != nil {
		w = work{kind: trigger, number: st.request.number, scheduled: st.request.At, at: now}
	}
	server := st.now / 1000
	wait := time.Duration(0)
	if st.started <= server { // else the server's clock has gone back
		wait = j.MinHold - time.Duration(server-st.started)*time.Millisecond
	}
	if w.kind == tick {
		wait = max(wait, time.Duration(w.number-server)*time.Millisecond-earlyMost)
	}
	if rested := now.Add(wait + time.Millisecond); wait > 0 && rested.After(w.at) {
		w.at = rested
	}
	return w
}

// nextTick returns the tick that is due, or the next one. Ticks that were missed are one: the
// latest of them.
func (j *Job) nextTick(st state, now time.Time) work {
	if st.paused != nil {
		return work{}
	}
	done := time.UnixMilli(st.last).UTC()
	last := j.tickAt(latest(j.When, done, now))
	if last.kind != "" && last.at.After(now) { // its jitter is not over; is there one before it?
		if before := j.tickAt(latest(j.When, done, last.scheduled.Add(-1))); j.counts(before, now) {
			return before
		}
		return last
	}
	if j.counts(last, now) {
		return last
	}
	if now.After(done) {
		done = now
	}
	return j.tickAt(j.When.Next(done))
}

// counts reports whether a tick that is due, or none, is still to be run.
func (j *Job) counts(w work, now time.Time) bool {
	return w.kind != "" && (j.CatchUp == CatchUpOne || now.Sub(w.at) < lateMost)
}

// tickAt returns what is to do at a tick; nothing if it is the zero time.
func (j *Job) tickAt(at time.Time) work {
	if at.IsZero() {
		return work{}
	}
	ms := at.Add(time.Millisecond - 1).UnixMilli() // up: the next one must come after it
	return work{kind: tick, number: ms, scheduled: at.UTC(), at: at.Add(j.delay(at))}
}
