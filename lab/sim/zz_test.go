package sim
import ("testing";"os")
func TestZZ(t *testing.T) {
	for _, s := range []uint64{110202} {
		f, ok := look(variant{seed: s}, "")
		if !ok { t.Log(s, "nothing"); continue }
		t.Log(f.world.TTLs, f.world.InModel, f.world.Terms)
		shrink(f).print(os.Stdout)
	}
}
