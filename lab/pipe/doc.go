// Package pipe runs whole clients under a fake clock: the library as users have it, with
// the real go-redis, on connections in memory to a server in memory that speaks RESP and
// has the scripts of package lockkeepertest. It is made for bubbles of testing/synctest,
// where a history of several seconds takes some milliseconds.
//
// A history comes from a seed: how many clients, calls and locks there are, how fast
// everything is, what the calls do, and which faults come when. What the clients believed,
// did and were told is written down from outside, and judged by package oracle.
//
// A bubble makes time fake, and leaves the schedule to the machine: a seed replays the
// faults and the work, and not which goroutine was first in the same instant. A failing
// seed may need several runs to fail again.
package pipe
