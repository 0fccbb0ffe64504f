package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A job is a program to run, from a folder of the repository.
type job struct {
	dir    string
	env    []string
	args   []string // the program first
	marker string   // begins the line with the counts; "" if there is none
	loud   bool     // show what it prints as it comes, and not only when it fails
}

// do runs a program and returns the counts of its last line that has the marker, such
// as "soak: operations=12 faults=3".
func (j job) do(ctx context.Context, w io.Writer) (counts, error) {
	cmd := exec.CommandContext(ctx, j.args[0], j.args[1:]...)
	cmd.Dir = j.dir
	cmd.Env = append(os.Environ(), j.env...)
	// go run and go test pass no signal on to what they run, so the whole group gets it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = 15 * time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	found, printed := j.listen(w, out)
	err = cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return found, nil // the counts say how far it came
	case err != nil && !j.loud:
		fmt.Fprintln(w, strings.Join(printed, "\n"))
	case err == nil && found == nil && j.marker != "":
		err = errors.New("it did not say what it did")
	}
	if err != nil {
		return found, fmt.Errorf("%s: %w", strings.Join(j.args, " "), err)
	}
	return found, nil
}

// mostLines is how much of what a program printed is shown when it fails.
const mostLines = 400

// listen reads what a program prints: its counts, and its last lines.
func (j job) listen(w io.Writer, out io.Reader) (found counts, printed []string) {
	lines := bufio.NewReader(out) // a Scanner would give up on a very long line
	for {
		line, err := lines.ReadString('\n')
		if c := parseCounts(line, j.marker); c != nil {
			found = c
		}
		if text := strings.TrimRight(line, "\n"); text != "" {
			printed = append(printed, text)
			if j.loud {
				fmt.Fprintln(w, text)
			}
		}
		if len(printed) > 2*mostLines {
			printed = slices.Clone(printed[mostLines:])
		}
		if err != nil {
			return found, printed
		}
	}
}

// parseCounts reads "MARKER key=value key=value"; nil if the line has no marker. A value
// that is no whole number is left out.
func parseCounts(line, marker string) counts {
	_, after, ok := strings.Cut(line, marker+" ")
	if marker == "" || !ok || !strings.Contains(after, "=") {
		return nil
	}
	c := make(counts)
	for _, word := range strings.Fields(after) {
		key, value, _ := strings.Cut(word, "=")
		if n, err := strconv.ParseInt(value, 10, 64); err == nil {
			c[key] = n
		}
	}
	return c
}
