// Command flushbench measures what it costs to get rows from Redis into a database, with
// servers of its own. From the root of the repository:
//
//	go run ./lab/flushbench [-quick] [-only PARTS] [-rows N] [-rounds N] [-batch N] [-profile DIR]
//
// The parts are:
//
//	speed    rows a second and CPU a row, from dirty keys to none, on each database,
//	         beside what the database takes by itself
//	memory   the worker's peak, from few dirty keys to many, and Redis's memory for each
//	         dirty key, also of an outage in which keys are written many times
//	produce  what a write costs with a mark and without
//
// It prints tables in Markdown on standard output, and what it does on standard error.
package main
