package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/bench"
	"github.com/lockkeeper/lockkeeper/internal/redistest"
)

// wantNoKeys wants that a benchmark has left nothing behind.
func wantNoKeys(t *testing.T, rdb *redis.Client) {
	t.Helper()
	keys, err := rdb.Keys(background(t), "*").Result()
	if err != nil || len(keys) > 0 {
		t.Errorf("%d keys are left, such as %.3q, %v", len(keys), keys, err)
	}
}

func TestBenchQuick(t *testing.T) {
	server := redistest.Start(t)
	begun := time.Now()
	r := program(t, "bench", "--redis", server.URL(), "--quick")
	r.want(t, exitOK, "Redis ", "lockkeeper bench: about 10 s on Redis at "+server.Addr()+", with up to 64 requests at a time")
	if took := time.Since(begun); took < 8*time.Second {
		t.Errorf("it took only %s", took)
	}
	for _, row := range []string{
		`round trip +\S+ [um]?s +\S+ [um]?s +\S+ [um]?s +[\d,]+`, `free lock, 1 goroutine +\S+ [um]?s `, `free lock, 64 goroutines +\S+ [um]?s `,
		`hand-off, 4 clients +\S+ [um]?s `, `hand-off in one process +\S+ [um]?s `, `a batch of \d+ renewals? +\S+ [um]?s `,
		`round trip +about \S+ [um]?s to Redis and back`, `free lock +about \S+ [um]?s to take a lock`, `many at a time +about [\d,]+ a second`,
		`hand-off +about \S+ [um]?s from one client's release`, `in one process +about \S+ [um]?s from one goroutine's release`,
		`renewals +about [\d,]+ leases can be renewed a second over one connection, and [\d,]+ with one core`,
		`leases +about [\d,]+ leases per core at TTL 10 s`, `Redis +its CPU: .* for a renewal, so that its core carries about`,
	} {
		if !regexp.MustCompile(`(?m)^` + row).MatchString(r.stdout) {
			t.Errorf("no line like %q in\n%s", row, r.stdout)
		}
	}
	if strings.Contains(r.stdout, " \n") || strings.Contains(r.stdout, "NOT COMPLETE") || strings.Count(r.stderr, "\n") != 1 {
		t.Errorf("%q, %q", r.stdout, r.stderr)
	}
	wantNoKeys(t, client(t, server))
	for command := range server.Commands(t) {
		if strings.HasPrefix(command, "config") || strings.HasPrefix(command, "flush") || command == "scan" {
			t.Errorf("it has sent %s", command)
		}
	}
}

// timingFields and so on are the JSON's names, which are part of the interface.
var (
	costFields    = []string{"process_cpu_us_per_op", "requests_per_op", "server_cpu_us_per_op", "server_scripts_us_per_op"}
	timingFields  = append([]string{"complete", "goroutines", "clients", "connections", "count", "seconds", "p50_us", "p99_us", "max_us", "per_second"}, costFields...)
	renewalFields = append([]string{
		"complete", "leases", "leases_lost", "ttl_seconds", "seconds", "count", "batches", "batches_failed", "leases_per_batch",
		"batch_p50_us", "batch_p99_us", "per_connection_per_second", "per_core_per_second", "per_server_core_per_second",
		"leases_per_connection_at_ttl_10s", "leases_per_core_at_ttl_10s", "leases_per_server_core_at_ttl_10s",
	}, costFields...)
	timings     = []string{"round_trip", "free_lock", "free_lock_parallel", "hand_off", "hand_off_in_process"}
	benchFields = append([]string{
		"redis", "redis_version", "complete", "error", "seconds", "key_pattern", "goroutines", "commands_per_second_before", "renewals", "notes",
	}, timings...)
)

func wantFields(t *testing.T, what string, value any, want []string) map[string]any {
	t.Helper()
	object, ok := value.(map[string]any)
	if got := slices.Sorted(maps.Keys(object)); !ok || !slices.Equal(got, slices.Sorted(slices.Values(want))) {
		t.Errorf("%s has the fields\n%q, want\n%q", what, got, want)
	}
	for name, v := range object {
		if n, ok := v.(float64); ok && n < 0 {
			t.Errorf("%s: %s is %g", what, name, n)
		}
	}
	return object
}

