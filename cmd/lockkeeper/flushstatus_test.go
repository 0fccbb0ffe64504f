package main

import (
	"bufio"
	"encoding/json"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/config"
	"github.com/lockkeeper/lockkeeper/flush"
	"github.com/lockkeeper/lockkeeper/internal/redistest"
)

// A testStatus is what a status is made of.
type testStatus struct {
	flush.Status
	lock lockkeeper.State
}

var testNow = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

// healthy is a job of which nothing has to be said: one process works, one stands by.
func healthy() *testStatus {
	return &testStatus{
		Status: flush.Status{Epoch: 7, Config: "c1", Members: []flush.Member{
			{ID: "A", Label: "web-2/77", Epoch: 7, Ready: true, Config: "c1", LastPass: testNow.Add(-400 * time.Millisecond), Total: flush.Stats{Keys: 1234}},
			{ID: "B", Label: "web-1/12", Ready: true, Config: "c1"},
		}},
		lock: lockkeeper.State{Held: true, Left: 1900 * time.Millisecond, Holder: lockkeeper.Holder{Label: "web-2/77", Since: testNow.Add(-3*time.Hour - 4*time.Minute)}},
	}
}

func (s *testStatus) status() *jobStatus {
	j := &job{File: &config.File{Job: "players", Name: "p.yaml", Interval: time.Second}}
	status := newJobStatus(j, s.Status, s.lock, testNow)
	status.judge()
	return status
}

