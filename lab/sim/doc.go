// Package sim is a discrete-event simulation of Lockkeeper. It drives the production
// machines of internal/core, with what the root package does around them, against models
// of a Redis server and of a SQL database, through faults of all of these and of the
// processes and the network between them.
//
// A world is made from one number, its seed: how many processes and keys there are, how
// fast the network is, what the processes do, and which faults come when. The same seed
// makes the same world, event for event. What happened is seen from outside, as a history
// that the oracles of package oracle judge.
//
// Four of five worlds keep to the assumptions of docs/GUARANTEES.md: there nothing that is
// promised may break. In the others the server also forgets, goes back or is tampered
// with: two processes may hold a lock at a time then, and only what the database accepts
// must still be right. How many of these worlds do show two holders is counted, since
// faults that break nothing prove nothing.
//
// A history that is wrong is shrunk, to fewer processes, keys and faults, and printed as a
// table of who did what and when.
package sim