func TestBenchJSON(t *testing.T) {
	server := redistest.Start(t)
	r := program(t, "bench", "--redis", server.URL(), "--duration", "2s", "--goroutines", "8", "--leases", "200", "--json")
	r.want(t, exitOK, "", "with up to 8 requests at a time")
	var all any
	if err := json.Unmarshal([]byte(r.stdout), &all); err != nil {
		t.Fatal(err)
	}
	top := wantFields(t, "the result", all, benchFields)
	for _, name := range timings {
		wantFields(t, name, top[name], timingFields)
	}
	wantFields(t, "renewals", top["renewals"], renewalFields)

	var result bench.Result
	if err := json.Unmarshal([]byte(r.stdout), &result); err != nil {
		t.Fatal(err)
	}
	for name, timing := range map[string]*bench.Timing{
		"round_trip": result.RoundTrip, "free_lock": result.FreeLock, "free_lock_parallel": result.FreeLockParallel,
		"hand_off": result.HandOff, "hand_off_in_process": result.HandOffInProcess,
	} {
		if timing == nil || !timing.Complete || timing.Count == 0 || timing.P50 <= 0 || timing.P50 > timing.P99 || timing.P99 > timing.Max || timing.PerSecond <= 0 {
			t.Errorf("%s: %+v", name, timing)
		}
	}
	if got := [...]int{result.FreeLock.Goroutines, result.FreeLockParallel.Goroutines, result.HandOff.Clients, result.HandOffInProcess.Goroutines}; got != [...]int{1, 8, 4, 8} {
		t.Errorf("goroutines and clients: %d", got)
	}
	if got := result.RoundTrip.Requests; got != 1 {
		t.Errorf("a round trip is %g requests", got)
	}
	if n := result.Renewals; n == nil || n.Leases != 200 || n.Count == 0 || n.Batches == 0 || n.Connection <= 0 || *n.LeasesCore <= 0 || *n.LeasesServer <= 0 {
		t.Errorf("renewals: %+v", n)
	}
	if !result.Complete || result.Error != "" || result.Redis != server.Addr() || result.RedisVersion == nil || len(result.Notes) > 0 {
		t.Errorf("%+v", result)
	}
	wantNoKeys(t, client(t, server))
}

func TestBenchUsage(t *testing.T) {
	for want, args := range map[string][]string{
		"takes no arguments, and got a URL":                    {"redis://u:secret@h"},
		"--quick and --duration: give one of them":             {"--quick", "--duration", "30s"},
		"--duration 1s: 2s to 10m":                             {"--duration", "1s"},
		"--duration 1h0m0s: 2s to 10m":                         {"--duration", "1h"},
		`invalid argument "soon" for "--duration"`:             {"--duration", "soon"},
		"--goroutines 0: 1 to 256":                             {"--goroutines", "0"},
		"--leases -1: 1 to 20000":                              {"--leases", "-1"},
		"; bench: invalid options: --leases 30000: 1 to 20000": {"--goroutines", "300", "--leases", "30000"},
		"has to begin with redis://":                           {"--redis", "secret"},
		"unknown flag: --max-load":                             {"--max-load", "3"},
	} {
		r := program(t, append([]string{"bench"}, args...)...)
		r.want(t, exitUsage, "", want)
		if r.stdout != "" || strings.Count(r.stderr, "\n") != 1 || strings.Contains(r.stderr, "u:secret") {
			t.Errorf("%q: %q, %q", args, r.stdout, r.stderr)
		}
	}
	server := redistest.Start(t)
	for want, prefix := range map[string]string{"at most 512": strings.Repeat("x", 600), "braces must form a hash tag": "a}b"} {
		r := program(t, "bench", "--redis", server.URL(), "--prefix", prefix)
		r.want(t, exitUsage, "", want)
		if r.stdout != "" {
			t.Errorf("%q", r.stdout)
		}
	}
	program(t, "bench", "--help").want(t, exitOK, "--goroutines", "")
}

func TestBenchUnreachable(t *testing.T) {
	for _, args := range [][]string{nil, {"--json"}} {
		r := program(t, append([]string{"bench", "--redis", "redis://u:secret@127.0.0.1:1/3"}, args...)...)
		r.want(t, exitUnavailable, "", "lockkeeper: no answer from Redis at 127.0.0.1:1/3: dial tcp 127.0.0.1:1: connect: connection refused; is it running, and is --redis right?\n")
		if r.stdout != "" || strings.Contains(r.stderr, "secret") || strings.Count(r.stderr, "\n") != 1 {
			t.Errorf("%q, %q", r.stdout, r.stderr)
		}
	}
	server := redistest.Start(t)
	server.Pause()
	defer server.Resume()
	program(t, "bench", "--redis", server.URL()).want(t, exitUnavailable, "", "is it too busy, or is a firewall in between?")
}

// A replica answers, and the smallest script works on it.
func TestBenchReplica(t *testing.T) {
	server := redistest.Start(t)
	server.Do(t, "REPLICAOF", "127.0.0.1", "1")
	r := program(t, "bench", "--redis", server.URL())
	r.want(t, exitUnavailable, "", "this is a replica: connect to the primary")
	if r.stdout != "" || strings.Count(r.stderr, "\n") != 1 {
		t.Errorf("%q, %q", r.stdout, r.stderr)
	}
}

