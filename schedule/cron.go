package schedule

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// A cron is a cron expression. Each field is a set of numbers, one bit each.
type cron struct {
	expr     string
	location *time.Location
	err      error // what is wrong with it; told by New

	minutes, hours, days, months, weekdays uint64

	everyHour   bool // the hour begins with *: it follows real time
	eitherOfTwo bool // both kinds of days are restricted: one that fits is enough
}

// A field is what may stand at one place of an expression.
type field struct {
	name     string
	min, max int
	names    string // of min and those after it, three letters each
}

var fields = [5]field{
	{"minute", 0, 59, ""},
	{"hour", 0, 23, ""},
	{"day of the month", 1, 31, ""},
	{"month", 1, 12, "JANFEBMARAPRMAYJUNJULAUGSEPOCTNOVDEC"},
	{"day of the week", 0, 7, "SUNMONTUEWEDTHUFRISAT"}, // 0 and 7 are Sunday
}

// shorthands are expressions with a name.
var shorthands = map[string]string{
	"@yearly":   "0 0 1 1 *",
	"@annually": "0 0 1 1 *",
	"@monthly":  "0 0 1 * *",
	"@weekly":   "0 0 * * 0",
	"@daily":    "0 0 * * *",
	"@midnight": "0 0 * * *",
	"@hourly":   "0 * * * *",
}

// Cron runs a job at the local times of a place that fit an expression of five fields:
// minute (0-59), hour (0-23), day of the month (1-31), month (1-12 or JAN-DEC) and day of
// the week (0-7 or SUN-SAT; 0 and 7 are Sunday). A field is *, a number, a range (1-5), each of
// these but a number with a step (*/15, 8-18/2), or a list of these with commas. @hourly, @daily or @midnight,
// @weekly, @monthly, @yearly or @annually stand for an expression.
//
// If neither kind of day begins with *, a day fits if one of them does, as POSIX has it; else if
// both do.
//
// Where clocks are changed: a fixed local time, that is any whose hour does not begin with *,
// comes exactly once a local day. Where it is skipped it comes at the first instant after
// the gap, and several that are skipped together come there together, once; where it is
// repeated it comes the first time. If the hour begins with *, real time counts: each instant
// whose local time fits is one. A day that is left out altogether has no ticks.
//
// What can't be right, a nil location, time.Local, which differs between machines, and
// an expression that never fits, such as 31 February, are errors that New returns.
func Cron(expr string, location *time.Location) When {
	c := &cron{expr: strings.Join(strings.Fields(expr), " "), location: location}
	c.err = c.parse()
	return c
}

func (c *cron) String() string {
	if c.location == nil {
		return "cron " + c.expr
	}
	return "cron " + c.expr + " " + c.location.String()
}

func (c *cron) check() error { return c.err }

func (c *cron) parse() error {
	switch c.location {
	case nil:
		return fmt.Errorf("cron %q: no time zone: say which, such as time.UTC", c.expr)
	case time.Local:
		return fmt.Errorf("cron %q: the time zone Local differs between machines: name one, such as Europe/Berlin", c.expr)
	}
	text := c.expr
	if strings.HasPrefix(text, "@") {
		full, ok := shorthands[strings.ToLower(text)]
		if !ok {
			return fmt.Errorf("cron %q: not known: @hourly, @daily, @weekly, @monthly and @yearly are", c.expr)
		}
		text = full
	}
	part := strings.Fields(text)
	if len(part) != len(fields) {
		return fmt.Errorf("cron %q: it has %d fields and must have 5: minute, hour, day of the month, month, day of the week", c.expr, len(part))
	}
	for i, set := range []*uint64{&c.minutes, &c.hours, &c.days, &c.months, &c.weekdays} {
		var err error
		if *set, err = fields[i].parse(part[i]); err != nil {
			return fmt.Errorf("cron %q: %w", c.expr, err)
		}
	}
	c.weekdays |= c.weekdays >> 7 // 7 is Sunday, and so is 0
	c.everyHour = part[1][0] == '*'
	c.eitherOfTwo = part[2][0] != '*' && part[4][0] != '*'
	if !c.possible() {
		return fmt.Errorf("cron %q: no day fits: none of these months has such a day", c.expr)
	}
	return nil
}

// parse reads a list.
func (f *field) parse(text string) (set uint64, err error) {
	for item := range strings.SplitSeq(text, ",") {
		some, err := f.item(item)
		if err != nil {
			return 0, fmt.Errorf("%s %q: %w; allowed are %s", f.name, text, err, f.allowed())
		}
		set |= some
	}
	return set, nil
}

func (f *field) allowed() string {
	if f.names != "" {
		return fmt.Sprintf("%d-%d, %s-%s, lists, ranges and steps", f.min, f.max, f.names[:3], f.names[len(f.names)-3:])
	}
	return fmt.Sprintf("%d-%d, lists, ranges and steps", f.min, f.max)
}

// item reads *, a number or a range, with or without a step.
func (f *field) item(text string) (set uint64, err error) {
	span, stepText, hasStep := strings.Cut(text, "/")
	fromText, toText, isRange := strings.Cut(span, "-")
	from, to := f.min, f.max
	switch {
	case span == "*":
		if f.names != "" && f.min == 0 {
			to = 6 // every second day of the week does not begin anew on Sunday
		}
	case !isRange && hasStep:
		return 0, fmt.Errorf("a step needs a range: write %s-%d/%s", span, f.max, stepText)
	default:
		if from, err = f.number(fromText); err != nil {
			return 0, err
		}
		to = from
		if isRange {
			if to, err = f.number(toText); err != nil {
				return 0, err
			}
		}
		if from > to && to == 0 && f.names != "" {
			to = 7 // FRI-SUN
		}
	}
	if from > to {
		return 0, fmt.Errorf("the range %s ends before it begins", span)
	}
	step := 1
	if hasStep {
		step, err = strconv.Atoi(stepText)
		if err != nil || step < 1 || step > f.max {
			return 0, fmt.Errorf("the step %q is not a number from 1 to %d", stepText, f.max)
		}
	}
	for n := from; n <= to; n += step {
		set |= 1 << n
	}
	return set, nil
}

// number reads a number or a name.
func (f *field) number(text string) (int, error) {
	if len(text) == 3 && f.names != "" {
		if at := strings.Index(f.names, strings.ToUpper(text)); at >= 0 && at%3 == 0 {
			return at/3 + f.min, nil
		}
	}
	n, err := strconv.Atoi(text)
	switch {
	case err != nil || strings.ContainsAny(text, "+-"):
		return 0, fmt.Errorf("%q is not a number", text)
	case n < f.min || n > f.max:
		return 0, fmt.Errorf("%d is out of range", n)
	}
	return n, nil
}

// daysIn has the most days of each month.
var daysIn = [13]int{0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}

// possible reports whether any day fits. In the 400 years after which the calendar repeats,
// each date falls on each day of the week, 29 February as well; so only a date that no
// month has never comes.
func (c *cron) possible() bool {
	if c.eitherOfTwo { // there is always a Friday
		return true
	}
	for m := 1; m <= 12; m++ {
		if c.months>>m&1 == 1 && bits.TrailingZeros64(c.days) <= daysIn[m] {
			return true
		}
	}
	return false
}
