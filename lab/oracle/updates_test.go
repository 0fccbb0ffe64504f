package oracle

import "testing"

func wrote(resource, who string, epoch, base, value int64) Write {
	return Write{Resource: resource, Who: who, Fence: uint64(epoch) * 10, Epoch: epoch, Base: base, Value: value}
}

func TestUpdates(t *testing.T) {
	final := func(values ...int64) map[string]int64 {
		m := map[string]int64{}
		for i, v := range values {
			m[string(rune('r'+i))] = v
		}
		return m
	}
	for name, c := range map[string]struct {
		writes []Write
		final  map[string]int64
		want   []broken
	}{
		"lost update": {[]Write{wrote("r", "a", 1, 0, 1), wrote("r", "b", 2, 0, 1)}, final(1),
			[]broken{{"r", 0, "computed from 0 when r was 1, set by a (fence 10, epoch 1)"}}},
		"lost between others": {[]Write{wrote("r", "a", 1, 0, 1), wrote("s", "b", 1, 0, 1), wrote("r", "c", 2, 0, 7)}, final(7, 1),
			[]broken{{"r", 0, "commit 3, of c"}}},
		"from a value that never was": {[]Write{wrote("r", "a", 1, 5, 6)}, final(6), []broken{{"r", 0, "was 0, as it began"}}},
		"an old claim":                {[]Write{wrote("r", "b", 2, 0, 1), wrote("r", "a", 1, 1, 2)}, final(2), []broken{{"r", 0, "of an old claim"}}},
		"an old claim, twice":         {[]Write{wrote("r", "b", 3, 0, 1), wrote("r", "a", 1, 1, 2), wrote("r", "a", 2, 2, 3)}, final(3), []broken{{"r", 0, "commit 2"}, {"r", 0, "commit 3"}}},
		"an old claim behind one without": {[]Write{wrote("r", "b", 2, 0, 1), wrote("r", "c", 0, 1, 2), wrote("r", "a", 1, 2, 3)}, final(3),
			[]broken{{"r", 0, "of an old claim"}}},
		"the end is another":         {[]Write{wrote("r", "a", 1, 0, 1)}, final(2), []broken{{"r", 0, "r is 2 at the end"}}},
		"the end is not there":       {[]Write{wrote("r", "a", 1, 0, 1)}, final(), []broken{{"r", 0, "r is 0 at the end"}}},
		"nobody wrote what is there": {nil, final(0, 4), []broken{{"s", 0, "nobody has written"}}},
		"a commit that is told twice": {[]Write{wrote("r", "a", 1, 0, 1), wrote("r", "a", 1, 0, 1)}, final(1),
			[]broken{{"r", 0, "computed from 0"}}},
		"good: none":                      {nil, nil, nil},
		"good: one after another":         {[]Write{wrote("r", "a", 1, 0, 1), wrote("r", "a", 1, 1, 2), wrote("r", "b", 2, 2, 3)}, final(3), nil},
		"good: resources apart":           {[]Write{wrote("r", "a", 9, 0, 1), wrote("s", "b", 1, 0, 5), wrote("r", "a", 9, 1, 2), wrote("s", "b", 2, 5, 3)}, final(2, 3), nil},
		"good: back to the same value":    {[]Write{wrote("r", "a", 1, 0, 1), wrote("r", "b", 2, 1, 0), wrote("r", "c", 3, 0, 1)}, final(1), nil},
		"good: fences go back":            {[]Write{{"r", "a", 90, 1, 0, 1}, {"r", "b", 10, 2, 1, 2}}, final(2), nil},
		"good: without claims":            {[]Write{wrote("r", "a", 0, 0, 1), wrote("r", "b", 0, 1, 2)}, final(2), nil},
		"good: never written, there as 0": {nil, final(0), nil},
	} {
		t.Run(name, func(t *testing.T) { expect(t, "O2", Updates(c.writes, c.final), c.want...) })
	}
}
