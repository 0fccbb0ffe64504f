// Command mutants plants known bugs, one after the other, and sees to it that each is
// caught: a test that has never failed proves little. From the root of the repository:
//
//	go run ./lab/mutants [-run RE] [-fast] [-v] [-list] [-lanes N]
//
// A mutant is an exact replacement of text in one file. It is planted in a copy of the
// working tree, so that nothing of it can ever get into what is built, and it is named with
// the tests that must fail then, its killers, and with what each has to say: a build that
// fails, a test that hangs, or another message is not a kill but a mistake in the
// catalogue. So is a killer that fails on the tree as it is, or that does not run there. A
// text that is not in its file any more, or is there twice, is told before anything runs.
//
// The last line is
//
//	mutants: planted=N killed=N survived=N errors=N seconds=N
//
// and the exit code is 1 unless all were killed.
package main
