// Package rig has what the programs of the flush in lab need: a Redis and databases
// that belong to no test, the connections to them as lockkeeper flush run makes them,
// child processes, and how much CPU and memory these take. It needs Linux.
package rig
