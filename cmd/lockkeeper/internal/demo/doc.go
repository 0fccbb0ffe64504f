// Package demo shows the whole mission on one machine, with faults: a writer changes
// data in Redis all the time; several worker processes, of which one is active,
// bring the changes into a SQLite database; the active one is killed, and the next
// one is stopped between reading a batch and writing it, for longer than its TTL,
// and continued with its loss signal switched off. At the end every key is compared
// with its row.
//
//	summary, err := demo.Run(ctx, demo.Options{Seconds: 20, Workers: 3, Rate: 200, TTL: 2 * time.Second})
//
// Nothing in it is played: the workers are processes, the signals are signals, and
// the stale worker really tries to write. The parent process has the embedded Redis,
// the writer, the faults and the screen; a worker is told what to do on its standard
// input and tells what happened on its standard output, one JSON object a line.
package demo
