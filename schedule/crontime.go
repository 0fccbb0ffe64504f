package schedule

import (
	"math/bits"
	"time"
)

// Local time is counted in seconds since 1970-01-01 00:00:00 on the local calendar: what
// a clock on the wall reads, without its zone. A place has periods, in each of which it is
// real time plus an offset.

const (
	minute = 60
	day    = 24 * 60 * minute
)

// mostOffset is more than any place has been from UTC.
const mostOffset = 16 * time.Hour

// A period is a time in which a place has one offset from UTC.
type period struct {
	start, end int64 // in seconds since 1970; end is beyond the last instant
	offset     int64
	last       bool // it has no end
}

// periodAt returns the period that has an instant.
func (c *cron) periodAt(at int64) period {
	t := time.Unix(at, 0).In(c.location)
	_, offset := t.Zone()
	start, end := t.ZoneBounds()
	p := period{start: at, offset: int64(offset), last: end.IsZero()}
	if !start.IsZero() {
		p.start = start.Unix()
	}
	if !end.IsZero() {
		p.end = end.Unix()
	}
	return p
}

// mostYears is how far Next looks: 29 February on one day of the week comes again after 40
// years at most.
const mostYears = 41

// Next implements When.
func (c *cron) Next(after time.Time) time.Time {
	if c.err != nil {
		return time.Time{}
	}
	t := after.Unix() // rounds down: a tick is in whole seconds
	horizon := t + mostYears*366*day
	// The local time that was reached before the period: what is below is a repetition. Two
	// days back, no earlier period can have reached what counts now.
	p := c.periodAt(t - int64(3*mostOffset/time.Second))
	reached := p.start + p.offset
	for ; p.start <= horizon; p = c.periodAt(p.end) {
		first := p.start + p.offset
		if !c.everyHour {
			if first > reached && p.start > t && c.skips(reached, first) {
				return c.instant(p.start)
			}
			first = max(first, reached)
		}
		end := p.end
		if p.last {
			end = horizon
		}
		if local, ok := c.fit(max(first, t+p.offset+1), end+p.offset); ok {
			return c.instant(local - p.offset)
		}
		if p.last {
			break
		}
		reached = max(reached, p.end+p.offset)
	}
	return time.Time{}
}

func (c *cron) instant(at int64) time.Time { return time.Unix(at, 0).In(c.location) }

// skips reports whether a local time fits that is in a gap, which begins with one and ends before
// the other. Days that are not there at all have none.
func (c *cron) skips(from, to int64) bool {
	lastDay, nextDay := floorDiv(from-1, day), floorDiv(to, day)
	_, before := c.fit(from, min(to, (lastDay+1)*day))
	_, after := c.fit(max(from, nextDay*day), to)
	return before || after
}

// fit returns the first local time that fits, from one on and before another.
func (c *cron) fit(from, to int64) (local int64, ok bool) {
	from = floorDiv(from+minute-1, minute) * minute
	for from < to {
		today := floorDiv(from, day)
		if c.fitsDay(today) {
			if local, ok := c.fitIn(today, (from-today*day)/minute); ok {
				return local, local < to
			}
		}
		from = (today + 1) * day
	}
	return 0, false
}

// fitIn returns the first local time of a day that fits, from a minute of the day on.
func (c *cron) fitIn(today, from int64) (local int64, ok bool) {
	hour, first := from/60, from%60
	for hours := c.hours >> hour << hour; hours != 0; hours &= hours - 1 {
		h := int64(bits.TrailingZeros64(hours))
		minutes := c.minutes
		if h == hour {
			minutes = minutes >> first << first
		}
		if minutes != 0 {
			return today*day + (h*60+int64(bits.TrailingZeros64(minutes)))*minute, true
		}
	}
	return 0, false
}

// fitsDay reports whether a day, counted from 1970, fits.
func (c *cron) fitsDay(today int64) bool {
	date := time.Unix(today*day, 0).UTC()
	if c.months>>date.Month()&1 == 0 {
		return false
	}
	ofMonth := c.days>>date.Day()&1 == 1
	ofWeek := c.weekdays>>date.Weekday()&1 == 1
	if c.eitherOfTwo {
		return ofMonth || ofWeek
	}
	return ofMonth && ofWeek
}
