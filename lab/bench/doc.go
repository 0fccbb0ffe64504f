// Command bench measures Lockkeeper beside other lock libraries on Redis, and beside
// the raw commands of the same clients. From the root of the repository:
//
//	go run ./lab/bench [-quick] [-run S1,S3] [-systems A,B] [-reps N] [-json FILE] [-md FILE]
//
// The systems take turns in each scenario. Each measurement has a redis-server of its
// own, on a free port, and clients in processes of their own, so that nothing is left
// over from the one before. Requests are what the server counts; what a lock protects
// is counted as well, and must be exact: the exit code is 1 when it is not. The report
// ends with what Lockkeeper is to reach against the best of the others. It takes about
// eleven minutes, with -quick two to three.
//
//	S1      a free lock, one goroutine
//	S1try   a failed try, one goroutine
//	S2      free locks, 64 and 512 goroutines
//	S3      one lock, 64 goroutines of a process
//	S4      one lock, 8 processes of 4 goroutines
//	S4w     one lock, 8, 50 and 200 waiting clients
//	S5      10,000 locks held for 30 s; S5busy: on a busy machine
//	S6      the holder is killed; S6keys: beside 10,000 other keys
//	S7      the holder is stopped for twice the TTL, and continued
//	S8      Redis stands still while a free lock is asked for
//
// The files sys_*.go have one library each, scen_*.go what the coordinator does, and
// work_*.go what its workers do: the same program, started again. It needs Linux.
//
// Besides, BenchmarkUncontended is a free lock beside the raw commands as a Go
// benchmark, for those who change the library:
//
//	make bench
package main
