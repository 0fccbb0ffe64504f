// Command flushchaos flushes under faults, with real servers, and checks that nothing was
// lost and nothing stale was written. From the root of the repository:
//
//	go run ./lab/flushchaos [-duration 3m] [-db sqlite,postgres,mariadb] [-seed N] [-keep DIR] [-plant BUG]
//
// Writers write hashes, strings, JSON, sets, lists, sorted sets and streams at full
// speed, most of them through flush.Producer, one in transactions of its own. They move
// on through their keys, so that what a fault does to a key is not covered up by later
// writes. Three workers flush, through a proxy to Redis and one to the database. Every
// two seconds a worker is killed or stopped, and every two seconds a connection is cut,
// delayed or loses its replies, or Redis or the database is killed and restarted with
// what it has on its disk. Some workers do not hear that they have lost their lease:
// stopped between reading and writing, or between the commit and the acknowledgement,
// they come back when another is active, and have to be refused. Rows that can't be
// written are planted, some for good.
//
// At the end the faults stop, and when nothing is dirty any more, each key is compared
// with its rows, field by field, and what is parked with what was planted. With -plant
// the workers have a bug, and then this has to find something. The exit code is 1 when
// something was found.
package main
