package main

import (
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockkeeper/lockkeeper/internal/sqltest"
	"github.com/lockkeeper/lockkeeper/lab/flushbench/rig"
)

// TestMain makes the test binary a worker, where a fleet starts one.
func TestMain(m *testing.M) {
	redis.SetLogger(silent{})
	if os.Getenv(asWorker) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// long skips where the chaos can't run or takes too long.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("it takes half a minute")
	}
	if !rig.Supported {
		t.Skip("optional: the chaos needs Linux")
	}
	if _, err := exec.LookPath("redis-server"); err != nil && os.Getenv("LOCKKEEPER_REDIS_SERVER") == "" && os.Getenv("CI") != "true" {
		t.Skip("optional: redis-server is not installed: run make deps")
	}
}

// Twenty seconds on each database. make chaos-flush runs it for longer.
func TestChaos(t *testing.T) {
	long(t)
	for name := range kinds {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			err := chaos(t.Context(), &out, options{duration: 20 * time.Second, db: name, keep: t.TempDir(), writers: 6, workers: 3})
			t.Log(out.String())
			if errors.Is(err, sqltest.ErrNotInstalled) && os.Getenv("CI") != "true" {
				t.Skip("optional: ", err)
			}
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

// A chaos that finds nothing in workers with a bug finds nothing at all.
func TestChaosFindsBug(t *testing.T) {
	long(t)
	var out strings.Builder
	err := chaos(t.Context(), &out, options{
		duration: 10 * time.Second, db: "sqlite", plant: plantAnyVersion, keep: t.TempDir(), writers: 6, workers: 3,
	})
	found := regexp.MustCompile(`VIOLATION: (lost|different|left over): row`).MatchString(out.String())
	if !errors.Is(err, errViolated) || !found {
		t.Fatalf("workers that take any mark away passed: %v\n%s", err, out.String())
	}
}

func TestChaosRefuses(t *testing.T) {
	for name, o := range map[string]options{
		"unknown database": {db: "oracle", writers: 2, workers: 2},
		"unknown bug":      {plant: "none", writers: 2, workers: 2},
		"one worker":       {db: "sqlite", writers: 2, workers: 1},
	} {
		t.Run(name, func(t *testing.T) {
			o.keep = t.TempDir()
			if err := chaos(t.Context(), &strings.Builder{}, o); err == nil {
				t.Fatal("no error")
			}
		})
	}
}
