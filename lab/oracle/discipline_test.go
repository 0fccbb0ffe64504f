package oracle

import "testing"

func proof(learned, until float64) Proof { return Proof{Learned: ms(learned), Until: ms(until)} }

func proven(fence uint64, from, to float64, proofs ...Proof) Hold {
	h := fenced("L", "a", fence, from, to)
	h.Proofs = proofs
	return h
}

// stepAt is a step of the turn with a fence.
func stepAt(fence uint64, at float64) Step {
	return Step{Lock: "L", Who: "a", Owner: "a.1", Fence: fence, At: ms(at)}
}

func TestDiscipline(t *testing.T) {
	forEver := proven(1, 1, 0, proof(1, 10))
	forEver.To = Never
	foreign := stepAt(1, 5)
	foreign.Owner = "b.1"
	elsewhere := stepAt(1, 5)
	elsewhere.Lock = "M"
	short := proven(1, 1, 10, proof(1, 10))
	for name, c := range map[string]struct {
		holds []Hold
		steps []Step
		want  []broken
	}{
		"a step after the deadline":      {[]Hold{short}, []Step{stepAt(1, 11)}, []broken{{"L", ms(11), "1ms after what its proofs carry"}}},
		"a step after the release":       {[]Hold{proven(1, 1, 5, proof(1, 10))}, []Step{stepAt(1, 6)}, []broken{{"L", ms(6), "1ms after belief has ended, at 0.005000 s"}}},
		"a step before the grant":        {[]Hold{short}, []Step{stepAt(1, 0.5)}, []broken{{"L", ms(0.5), "before belief begins"}}},
		"a step without a hold":          {nil, []Step{stepAt(1, 5)}, []broken{{"L", ms(5), "without a hold"}}},
		"under another's hold":           {[]Hold{short}, []Step{foreign}, []broken{{"L", ms(5), "without a hold"}}},
		"under a hold of another lock":   {[]Hold{short}, []Step{elsewhere}, []broken{{"M", ms(5), "without a hold"}}},
		"with an old fence":              {[]Hold{proven(1, 1, 3, proof(1, 10)), proven(2, 3, 8, proof(1, 10))}, []Step{stepAt(1, 5)}, []broken{{"L", ms(5), "after belief has ended"}}},
		"by a renewal that was too late": {[]Hold{proven(1, 1, 10, proof(1, 10), proof(11, 21))}, []Step{stepAt(1, 12)}, []broken{{"L", ms(12), "2ms after what its proofs carry"}}},
		"belief to the reply's time":     {[]Hold{proven(1, 1, 11, proof(1, 10))}, nil, []broken{{"L", ms(10), "carried to 0.010000 s only: 1ms too long"}}},
		"belief renewed too late":        {[]Hold{proven(1, 1, 21, proof(1, 10), proof(10.5, 21))}, nil, []broken{{"L", ms(10), "11ms too long"}}},
		"belief without end":             {[]Hold{forEver}, nil, []broken{{"L", ms(10), "without end too long"}}},
		"belief without a proof":         {[]Hold{proven(1, 1, 10)}, []Step{stepAt(1, 2)}, []broken{{"L", ms(1), "no proof that was in time"}, {"L", ms(2), "without a proof"}}},
		"a grant that was too late":      {[]Hold{proven(1, 11, 12, proof(11, 10))}, nil, []broken{{"L", ms(11), "no proof that was in time"}}},
		"before the proof is there":      {[]Hold{proven(1, 1, 10, proof(2, 10))}, []Step{stepAt(1, 1.5)}, []broken{{"L", ms(1), "begins 1ms before its proof"}, {"L", ms(1.5), "500µs before belief begins"}}},
		"a turn that is passed on too late": {[]Hold{short, proven(2, 10, 14, proof(1, 10))}, []Step{stepAt(2, 12)},
			[]broken{{"L", ms(10), "4ms too long"}, {"L", ms(12), "2ms after what its proofs carry"}}},
		"good: none":                   {nil, nil, nil},
		"good: inside":                 {[]Hold{short}, []Step{stepAt(1, 1), stepAt(1, 5), stepAt(1, 10)}, nil},
		"good: renewed in time":        {[]Hold{proven(1, 1, 30, proof(1, 10), proof(10, 20), proof(20, 30))}, []Step{stepAt(1, 9), stepAt(1, 19), stepAt(1, 30)}, nil},
		"good: renewals out of order":  {[]Hold{proven(1, 1, 20, proof(1, 10), proof(6, 20), proof(7, 15))}, []Step{stepAt(1, 19)}, nil},
		"good: turns of one owner":     {[]Hold{proven(1, 1, 5, proof(1, 10)), proven(2, 5, 8, proof(1, 10)), proven(3, 8, 10, proof(1, 10))}, []Step{stepAt(1, 4), stepAt(2, 5), stepAt(2, 7), stepAt(3, 9)}, nil},
		"good: steps not in order":     {[]Hold{proven(2, 5, 8, proof(1, 10)), proven(1, 1, 5, proof(1, 10))}, []Step{stepAt(2, 7), stepAt(1, 4)}, nil},
		"good: over when it was there": {[]Hold{proven(1, 11, 10, proof(11, 10))}, nil, nil},
		"good: shorter than proven":    {[]Hold{proven(1, 1, 2, proof(1, 10))}, []Step{stepAt(1, 2)}, nil},
	} {
		t.Run(name, func(t *testing.T) { expect(t, "O8", Discipline(c.holds, c.steps), c.want...) })
	}
}
