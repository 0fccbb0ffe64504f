// Package lockkeeper is a distributed lock on Redis that is safe to build on: one of
// many processes does the work, the others wait or stand by.
//
//	locks, err := lockkeeper.New(goredisconn.New(rdb), lockkeeper.Config{})
//	if err != nil {
//		return err
//	}
//	defer locks.Close(ctx)
//
//	err = locks.Mutex("nightly-report").Do(ctx, func(ctx context.Context, lease *lockkeeper.Lease) error {
//		return report(ctx, lease.Fence()) // ctx ends before the lock can be lost
//	})
//
// A [Lock] describes what to hold, a [Lease] is one hold of it. [Lock.Do] acquires,
// runs, renews and releases; [Lock.Try] and [Lock.Acquire] return a lease to be
// released by the caller; an [Election] keeps one process of many active. The
// connection is a [Conn]: packages goredisconn and rueidisconn make one from a Redis
// client, package lockkeepertest has one in memory, for tests.
//
// # What is promised
//
//   - While a lease's context is alive, nobody else who uses the lock has it. A lease
//     is renewed in the background for as long as it is held, and has a TTL on the
//     server: the lock of a process that dies is free when that has ended.
//   - The context ends, with a [*LostError] as its cause, before the key on the server
//     can expire, whatever the network does: at the time of the last request that was
//     answered, counted from before it was sent, plus the TTL, minus a margin. No call
//     can delay that. A lease that was lost never comes back.
//   - Nobody renews or deletes another's hold. Each hold has a random owner of its own.
//   - When the outcome of a request is unknown, a lock that it may have taken is given
//     back in the background. A release is retried, and ignores the cancellation of its
//     context.
//   - Outages of Redis are waited out: those who wait go on waiting, and "held by
//     another" ([ErrHeld]) is never confused with "Redis gave no usable answer"
//     ([ErrUnavailable]).
//
// # What is not
//
// No lock with a TTL excludes a second holder in every case, and this one rests on
// Redis keeping its memory and on clocks that run at nearly the same rate. A failover
// or a restart that loses the key, a clock of the server that jumps forward, an
// operator's [Client.Break], or a process that stands still after it has looked at its
// context and before it writes: each makes two who believe that they hold the lock.
// What protects the data then is the fence, and only a store that checks it.
//
// # Fences
//
// Each hold has a [Fence], a number that grows from hold to hold: by a counter, and by
// the server's clock where the counter was lost. Send it along with every write, and
// let the store refuse writes with a smaller one. For a read that decides about a
// write that is not enough: claim the resource in the store first, see package
// sqlfence.
//
// # Clocks
//
// Belief in a lease is counted on this process's monotonic clock, and on one that also
// runs while the machine is suspended where the system has it (Linux). Wall clocks of
// clients are never used, so they may be wrong. Clocks may differ in rate by as much as
// the margin is of the TTL. After a pause of the process [Lease.Err], and Err of a
// bound context, know of a loss before any timer has run: look at them right before
// what must not be done twice.
//
// # Concurrency
//
// A [Client], its locks and leases are safe for concurrent use; a process normally has
// one client. It needs no goroutine per lease. Locks are not reentrant: who holds one
// and acquires it again waits for itself.
//
// # Waiting
//
// Who waits is served first come, first served. Among processes there is a line on the
// server, in which each process has one place, whatever the number of its goroutines; a
// release hands the lock to the first of the line in the same step and wakes that
// process alone. Inside of a process the goroutines stand in a line of their own, and
// pass the lock on without the server: each turn is a [Lease] with an owner and a fence of its
// own. While another process waits, that goes on for at most eight turns and ten
// milliseconds. So a process with a thousand waiters has the weight of one.
//
// [Lock.Try] and newcomers do not overtake who waits. A waiter that has died is passed
// over, at once if its connection is closed, and for the price of one short hand-off if
// nobody can see that it is dead. When a holder dies, the first of the line has the lock
// within milliseconds of the end of its TTL.
package lockkeeper
