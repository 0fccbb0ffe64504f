package oracle

import (
	"slices"
	"testing"
)

func has(lock, who string, from, to float64) Hold {
	return Hold{Lock: lock, Who: who, Owner: who + ".1", From: ms(from), To: ms(to)}
}

func TestOverlaps(t *testing.T) {
	forEver := has("L", "a", 0, 0)
	forEver.To = Never
	unused := has("L", "b", 5, 4)
	for name, c := range map[string]struct {
		holds []Hold
		want  []broken
	}{
		"two at a time":                     {[]Hold{has("L", "a", 0, 10), has("L", "b", 9, 20)}, []broken{{"L", ms(9), "both for 1ms"}}},
		"by a nanosecond":                   {[]Hold{has("L", "a", 0, 10), has("L", "b", 9.999999, 20)}, []broken{{"L", ms(9.999999), "both for 1ns"}}},
		"one inside of the other":           {[]Hold{has("L", "a", 0, 10), has("L", "b", 2, 3)}, []broken{{"L", ms(2), "both for 1ms"}}},
		"at the same instant":               {[]Hold{has("L", "a", 0, 10), has("L", "b", 0, 10)}, []broken{{"L", 0, "both for 10ms"}}},
		"not told in order":                 {[]Hold{has("L", "b", 9, 20), has("L", "a", 0, 10)}, []broken{{"L", ms(9), "b (owner b.1"}}},
		"two calls of one process":          {[]Hold{has("L", "a", 0, 10), has("L", "a", 5, 8)}, []broken{{"L", ms(5), ""}}},
		"with one long before":              {[]Hold{has("L", "a", 0, 30), has("L", "b", 5, 6), has("L", "c", 20, 21)}, []broken{{"L", ms(5), ""}, {"L", ms(20), "while a"}}},
		"with the second of two that touch": {[]Hold{has("L", "a", 0, 10), has("L", "b", 10, 30), has("L", "c", 20, 25)}, []broken{{"L", ms(20), "while b"}}},
		"on two locks":                      {[]Hold{has("M", "a", 0, 9), has("L", "a", 0, 9), has("M", "b", 8, 9), has("L", "b", 7, 9)}, []broken{{"L", ms(7), ""}, {"M", ms(8), ""}}},
		"one that never ended":              {[]Hold{forEver, has("L", "b", 9, 20)}, []broken{{"L", ms(9), "both for 11ms"}}},
		"two that never ended":              {[]Hold{forEver, forEver}, []broken{{"L", 0, "both for without end"}}},
		"an instant inside":                 {[]Hold{has("L", "a", 0, 10), has("L", "b", 5, 5)}, []broken{{"L", ms(5), "both for 0s"}}},
		"good: none":                        {nil, nil},
		"good: one":                         {[]Hold{forEver}, nil},
		"good: they touch":                  {[]Hold{has("L", "a", 0, 10), has("L", "b", 10, 20), has("L", "a", 20, 30)}, nil},
		"good: touch, not in order":         {[]Hold{has("L", "b", 10, 20), has("L", "a", 0, 10)}, nil},
		"good: other locks":                 {[]Hold{has("L", "a", 0, 10), has("M", "b", 5, 20)}, nil},
		"good: instants where":              {[]Hold{has("L", "a", 0, 10), has("L", "b", 10, 10), has("L", "c", 10, 10), has("L", "d", 10, 12)}, nil},
		"good: learned when over":           {[]Hold{has("L", "a", 0, 10), unused}, nil},
		"good: a name that is a prefix":     {[]Hold{has("L", "a", 0, 10), has("LL", "b", 0, 10)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			before := slices.Clone(c.holds)
			expect(t, "O1", Overlaps(c.holds), c.want...)
			if !slices.EqualFunc(c.holds, before, func(a, b Hold) bool { return a.Who == b.Who && a.From == b.From }) {
				t.Error("the caller's holds were moved")
			}
		})
	}
}
