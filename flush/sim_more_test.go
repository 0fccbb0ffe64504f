package flush

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
)

// Schedules of other shapes than those of TestSimulation.

// bubbles runs a schedule for each of so many seeds.
func bubbles(t *testing.T, n int, run func(w *world)) {
	t.Helper()
	first := uint64(fromEnv("LOCKKEEPER_SIM_SEED", 1))
	for seed := range uint64(n) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(first+seed, "")
			run(w)
			for _, s := range append(w.slots, w.operator) {
				w.crash(s)
			}
			if w.failure != "" {
				t.Fatalf("%s", w)
			}
		})
		if t.Failed() {
			return
		}
	}
}

// A pass that meets no error, while nobody writes, leaves nothing, in whatever order the
// requests of reading ahead and of writing come.
func TestPassLeavesNothing(t *testing.T) {
	bubbles(t, 500, func(w *world) {
		m := &simMappings[2]
		for id := range 1 + w.rng.IntN(12) {
			w.addTruth(m, id+10)
			tr := w.truths[len(w.truths)-1]
			tr.unmarked, tr.bySets = false, w.rng.IntN(2) == 0
			w.write(tr, "SET", fmt.Sprint(id))
		}
		s, ended, failed := w.slots[0], false, error(nil)
		w.fences++
		s.fence = w.fences
		w.start(s, func(ctx, work context.Context) error {
			session, err := s.engine.Begin(work, simHolder{s, s.fence})
			if err == nil {
				_, err = session.Pass(work)
			}
			ended, failed = true, err
			return err
		})
		for !ended && w.failure == "" {
			ready := w.ready()
			if len(ready) == 0 {
				w.fail("nothing goes on")
				return
			}
			w.step(ready[w.rng.IntN(len(ready))])
		}
		if failed != nil || !w.idle() {
			w.fail("after a pass: error %v, idle %v", failed, w.idle())
		}
	})
}

// A stream of more entries than a batch takes comes through whole, with faults.
func TestSimulationOfLongStream(t *testing.T) {
	n := 20
	if testing.Short() {
		n = 3
	}
	bubbles(t, n, func(w *world) {
		w.truths, w.byKey = nil, make(map[string]*truth)
		w.addTruth(&simMappings[4], 1)
		w.addTruth(&simMappings[0], 1)
		w.truths[0].bySets, w.truths[0].mixed = false, false
		for range mostEntries + w.rng.IntN(2*mostEntries) {
			w.counter++
			value := fmt.Sprint(w.counter)
			if w.rng.IntN(500) == 0 {
				value = "x"
			}
			_, _ = w.redis.command("XADD", "log:1", w.nextID(), "n", value)
			w.newState("log:1", false)
		}
		w.write(w.truths[0], "XADD", fmt.Sprintf("%d-5", w.counter), "n", "1")
		w.run()
	})
}

// A mapping of which too many keys can't be written is paused, and not parked as a whole;
// when the values are right, everything is written.
func TestSimulationOfWrongMapping(t *testing.T) {
	bubbles(t, 150, func(w *world) {
		w.truths, w.byKey = nil, make(map[string]*truth)
		m := &simMappings[w.rng.IntN(4)]
		for id := range 25 + w.rng.IntN(30) {
			w.addTruth(m, id+1)
		}
		for _, s := range append(w.slots, w.operator) {
			s.engine.cfg.MaxParked = 0.05
			s.engine.cfg.Batch = 1 + w.rng.IntN(60)
		}
		bad := []string{"x", fmt.Sprint(refusedValue), "no parent"}[w.rng.IntN(3)]
		for _, tr := range w.truths {
			tr.bySets, tr.mixed, tr.unmarked = false, false, false
			w.writeBad(tr, bad)
		}
		w.elect(w.slots[0])
		for range 300 {
			w.goOn()
		}
		if n := w.redis.keys[w.keys.Parked].size(); n > fewParked && w.failure == "" {
			w.fail("%d of %d keys are parked", n, len(w.truths))
		}
		for _, tr := range w.truths {
			w.writeBad(tr, "7")
		}
		if w.failure == "" {
			w.drain()
		}
	})
}

// writeBad writes a value, which may be one that can't be a row.
func (w *world) writeBad(t *truth, value string) {
	parent := []string{}
	switch {
	case value != "no parent":
	case hasParent(t.mapping.Table):
		value, parent = "1", []string{"parent", "9"}
	default:
		value = "x"
	}
	switch {
	case t.mapping.source() == Hashes && value == "7":
		w.write(t, "DEL")
		w.write(t, "HSET", "n", value)
	case t.mapping.source() == Hashes:
		w.write(t, "HSET", append([]string{"n", value}, parent...)...)
	case t.mapping.Source == Sets:
		w.write(t, "DEL")
		w.write(t, "SADD", value)
	default:
		w.write(t, "SET", value)
	}
}

// goOn lets the workers go on, without faults.
func (w *world) goOn() {
	ready := w.ready()
	switch {
	case len(ready) == 0:
		w.sleep(6 * tick)
		if !w.led() {
			w.electAnother()
		}
	default:
		w.step(ready[w.rng.IntN(len(ready))])
	}
}
