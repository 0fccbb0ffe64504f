package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// options are the flags.
type options struct {
	scenarios, systems []string
	settings           settings
	json, markdown     string // files; no markdown file is the standard output
}

func main() {
	if os.Getenv(workerEnv) != "" {
		runWorker()
		return
	}
	o, err := parseFlags(os.Args[1:])
	if err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return
		}
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err = runAll(ctx, o, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func parseFlags(args []string) (options, error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	run := flags.String("run", "", "only these `scenarios`, as in S1,S3")
	names := flags.String("systems", "", "only these `systems`, in every scenario that they can take part in")
	reps := flags.Int("reps", 0, "how often S1 to S4 and S8 are repeated; 0 is what the settings say")
	quick := flags.Bool("quick", false, "a first impression in two to three minutes")
	hold := flags.Duration("hold", 0, "how long S5 holds its locks; 0 is what the settings say")
	jsonFile := flags.String("json", "", "write the result as JSON to this `file` as well")
	markdown := flags.String("md", "", "write the report to this `file` instead of the standard output")
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	if flags.NArg() > 0 {
		return options{}, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	o := options{scenarios: list(*run), systems: list(*names), settings: defaultSettings(), json: *jsonFile, markdown: *markdown}
	if *quick {
		o.settings = quickSettings()
	}
	if *reps > 0 {
		o.settings.reps = *reps
	}
	if *hold > 0 {
		o.settings.hold = *hold
	}
	for _, name := range o.systems {
		if _, err := systemNamed(name); err != nil {
			return options{}, err
		}
	}
	_, err := selected(scenarios(o.settings), o.scenarios)
	return o, err
}

func list(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
}

// runAll measures, writes the report, and fails when mutual exclusion was violated or
// something could not be measured.
func runAll(ctx context.Context, o options, args []string) error {
	if err := supported(); err != nil {
		return err
	}
	if _, err := redisProgram(); err != nil {
		return err
	}
	launch := newLauncher()
	defer launch.close()
	r, err := measureAll(ctx, &bench{launch: launch, clock: newClock(), progress: os.Stderr}, o)
	if err != nil {
		return err
	}
	r.Head.Command = strings.Join(append([]string{"go run ./lab/bench"}, args...), " ")
	if err := errors.Join(writeFile(o.markdown, os.Stdout, r.markdown), writeFile(o.json, io.Discard, r.asJSON)); err != nil {
		return err
	}
	if r.Violations > 0 || r.Failed > 0 {
		return fmt.Errorf("%d violations of mutual exclusion, %d cells failed", r.Violations, r.Failed)
	}
	return nil
}

// measureAll runs the chosen scenarios one after the other.
func measureAll(ctx context.Context, b *bench, o options) (*report, error) {
	chosen, err := selected(scenarios(o.settings), o.scenarios)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	r := &report{Head: newHead(ctx)}
	for _, s := range chosen {
		t, err := b.run(ctx, s, o.systems)
		if err != nil {
			return nil, err
		}
		r.Tables = append(r.Tables, t)
	}
	r.Head.Took = time.Since(start).Round(time.Second).String()
	r.sum()
	return r, nil
}

func (r *report) asJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}

// writeFile writes to a file, or to w when it has no name.
func writeFile(name string, w io.Writer, write func(w io.Writer) error) error {
	if name == "" {
		return write(w)
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}
