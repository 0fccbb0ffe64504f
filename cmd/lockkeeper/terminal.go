package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// A screen is where something is shown while it goes on.
type screen struct {
	w     io.Writer
	live  bool // a terminal, on which lines can be drawn again
	size  func() (width, height int)
	drawn int // lines of the last frame
}

// newScreen finds out what an output can do.
func (a *app) newScreen(w io.Writer) *screen {
	s := &screen{w: w, size: func() (int, int) { return 80, 24 }}
	file, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) || a.env["TERM"] == "dumb" {
		return s
	}
	s.live = true
	s.size = func() (int, int) {
		width, height, err := term.GetSize(int(file.Fd()))
		if err != nil || width <= 0 || height <= 0 {
			return 80, 24
		}
		return width, height
	}
	return s
}

// draw shows lines in the place of the last ones. What does not fit is cut: it would break
// the drawing.
func (s *screen) draw(lines []string) {
	var out strings.Builder
	if s.drawn > 0 {
		fmt.Fprintf(&out, "\x1b[%dA", s.drawn)
	}
	width, height := s.size()
	width, height = max(20, width-1), max(2, height-1)
	lines = lines[:min(len(lines), height)]
	for _, line := range lines {
		if runes := []rune(line); len(runes) > width {
			line = string(runes[:width])
		}
		out.WriteString("\r\x1b[K" + line + "\n")
	}
	out.WriteString("\x1b[J") // there were more lines before
	s.drawn = len(lines)
	_, _ = io.WriteString(s.w, out.String()) // a terminal that is gone ends nothing
}

// erase takes the last lines away.
func (s *screen) erase() {
	if s.drawn > 0 {
		s.draw(nil)
	}
}

// readLine reads one line, or returns when ctx ends. The read itself can't be interrupted:
// its goroutine ends with the process then.
func readLine(ctx context.Context, file *os.File) (string, error) {
	type line struct {
		text string
		err  error
	}
	lines := make(chan line, 1)
	go func() {
		text, err := bufio.NewReader(file).ReadString('\n')
		lines <- line{text, err}
	}()
	select {
	case l := <-lines:
		return l.text, l.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// confirm asks a question on the terminal. Without one, or with a file that comes from
// standard input, there is nobody to ask, and the flag has to be there.
func (a *app) confirm(ctx context.Context, question, flag string) error {
	file, ok := a.stdin.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return usagef("%s Nobody can be asked here: add %s", question, flag)
	}
	fmt.Fprintf(a.stderr, "%s [y/N] ", question)
	answer, err := readLine(ctx, file)
	if err != nil && answer == "" {
		return usagef("no answer; nothing was changed")
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return fmt.Errorf("nothing was changed")
}
