package flush

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// ErrPaused says that an operator has paused the job.
var ErrPaused = errors.New("flush: the job is paused")

// ErrSteppedDown says that the term was asked to end, by StepDown, or because another
// process can reach the database and this one can't.
var ErrSteppedDown = errors.New("flush: asked to step down")

// control is what operators ask for, and which mappings are paused: the fields of the
// hash Keys.Control.
type control map[string]string

// The fields of control.
const (
	fieldPause    = "pause"     // a Pause: of the whole job; "pause:TABLE" is that of a mapping
	fieldNow      = "now"       // anything: a new value asks for a pass at once
	fieldStepDown = "step-down" // the epoch that is asked to end
)

// A Pause says that a job, or the mapping of a table, is paused.
type Pause struct {
	Table  string    `json:"table,omitempty"` // "" is the whole job
	Reason string    `json:"reason"`
	By     string    `json:"by,omitempty"`
	Since  time.Time `json:"since"`

	// Auto: the active process has paused the mapping, because its table can't be
	// written to, or too many of its keys would have been parked.
	Auto bool `json:"auto,omitempty"`

	// Retries: the active process tries again by itself from time to time.
	Retries bool `json:"retries,omitempty"`
}

func parseControl(reply any) control {
	list, _ := reply.([]any)
	c := make(control, len(list)/2)
	for i := 0; i+1 < len(list); i += 2 {
		name, _ := list[i].(string)
		c[name], _ = list[i+1].(string)
	}
	return c
}

// stops returns why a term with this epoch must not go on, or nil.
func (c control) stops(epoch int64) error {
	if c[fieldStepDown] == formatInt(epoch) {
		return ErrSteppedDown
	}
	if c[fieldPause] != "" {
		return ErrPaused
	}
	return nil
}

// pausedTables returns the tables of the mappings that are paused.
func (c control) pausedTables() map[string]bool {
	var tables map[string]bool
	for field := range c {
		if table, ok := strings.CutPrefix(field, fieldPause+":"); ok {
			if tables == nil {
				tables = make(map[string]bool)
			}
			tables[table] = true
		}
	}
	return tables
}

// pauses returns all pauses, that of the job first.
func (c control) pauses() []Pause {
	var list []Pause
	for field, text := range c {
		table, isTable := strings.CutPrefix(field, fieldPause+":")
		if !isTable && field != fieldPause {
			continue
		}
		p := Pause{}
		if json.Unmarshal([]byte(text), &p) != nil {
			p.Reason = text // somebody has set it by hand
		}
		p.Table = table
		if !isTable {
			p.Table = ""
		}
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b Pause) int { return cmp.Compare(a.Table, b.Table) })
	return list
}

func pauseField(table string) string {
	if table == "" {
		return fieldPause
	}
	return fieldPause + ":" + table
}

// setControl changes fields; "" takes one away.
func (e *Engine) setControl(ctx context.Context, fieldsAndValues ...string) error {
	_, err := e.eval(ctx, controlScript, []string{e.keys.Control}, fieldsAndValues...)
	return err
}

// Pause stops the flushing of the job, or of one mapping, until Resume. The active
// process stays active, and notices within a second. Marks are kept.
func (e *Engine) Pause(ctx context.Context, p Pause) error {
	if _, err := e.routesOf(p.Table); err != nil {
		return err
	}
	if p.Since.IsZero() {
		p.Since = time.Now()
	}
	p.Since = p.Since.UTC().Truncate(time.Millisecond)
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return e.setControl(ctx, pauseField(p.Table), string(text))
}

// Resume ends the pause of the job (""), or of the mapping of a table. Resuming what is
// not paused changes nothing.
func (e *Engine) Resume(ctx context.Context, table string) error {
	if _, err := e.routesOf(table); err != nil {
		return err
	}
	// The worker brings back what it has put aside for a mapping that is not paused: from
	// here it could put something aside after our last look.
	return e.setControl(ctx, pauseField(table), "")
}

// unhold brings back all marks that were put aside.
func (e *Engine) unhold(ctx context.Context, where string) error {
	for {
		reply, err := e.eval(ctx, unholdScript, []string{e.keys.Dirty, where}, formatInt(chunkSize))
		if err != nil || number(reply) == 0 {
			return err
		}
	}
}

// Now asks the active process for a pass at once, for those with long intervals.
func (e *Engine) Now(ctx context.Context) error {
	return e.setControl(ctx, fieldNow, formatInt(time.Now().UnixNano()))
}

// StepDown asks the process that is active with this epoch to let another one be it.
func (e *Engine) StepDown(ctx context.Context, epoch int64) error {
	return e.setControl(ctx, fieldStepDown, formatInt(epoch))
}

func errNoTable(table string) error { return fmt.Errorf("flush: no mapping has the table %q", table) }
