package schedule

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the tests need these zones on any machine
)

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	loc, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

// ticks returns the ticks in [from, to).
func ticks(t testing.TB, w When, from, to time.Time) (list []time.Time) {
	t.Helper()
	for at := w.Next(from.Add(-1)); !at.IsZero() && at.Before(to); at = w.Next(at) {
		if len(list) > 0 && !at.After(list[len(list)-1]) {
			t.Fatalf("%s: %s comes after %s", w, at, list[len(list)-1])
		}
		list = append(list, at)
	}
	return list
}

// The table d7 of the research, and what history has besides: gaps and repetitions at midnight,
// across midnight, of half an hour, and of a whole day.
func TestClockChanges(t *testing.T) {
	for _, tt := range []struct {
		zone, expr, from, to string // the days, the last included
		want                 string // local times with their offsets
	}{
		{"America/New_York", "30 2 * * *", "2025-03-08", "2025-03-10", "08 02:30 -0500, 09 03:00 -0400, 10 02:30 -0400"},
		{"America/New_York", "30 1 * * *", "2025-11-01", "2025-11-03", "01 01:30 -0400, 02 01:30 -0400, 03 01:30 -0500"},
		{"America/New_York", "0 2 * * *", "2025-11-02", "2025-11-02", "02 02:00 -0500"},
		{"America/New_York", "0,30 1-3 9 3 *", "2025-03-09", "2025-03-09", "09 01:00 -0500, 09 01:30 -0500, 09 03:00 -0400, 09 03:30 -0400"},
		{"America/New_York", "30 */2 * * *", "2025-03-09", "2025-03-09", "09 00:30 -0500, 09 04:30 -0400, 09 06:30 -0400, 09 08:30 -0400, 09 10:30 -0400, 09 12:30 -0400, 09 14:30 -0400, 09 16:30 -0400, 09 18:30 -0400, 09 20:30 -0400, 09 22:30 -0400"},
		{"Africa/Cairo", "0 0 * * *", "2024-04-25", "2024-04-27", "25 00:00 +0200, 26 01:00 +0300, 27 00:00 +0300"},
		{"Africa/Cairo", "30 23 * * *", "2024-10-31", "2024-11-01", "31 23:30 +0300, 01 23:30 +0200"}, // 23:00 to 24:00 is there twice
		{"Australia/Lord_Howe", "15 2 * * *", "2025-10-04", "2025-10-06", "04 02:15 +1030, 05 02:30 +1100, 06 02:15 +1100"},
		{"Australia/Lord_Howe", "45 1 * * *", "2025-04-05", "2025-04-07", "05 01:45 +1100, 06 01:45 +1100, 07 01:45 +1030"},
		{"Australia/Lord_Howe", "45 * 6 4 *", "2025-04-06", "2025-04-06", "06 00:45 +1100, 06 01:45 +1100, 06 01:45 +1030, 06 02:45 +1030, 06 03:45 +1030, 06 04:45 +1030, 06 05:45 +1030, 06 06:45 +1030, 06 07:45 +1030, 06 08:45 +1030, 06 09:45 +1030, 06 10:45 +1030, 06 11:45 +1030, 06 12:45 +1030, 06 13:45 +1030, 06 14:45 +1030, 06 15:45 +1030, 06 16:45 +1030, 06 17:45 +1030, 06 18:45 +1030, 06 19:45 +1030, 06 20:45 +1030, 06 21:45 +1030, 06 22:45 +1030, 06 23:45 +1030"},
		{"America/Sao_Paulo", "0 0 * * *", "2018-11-03", "2018-11-05", "03 00:00 -0300, 04 01:00 -0200, 05 00:00 -0200"},
		{"America/Sao_Paulo", "30 23 * * *", "2019-02-16", "2019-02-17", "16 23:30 -0200, 17 23:30 -0300"},
		{"America/St_Johns", "30 23 * * *", "2010-11-06", "2010-11-07", "06 23:30 -0230, 07 23:30 -0330"}, // 00:01 becomes 23:01 of the day before
		{"America/St_Johns", "0 0 * * *", "2010-11-06", "2010-11-08", "06 00:00 -0230, 07 00:00 -0230, 08 00:00 -0330"},
		{"Pacific/Apia", "30 2 * * *", "2011-12-29", "2011-12-31", "29 02:30 -1000, 31 02:30 +1400"}, // the 30th was left out
		{"Pacific/Apia", "0 0 30 12 *", "2011-12-01", "2012-12-31", "30 00:00 +1400"},
		{"Europe/Berlin", "@daily", "2025-03-29", "2025-03-31", "29 00:00 +0100, 30 00:00 +0100, 31 00:00 +0200"},
	} {
		t.Run(tt.zone+" "+tt.expr+" "+tt.from, func(t *testing.T) {
			loc := zone(t, tt.zone)
			from, _ := time.ParseInLocation(time.DateOnly, tt.from, loc)
			to, _ := time.ParseInLocation(time.DateOnly, tt.to, loc)
			w := Cron(tt.expr, loc)
			var got []string
			for _, at := range ticks(t, w, from.Add(-time.Hour), to.AddDate(0, 0, 1)) {
				if local := at.Format(time.DateOnly); local >= tt.from && local <= tt.to {
					got = append(got, at.Format("02 15:04 -0700"))
				}
			}
			if got := strings.Join(got, ", "); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
	ny := zone(t, "America/New_York")
	for date, want := range map[int]int{1: 24, 2: 25, 3: 24} { // hourly, where a day has 25 hours
		from := time.Date(2025, 11, date, 0, 0, 0, 0, ny)
		if got := len(ticks(t, Cron("@hourly", ny), from, time.Date(2025, 11, date+1, 0, 0, 0, 0, ny))); got != want {
			t.Errorf("@hourly has %d ticks on 2 November %d, want %d", got, date, want)
		}
	}
}

var zones = []string{
	"America/New_York", "Africa/Cairo", "Australia/Lord_Howe", "America/Sao_Paulo", "America/St_Johns",
	"Pacific/Apia", "Europe/Dublin", "Asia/Tehran", "Africa/Casablanca", "Antarctica/Troll", "Asia/Kathmandu", "UTC",
}

// A fixed local time comes exactly once a local day, in each of 20 years and 12 zones, and each
// time at the time that was asked for, or at the first instant after a gap that has it.
func TestOnceALocalDay(t *testing.T) {
	for _, name := range zones {
		loc := zone(t, name)
		from, to := time.Date(2006, 1, 1, 0, 0, 0, 0, loc), time.Date(2026, 1, 1, 0, 0, 0, 0, loc)
		dates := localDays(from, to)
		for _, clock := range []struct{ h, m int }{{0, 0}, {0, 30}, {1, 30}, {2, 15}, {2, 45}, {23, 30}} {
			w := Cron(fmt.Sprintf("%d %d * * *", clock.m, clock.h), loc)
			count := make(map[string]int)
			for _, at := range ticks(t, w, from, to) {
				count[at.Format(time.DateOnly)]++
				if at.Hour() == clock.h && at.Minute() == clock.m && at.Second() == 0 {
					continue
				}
				before := at.Add(-1)
				_, offset := at.Zone()
				_, was := before.Zone()
				gap := time.Duration(offset-was) * time.Second
				asked := time.Date(at.Year(), at.Month(), at.Day(), clock.h, clock.m, 0, 0, time.UTC)
				reads := time.Date(at.Year(), at.Month(), at.Day(), at.Hour(), at.Minute(), at.Second(), 0, time.UTC)
				if asked.Before(reads.Add(-gap)) || !asked.Before(reads) {
					t.Fatalf("%s %s: %s is not after a gap that has it", name, w, at)
				}
			}
			for _, date := range dates {
				if count[date] != 1 {
					t.Fatalf("%s %s: %d ticks on %s", name, w, count[date], date)
				}
			}
			if len(dates) != len(count) {
				t.Fatalf("%s %s: ticks on %d days of %d", name, w, len(count), len(dates))
			}
		}
	}
}

// localDays returns the dates that there are.
func localDays(from, to time.Time) (dates []string) {
	for at := from; at.Before(to); at = at.Add(6 * time.Hour) {
		if date := at.Format(time.DateOnly); !slices.Contains(dates[max(0, len(dates)-2):], date) {
			dates = append(dates, date)
		}
	}
	return dates
}

// A reference that knows nothing but the calendar: it looks at each minute of real time.
type reference struct {
	min, hour, dom, month, dow map[int]bool
	everyHour, either          bool
}

func (r *reference) fits(year int, month time.Month, date, h, m int) bool {
	weekday := int(time.Date(year, month, date, 0, 0, 0, 0, time.UTC).Weekday())
	d := r.dom[date] && r.dow[weekday]
	if r.either {
		d = r.dom[date] || r.dow[weekday]
	}
	return r.min[m] && r.hour[h] && r.month[int(month)] && d
}

// walk returns the ticks in [from, to), with all that came in the two days before them known.
func (r *reference) walk(from, to time.Time, loc *time.Location) (list []time.Time) {
	type reading struct{ y, mo, d, h, mi int }
	seen := make(map[reading]bool)
	dates := make(map[[3]int]bool)
	for at := from.Add(-72 * time.Hour); at.Before(to.Add(72 * time.Hour)); at = at.Add(time.Minute) {
		l := at.In(loc)
		dates[[3]int{l.Year(), int(l.Month()), l.Day()}] = true
	}
	previous := from.Add(-48 * time.Hour).In(loc)
	for at := previous; at.Before(to); at = at.Add(time.Minute) {
		l := at.In(loc)
		_, offset := l.Zone()
		_, was := previous.Zone()
		hit := false
		if gap := offset - was; gap > 0 && !r.everyHour { // all that a clock would have shown meanwhile
			p := time.Date(previous.Year(), previous.Month(), previous.Day(), previous.Hour(), previous.Minute(), 0, 0, time.UTC)
			for i := 1; i <= gap/60; i++ {
				m := p.Add(time.Duration(i) * time.Minute)
				there := dates[[3]int{m.Year(), int(m.Month()), m.Day()}]
				hit = hit || there && r.fits(m.Year(), m.Month(), m.Day(), m.Hour(), m.Minute())
			}
		}
		now := reading{l.Year(), int(l.Month()), l.Day(), l.Hour(), l.Minute()}
		if r.fits(l.Year(), l.Month(), l.Day(), l.Hour(), l.Minute()) && (r.everyHour || !seen[now]) {
			hit = true
		}
		seen[now] = true
		if hit && !at.Before(from) {
			list = append(list, at)
		}
		previous = l
	}
	return list
}

// randomCron makes an expression together with its reference.
func randomCron(rnd *rand.Rand) (string, *reference) {
	r := &reference{}
	var text [5]string
	star := [5]bool{}
	for i, f := range []struct {
		min, max int
		set      *map[int]bool
	}{{0, 59, &r.min}, {0, 23, &r.hour}, {1, 31, &r.dom}, {1, 12, &r.month}, {0, 6, &r.dow}} {
		*f.set = make(map[int]bool)
		add := func(from, to, step int) {
			for n := from; n <= to; n += step {
				(*f.set)[n] = true
			}
		}
		odds := []int{2, 3, 1, 1, 1}[i]
		if rnd.IntN(1+odds) == 0 {
			star[i] = true
			if text[i] = "*"; rnd.IntN(3) == 0 {
				step := 1 + rnd.IntN(f.max/2)
				text[i] += fmt.Sprintf("/%d", step)
				add(f.min, f.max, step)
			} else {
				add(f.min, f.max, 1)
			}
			continue
		}
		var items []string
		for range 1 + rnd.IntN(3) {
			from := f.min + rnd.IntN(f.max-f.min+1)
			if i == 1 && rnd.IntN(2) == 0 {
				from = rnd.IntN(4) // where clocks are changed
			}
			to := from + rnd.IntN(f.max-from+1)
			switch step := 1 + rnd.IntN(5); rnd.IntN(3) {
			case 0:
				items = append(items, fmt.Sprint(from))
				add(from, from, 1)
			case 1:
				items = append(items, fmt.Sprintf("%d-%d", from, to))
				add(from, to, 1)
			default:
				items = append(items, fmt.Sprintf("%d-%d/%d", from, to, step))
				add(from, to, step)
			}
		}
		text[i] = strings.Join(items, ",")
	}
	r.everyHour, r.either = star[1], !star[2] && !star[4]
	return strings.Join(text[:], " "), r
}

// Against the reference: around changes of the clocks, and at any other time.
func TestCronMatchesAReference(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 7))
	compared := 0
	for n := range 96 {
		loc := zone(t, zones[n%len(zones)])
		expr, r := randomCron(rnd)
		w := Cron(expr, loc)
		if w.(*cron).err != nil {
			continue // 31 February
		}
		from := time.Date(1990+rnd.IntN(45), time.Month(1+rnd.IntN(12)), 1+rnd.IntN(28), 0, 0, 0, 0, time.UTC)
		if _, end := from.In(loc).ZoneBounds(); n%4 > 0 && !end.IsZero() {
			from = end.Add(-time.Duration(rnd.IntN(2*24*60)) * time.Minute)
		}
		from = from.Truncate(time.Minute)
		to := from.Add(72 * time.Hour)
		got, want := ticks(t, w, from, to), r.walk(from, to, loc)
		compared += len(want)
		for range 20 { // from any instant, also one in the repeated hour
			at := from.Add(time.Duration(rnd.Int64N(int64(72 * time.Hour))))
			i := slices.IndexFunc(want, func(tick time.Time) bool { return tick.After(at) })
			if next := w.Next(at); i >= 0 && !next.Equal(want[i]) || i < 0 && next.Before(to) {
				t.Fatalf("%s: from %s comes %s", w, at.In(loc), next)
			}
		}
		if !slices.EqualFunc(got, want, time.Time.Equal) {
			i := 0
			for i < min(len(got), len(want)) && got[i].Equal(want[i]) {
				i++
			}
			t.Fatalf("%s from %s: %d and not %d ticks; the first that differ:\ngot  %v\nwant %v", w, from.In(loc), len(got), len(want), got[i:min(i+3, len(got))], want[i:min(i+3, len(want))])
		}
	}
	if compared < 1500 {
		t.Errorf("only %d ticks were compared", compared)
	}
}

// From any instant, the next tick is later, and the same as from any other before it.
func FuzzCron(f *testing.F) {
	for _, expr := range []string{"30 2 * * *", "*/15 8-18/2 1,15 JAN-MAR MON-FRI", "0 0 29 2 *", "0 0 31 2 *", "@weekly", "5/3 * * * *", "0 0 * * FRI-SUN", "- , / *"} {
		f.Add(expr, uint8(0), int64(1741500000))
	}
	f.Fuzz(func(t *testing.T, expr string, where uint8, at int64) {
		w := Cron(expr, zone(t, zones[int(where)%len(zones)])).(*cron)
		from := time.Unix(at%4e9, at%1e9)
		next := w.Next(from)
		if w.err != nil {
			if !next.IsZero() {
				t.Errorf("%s: it is refused (%v), and has a tick %s", w, w.err, next)
			}
			return
		}
		if !next.After(from) {
			t.Fatalf("%s: from %s comes %s", w, from, next)
		}
		between := from.Add(next.Sub(from) / 2)
		if again := w.Next(between); !again.Equal(next) {
			t.Errorf("%s: from %s comes %s, from %s before it %s", w, from, next, between, again)
		}
		if got := latest(w, from, next); !got.Equal(next) {
			t.Errorf("%s: the latest from %s to %s is %s", w, from, next, got)
		}
	})
}

func TestCronFields(t *testing.T) {
	for expr, want := range map[string]string{
		"0 0 13 * FRI":       "2025-06-06 2025-06-13 2025-06-20 2025-06-27 2025-07-04",
		"0 0 13 * *":         "2025-06-13 2025-07-13 2025-08-13 2025-09-13 2025-10-13",
		"0 0 */2 * 1":        "2025-06-09 2025-06-23 2025-07-07 2025-07-21 2025-08-11", // Mondays with an odd date
		"0 0 * * 7":          "2025-06-01 2025-06-08 2025-06-15 2025-06-22 2025-06-29",
		"0 0 * * sat-sun":    "2025-06-01 2025-06-07 2025-06-08 2025-06-14 2025-06-15",
		"0 0 * * 5-7":        "2025-06-01 2025-06-06 2025-06-07 2025-06-08 2025-06-13",
		"0 0 * * */3":        "2025-06-01 2025-06-04 2025-06-07 2025-06-08 2025-06-11",
		"0 0 29 2 *":         "2028-02-29 2032-02-29 2036-02-29 2040-02-29 2044-02-29",
		"0 0 29 FEB */7":     "2032-02-29 2060-02-29 2088-02-29 2128-02-29 2156-02-29", // on a Sunday
		"0 0 31 * *":         "2025-07-31 2025-08-31 2025-10-31 2025-12-31 2026-01-31",
		"0 0 31 2 MON":       "2026-02-02 2026-02-09 2026-02-16 2026-02-23 2027-02-01", // or a Monday
		" 0  0 1 jan,DEC * ": "2025-12-01 2026-01-01 2026-12-01 2027-01-01 2027-12-01",
	} {
		w, at := Cron(expr, time.UTC), time.Date(2025, 5, 31, 12, 0, 0, 0, time.UTC)
		var got []string
		for range 5 {
			at = w.Next(at)
			got = append(got, at.Format(time.DateOnly))
		}
		if got := strings.Join(got, " "); got != want {
			t.Errorf("%q (%v): got  %s\nwant %s", expr, w.(*cron).err, got, want)
		}
	}
}

// What can't be right says which field, and what is allowed.
func TestCronErrors(t *testing.T) {
	for expr, want := range map[string]string{
		"":                "it has 0 fields and must have 5: minute, hour, day of the month, month, day of the week",
		"* * * *":         "it has 4 fields",
		"0 * * * * *":     "it has 6 fields",
		"60 * * * *":      `minute "60": 60 is out of range; allowed are 0-59`,
		"* 24 * * *":      `hour "24": 24 is out of range; allowed are 0-23`,
		"* * 0 * *":       `day of the month "0": 0 is out of range; allowed are 1-31`,
		"* * * FOO *":     `month "FOO": "FOO" is not a number; allowed are 1-12, JAN-DEC`,
		"* * * * 8":       `day of the week "8": 8 is out of range; allowed are 0-7, SUN-SAT`,
		"* * * * ANM":     `"ANM" is not a number`,
		"1,,2 * * * *":    `minute "1,,2": "" is not a number`,
		"30-10 * * * *":   `the range 30-10 ends before it begins`,
		"* * * * FRI-MON": `the range FRI-MON ends before it begins`,
		"5/15 * * * *":    `a step needs a range: write 5-59/15`,
		"*/0 * * * *":     `the step "0" is not a number from 1 to 59`,
		"*/x * * * *":     `the step "x" is not`,
		"-1 * * * *":      `"" is not a number`,
		"+1 * * * *":      `"+1" is not a number`,
		"1.5 * * * *":     `"1.5" is not a number`,
		"* * L * *":       `"L" is not a number`,
		"* * ? * *":       `"?" is not a number`,
		"0 0 31 2 *":      "no day fits",
		"0 0 30,31 2 *":   "no day fits",
		"0 0 31 4,6,9 *":  "no day fits",
		"0 0 31 2 */2":    "no day fits",
		"@reboot":         "not known",
		"@every 5m":       "not known",
	} {
		err := Cron(expr, time.UTC).(*cron).err
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v; want %q in it", expr, err, want)
		}
	}
	for _, loc := range []*time.Location{nil, time.Local} {
		if err := Cron("* * * * *", loc).(*cron).err; err == nil || !strings.Contains(err.Error(), "zone") {
			t.Errorf("location %v: got %v", loc, err)
		}
	}
}

