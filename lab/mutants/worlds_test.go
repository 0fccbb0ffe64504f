package main

import (
	"os"
	"strconv"
	"testing"

	"github.com/lockkeeper/lockkeeper/lab/sim"
)

// TestWorlds is a killer: it runs LOCKKEEPER_WORLDS worlds of the simulation, and says for
// each oracle where it spoke first. It ends when the one that is waited for has spoken.
func TestWorlds(t *testing.T) {
	worlds := 30
	if text := os.Getenv("LOCKKEEPER_WORLDS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("LOCKKEEPER_WORLDS: %v", err)
		}
		worlds = n
	}
	spoke := make(map[string]bool)
	for seed := uint64(0); seed < uint64(worlds) && !spoke[os.Getenv(waitedFor)]; seed++ {
		for _, v := range sim.Run(seed).Violations {
			if !spoke[v.Oracle] {
				spoke[v.Oracle] = true
				t.Errorf("seed %d: %s %s", seed, v.Oracle, v.Text)
			}
		}
	}
}
