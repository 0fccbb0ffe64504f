package oracle

import "testing"

func fenced(lock, who string, fence uint64, from, to float64) Hold {
	h := has(lock, who, from, to)
	h.Fence = fence
	return h
}

func TestFences(t *testing.T) {
	for name, c := range map[string]struct {
		holds []Hold
		want  []broken
	}{
		"the same twice":    {[]Hold{fenced("L", "a", 7, 0, 1), fenced("L", "b", 7, 2, 3)}, []broken{{"L", ms(2), "1 too low"}}},
		"back":              {[]Hold{fenced("L", "a", 7, 0, 1), fenced("L", "b", 5, 2, 3)}, []broken{{"L", ms(2), "3 too low"}}},
		"back to the first": {[]Hold{fenced("L", "a", 1, 0, 1), fenced("L", "b", 2, 2, 3), fenced("L", "c", 1, 4, 5)}, []broken{{"L", ms(4), "after b"}}},
		"below the highest, above the last": {[]Hold{fenced("L", "a", 9, 0, 1), fenced("L", "b", 3, 2, 3), fenced("L", "c", 4, 4, 5)},
			[]broken{{"L", ms(2), "after a"}, {"L", ms(4), "after a"}}},
		"none":                                       {[]Hold{fenced("L", "a", 0, 0, 1)}, []broken{{"L", 0, "has no fence"}}},
		"none in the middle":                         {[]Hold{fenced("L", "a", 1, 0, 1), fenced("L", "b", 0, 2, 3), fenced("L", "c", 2, 4, 5)}, []broken{{"L", ms(2), "has no fence"}}},
		"the same at one instant":                    {[]Hold{fenced("L", "a", 7, 4, 4), fenced("L", "b", 7, 4, 4)}, []broken{{"L", ms(4), "1 too low"}}},
		"told in the order of time":                  {[]Hold{fenced("L", "b", 1, 2, 3), fenced("L", "a", 2, 0, 1)}, []broken{{"L", ms(2), "b (owner"}}},
		"on the second lock":                         {[]Hold{fenced("L", "a", 9, 0, 1), fenced("M", "a", 5, 2, 3), fenced("M", "b", 5, 4, 5)}, []broken{{"M", ms(4), ""}}},
		"two turns of an owner":                      {[]Hold{fenced("L", "a", 9, 0, 1), fenced("L", "a", 9, 1, 2)}, []broken{{"L", ms(1), ""}}},
		"good: none":                                 {nil, nil},
		"good: they grow":                            {[]Hold{fenced("L", "a", 1, 0, 1), fenced("L", "b", 2, 2, 3), fenced("L", "a", 1<<63, 4, 5)}, nil},
		"good: not in order":                         {[]Hold{fenced("L", "a", 3, 4, 5), fenced("L", "b", 1, 0, 1), fenced("L", "c", 2, 2, 3)}, nil},
		"good: other locks":                          {[]Hold{fenced("L", "a", 7, 0, 1), fenced("M", "b", 7, 2, 3), fenced("K", "b", 1, 4, 5)}, nil},
		"good: at one instant":                       {[]Hold{fenced("L", "a", 9, 4, 4), fenced("L", "b", 8, 4, 4), fenced("L", "c", 7, 4, 4)}, nil},
		"good: one that came too late is given back": {[]Hold{fenced("L", "a", 2, 0, 9), fenced("L", "b", 1, 5, 4), fenced("L", "c", 3, 9, 10)}, nil},
	} {
		t.Run(name, func(t *testing.T) { expect(t, "O3", Fences(c.holds), c.want...) })
	}
}
