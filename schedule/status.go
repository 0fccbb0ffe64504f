package schedule

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper"
)

// A Run is one run of a job, on its way or in its history. All times but Scheduled are the
// server's.
type Run struct {
	Job       string           `json:"job"`
	Scheduled time.Time        `json:"scheduled"` // the tick, or when it was triggered
	Triggered bool             `json:"triggered,omitempty"`
	Started   time.Time        `json:"started"`
	Ended     time.Time        `json:"ended,omitzero"` // zero while it runs; of one whose process died, when that was found out
	Who       string           `json:"who"`            // the label of its process
	Fence     lockkeeper.Fence `json:"fence"`
	Outcome   Outcome          `json:"outcome,omitempty"` // "" while it runs
	Error     string           `json:"error,omitempty"`   // at most about 1000 bytes of it
}

// A Status is how a schedule is.
type Status struct {
	Schedule string      `json:"schedule"`
	Time     time.Time   `json:"time"` // of the server
	Jobs     []JobStatus `json:"jobs"`
	Members  []Member    `json:"members"`

	// Differs is true if a process that lives has other jobs than the one that asks, or the same with
	// other settings.
	Differs bool `json:"differs"`
}

// A Holder is who has the lock of a job.
type Holder struct {
	Who   string           `json:"who"`   // its label; "" if it is not Lockkeeper
	Fence lockkeeper.Fence `json:"fence"` // 0 then
	Since time.Time        `json:"since,omitzero"`
}

// holderOf reads the value of a lock: lk1:OWNER:FENCE:SINCE:LABEL.
func holderOf(value string) *Holder {
	part := strings.SplitN(value, ":", 5)
	if len(part) != 5 || part[0] != "lk1" {
		return &Holder{}
	}
	return &Holder{Who: part[4], Fence: lockkeeper.Fence(number(part[2])), Since: time.UnixMicro(number(part[3])).UTC()}
}

// A JobStatus is how one job is.
type JobStatus struct {
	Name   string `json:"name"`
	When   string `json:"when"`
	Leader bool   `json:"leader,omitempty"`

	// Next is the tick that is run next, without its jitter; zero if there is none, or while the
	// job is paused.
	Next time.Time `json:"next,omitzero"`

	Paused  *Pause   `json:"paused,omitempty"`
	Request *Request `json:"request,omitempty"` // that nobody has taken yet

	// Holder is who leads the job, or runs it now; nil is nobody.
	Holder *Holder `json:"holder,omitempty"`

	// Running is the run on its way. Interrupted is one whose process has died or lost the lock
	// before it told of its end, until the next run begins.
	Running     *Run `json:"running,omitempty"`
	Interrupted *Run `json:"interrupted,omitempty"`

	// Latest is the last run that has ended.
	Latest *Run `json:"latest,omitempty"`
}

// Status asks how the schedule is: one request for each job, one for the processes. Jobs
// are those that this process has.
func (s *Scheduler) Status(ctx context.Context) (Status, error) {
	status := Status{Schedule: s.cfg.Name, Jobs: []JobStatus{}}
	var err error
	if status.Time, status.Members, err = s.members(ctx, "", ""); err != nil {
		return Status{}, err
	}
	for _, m := range status.Members {
		status.Differs = status.Differs || len(s.jobs) > 0 && m.Hash != s.hash
	}
	for _, r := range s.jobs {
		j, err := r.status(ctx)
		if err != nil {
			return Status{}, err
		}
		status.Jobs = append(status.Jobs, j)
	}
	return status, nil
}

// History returns the last runs of a job that have ended, n at most, the latest first.
func (s *Scheduler) History(ctx context.Context, job string, n int) ([]Run, error) {
	r := s.job(job)
	switch {
	case r == nil:
		return nil, fmt.Errorf("%w: %q in %q", ErrNoJob, job, s.cfg.Name)
	case n < 1:
		return nil, fmt.Errorf("schedule: %d runs: at least 1", n)
	}
	_, _, runs, err := r.look(ctx, n)
	return runs, err
}

// look reads everything of a job.
func (r *runner) look(ctx context.Context, n int) (st state, holder *Holder, runs []Run, err error) {
	reply, err := r.s.eval(ctx, lookScript, []string{r.keys.lock, r.keys.state, r.keys.runs}, strconv.Itoa(n))
	if err != nil {
		return st, holder, nil, err
	}
	v, ok := reply.([]any)
	if !ok || len(v) != 4 {
		return st, holder, nil, unexpected(reply)
	}
	if value, held := v[1].(string); held {
		holder = holderOf(value)
	}
	list, _ := v[3].([]any)
	for _, item := range list {
		text, _ := item.(string)
		if run := parseRun(r.Name, text, true); run != nil {
			runs = append(runs, *run)
		}
	}
	return r.parseState(v[0], v[2]), holder, runs, nil
}

func (r *runner) status(ctx context.Context) (JobStatus, error) {
	st, holder, runs, err := r.look(ctx, 1)
	if err != nil {
		return JobStatus{}, err
	}
	j := JobStatus{Name: r.Name, When: r.When.String(), Leader: r.Leader, Paused: st.paused, Request: st.request, Holder: holder}
	if len(runs) > 0 {
		j.Latest = &runs[0]
	}
	if st.running != nil && holder != nil && holder.Fence > 0 && st.running.Fence >= holder.Fence {
		j.Running = st.running
	} else {
		j.Interrupted = st.running
	}
	st.request = nil
	if st.last == 0 { // no process has begun to run it
		st.last = st.now / 1000
	}
	if w := r.Job.next(st, time.UnixMicro(st.now)); w.kind != "" {
		j.Next = w.scheduled
	}
	return j, nil
}
