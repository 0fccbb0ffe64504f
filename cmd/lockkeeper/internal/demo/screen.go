package demo

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/flush"
)

// A screen shows the show: redrawn in place on a terminal, else line by line.
type screen struct {
	show  *show
	drawn int // lines of the last frame
	told  int // news that have been printed
}

func newScreen(s *show) *screen { return &screen{show: s} }

// A reading is what the stage says of itself at one moment.
type reading struct {
	dirty  int
	oldest time.Duration
	rows   int
	left   time.Duration
	err    error         // why dirty, oldest and left are not known
	silent time.Duration // Redis has not answered for that long
}

// run draws until ctx ends, and once more then.
func (s *screen) run(ctx context.Context) {
	every := time.Second
	if s.show.options.Live {
		every = 200 * time.Millisecond
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	s.title()
	for {
		s.draw(s.read())
		select {
		case <-ctx.Done():
			s.draw(s.read())
			return
		case <-ticker.C:
		}
	}
}

// read asks the server and the database; a part that can't be read stays empty.
func (s *screen) read() reading {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var r reading
	r.rows, _ = s.show.rows(ctx) // first: a Redis that is silent takes all of the time
	status, err := s.show.engine.Status(ctx)
	r.dirty, r.oldest, r.err = status.Dirty, status.Oldest, err
	if lock, err := s.show.locks.Inspect(ctx, flush.LockName(s.show.job)); err == nil && lock.Held {
		r.left = lock.Left
	}
	if silent, err := s.show.pulse.silence(); err != nil {
		r.silent, r.err = silent, err
	}
	return r
}

func (s *screen) title() {
	o := s.show.options
	fmt.Fprintf(o.Screen, "lockkeeper demo: %d workers, of which one is active by a lock with a TTL of %s\n", o.Workers, o.TTL)
	fmt.Fprintf(o.Screen, "Redis: %s   database: %s\n", s.show.redis, s.show.dbPath)
}

func (s *screen) draw(r reading) {
	b := s.show.board
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.show.options.Live {
		s.frame(r)
		return
	}
	w := s.show.options.Screen
	for ; s.told < len(b.news); s.told++ {
		fmt.Fprintln(w, b.news[s.told])
	}
	fmt.Fprintf(w, "%6.2f s  %s\n", time.Since(b.start).Seconds(), s.line(r))
}

// line is the state in one line.
func (s *screen) line(r reading) string {
	b := s.show.board
	who := "nobody is active"
	if w := b.workers[b.active]; w != nil {
		who = fmt.Sprintf("%s active for %.1f s (epoch %d, lease %.1f s left)",
			b.active, time.Since(w.since).Seconds(), w.epoch, r.left.Seconds())
	}
	backlog := fmt.Sprintf("backlog %d (oldest %.2f s)", r.dirty, r.oldest.Seconds())
	if r.err != nil { // what is active then is not known either
		who, backlog = s.trouble(r), "backlog not known"
	}
	return fmt.Sprintf("%s, %s, %d rows, %d takeovers, %d stale writes refused",
		who, backlog, r.rows, len(b.takeover), b.refused)
}

// trouble says what Redis does not do.
func (s *screen) trouble(r reading) string {
	if r.silent == 0 {
		return fmt.Sprintf("%s did not say its state (%v)", s.show.redisName(), r.err)
	}
	return fmt.Sprintf("%s DOES NOT ANSWER, for %.1f s (%v)", s.show.redisName(), r.silent.Seconds(), r.err)
}

// newsShown is how many lines of news a frame has.
const newsShown = 9

// frame redraws the terminal: up to where the last frame began, and over it.
func (s *screen) frame(r reading) {
	lines := s.lines(r)
	var out strings.Builder
	if s.drawn > 0 {
		fmt.Fprintf(&out, "\x1b[%dA", s.drawn)
	}
	width := max(20, s.show.options.Width()-1)
	for _, line := range lines {
		out.WriteString("\r\x1b[K" + s.paint(cut(line, width)) + "\n")
	}
	s.drawn = len(lines)
	_, _ = s.show.options.Screen.Write([]byte(out.String())) // a broken terminal ends nothing
}

func (s *screen) lines(r reading) []string {
	b := s.show.board
	total := s.show.options.Seconds
	lines := []string{
		"",
		fmt.Sprintf("  %5.1f s of %.0f s", min(time.Since(b.start).Seconds(), 9999), total),
		"",
	}
	for _, name := range b.order {
		lines = append(lines, s.worker(name, b.workers[name], r))
	}
	writer := s.show.writer
	backlog := fmt.Sprintf("%d keys, oldest unflushed change %.2f s", r.dirty, r.oldest.Seconds())
	if r.err != nil {
		backlog = "not known: " + s.trouble(r)
	}
	lines = append(lines, "",
		"  backlog    "+backlog,
		fmt.Sprintf("  writer     %d sets, %d deletes", writer.sets.Load(), writer.deletes.Load()),
		fmt.Sprintf("  database   %d rows, %d upserts, %d deletes in %d batches", r.rows, b.flushed.Upserts, b.flushed.Deletes, b.batches),
		fmt.Sprintf("  takeovers  %s", gaps(b.takeover)),
		fmt.Sprintf("  refused    %d stale writes", b.refused),
		"",
	)
	news := b.news[max(0, len(b.news)-newsShown):]
	lines = append(lines, news...)
	for range newsShown - len(news) {
		lines = append(lines, "")
	}
	return lines
}

func (s *screen) worker(name string, w *role, r reading) string {
	line := fmt.Sprintf("  %-10s %-12s for %5.1f s", name, w.what, time.Since(w.since).Seconds())
	if w.what == "active" && r.err == nil {
		line += fmt.Sprintf("   epoch %d   lease %.1f s left of %s", w.epoch, r.left.Seconds(), s.show.options.TTL)
	}
	return line
}

func gaps(takeovers []Takeover) string {
	if len(takeovers) == 0 {
		return "none yet"
	}
	var parts []string
	for _, t := range takeovers {
		parts = append(parts, fmt.Sprintf("%s %.0f ms", t.Cause, t.GapMS))
	}
	return fmt.Sprintf("%d (nobody active for: %s)", len(takeovers), strings.Join(parts, ", "))
}

// cut cuts a line to the width of the terminal: a wrapped line would break the
// redrawing.
func cut(line string, width int) string {
	runes := []rune(line)
	if len(runes) <= width {
		return line
	}
	return string(runes[:width])
}

// paint colours what matters.
func (s *screen) paint(line string) string {
	color := ""
	switch {
	case !s.show.options.Color:
	case strings.Contains(line, "REFUSED"), strings.Contains(line, "DOES NOT ANSWER"), strings.Contains(line, "KILLED"), strings.Contains(line, " killed  "):
		color = "\x1b[31m"
	case strings.Contains(line, " active "), strings.Contains(line, "took over"):
		color = "\x1b[32m"
	case strings.Contains(line, "stopped"):
		color = "\x1b[33m"
	}
	if color == "" {
		return line
	}
	return color + line + "\x1b[0m"
}
