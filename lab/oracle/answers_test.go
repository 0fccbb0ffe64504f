package oracle

import "testing"

func said(at float64, said string, allowed ...string) Answer {
	return Answer{Lock: "L", Who: "a", At: ms(at), Said: said, Allowed: allowed}
}

func TestAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		answers []Answer
		want    []broken
	}{
		"held, but Redis was away":      {[]Answer{said(1, "held", "unavailable")}, []broken{{"L", ms(1), `told "held" about L at 0.001000 s: it may have been unavailable`}}},
		"away, but it was held":         {[]Answer{said(1, "unavailable", "held")}, []broken{{"L", ms(1), "may have been held"}}},
		"granted, but closed":           {[]Answer{said(1, "granted", "closed", "unavailable")}, []broken{{"L", ms(1), "closed or unavailable"}}},
		"nothing is right":              {[]Answer{said(1, "granted")}, []broken{{"L", ms(1), "nothing to say"}}},
		"a part of a word":              {[]Answer{said(1, "lo", "lost")}, []broken{{"L", ms(1), ""}}},
		"no word":                       {[]Answer{said(1, "", "lost")}, []broken{{"L", ms(1), `told ""`}}},
		"the second and the last":       {[]Answer{said(1, "held", "held"), said(2, "full", "held"), said(3, "held", "held"), said(4, "lost", "held")}, []broken{{"L", ms(2), ""}, {"L", ms(4), ""}}},
		"good: none":                    {nil, nil},
		"good: the one":                 {[]Answer{said(1, "granted", "granted")}, nil},
		"good: the last of several":     {[]Answer{said(1, "lost", "granted", "held", "lost")}, nil},
		"good: an error's text":         {[]Answer{said(1, "WRONGTYPE: no", "WRONGTYPE: no")}, nil},
		"good: different, each right":   {[]Answer{said(1, "held", "held", "full"), said(1, "full", "held", "full")}, nil},
		"good: the same at other times": {[]Answer{said(1, "held", "held"), said(2, "unavailable", "unavailable")}, nil},
	} {
		t.Run(name, func(t *testing.T) { expect(t, "O7", Answers(c.answers), c.want...) })
	}
}

func TestLosses(t *testing.T) {
	lost := func(at float64, proofs ...Proof) Hold {
		h := has("L", "a", 1, 0)
		h.To, h.Early, h.Proofs = ms(at), ms(at), proofs
		return h
	}
	kept := has("L", "b", 1, 10)
	kept.Proofs = []Proof{proof(1, 10)}
	for name, c := range map[string]struct {
		holds []Hold
		want  []broken
	}{
		"before the deadline":          {[]Hold{lost(5, proof(1, 10))}, []broken{{"L", ms(5), "5ms too early"}}},
		"by a nanosecond":              {[]Hold{lost(9.999999, proof(1, 10))}, []broken{{"L", ms(9.999999), "1ns too early"}}},
		"after a renewal":              {[]Hold{lost(12, proof(1, 10), proof(5, 15))}, []broken{{"L", ms(12), "3ms too early"}}},
		"nobody knows by how much":     {[]Hold{lost(5)}, []broken{{"L", ms(5), "was told so at 0.005000 s"}}},
		"the second of two":            {[]Hold{kept, lost(5, proof(1, 10))}, []broken{{"L", ms(5), "a (owner"}}},
		"a shorter proof came later":   {[]Hold{lost(12, proof(1, 15), proof(5, 11))}, []broken{{"L", ms(12), "3ms too early"}}},
		"good: none":                   {nil, nil},
		"good: kept":                   {[]Hold{kept, kept}, nil},
		"good: at the deadline":        {[]Hold{lost(10, proof(1, 10))}, nil},
		"good: after the deadline":     {[]Hold{lost(11, proof(1, 10))}, nil},
		"good: a renewal was too late": {[]Hold{lost(12, proof(1, 10), proof(11, 21))}, nil},
		"good: its grant was too late": {[]Hold{lost(12, proof(11, 10))}, nil},
	} {
		t.Run(name, func(t *testing.T) { expect(t, "O7", Losses(c.holds), c.want...) })
	}
}
