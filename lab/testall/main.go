// Command testall runs the tests of all modules of the workspace and sums them
// up. From the root of the repository:
//
//	go run ./lab/testall [-short] [-race=false] [-run RE] [-p N] [MODULE...]
//
// A MODULE is the folder of a module; without one, all modules of go.work are
// tested. The output of what fails is printed as it comes, then one line for
// each package, then a summary, whose last line is "N passed, N failed, N skipped".
//
// The exit code is 1 when anything failed, when no test ran, and, with CI=true
// in the environment, when a test was skipped for a reason that does not start
// with "optional:".
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// options are the flags that go on to go test.
type options struct {
	short    bool
	race     bool
	run      string
	parallel int
}

func main() {
	var o options
	flag.BoolVar(&o.short, "short", false, "leave out the long tests")
	flag.BoolVar(&o.race, "race", true, "run under the race detector")
	flag.StringVar(&o.run, "run", "", "run only the tests that match this regular expression")
	// More than two packages at a time would starve tests that watch the clock.
	flag.IntVar(&o.parallel, "p", 2, "test this many packages at a time")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	ok, err := testAll(ctx, os.Stdout, o, flag.Args())
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "testall:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

// testAll tests the modules one after the other and reports whether all is well.
func testAll(ctx context.Context, w io.Writer, o options, dirs []string) (bool, error) {
	if len(dirs) == 0 {
		var err error
		if dirs, err = workspace(ctx); err != nil {
			return false, err
		}
	}
	s := newSummary(os.Getenv("CI") == "true")
	for _, dir := range dirs {
		io.WriteString(w, s.startModule(dir))
		start := time.Now()
		err := testModule(ctx, w, s, dir, o.args())
		io.WriteString(w, s.endModule(err, time.Since(start)))
		if ctx.Err() != nil {
			break // what ran so far is still worth a summary
		}
	}
	io.WriteString(w, s.report())
	return s.ok(), ctx.Err()
}

// workspace returns the folders of all modules of go.work.
func workspace(ctx context.Context) ([]string, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list -m: %w", err)
	}
	root, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	var dirs []string
	for dir := range strings.Lines(string(out)) {
		rel, err := filepath.Rel(root, strings.TrimSpace(dir))
		if err != nil {
			return nil, err
		}
		dirs = append(dirs, rel)
	}
	return dirs, nil
}

// args returns the arguments of the go command.
func (o options) args() []string {
	args := []string{"test", "-json", "-count=1", "-timeout=15m", "-p=" + strconv.Itoa(o.parallel)}
	if o.race {
		args = append(args, "-race")
	}
	if o.short {
		args = append(args, "-short")
	}
	if o.run != "" {
		args = append(args, "-run="+o.run)
	}
	return append(args, "./...")
}

// testModule runs go test in the folder of a module and shows what the summary
// says to each line, as it comes.
func testModule(ctx context.Context, w io.Writer, s *summary, dir string, args []string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Stderr = os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	return errors.Join(feed(w, s, out), cmd.Wait())
}

// feed gives the summary every line of a go test -json stream.
func feed(w io.Writer, s *summary, stream io.Reader) error {
	r := bufio.NewReader(stream)
	for {
		line, err := r.ReadBytes('\n') // a Scanner would give up on a very long line
		if len(bytes.TrimSpace(line)) > 0 {
			io.WriteString(w, s.addLine(line))
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
