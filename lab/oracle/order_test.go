package oracle

import "testing"

// stood is a place since an instant at which it was also made, and which was granted.
func stood(who string, since, granted float64) Place {
	return Place{Lock: "L", Who: who, Owner: who + ".1", Since: ms(since), Joined: ms(since), Granted: ms(granted), Gone: Never}
}

func TestOrder(t *testing.T) {
	ever := stood("e", 1, 0)
	ever.Granted = Never
	died := ever
	died.Gone = ms(10)
	deaf := ever
	deaf.Deaf = true
	other := stood("o", 2, 20)
	other.Lock = "M"
	back := stood("b", 1, 30) // its line was lost, and it has come back at 15
	back.Joined = ms(15)
	for name, c := range map[string]struct {
		places []Place
		most   int
		want   []broken
	}{
		"one passes":              {[]Place{stood("a", 1, 20), stood("b", 2, 10)}, 0, []broken{{"L", ms(10), "a (owner a.1) stands in the line of L since 0.001000 s"}}},
		"one passes who is first": {[]Place{ever, stood("b", 2, 10)}, 0, []broken{{"L", ms(10), "b (owner b.1), since 0.002000 s"}}},
		"more than may":           {[]Place{ever, stood("b", 2, 10), stood("c", 3, 11), stood("d", 4, 12)}, 2, []broken{{"L", ms(12), "3 that came later were served before it, at most 2"}}},
		"two are passed":          {[]Place{stood("a", 1, 20), stood("b", 2, 21), stood("c", 3, 10)}, 0, []broken{{"L", ms(10), "a (owner"}, {"L", ms(10), "b (owner"}}},
		"before it was gone":      {[]Place{died, stood("b", 2, 9.9)}, 0, []broken{{"L", ms(9.9), ""}}},
		"after it came back":      {[]Place{back, stood("c", 2, 16)}, 0, []broken{{"L", ms(16), ""}}},
		"joined while it waits":   {[]Place{stood("a", 1, 20), stood("b", 9, 10)}, 0, []broken{{"L", ms(10), ""}}},
		"not told in order":       {[]Place{stood("c", 3, 10), stood("b", 2, 30), stood("a", 1, 5)}, 0, []broken{{"L", ms(10), "b (owner"}}},
		"beside another lock":     {[]Place{other, ever, stood("b", 2, 10)}, 0, []broken{{"L", ms(10), ""}}},
		"good: none":              {nil, 0, nil},
		"good: in order":          {[]Place{stood("a", 1, 10), stood("b", 2, 11), stood("c", 3, 12)}, 0, nil},
		"good: as many as may":    {[]Place{ever, stood("b", 2, 10), stood("c", 3, 11)}, 2, nil},
		"good: it had died":       {[]Place{died, stood("b", 2, 10), stood("c", 3, 11)}, 0, nil},
		"good: it was deaf":       {[]Place{deaf, stood("b", 2, 10)}, 0, nil},
		"good: another lock":      {[]Place{ever, other}, 0, nil},
		"good: it was away":       {[]Place{back, stood("c", 2, 10), stood("d", 3, 15)}, 0, nil},
		"good: of one instant":    {[]Place{stood("a", 1, 20), stood("b", 1, 10)}, 0, nil},
		"good: served at once":    {[]Place{stood("a", 1, 10), stood("b", 2, 10)}, 0, nil},
		"good: gone as it came":   {[]Place{{Lock: "L", Who: "a", Since: 1, Joined: ms(5), Gone: ms(5), Granted: Never}, stood("b", 2, 10)}, 0, nil},
	} {
		t.Run(name, func(t *testing.T) { expect(t, "O6", Order(c.places, c.most), c.want...) })
	}
}
