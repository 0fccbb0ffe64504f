package bench

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper"
)

func TestHistogram(t *testing.T) {
	for i, v := range []uint64{0, 1, 63, 64, 127} {
		if got := bucket(v); got != int(v) || middle(got) != time.Duration(v) {
			t.Errorf("%d: %d is in bucket %d, around %d", i, v, got, middle(got))
		}
	}
	if last := bucket(1<<63 - 1); last >= len((&histogram{}).counts) {
		t.Errorf("the longest time is in bucket %d", last)
	}
	for i := 1; i < 64*20; i++ {
		if bucket(uint64(middle(i))) != i || middle(i) <= middle(i-1) {
			t.Fatalf("bucket %d is around %d", i, middle(i))
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	var one, other histogram
	var all []time.Duration
	for i := range 20000 {
		d := time.Duration(random.ExpFloat64() * 1e6)
		all = append(all, d)
		if h := []*histogram{&one, &other}[i%2]; true {
			h.add(d)
		}
	}
	one.merge(&other)
	slices.Sort(all)
	for _, share := range []float64{0, 0.5, 0.99, 0.9999, 1} {
		want := all[min(len(all)-1, int(share*float64(len(all))))]
		if got := one.percentile(share); got < want-want/64-1 || got > want+want/64+1 {
			t.Errorf("%g: %s, want about %s", share, got, want)
		}
	}
	if one.most != all[len(all)-1] || one.n != 20000 {
		t.Errorf("%d times, at most %s", one.n, one.most)
	}
	if got := (&histogram{}).percentile(0.5); got != 0 {
		t.Errorf("of nothing: %s", got)
	}
}

func TestNumbers(t *testing.T) {
	for us, want := range map[float64]string{
		0: "0.0 us", 0.94: "0.9 us", 9.94: "9.9 us", 9.96: "10 us", 31.4: "31 us", 999.4: "999 us", 999.6: "1.0 ms",
		1440: "1.4 ms", 9960: "10 ms", 61000: "61 ms", 999600: "1.0 s", 2.5e6: "2.5 s",
	} {
		if got := duration(us); got != want {
			t.Errorf("%g us: %q, want %q", us, got, want)
		}
	}
	for n, want := range map[float64]string{0: "0", 7: "7", 99.6: "100", 999: "999", 1000: "1,000", 123456.7: "123,457", 1e6: "1,000,000"} {
		if got := grouped(n); got != want {
			t.Errorf("%g: %q, want %q", n, got, want)
		}
	}
	if got := roughly(123456) + " " + about(2340) + " " + number(0.01234) + " " + number(2) + " " + count(1, "lock", "locks") + " " + count(2000, "lock", "locks"); got !=
		"120,000 2.3 ms 0.012 2 1 lock 2,000 locks" {
		t.Errorf("%q", got)
	}
}

func TestInfo(t *testing.T) {
	const info = "# CPU\r\nused_cpu_sys:1.5\r\nused_cpu_user:2.25\r\nused_cpu_sys_children:9\r\n\r\n# Commandstats\r\n" +
		"cmdstat_eval:calls=3,usec=10,usec_per_call=3.33,rejected_calls=0,failed_calls=0\r\ncmdstat_evalsha:calls=1,usec=32,usec_per_call=32.00\r\n"
	if got := serverCPU(info); got != 3.75e6 {
		t.Errorf("CPU %g", got)
	}
	if got := scriptTime(info); got != 42 {
		t.Errorf("scripts %g", got)
	}
	if cpu, scripts := serverCPU("used_cpu_user:1\r\n"), scriptTime("# Commandstats\r\n"); cpu != -1 || scripts != -1 {
		t.Errorf("what is not there is %g, %g", cpu, scripts)
	}
	unknown, known := usage{process: [2]time.Duration{-1, -1}, server: -1, scripts: -1}, usage{server: 5, scripts: 5, requests: 4}
	if c := known.cost(unknown, 2); c.ServerCPU != nil || c.ServerScripts != nil || c.ProcessCPU != nil || c.Requests != 2 {
		t.Errorf("%+v", c)
	}
	if c := known.cost(usage{server: 9}, 1); c.ServerCPU != nil {
		t.Errorf("of a server that was started anew: %+v", c)
	}
	if c := known.cost(usage{}, 0); c.ServerCPU != nil || c.Requests != 0 {
		t.Errorf("of nothing: %+v", c)
	}
}

func TestTerms(t *testing.T) {
	for _, tt := range []struct {
		d, rtt time.Duration
		leases int
		term   time.Duration
	}{
		{15 * time.Second, 30 * time.Microsecond, 2000, 2 * time.Second},
		{time.Second, 30 * time.Microsecond, 2000, time.Second},
		{15 * time.Second, 20 * time.Millisecond, 11 * maxBatch, 2 * time.Second},
		{15 * time.Second, 500 * time.Millisecond, maxBatch, 5 * time.Second},
	} {
		b := &bench{o: Options{Leases: 2000}}
		b.out.RoundTrip = &Timing{P50: micros(tt.rtt)}
		if leases, term := b.terms(tt.d); leases != tt.leases || term != tt.term {
			t.Errorf("%+v: %d leases, TTL %s", tt, leases, term)
		}
	}
}

func TestCrew(t *testing.T) {
	each := func(ctx context.Context, log *samples) error {
		for log.goesOn() {
			began := time.Now()
			time.Sleep(time.Millisecond)
			log.add(began, time.Now())
		}
		return ctx.Err()
	}
	got, err := crew(t.Context(), 100*time.Millisecond, []worker{each, each})
	if err != nil || got.early || got.took.n == 0 || int64(got.all) <= got.took.n || got.elapsed != 95*time.Millisecond {
		t.Errorf("early %t, %d of %d counted, in %s: %v", got.early, got.took.n, got.all, got.elapsed, err)
	}

	stuck := func(ctx context.Context, _ *samples) error { <-ctx.Done(); return nil }
	if got, err := crew(t.Context(), 10*time.Millisecond, []worker{stuck}); err != nil || got.took.n != 0 {
		t.Errorf("who waits for ever is not cut short: %v", err)
	}

	broken := errors.New("broken")
	got, err = crew(t.Context(), time.Minute, []worker{each, stuck, func(context.Context, *samples) error { return broken }})
	if !errors.Is(err, broken) || !got.early {
		t.Errorf("one fails: %v", err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	if got, err := crew(ctx, time.Minute, []worker{each}); !errors.Is(err, context.Canceled) || !got.early {
		t.Errorf("interrupted: %v", err)
	}

	lost := &troubleError{broken}
	spoilt, spoil := context.WithCancelCause(t.Context())
	spoil(lost)
	begun := time.Now()
	if _, err := crew(spoilt, time.Minute, []worker{stuck}); !errors.Is(err, lost) {
		t.Errorf("trouble: %v", err)
	}
	if took := time.Since(begun); took > grace/2 {
		t.Errorf("it waited %s for a server in trouble", took)
	}
}

func TestTrouble(t *testing.T) {
	for line, want := range map[string]bool{
		"NOSCRIPT No matching script": false, "NOPERM no": false, "ERR Error compiling script": false,
		"READONLY You can't write": true, "OOM command not allowed": true, "LOADING Redis is loading": true,
		"ERR max number of clients reached": true,
	} {
		if got := isTrouble(lockkeeper.NewReplyError(line)); got != want {
			t.Errorf("%s: %t", line, got)
		}
	}
	if isTrouble(context.Canceled) || !isTrouble(context.DeadlineExceeded) || !isTrouble(errors.New("EOF")) {
		t.Error("errors of the network")
	}
}

// TestPatience: a stall ends nothing, an outage does, and closing is no outage.
func TestPatience(t *testing.T) {
	eof := errors.New("EOF")
	start := time.Now()
	ends := func(at ...time.Duration) bool {
		ctx, stop := context.WithCancelCause(t.Context())
		defer stop(nil)
		m := &meter{stop: stop}
		for _, d := range at {
			if d < 0 {
				m.since.Store(0) // as an answer does
				continue
			}
			m.fails(eof, start.Add(d))
		}
		return errors.Is(context.Cause(ctx), eof)
	}
	const answer = -1
	switch {
	case ends(0, patience-1), ends(0, answer, patience, patience+1), ends(time.Hour):
		t.Error("a stall has ended the run")
	case !ends(0, patience), !ends(0, answer, 1, 2, 1+patience):
		t.Error("an outage has not ended it")
	}
	m := &meter{stop: func(error) { t.Error("closing has ended it") }}
	m.closing.Store(true)
	m.fails(eof, start)
	m.fails(eof, start.Add(time.Hour))
}

func TestKeysOf(t *testing.T) {
	for key, want := range map[string]string{
		"p:a":   "p:a {p:a}:lk-fence {p:a}:lk-line {p:a}:lk-places",
		"{p}:a": "{p}:a {p}:a:lk-fence {p}:a:lk-line {p}:a:lk-places",
	} {
		if got := strings.Join(keysOf(key), " "); got != want {
			t.Errorf("%s: %s", key, got)
		}
	}
}

func TestPrintNothing(t *testing.T) {
	var b strings.Builder
	r := Result{Redis: "h:1", Error: "interrupted", Notes: []string{"a note"}}
	if err := r.Print(&b); err != nil {
		t.Fatal(err)
	}
	if got := b.String(); !strings.Contains(got, "Redis at h:1") || !strings.Contains(got, "note            a note\nNOT COMPLETE    ") {
		t.Error(got)
	}
}
