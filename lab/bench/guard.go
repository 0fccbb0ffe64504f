package main

import "sync/atomic"

// A guard is what a lock protects, in the memory of one process or shared by several.
// All fields but inside are plain on purpose: that they stay exact is what the lock is
// for. Each is 8 bytes, so that all processes agree on where it is.
type guard struct {
	inside atomic.Int64 // who is inside, by number from 1; 0 is nobody
	count  int64        // how often somebody was
	group  int64        // whose hold the last one was, from 1
	left   int64        // when its unlock was called, on the monotonic clock
}

// An entry is what somebody learns who comes in.
type entry struct {
	alone   bool  // nobody else was inside
	handoff bool  // the hold before was another group's
	left    int64 // when that one called unlock
}

// enter is called right after lock has returned. A group is what a hand-off is counted
// between: a goroutine, a client or a process.
func (g *guard) enter(who, group int64) entry {
	e := entry{
		alone:   g.inside.CompareAndSwap(0, who),
		handoff: g.group != 0 && g.group != group,
		left:    g.left,
	}
	g.group = group
	g.count++
	return e
}

// leave is called right before unlock, and reports whether nobody else came in.
func (g *guard) leave(who, now int64) (alone bool) {
	g.left = now
	return g.inside.CompareAndSwap(who, 0)
}
