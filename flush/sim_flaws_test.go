package flush

import "testing"

// A simulator that has never found anything proves nothing: each of these mistakes, made
// in the fakes and not in the engine, has to be found within a number of schedules.
func TestSimulationFindsFlaws(t *testing.T) {
	for _, f := range []flaw{
		popBeforeWrite, ackWithoutCompare, noFence, fenceBefore, replyBeforeCommit, perKeyCounter,
		holdWithoutCompare, advanceBeforeCommit, intakeNotAtomic, markNotAtomic,
	} {
		t.Run(string(f), func(t *testing.T) {
			w := simulate(t, 1, 10_000, f, make(census))
			if w == nil {
				t.Fatal("not found")
			}
			t.Logf("seed %d: %s", w.seed, w.failure)
		})
	}
}
