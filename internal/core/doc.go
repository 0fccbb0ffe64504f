// Package core holds every decision of Lockkeeper as pure state machines:
// events go in as method calls, commands come out as return values. It starts no
// goroutine, reads no clock and does no I/O, so that a simulation can drive the
// production decisions through millions of faults, and so that a test can put
// any event at any instant. The root package is the shell that gives it time,
// goroutines and the wire.
//
// The machines are:
//
//   - [Keeper]: when each lease of a client is renewed, and when belief in it ends;
//   - [Acquire]: one acquisition, from its first request to a lease or an error;
//   - [Undo]: taking back an acquisition whose outcome is unknown;
//   - [Release]: giving a lease back through failures.
//
// The waiting line with direct hand-off gets its machine beside these; until
// then Acquire asks again after a wake-up, which is a hint and never a grant.
//
// None of the types is safe for concurrent use: the shell calls them under its
// own lock.
package core
