// Package core holds every decision of Lockkeeper as pure state machines:
// events go in as method calls, commands come out as return values. It starts no
// goroutine, reads no clock and does no I/O, so that a simulation can drive the
// production decisions through millions of faults, and so that a test can put
// any event at any instant. The root package is the shell that gives it time,
// goroutines and the wire.
//
// The machines are:
//
//   - [Keeper]: when each [Lease] of a client is renewed, when belief in it ends, and
//     when each line has to ask;
//   - [Line]: who waits for a key in this process, first come first served, with one
//     place in the line on the server for all of them; and with its [Hold] which of
//     them has the next turn without a word to the server;
//   - [Try]: one attempt to take a lock without waiting;
//   - [Undo]: taking back what an owner may have got: a lock, or a place in the line;
//   - [Release]: giving a lock back through failures.
//
// None of the types is safe for concurrent use: the shell calls them under its
// own lock.
package core
