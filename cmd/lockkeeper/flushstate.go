package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/flush"
)

// A jobState is something that is the case with a job, and what to do about it.
type jobState struct {
	Name string `json:"name"`         // one of the words below
	Text string `json:"text"`         // in a sentence
	Do   string `json:"do,omitempty"` // what to do; "" is nothing
}

// The states, the most urgent first.
const (
	stateForeign     = "HELD BY ANOTHER PROGRAM"
	statePaused      = "PAUSED"
	stateDatabase    = "WAITING FOR DATABASE"
	stateRedis       = "WAITING FOR REDIS"
	stateOther       = "OTHER DATABASE"
	stateInactive    = "NO ACTIVE PROCESS"
	stateMapping     = "MAPPING PAUSED"
	stateScan        = "SCAN REFUSED"
	stateParked      = "PARKED KEYS"
	stateBehind      = "CATCHING UP"
	stateConfig      = "CONFIGURATION DIFFERS"
	stateNotReady    = "STANDBY NOT READY"
	stateOK          = "OK"
	stateUnreachable = "NO ANSWER FROM REDIS" // with --watch only
)

// behindAfter is how much longer than the interval a change may wait until that is told.
const behindAfter = 5 * time.Second

// judge finds out which states apply, the most urgent first.
func (s *jobStatus) judge() {
	s.States = nil
	for _, check := range []func() *jobState{
		s.isForeign, s.isPaused, s.isInactive, s.isTroubled, s.hasPausedMapping, s.hasRefusedScan, s.hasParked, s.isBehind, s.hasOtherConfig, s.hasUnreadyStandby,
	} {
		if state := check(); state != nil {
			s.States = append(s.States, *state)
		}
	}
	if len(s.States) == 0 {
		text := "everything is flushed"
		if s.Dirty > 0 {
			text = fmt.Sprintf("flushing; the oldest change waits for %s", s.age())
		}
		s.States = []jobState{{Name: stateOK, Text: text}}
	}
	s.State = s.States[0].Name
}

// age says how long the oldest change waits, as far as that is known.
func (s *jobStatus) age() string {
	switch {
	case s.Unaged == 0:
		return short(s.oldest())
	case s.OldestSeconds == 0:
		return "a time that is not known, since the application put it into a set"
	}
	return short(s.oldest()) + " or more"
}

func (s *jobStatus) oldest() time.Duration { return ofSeconds(s.OldestSeconds) }

func (s *jobStatus) isForeign() *jobState {
	if s.Active == nil || !s.Active.foreign {
		return nil
	}
	left := "it has no TTL, and stays until somebody deletes it"
	if s.Active.LeaseSeconds >= 0 {
		left = fmt.Sprintf("it has %s left", short(ofSeconds(s.Active.LeaseSeconds)))
	}
	return &jobState{stateForeign, "the key of the lock has a value that is not Lockkeeper's; " + left, "find out what has set it"}
}

func (s *jobStatus) isPaused() *jobState {
	for _, p := range s.Pauses {
		if p.Table == "" {
			return &jobState{statePaused, fmt.Sprintf("%s: %s; %s", pausedBy(p), plainLine(p.Reason), s.waiting()), "go on: " + s.of.command("resume")}
		}
	}
	return nil
}

// pausedBy says who has paused something, and for how long.
func pausedBy(p jobPause) string {
	by := plainLine(p.By)
	if p.By == "" {
		by = "somebody"
	}
	if p.Since.IsZero() {
		return "by " + by
	}
	return fmt.Sprintf("by %s for %s", by, short(ofSeconds(p.Seconds)))
}

// waiting says how much there is to flush.
func (s *jobStatus) waiting() string {
	if s.Dirty == 0 {
		return "nothing waits"
	}
	return fmt.Sprintf("%s, the oldest for %s", count(s.Dirty, "key waits", "keys wait"), s.age())
}

