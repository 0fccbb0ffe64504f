package sim

import (
	"math/rand/v2"
	"testing"
)

// FuzzWorlds: whatever the processes do and when, in whatever order requests, answers and
// messages arrive, and whatever faults come between, no promise is broken.
func FuzzWorlds(f *testing.F) {
	r := rand.New(rand.NewPCG(3, 4))
	for seed := range uint64(20) {
		data := make([]byte, 400)
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		f.Add(seed, data)
	}
	f.Fuzz(func(t *testing.T, seed uint64, data []byte) {
		v := variant{seed: seed, data: append([]byte{}, data[:min(len(data), 2000)]...)}
		for _, found := range run(v).Violations {
			t.Errorf("%s %s", found.Oracle, found.Text)
		}
	})
}