func TestEvery(t *testing.T) {
	at := time.Date(2025, 6, 1, 12, 34, 56, 789, time.UTC)
	for d, want := range map[time.Duration]string{
		time.Hour:              "13:00:00.000",
		7 * time.Second:        "12:35:00.000",
		250 * time.Millisecond: "12:34:56.250",
	} {
		if got := Every(d).Next(at).Format("15:04:05.000"); got != want {
			t.Errorf("every %s: got %s, want %s", d, got, want)
		}
	}
	if got := Every(time.Hour).Next(time.Unix(-1, 0)); got.Unix() != 0 {
		t.Errorf("before 1970: got %s", got)
	}
	for _, d := range []time.Duration{0, -time.Hour, time.Millisecond, time.Second + 1} {
		if err := every(d).check(); err == nil {
			t.Errorf("every %s is accepted", d)
		}
	}
}

// Also after a long time, the latest tick is found without a walk through all.
func TestLatest(t *testing.T) {
	now := time.Date(2025, 6, 1, 12, 34, 56, 0, time.UTC)
	calls := 0
	for _, w := range []When{Every(100 * time.Millisecond), Every(time.Hour), Cron("*/5 3 * * *", time.UTC), Cron("0 0 1 1 *", time.UTC)} {
		counted := counting{w, &calls}
		got := latest(counted, now.AddDate(-10, 0, 0), now)
		if got.IsZero() || got.After(now) || !w.Next(got).After(now) {
			t.Errorf("%s: got %s", w, got)
		}
		if got := latest(counted, got, now); !got.IsZero() {
			t.Errorf("%s: got %s after the last", w, got)
		}
	}
	if calls > 2000 {
		t.Errorf("%d calls", calls)
	}
	if got := latest(stuck{}, now.Add(-time.Hour), now); !got.IsZero() {
		t.Errorf("of a When that goes back: got %s", got)
	}
}

type counting struct {
	When
	calls *int
}

func (c counting) Next(after time.Time) time.Time {
	*c.calls++
	return c.When.Next(after)
}

// stuck does not keep the word of a When.
type stuck struct{}

func (stuck) Next(after time.Time) time.Time { return after.Add(-time.Minute) }
func (stuck) String() string                 { return "stuck" }
