package schedule

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// A Pause says that the ticks of a job are not run.
type Pause struct {
	Reason string    `json:"reason,omitempty"`
	By     string    `json:"by,omitempty"`
	Since  time.Time `json:"since"`
}

// A Request asks for one run of a job, beside its ticks.
type Request struct {
	Reason string    `json:"reason,omitempty"`
	By     string    `json:"by,omitempty"`
	At     time.Time `json:"at"`

	number int64
}

// Trigger asks for one run of a job as soon as possible, whether it is paused or not. It does
// not wait for it; whichever process runs the job hears of it at once, or within seconds, and
// MinHold is kept. The run happens at most once: if its process dies meanwhile it is not
// repeated. Requests that nobody has taken yet become one, the latest. Trigger returns
// when it was asked for, by the server's clock: that is what its run has as Scheduled.
func (s *Scheduler) Trigger(ctx context.Context, job string, r Request) (time.Time, error) {
	return s.control(ctx, job, "trigger", r)
}

// Pause stops the ticks of a job, on all machines, until Resume; at the latest within seconds. A run on
// its way goes on. A pause is forgotten when no process has run the schedule for 90 days.
func (s *Scheduler) Pause(ctx context.Context, job string, p Pause) error {
	if p.Since.IsZero() {
		p.Since = s.now()
	}
	p.Since = p.Since.UTC().Truncate(time.Millisecond)
	_, err := s.control(ctx, job, "pause", p)
	return err
}

// Resume ends the pause of a job. Ticks that came meanwhile are not caught up. Resuming what is
// not paused changes nothing.
func (s *Scheduler) Resume(ctx context.Context, job string) error {
	_, err := s.control(ctx, job, "resume", nil)
	return err
}

// control asks for something, and returns when, by the server's clock.
func (s *Scheduler) control(ctx context.Context, job, verb string, what any) (at time.Time, err error) {
	r := s.job(job)
	if r == nil {
		return at, fmt.Errorf("%w: %q in %q", ErrNoJob, job, s.cfg.Name)
	}
	text, err := json.Marshal(what)
	if err != nil {
		return at, err
	}
	reply, err := s.eval(ctx, controlScript, []string{r.keys.state}, verb, string(text), channelOf(s.locks.Prefix(), s.cfg.Name), job, millis(stateLife))
	if err != nil {
		return at, err
	}
	return time.UnixMicro(number(reply)).UTC(), nil
}

func parsePause(text string) *Pause {
	p := &Pause{}
	if json.Unmarshal([]byte(text), p) != nil {
		p.Reason = text // somebody has set it by hand
	}
	return p
}

// parseRequest reads a request; nil if it is none.
func parseRequest(text string) *Request {
	us, rest, _ := strings.Cut(text, " ")
	r := &Request{}
	if err := json.Unmarshal([]byte(rest), r); err != nil || number(us) == 0 {
		return nil
	}
	r.number = number(us)
	r.At = time.UnixMicro(r.number).UTC() // of the server
	return r
}