// TestStates: what is the case, in words, with what to do, the most urgent first.
func TestStates(t *testing.T) {
	pause := flush.Pause{Reason: "migration", By: "ana", Since: testNow.Add(-5 * time.Minute)}
	trouble := "flush: job \"players\": connection refused"
	for _, tt := range []struct {
		name   string
		change func(s *testStatus)
		want   []string
	}{
		{"healthy", func(*testStatus) {}, []string{"OK: everything is flushed"}},
		{"flushing", func(s *testStatus) { s.Dirty, s.Oldest = 3, 2*time.Second }, []string{"OK: flushing; the oldest change waits for 2.0s"}},
		{"behind", func(s *testStatus) { s.Dirty, s.Oldest = 1, 7*time.Second }, []string{"CATCHING UP: 1 key waits, the oldest for 7.0s"}},
		{"parked", func(s *testStatus) { s.Parked = 3 }, []string{"PARKED KEYS: 3 keys can't be flushed, each with its reason; see lockkeeper flush parked ls -f p.yaml"}},
		{"paused", func(s *testStatus) { s.Pauses = []flush.Pause{pause} },
			[]string{"PAUSED by ana for 5m0s: migration; nothing waits; go on: lockkeeper flush resume -f p.yaml"}},
		{"a pause by hand", func(s *testStatus) { s.Pauses = []flush.Pause{{Reason: "yes"}} }, []string{"PAUSED by somebody: yes; nothing waits; go on: lockkeeper flush resume -f p.yaml"}},
		{"a mapping is paused", func(s *testStatus) { p := pause; p.Table = "tag"; s.Pauses = []flush.Pause{p} },
			[]string{"MAPPING PAUSED: table tag by ana for 5m0s: migration; go on: lockkeeper flush resume --table tag -f p.yaml"}},
		{"a mapping has paused itself", func(s *testStatus) {
			p := pause
			p.Table, p.Auto, p.Retries = "tag", true, true
			s.Pauses = []flush.Pause{p}
		},
			[]string{"MAPPING PAUSED: table tag by ana for 5m0s: migration (it is tried again by itself)"}},
		{"nobody", func(s *testStatus) { s.lock, s.Members, s.Dirty, s.Oldest = lockkeeper.State{}, nil, 2, time.Minute },
			[]string{"NO ACTIVE PROCESS: 2 keys wait, the oldest for 1m0s; start one: lockkeeper flush run -f p.yaml"}},
		{"only the dead", func(s *testStatus) {
			s.lock = lockkeeper.State{}
			s.Members = s.Members[1:]
			s.Members[0].Age = time.Minute
		},
			[]string{"NO ACTIVE PROCESS: nothing waits; start one: lockkeeper flush run -f p.yaml"}},
		{"between two", func(s *testStatus) { s.lock = lockkeeper.State{}; s.Members = s.Members[1:] },
			[]string{"NO ACTIVE PROCESS: 1 process stands by, and one should be active in a moment; nothing waits"}},
		{"no database for anybody", func(s *testStatus) {
			s.lock, s.Members = lockkeeper.State{}, s.Members[1:]
			s.Members[0].Ready, s.Members[0].Trouble = false, "no route\nto host"
		}, []string{"WAITING FOR DATABASE: no process is active, and web-1/12 says: no route to host; nothing waits"}},
		{"no database for the active one", func(s *testStatus) { s.Members[0].Trouble = trouble },
			[]string{"WAITING FOR DATABASE: web-2/77 says: " + trouble + "; nothing is lost, nothing waits"}},
		{"no Redis for the active one", func(s *testStatus) { s.Members[0].Trouble = "flush: job \"players\": Redis: EOF" },
			[]string{"WAITING FOR REDIS: web-2/77 says: flush: job \"players\": Redis: EOF; nothing is lost, nothing waits"}},
		{"paused is no trouble", func(s *testStatus) { s.Members[0].Trouble = flush.ErrPaused.Error() }, []string{"OK: everything is flushed"}},
		{"a standby is not ready", func(s *testStatus) { s.Members[1].Ready, s.Members[1].Trouble = false, "timeout" },
			[]string{"STANDBY NOT READY: web-1/12 could not take over: timeout"}},
		{"another file", func(s *testStatus) { s.Members[1].Config = "c2" },
			[]string{"CONFIGURATION DIFFERS: the mappings of web-1/12 are not those of p.yaml; use the same file everywhere, and restart"}},
		{"another file of one that is gone", func(s *testStatus) { s.Members[1].Config, s.Members[1].Age = "c2", time.Minute }, []string{"OK: everything is flushed"}},
		{"foreign", func(s *testStatus) {
			s.lock = lockkeeper.State{Held: true, Left: 3 * time.Second, Holder: lockkeeper.Holder{Foreign: true}}
			s.Members = nil
		},
			[]string{"HELD BY ANOTHER PROGRAM: the key of the lock has a value that is not Lockkeeper's; it has 3.0s left; find out what has set it"}},
		{"all at once", func(s *testStatus) {
			s.Pauses = []flush.Pause{pause, {Table: "tag", Reason: "x", By: "bob"}}
			s.Dirty, s.Oldest, s.Parked = 2, time.Minute, 1
			s.Members[1].Ready, s.Members[1].Trouble, s.Members[1].Config = false, "t", "c2"
		}, []string{"PAUSED by ana", "MAPPING PAUSED: table tag by bob", "PARKED KEYS: 1 key", "CATCHING UP: 2 keys", "CONFIGURATION DIFFERS", "STANDBY NOT READY"}},
	} {
		s := healthy()
		tt.change(s)
		status := s.status()
		var got []string
		for _, state := range status.States {
			got = append(got, state.line())
		}
		ok := len(got) == len(tt.want) && status.State == status.States[0].Name
		for i := range got {
			ok = ok && (len(got) > 1 && strings.HasPrefix(got[i], tt.want[i]) || got[i] == tt.want[i])
		}
		if !ok {
			t.Errorf("%s: %s\n%s\nwant\n%s", tt.name, status.State, strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
		}
	}
}

// TestStatusLines shows a job with everything that there can be.
func TestStatusLines(t *testing.T) {
	s := healthy()
	s.Dirty, s.Oldest, s.Waiting, s.Parked = 1204, 12*time.Second, 12, 3
	s.Held = []flush.Held{{Table: "tag", Keys: 30, Oldest: 8 * time.Second}}
	s.Pauses = []flush.Pause{{Table: "tag", Reason: "no such\ncolumn", By: "web-2/77", Since: testNow.Add(-time.Minute), Auto: true, Retries: true}}
	s.Members[0].Refused = 1
	s.Members[0].Scans = []flush.ScanResult{
		{Table: "player", At: testNow.Add(-30 * time.Second), Keys: 1000, Changed: 5, Gone: 100, Refused: true},
		{Table: "visit", At: testNow.Add(-10 * time.Second), Keys: 7, Gone: 1, Deleted: 1},
	}
	s.Members[1].Ready, s.Members[1].Trouble, s.Members[1].Config = false, "flush: the database is not ready: \x1b[31mtimeout", "c2"
	s.Members = append(s.Members, flush.Member{ID: "C", Label: "web-3/9", Config: "c1", Age: 42 * time.Second})
	status := s.status()
	status.Rates = &rates{In: 2100.4, Out: 2180, EmptySeconds: 15}
	status.judge()
	golden(t, "status.txt", strings.Join(status.lines(testNow), "\n")+"\n")
}

func TestRates(t *testing.T) {
	at := func(seconds, dirty int, flushed ...int) *jobStatus {
		s := &jobStatus{At: testNow.Add(time.Duration(seconds) * time.Second), Dirty: dirty}
		for i, n := range flushed {
			s.Processes = append(s.Processes, jobProcess{ID: string(rune('A' + i)), Total: flush.Stats{Keys: n + 10, Changed: 10}})
		}
		return s
	}
	m := &meter{}
	for i, tt := range []struct {
		s    *jobStatus
		want *rates
	}{
		{at(0, 100, 1000), nil},
		{at(1, 100, 1000), &rates{0, 0, -1}},
		{at(2, 80, 1200), &rates{90, 100, 8}},                // 200 flushed, 180 new in 2 s
		{at(4, 0, 1280, 50), &rates{57.5, 82.5, 0}},          // another process has come
		{at(6, 300, 1280), &rates{530.0 / 6, 330.0 / 6, -1}}, // it has gone
		{at(10, 200, 1280), &rates{43, 33, -1}},              // a long pass tells what it has done at its end
		{at(11, 0, 1480), &rates{43, 53, 0}},                 // and the first second is forgotten
	} {
		got := m.add(tt.s)
		if (got == nil) != (tt.want == nil) || got != nil && *got != *tt.want {
			t.Errorf("%d: %+v, want %+v", i, got, tt.want)
		}
	}
	if got := (&rates{In: 1234.5, Out: 2000, EmptySeconds: 90}).String(); got != "in 1,235/s, out 2,000/s, empty in 1m30s" {
		t.Error(got)
	}
}

// TestWatch: blocks where there is no terminal, with what Redis says and when it does not.
func TestWatch(t *testing.T) {
	s := newStage(t, "").migrated()
	s.works()
	cmd := command(t, nil, s.args("status", "--watch")...)
	lines := watched(t, cmd.StdoutPipe)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	lines.next("OK: everything is flushed")
	lines.next("rates   in ")
	s.server.Kill()
	lines.next("NO ANSWER FROM REDIS: no answer from Redis at ")
	s.server.Restart()
	lines.next("dirty   0 keys wait")
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	lines.rest()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// TestWatchJSON: a line of JSON each time.
func TestWatchJSON(t *testing.T) {
	s := newStage(t, "")
	cmd := command(t, nil, s.args("status", "--watch", "--json")...)
	lines := watched(t, cmd.StdoutPipe)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	for i, want := range []string{stateInactive, stateInactive, stateUnreachable} {
		if i == 2 {
			s.server.Kill()
		}
		var status jobStatus
		if err := json.Unmarshal([]byte(lines.next(`"state":"`+want+`"`)), &status); err != nil {
			t.Fatal(err)
		}
		if status.Job != "players" || (status.Rates != nil) != (i == 1) {
			t.Errorf("%d: %+v", i, status)
		}
	}
}

// A lineReader reads what a process prints.
type lineReader struct {
	t *testing.T
	c chan string
}

func watched(t *testing.T, pipe func() (io.ReadCloser, error)) *lineReader {
	t.Helper()
	out, err := pipe()
	if err != nil {
		t.Fatal(err)
	}
	r := &lineReader{t, make(chan string, 1000)}
	go func() {
		defer close(r.c)
		for s := bufio.NewScanner(out); s.Scan(); {
			r.c <- s.Text()
		}
	}()
	return r
}

// next waits for a line that has a text.
func (r *lineReader) next(text string) string {
	r.t.Helper()
	found := ""
	redistest.Until(r.t, "it prints "+text, func() bool {
		select {
		case line, open := <-r.c:
			if !open {
				r.t.Fatalf("it has ended, and did not print %q", text)
			}
			found = line
			return strings.Contains(line, text)
		default:
			return false
		}
	})
	return found
}

// rest reads to the end.
func (r *lineReader) rest() {
	for range r.c {
	}
}
