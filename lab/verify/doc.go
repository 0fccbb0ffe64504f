// Command verify runs everything that checks Lockkeeper beyond its tests, within a bound
// of time, and prints what ran. From the root of the repository:
//
//	go run ./lab/verify [-short] [-seed N] [-within 80m] [-only RE] [-quick N]
//
// Two lanes run beside each other: one with the simulations, the planted bugs and the fuzz
// functions, and one with the chaos on real processes and whole clients under a fake clock.
// A layer that finds a violation, or that has not done what it is there for (targets.go),
// fails the run; what it says is printed at once, with how to see it again.
//
// The report is Markdown, and goes into docs/VERIFICATION.md.
package main
