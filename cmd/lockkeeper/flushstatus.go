package main

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/flush"
)

func (a *app) flushStatusCommand() *cobra.Command {
	var asJSON, watch bool
	c := &cobra.Command{
		Use:   "status -f FILE",
		Short: "Show whether changes are flushed, what waits, and who is active",
		Long: `Show in words how the job is and what to do, and then the age of the oldest change that
is not flushed, how many keys wait or are parked, what is paused by whom, which process
is active, and which others could take over. It asks Redis, and not the database.

Only the first line is one of: OK, CATCHING UP, STANDBY NOT READY, CONFIGURATION DIFFERS,
PARKED KEYS, SCAN REFUSED, MAPPING PAUSED, OTHER DATABASE, WAITING FOR DATABASE, WAITING FOR REDIS, NO ACTIVE PROCESS,
HELD BY ANOTHER PROGRAM, PAUSED; what else is the case follows it, after "also".

--watch shows it again and again until Ctrl-C, with rates: every second in place on a
terminal, every two seconds one below the other elsewhere.`,
		Example: `  lockkeeper flush status -f players.yaml
  lockkeeper flush status -f players.yaml --watch
  lockkeeper flush status -f players.yaml --json | jq .oldest_seconds`,
		RunE: func(c *cobra.Command, _ []string) error {
			k, err := a.openConsole(c)
			if err != nil {
				return err
			}
			defer k.close()
			if watch {
				return a.watchStatus(c.Context(), k, asJSON)
			}
			s, err := k.look(c.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(a.stdout, s)
			}
			_, err = io.WriteString(a.stdout, strings.Join(s.lines(time.Now()), "\n")+"\n")
			return err
		},
	}
	c.Flags().BoolVar(&watch, "watch", false, "show it until Ctrl-C, with rates")
	takesJSON(c, &asJSON)
	return c
}

// printJSON prints one value over several lines.
func printJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}

// A jobStatus is what flush status shows; its JSON is part of the program's interface.
type jobStatus struct {
	Job           string       `json:"job"`
	State         string       `json:"state"`          // in a few words, such as OK
	OldestSeconds float64      `json:"oldest_seconds"` // how long the first of the keys that wait has
	Dirty         int          `json:"dirty"`          // keys that wait, all that follow included
	Unaged        int          `json:"unaged"`         // of them, that are not in oldest_seconds: an application put them into a set
	Waiting       int          `json:"waiting"`        // of them, for rows that they refer to
	Held          []jobHeld    `json:"held"`           // of them, since their mapping is or was paused
	Parked        int          `json:"parked"`
	Epoch         int64        `json:"epoch"`
	Refused       int          `json:"refused"` // writes that came too late, of the processes that are there
	Active        *jobLeader   `json:"active"`  // null: nobody
	States        []jobState   `json:"states"`  // all that apply, the one in State first
	Pauses        []jobPause   `json:"pauses"`
	Processes     []jobProcess `json:"processes"`
	Rates         *rates       `json:"rates,omitempty"` // with --watch
	At            time.Time    `json:"at"`              // by the clock of the machine that asked

	of *job
}

type jobHeld struct {
	Table         string  `json:"table"`
	Keys          int     `json:"keys"`
	OldestSeconds float64 `json:"oldest_seconds"`
}

type jobLeader struct {
	Label        string    `json:"label"`
	Fence        string    `json:"fence"` // digits; too large for some readers of numbers
	Since        time.Time `json:"since"`
	LeaseSeconds float64   `json:"lease_seconds"` // until another can take over, unless renewed; negative: for ever

	foreign bool
}

type jobPause struct {
	flush.Pause
	Seconds float64 `json:"seconds"` // for how long
}

