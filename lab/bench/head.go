package main

import (
	"context"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// A head says what was measured, on what.
type head struct {
	Date     string            `json:"date"`
	Took     string            `json:"took"`
	Command  string            `json:"command"`
	Go       string            `json:"go"`
	Redis    string            `json:"redis"`
	Kernel   string            `json:"kernel"`
	CPU      string            `json:"cpu"`
	CPUs     int               `json:"cpus"`
	Versions map[string]string `json:"versions"` // of the libraries
	// Per cent of the cores that other programs used, in the median cell and the worst.
	OthersMedian float64 `json:"others_median"`
	OthersWorst  float64 `json:"others_worst"`
}

// measured are the modules whose versions the report names, in its order.
func measured() []string {
	return []string{
		"github.com/lockkeeper/lockkeeper",
		"github.com/go-redsync/redsync/v4", "github.com/bsm/redislock", "github.com/redis/rueidis/rueidislock",
		"github.com/redis/go-redis/v9", "github.com/redis/rueidis", "github.com/redis/rueidis/rueidiscompat",
	}
}

func newHead(ctx context.Context) head {
	return head{
		Date: time.Now().UTC().Format("2006-01-02 15:04 UTC"),
		Go:   runtime.Version(), Redis: redisVersion(ctx), Kernel: kernel(), CPU: cpuModel(), CPUs: runtime.NumCPU(),
		Versions: versions(),
	}
}

// versions reads what this program was built from.
func versions() map[string]string {
	found := map[string]string{}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return found
	}
	for _, dep := range info.Deps {
		found[dep.Path] = dep.Version
	}
	// It is the tree that the program was built in, whatever a go.mod calls it.
	found["github.com/lockkeeper/lockkeeper"] = "this tree"
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			found["github.com/lockkeeper/lockkeeper"] = "this tree, " + setting.Value
		}
	}
	if found["github.com/redis/rueidis/rueidislock"] == "" { // it is a part of rueidis now
		found["github.com/redis/rueidis/rueidislock"] = found["github.com/redis/rueidis"]
	}
	return found
}

// redisVersion asks the program that the servers run.
func redisVersion(ctx context.Context) string {
	path, err := redisProgram()
	if err != nil {
		return err.Error()
	}
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return err.Error()
	}
	for _, word := range strings.Fields(string(out)) {
		if version, found := strings.CutPrefix(word, "v="); found {
			return version
		}
	}
	return strings.TrimSpace(string(out))
}
