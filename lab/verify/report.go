package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// report prints what ran as Markdown.
func report(w io.Writer, o options, results []result, took time.Duration) {
	fmt.Fprintf(w, "\n%s, %s, seed %d, on %s.\n\n", time.Now().UTC().Format("2006-01-02 15:04 UTC"), took.Round(time.Second), o.seed, machine())
	fmt.Fprintln(w, "| layer | took | what ran | verdict |")
	fmt.Fprintln(w, "|---|---|---|---|")
	for _, r := range results {
		if r.name != "" {
			fmt.Fprintf(w, "| %s | %s | %s | %s |\n", r.what, r.took, r.counts, r.verdict())
		}
	}
}

// verdict is a result in a few words.
func (r result) verdict() string {
	switch {
	case r.err != nil:
		return "failed: " + strings.ReplaceAll(r.err.Error(), "\n", " ")
	case len(r.missed) > 0:
		return "fell short: " + strings.Join(r.missed, ", ")
	case r.stopped:
		return "stopped by the bound of time, nothing found"
	}
	return "nothing found"
}

// String lists the counts by name.
func (c counts) String() string {
	keys := make([]string, 0, len(c))
	for key := range c {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	var parts []string
	for _, key := range keys {
		parts = append(parts, grouped(c[key])+" "+strings.ReplaceAll(key, "_", " "))
	}
	return strings.Join(parts, ", ")
}

// grouped writes a number with commas.
func grouped(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// machine describes what this ran on.
func machine() string {
	parts := []string{fmt.Sprintf("%d cores", runtime.NumCPU())}
	if model := cpuModel(); model != "" {
		parts = append(parts, model)
	}
	parts = append(parts, runtime.GOOS+"/"+runtime.GOARCH, runtime.Version())
	if out, err := exec.Command(redisServer(), "--version").Output(); err == nil {
		parts = append(parts, "Redis "+field(string(out), "v="))
	}
	commit := "an unknown commit"
	if out, err := exec.Command("git", "describe", "--always", "--dirty", "--exclude", "*").Output(); err == nil {
		commit = "commit " + strings.TrimSpace(string(out))
	}
	return strings.Join(append(parts, commit), ", ")
}

func redisServer() string {
	if path := os.Getenv("LOCKKEEPER_REDIS_SERVER"); path != "" {
		return path
	}
	return "redis-server"
}

// field returns the word that follows a prefix.
func field(text, prefix string) string {
	_, after, _ := strings.Cut(text, prefix)
	word, _, _ := strings.Cut(after, " ")
	return word
}

func cpuModel() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if name, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
