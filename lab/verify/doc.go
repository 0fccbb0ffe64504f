// Command verify runs everything that checks Lockkeeper beyond its tests, within a bound
// of time, and prints what ran. From the root of the repository:
//
//	go run ./lab/verify [-short] [-seed N] [-within 80m] [-only RE] [-quick N]
//
// Two lanes run beside each other: the simulation and then the planted bugs; and the
// chaos on real processes, then whole clients under a fake clock, then the fuzz functions.
// A layer that finds a violation, or that has not done what it is there for (targets.go),
// fails the run; what it says is printed at once, with how to see it again.
//
// The report is Markdown, and goes into docs/VERIFICATION.md.
package main
