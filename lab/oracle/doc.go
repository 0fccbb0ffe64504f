// Package oracle judges histories of locks: those of the simulation, of clients under a
// fake clock, and of real processes. Each oracle is a function of what was seen from
// outside, knows nothing of how Lockkeeper works, and has a self-test with histories that
// are wrong.
//
//	O1  Overlaps           two believed in one lock at a time
//	O2  Updates            an update of a resource in the database is lost
//	O3  Fences             a fence does not grow
//	O4  Leases             no order of what happened explains the server's answers
//	O5  Liveness           a wait goes on when all is well
//	O6  Order              the line is not served in its order
//	O7  Answers, Losses    somebody was told what is not so
//	O8  Discipline         belief, or a step, without a proof
//
// O1, O3, O4, O6 and O7 hold where the server keeps its memory; the others always. All
// work on copies, allocate next to nothing, and put a violation into words only when there
// is one. A harness that has a zero of its own subtracts it from its times first.
//
// O4 is judged by porcupine. A missing answer, a refusal and the end of a lease are no
// operations of its search: a state is the set of all that may be so, and instants at
// which that changes (a request may run from now on, a lease may end from now on) come in
// their order. So only what was answered with yes has to be put in order.
//
// What a history for O4 has to have in it: every request that may have changed something
// on the server. That is, beside the acquisition that an owner knows of, each of its
// requests that had no answer then, since it may run later and lengthen the life; and each
// grant that it never heard of. They are acquisitions whose outcome is Unknown.
package oracle
