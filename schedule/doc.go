// Package schedule runs jobs at their times on several machines as if they were one: each tick
// of a job is run by one process, whichever, and machines may come, go and die.
//
//	nightly, err := schedule.New(locks, schedule.Config{Name: "nightly"},
//		schedule.Job{Name: "report", When: schedule.Cron("30 2 * * MON-FRI", berlin), Run: report},
//		schedule.Job{Name: "sync", When: schedule.Every(time.Minute), Leader: true, Run: sync},
//	)
//	if err != nil {
//		return err
//	}
//	return nightly.Run(ctx) // on as many machines as you like; until ctx ends
//
// # Two kinds of jobs
//
// A job is guarded, unless it says otherwise: whoever comes first at a tick runs it. The server
// remembers the last tick that was begun, by the time for which it was meant, so that a process
// whose clock is seconds late does not run it again: a tick is run at most once, whatever
// happens. If its process dies meanwhile, its work is not done.
//
// With Job.Leader one process is elected and runs all ticks. When it stops, the next one takes over
// within milliseconds, and when it dies, within the TTL of the client's locks and a second. The
// server remembers the last tick that was finished: one that was begun and not finished is begun
// again, so each tick is run at least once. It is run twice only if its process has lost
// the lock or its life after it did the work, and before the server has heard of that; a store
// that must not see the work twice can check the fence of Tick.Lease, see package sqlfence, and remember
// Tick.Scheduled. A tick on which five processes in a row have died is given up.
//
// Neither kind ever runs twice at a time, as far as a lock with a TTL can promise it: the
// context of a run ends before another process can begin one.
//
// # Ticks that are missed
//
// Ticks that come while a job runs, or while no process lives, become one: the latest is run as
// soon as possible, or dropped, see CatchUp. A job that is new has nothing to catch up, neither has
// one whose times have been changed, nor one that was paused.
//
// # Clocks
//
// Each process goes by its own wall clock, so it should be set. If one is ahead of the
// server's by more than 10 s it waits; so it can't use up ticks of the future. Local times and what
// becomes of them when clocks are changed: see Cron.
//
// # Redis
//
// What is kept of a job is three small keys beside its lock, in the same cluster slot: a hash, a
// list of its last runs, and one more hash for all processes. They go 90 days after the last
// process. docs/SCHEDULE.md describes them, and the rights that are needed.
package schedule