// TestBenchInterrupted ends it in each of its steps: there is a result that says that it
// is not complete, and no key.
func TestBenchInterrupted(t *testing.T) {
	server := redistest.Start(t)
	rdb := client(t, server)
	signals := []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP}
	for i, kind := range []string{"free", "free-7", "hand-off", "in-process", "held-199"} {
		cmd := command(t, nil, "bench", "--redis", server.URL(), "--duration", "5s", "--leases", "200", "--json")
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill() }) // unless it has ended
		redistest.Until(t, "the step "+kind+" runs", func() bool {
			keys, err := rdb.Keys(background(t), "*lockkeeper:bench:*:"+kind+"}:lk-fence").Result()
			return err == nil && len(keys) == 1
		})
		if err := cmd.Process.Signal(signals[i%len(signals)]); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // its state says how it ended
		r := result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
		r.want(t, exitFailed, "", "lockkeeper: interrupted before the end: what was measured is not complete\n")
		var got bench.Result
		if err := json.Unmarshal(stdout.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if got.Complete || got.Error != "interrupted" || got.RoundTrip == nil || !got.RoundTrip.Complete {
			t.Errorf("%s: %s", kind, stdout.String())
		}
		for _, timing := range []*bench.Timing{got.FreeLock, got.FreeLockParallel, got.HandOff, got.HandOffInProcess}[i:] {
			if timing != nil && timing.Complete {
				t.Errorf("%s: a step that was not ended says that it is complete: %s", kind, stdout.String())
			}
		}
		wantNoKeys(t, rdb)
	}
}

// TestBenchKilled: what a process that is killed leaves behind expires.
func TestBenchKilled(t *testing.T) {
	server := redistest.Start(t)
	rdb := client(t, server)
	p := start(t, nil, "bench", "--redis", server.URL(), "--duration", "8s", "--leases", "300")
	redistest.Until(t, "leases are held, and the counters of their fences expire soon", func() bool {
		keys, err := rdb.Keys(background(t), "*:held-*}:lk-fence").Result()
		return err == nil && len(keys) == 300 && !slices.ContainsFunc(keys, func(key string) bool {
			left, err := rdb.PTTL(background(t), key).Result()
			return err != nil || left > time.Minute
		})
	})
	if code := p.signal(syscall.SIGKILL); code != -1 {
		t.Errorf("exit code %d", code)
	}
	keys, err := rdb.Keys(background(t), "*").Result()
	if err != nil || len(keys) < 300 {
		t.Fatalf("%d keys, %v", len(keys), err)
	}
	for _, key := range keys {
		if left, err := rdb.PTTL(background(t), key).Result(); err != nil || left > time.Minute || left == -1 {
			t.Errorf("%s lives for %s, %v", key, left, err)
		}
	}
}

// TestBenchLosesRedis: Redis ends while it measures.
func TestBenchLosesRedis(t *testing.T) {
	server := redistest.Start(t)
	rdb := client(t, server)
	cmd := command(t, nil, "bench", "--redis", server.URL(), "--duration", "4s")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // unless it has ended
	redistest.Until(t, "it hands off", func() bool {
		keys, err := rdb.Keys(background(t), "*:hand-off}:lk-fence").Result()
		return err == nil && len(keys) == 1
	})
	server.Kill()
	_ = cmd.Wait() // its state says how it ended
	r := result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
	r.want(t, exitUnavailable, "free lock, 64 goroutines", "no answer from Redis at "+server.Addr())
	r.want(t, exitUnavailable, "NOT COMPLETE", "is it running, and is --redis right?")
	r.want(t, exitUnavailable, "keys could not be deleted: lockkeeper:bench:", "")
}

// TestBenchFarAway: with a long round trip it holds fewer leases, and does not lose them
// all.
func TestBenchFarAway(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	proxy.Delay(10 * time.Millisecond)
	r := program(t, "bench", "--redis", "redis://"+proxy.Addr(), "--duration", "5s", "--json")
	r.want(t, exitOK, "", "")
	var got bench.Result
	if err := json.Unmarshal([]byte(r.stdout), &got); err != nil {
		t.Fatal(err)
	}
	if n := got.Renewals; !got.Complete || got.RoundTrip.P50 < 20000 || n == nil || n.Leases >= 2000 || n.Lost == n.Leases || len(got.Notes) == 0 {
		t.Errorf("%s", r.stdout)
	}
	wantNoKeys(t, client(t, server))
}
