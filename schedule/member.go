package schedule

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"
)

const (
	// reportEvery is how often a process says how it is.
	reportEvery = 10 * time.Second

	// forgotten is after how long a process counts as dead that has not.
	forgotten = 30 * time.Second
)

// A Member is a process that runs the schedule.
type Member struct {
	ID    string    `json:"id"`
	Label string    `json:"label"`
	Since time.Time `json:"since"` // by its own clock
	Seen  time.Time `json:"seen"`  // when it told this, by the server's clock

	// Hash is of its jobs and their settings.
	Hash string `json:"hash"`

	// Ahead is how far its clock is ahead of the server's, less the time that a request takes.
	Ahead time.Duration `json:"ahead"`
}

// saying is what a process says of itself.
type saying struct {
	Label string `json:"label"`
	Since int64  `json:"since"` // in us
	Now   int64  `json:"now"`
	Hash  string `json:"hash"`
}

// report says how this process is until ctx ends, and tells the log of processes with other jobs.
func (s *Scheduler) report(ctx context.Context) {
	since := s.now().UnixMicro()
	differs, wrong := false, false
	for failures := 0; ; {
		text, _ := json.Marshal(saying{s.cfg.Label, since, s.now().UnixMicro(), s.hash}) // it has nothing that can't be JSON
		pause := reportEvery
		if _, members, err := s.members(ctx, s.id, string(text)); err == nil {
			differs, wrong = s.compare(members, differs), s.checkClock(members, wrong)
			failures = 0
		} else {
			pause = max(pause, backoff(failures))
			failures++
		}
		if rest(ctx, pause) != nil {
			break
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_, _, _ = s.members(ctx, s.id, "") // else it is forgotten some seconds later
}

// compare warns of processes with other jobs when there are some and were none before.
func (s *Scheduler) compare(members []Member, before bool) bool {
	var others []string
	for _, m := range members {
		if m.Hash != s.hash {
			others = append(others, m.Label)
		}
	}
	if len(others) > 0 && !before {
		s.cfg.Logger.Warn("processes of this schedule have other jobs or settings", "schedule", s.cfg.Name, "processes", strings.Join(others, ", "))
	}
	return len(others) > 0
}

// checkClock warns when the clock of this process begins to be far from the server's: it
// runs ticks late then, or waits for the server's clock.
func (s *Scheduler) checkClock(members []Member, before bool) bool {
	i := slices.IndexFunc(members, func(m Member) bool { return m.ID == s.id })
	wrong := i >= 0 && members[i].Ahead.Abs() > earlyMost
	if wrong && !before {
		s.cfg.Logger.Warn("the clock of this machine, or of the Redis server, is wrong", "schedule", s.cfg.Name, "ahead", members[i].Ahead)
	}
	return wrong
}

// members says how this process is, unless its ID is "", and returns all.
func (s *Scheduler) members(ctx context.Context, id, text string) (now time.Time, members []Member, err error) {
	reply, err := s.eval(ctx, memberScript, []string{membersKey(s.locks.Prefix(), s.cfg.Name)}, id, text, millis(forgotten))
	if err != nil {
		return now, nil, err
	}
	v, ok := reply.([]any)
	if !ok || len(v) != 2 {
		return now, nil, unexpected(reply)
	}
	list, _ := v[1].([]any)
	members = []Member{}
	for i := 0; i+1 < len(list); i += 2 {
		id, _ := list[i].(string)
		text, _ := list[i+1].(string)
		us, text, _ := strings.Cut(text, " ")
		var say saying
		if json.Unmarshal([]byte(text), &say) != nil {
			continue
		}
		members = append(members, Member{
			ID:    id,
			Label: say.Label,
			Since: time.UnixMicro(say.Since).UTC(),
			Seen:  time.UnixMicro(number(us)).UTC(),
			Hash:  say.Hash,
			Ahead: time.Duration(say.Now-number(us)) * time.Microsecond,
		})
	}
	slices.SortFunc(members, func(a, b Member) int { return cmp.Or(cmp.Compare(a.Label, b.Label), cmp.Compare(a.ID, b.ID)) })
	return time.UnixMicro(number(v[0])).UTC(), members, nil
}
