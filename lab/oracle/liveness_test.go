package oracle

import (
	"testing"
	"time"
)

func waited(who string, from, to float64) Wait {
	return Wait{Lock: "L", Who: who, Call: 3, From: ms(from), To: ms(to), Served: true}
}

// All is healed at 100 ms, waits should be over within 50 ms, and the end is at 1 s.
func TestLiveness(t *testing.T) {
	ever := func(from float64) Wait {
		return Wait{Lock: "L", Who: "e", From: ms(from), To: Never}
	}
	left := waited("a", 90, 160)
	left.Served = false
	for name, c := range map[string]struct {
		waits  []Wait
		healed Time
		end    Time
		want   []broken
	}{
		"served too late":                {[]Wait{waited("a", 90, 151)}, ms(100), ms(1000), []broken{{"L", ms(150), "served at 0.151000 s, 1ms too late"}}},
		"by a nanosecond":                {[]Wait{waited("a", 90, 150.000001)}, ms(100), ms(1000), []broken{{"L", ms(150), "1ns too late"}}},
		"left too late":                  {[]Wait{left}, ms(100), ms(1000), []broken{{"L", ms(150), "was over at 0.160000 s, 10ms too late"}}},
		"stranded":                       {[]Wait{ever(0)}, ms(100), ms(1000), []broken{{"L", ms(150), "still waits at the end, 850ms too late"}}},
		"stranded later":                 {[]Wait{ever(700)}, ms(100), ms(1000), []broken{{"L", ms(750), "250ms too late"}}},
		"began later, served late":       {[]Wait{waited("a", 300, 351)}, ms(100), ms(1000), []broken{{"L", ms(350), "1ms too late"}}},
		"over after the end":             {[]Wait{waited("a", 300, 2000)}, ms(100), ms(1000), []broken{{"L", ms(350), "still waits at the end"}}},
		"never ill":                      {[]Wait{waited("a", 10, 61)}, 0, ms(1000), []broken{{"L", ms(60), ""}}},
		"the second of two":              {[]Wait{waited("a", 10, 60), waited("b", 10, 151)}, ms(100), ms(1000), []broken{{"L", ms(150), "b call 3"}}},
		"good: none":                     {nil, ms(100), ms(1000), nil},
		"good: at the last instant":      {[]Wait{waited("a", 0, 150), waited("a", 120, 170)}, ms(100), ms(1000), nil},
		"good: long, but while ill":      {[]Wait{waited("a", 0, 99)}, ms(100), ms(1000), nil},
		"good: the end came too soon":    {[]Wait{ever(960), ever(950)}, ms(100), ms(1000), nil},
		"good: healed too late to judge": {[]Wait{ever(0)}, ms(950), ms(1000), nil},
		"good: never healed":             {[]Wait{ever(0), waited("a", 0, 900)}, Never, ms(1000), nil},
		"good: no time at all":           {[]Wait{waited("a", 100, 100)}, ms(100), ms(1000), nil},
	} {
		t.Run(name, func(t *testing.T) {
			expect(t, "O5", Liveness(c.waits, c.healed, 50*time.Millisecond, c.end), c.want...)
		})
	}
}