// isInactive is for a lock that nobody holds.
func (s *jobStatus) isInactive() *jobState {
	if s.Active != nil {
		return nil
	}
	standbys, unready := 0, (*jobProcess)(nil)
	for i := range s.Processes {
		p := &s.Processes[i]
		if p.Role == silent {
			continue
		}
		standbys++
		if p.Trouble != "" && unready == nil {
			unready = p
		}
	}
	switch {
	case unready != nil:
		name, do := trouble(unready.Trouble)
		return &jobState{name, fmt.Sprintf("no process is active, and %s says: %s; %s", unready.Label, plainLine(unready.Trouble), s.waiting()), do}
	case standbys > 0:
		return &jobState{stateInactive, fmt.Sprintf("%s by, and one should be active in a moment; %s", count(standbys, "process stands", "processes stand"), s.waiting()), ""}
	}
	text := s.waiting()
	if s.Epoch == 0 {
		text += ", and no process of this job was ever active here (are --redis and --prefix right?)"
	}
	return &jobState{stateInactive, text, "start one: " + s.of.command("run")}
}

// isTroubled is for an active process that can't flush.
func (s *jobStatus) isTroubled() *jobState {
	w := s.worker()
	if s.Active == nil || w == nil || w.Trouble == "" {
		return nil
	}
	name, do := trouble(w.Trouble)
	return &jobState{name, fmt.Sprintf("%s says: %s; nothing is lost, %s", w.Label, plainLine(w.Trouble), s.waiting()), do}
}

// trouble returns the state that the error of a process is, and what to do about it.
func trouble(text string) (name, do string) {
	switch {
	case strings.Contains(text, flush.ErrOtherDatabase.Error()):
		return stateOther, "correct the database of its file; or, if it is to be the new one, run it once with --adopt-database, and resync"
	case !strings.Contains(text, ": Redis: "):
		return stateDatabase, ""
	case strings.Contains(text, "NOPERM"), strings.Contains(text, "executing the script can't"):
		return stateRedis, "give the user the rights that docs/PROTOCOL.md lists"
	}
	return stateRedis, ""
}

func (s *jobStatus) hasPausedMapping() *jobState {
	var list []string
	do := ""
	for _, p := range s.Pauses {
		if p.Table == "" {
			continue
		}
		text := fmt.Sprintf("table %s %s: %s", p.Table, pausedBy(p), plainLine(p.Reason))
		if p.Retries {
			text += " (it is tried again by itself)"
		} else if do == "" {
			do = "go on: " + s.of.command("resume --table "+p.Table)
		}
		list = append(list, text)
	}
	if list == nil {
		return nil
	}
	return &jobState{stateMapping, strings.Join(list, "; "), do}
}

// hasRefusedScan is for a scan that has found that too many keys have gone.
func (s *jobStatus) hasRefusedScan() *jobState {
	w := s.worker()
	if w == nil {
		return nil
	}
	for _, scan := range w.Scans {
		if scan.Refused {
			return &jobState{stateScan, fmt.Sprintf("%d of %d keys of the table %s have gone at once: no row is deleted", scan.Gone, scan.Keys+scan.Gone, scan.Table),
				"bring the keys back; or, if they are to be gone, " + s.of.command("verify --repair --deletes 100% --table "+scan.Table)}
		}
	}
	return nil
}

func (s *jobStatus) hasParked() *jobState {
	if s.Parked == 0 {
		return nil
	}
	return &jobState{stateParked, count(s.Parked, "key", "keys") + " can't be flushed, each with its reason", "see " + s.of.command("parked ls")}
}

func (s *jobStatus) isBehind() *jobState {
	if s.oldest() <= s.of.Interval+behindAfter || s.Active == nil {
		return nil
	}
	text := s.waiting()
	if s.Rates != nil && s.Rates.EmptySeconds > 0 {
		text += "; empty in " + short(ofSeconds(s.Rates.EmptySeconds))
	}
	return &jobState{stateBehind, text, ""}
}

func (s *jobStatus) hasOtherConfig() *jobState {
	var list []string
	for i := range s.Processes {
		if p := &s.Processes[i]; p.ConfigDiffers && p.Role != silent {
			list = append(list, p.Label)
		}
	}
	if list == nil {
		return nil
	}
	return &jobState{stateConfig, fmt.Sprintf("the mappings of %s are not those of %s", strings.Join(list, " and "), s.of.Name), "use the same file everywhere, and restart"}
}

func (s *jobStatus) hasUnreadyStandby() *jobState {
	if s.Active == nil {
		return nil
	}
	for i := range s.Processes {
		p := &s.Processes[i]
		if p.Role == standby && !p.Ready && p.Trouble != "" {
			return &jobState{stateNotReady, fmt.Sprintf("%s could not take over: %s", p.Label, plainLine(p.Trouble)), ""}
		}
	}
	return nil
}
