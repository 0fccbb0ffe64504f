// Package bench measures Lockkeeper beside the raw commands of the same Redis client,
// in one run: a free lock, taken and given back by one goroutine. Each turn does one
// cycle of either, so that a disturbance of the machine strikes both, and the figure to
// read is the ratio.
//
//	make bench
//
// Requests are what the server counts, allocations are those of the whole process:
// both are exact. The comparison with other lock libraries comes here too.
package bench
