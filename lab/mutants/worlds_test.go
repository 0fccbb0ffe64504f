package main

import (
	"os"
	"strconv"
	"testing"

	"github.com/lockkeeper/lockkeeper/lab/sim"
)

// TestWorlds is a killer: it runs LOCKKEEPER_WORLDS worlds of the simulation, or until
// enough of them have shown something, and says for each oracle where it spoke first.
func TestWorlds(t *testing.T) {
	worlds, enough := 30, 60
	if text := os.Getenv("LOCKKEEPER_WORLDS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("LOCKKEEPER_WORLDS: %v", err)
		}
		worlds = n
	}
	spoke := make(map[string]bool)
	for seed := uint64(0); seed < uint64(worlds) && enough > 0; seed++ {
		violations := sim.Run(seed).Violations
		if len(violations) > 0 {
			enough--
		}
		for _, v := range violations {
			if !spoke[v.Oracle] {
				spoke[v.Oracle] = true
				t.Errorf("seed %d: %s %s", seed, v.Oracle, v.Text)
			}
		}
	}
}