// A jobProcess is a process as it says itself, every two seconds.
type jobProcess struct {
	Label         string             `json:"label"`
	ID            string             `json:"id"`
	Role          string             `json:"role"` // active, standby, former for one that was superseded, silent for one that says nothing any more
	Epoch         int64              `json:"epoch"`
	Ready         bool               `json:"ready"` // it can reach the database
	Trouble       string             `json:"trouble,omitempty"`
	ConfigDiffers bool               `json:"config_differs"` // its mappings are not those of the file
	Started       time.Time          `json:"started"`
	LastPass      time.Time          `json:"last_pass,omitzero"`
	SaidSeconds   float64            `json:"said_seconds"` // how old this is
	Total         flush.Stats        `json:"total"`        // what it has flushed
	Refused       int                `json:"refused"`
	Scans         []flush.ScanResult `json:"scans,omitempty"`
}

// The roles of a process.
const (
	active  = "active"
	standby = "standby"
	former  = "former" // it was superseded, and does not know it yet
	silent  = "silent"
)

// silentAfter is how long it is believed that a process is there which says nothing.
const silentAfter = 10 * time.Second

// look asks Redis for the status.
func (c *console) look(ctx context.Context) (*jobStatus, error) {
	s, lock, err := c.status(ctx)
	if err != nil {
		return nil, err
	}
	status := newJobStatus(c.job, s, lock, time.Now())
	status.judge()
	return status, nil
}

func newJobStatus(j *job, s flush.Status, lock lockkeeper.State, now time.Time) *jobStatus {
	status := &jobStatus{
		Job:           j.Job,
		OldestSeconds: seconds(s.Oldest),
		Dirty:         s.Dirty,
		Unaged:        s.Unaged,
		Waiting:       s.Waiting,
		Held:          []jobHeld{},
		Parked:        s.Parked,
		Epoch:         s.Epoch,
		Pauses:        []jobPause{},
		Processes:     []jobProcess{},
		At:            now.UTC().Truncate(time.Millisecond),
		of:            j,
	}
	for _, h := range s.Held {
		status.Held = append(status.Held, jobHeld{h.Table, h.Keys, seconds(h.Oldest)})
	}
	for _, p := range s.Pauses {
		status.Pauses = append(status.Pauses, jobPause{p, seconds(max(0, now.Sub(p.Since)))})
	}
	for i := range s.Members {
		m := &s.Members[i]
		status.Refused += m.Refused
		status.Processes = append(status.Processes, newJobProcess(m, &s))
	}
	if !lock.Held {
		return status
	}
	status.Active = &jobLeader{
		Label:        lock.Holder.Label,
		Fence:        lock.Holder.Fence.String(),
		Since:        lock.Holder.Since.UTC(),
		LeaseSeconds: seconds(lock.Left),
		foreign:      lock.Holder.Foreign,
	}
	if lock.Holder.Foreign {
		status.Active.Label = lock.Holder.String()
	}
	return status
}

func newJobProcess(m *flush.Member, s *flush.Status) jobProcess {
	p := jobProcess{
		Label:         m.Label,
		ID:            m.ID,
		Role:          standby,
		Epoch:         m.Epoch,
		Ready:         m.Ready,
		Trouble:       m.Trouble,
		ConfigDiffers: m.Config != s.Config,
		Started:       m.Started,
		LastPass:      m.LastPass,
		SaidSeconds:   seconds(m.Age),
		Total:         m.Total,
		Refused:       m.Refused,
		Scans:         m.Scans,
	}
	switch {
	case m.Age > silentAfter:
		p.Role = silent
	case m.Epoch > 0 && m.Epoch < s.Epoch:
		p.Role = former
	case m.Epoch > 0:
		p.Role = active
	}
	if p.Trouble == flush.ErrPaused.Error() {
		p.Trouble = "" // that is no trouble, and told elsewhere
	}
	return p
}

// worker returns the process that says that it is active, or nil.
func (s *jobStatus) worker() *jobProcess {
	var best *jobProcess
	for i := range s.Processes {
		p := &s.Processes[i]
		if p.Role == active && (best == nil || cmp.Compare(p.Epoch, best.Epoch) > 0) {
			best = p
		}
	}
	return best
}

// seconds returns a time in seconds with three decimals; any negative one is -1.
func seconds(d time.Duration) float64 {
	if d < 0 {
		return -1
	}
	return float64(d.Round(time.Millisecond).Milliseconds()) / 1000
}
