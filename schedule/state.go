package schedule

import (
	"context"
	"embed"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/internal/script"
)

//go:embed lua/*.lua
var luaFiles embed.FS

var (
	joinScript    = loadScript("join")
	claimScript   = loadScript("claim")
	finishScript  = loadScript("finish")
	controlScript = loadScript("control")
	lookScript    = loadScript("look")
	memberScript  = loadScript("member")
)

// loadScript reads an embedded file; it can't fail for the names above.
func loadScript(name string) *script.Script { return script.New(scriptText(name)) }

func scriptText(name string) string {
	text, err := luaFiles.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err)
	}
	return string(text)
}

const (
	// stateLife is for how long what is kept of a job outlives its last process. A week is not
	// enough: ticks may be a month apart, and a pause should hold.
	stateLife = 90 * 24 * time.Hour

	// evalMost bounds one request to Redis.
	evalMost = 3 * time.Second
)

// keys are the keys of one job, which are in one cluster slot.
type keys struct {
	lock  string // that of the lock's name
	state string // hash: what is kept of the job
	runs  string // list: runs that have ended, the latest first
}

// lockName returns the name of a job's lock.
func lockName(schedule, job string) string { return "schedule:{" + schedule + "/" + job + "}" }

func keysOf(prefix, schedule, job string) keys {
	lock := prefix + lockName(schedule, job)
	return keys{lock: lock, state: lock + ":state", runs: lock + ":runs"}
}

// membersKey returns the key of the hash in which the processes of a schedule say how they are.
func membersKey(prefix, schedule string) string {
	return prefix + "schedule:{" + schedule + "}:members"
}

// channelOf returns the channel on which processes hear that an operator wants something. It
// is among those that the rights of a lock client allow.
func channelOf(prefix, schedule string) string { return prefix + "wake:schedule:" + schedule }

// eval runs a script and says what failed.
func (s *Scheduler) eval(ctx context.Context, lua *script.Script, keys []string, args ...string) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, evalMost)
	defer cancel()
	reply, err := lua.Run(ctx, s.conn, &s.dialect, keys, args)
	if err != nil {
		return nil, fmt.Errorf("schedule: %q: Redis: %w", s.cfg.Name, err)
	}
	return reply, nil
}

// state is what Redis has of a job.
type state struct {
	now     int64 // of the server, in us
	last    int64 // the last tick that counts as done, in ms
	started int64 // when the last run began, in ms of the server
	paused  *Pause
	request *Request
	running *Run
}

func (s *Scheduler) join(ctx context.Context, r *runner) (state, error) {
	begins := "1"
	if r.joined {
		begins = "0"
	}
	reply, err := s.eval(ctx, joinScript, []string{r.keys.state, r.keys.runs}, r.When.String(), begins, millis(stateLife))
	if err != nil {
		return state{}, err
	}
	v, ok := reply.([]any)
	if !ok || len(v) != 2 {
		return state{}, unexpected(reply)
	}
	r.joined = true
	return r.parseState(v[0], v[1]), nil
}

// parseState reads the fields of a job. What somebody has put there by hand and can't be read
// counts as not there.
func (r *runner) parseState(now, fields any) state {
	list, _ := fields.([]any)
	m := make(map[string]string, len(list)/2)
	for i := 0; i+1 < len(list); i += 2 {
		name, _ := list[i].(string)
		m[name], _ = list[i+1].(string)
	}
	st := state{now: number(now), last: number(m["last"]), started: number(m["started"])}
	if text, ok := m["pause"]; ok {
		st.paused = parsePause(text)
	}
	if text, ok := m["trigger"]; ok {
		st.request = parseRequest(text)
	}
	if text, ok := m["run"]; ok {
		st.running = parseRun(r.Name, text, false)
	}
	return st
}

// parseRun reads a run as the scripts write it: FENCE KIND NUMBER STARTED WHO, and one that has
// ended as FENCE KIND NUMBER STARTED ENDED OUTCOME WHO, with the error in the lines after.
func parseRun(job, text string, ended bool) *Run {
	n := 5
	if ended {
		n = 7
	}
	head, problem, _ := strings.Cut(text, "\n")
	part := strings.SplitN(head, " ", n)
	if len(part) != n {
		return nil
	}
	run := &Run{
		Job:       job,
		Fence:     lockkeeper.Fence(number(part[0])),
		Triggered: part[1] == trigger,
		Started:   time.UnixMicro(number(part[3])).UTC(),
		Who:       part[n-1],
		Error:     problem,
	}
	if run.Triggered {
		run.Scheduled = time.UnixMicro(number(part[2])).UTC()
	} else {
		run.Scheduled = time.UnixMilli(number(part[2])).UTC()
	}
	if ended {
		run.Ended = time.UnixMicro(number(part[4])).UTC()
		run.Outcome = Outcome(part[5])
	}
	return run
}

func unexpected(reply any) error {
	return fmt.Errorf("schedule: unexpected reply from Redis: %v (%T)", reply, reply)
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// number reads an integer that comes as one or in digits; 0 if it is neither.
func number(reply any) int64 {
	switch v := reply.(type) {
	case int64:
		return v
	case string:
		n, _ := strconv.ParseInt(v, 10, 64)
		return n
	}
	return 0
}
