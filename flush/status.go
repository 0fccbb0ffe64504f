package flush

import (
	"context"
	"time"
)

// A Status is how a job is, as Redis says.
type Status struct {
	Dirty    int           // keys that have changed and are not flushed, all that follow included
	Oldest   time.Duration // how long the oldest of them has been
	Unaged   int           // of them, that an application has put into a set: how long ago is not known
	Waiting  int           // of them, whose rows refer to rows that are not there yet
	Held     []Held        // of them, whose mappings are or were paused
	Parked   int           // keys that can't be flushed
	Epoch    int64         // of the worker that may acknowledge; 0: there was none
	Pauses   []Pause       // of the job and of its mappings
	Members  []Member      // the processes, who is active first
	Config   string        // of the mappings that this engine has, as in Member
	StepDown int64         // the epoch that was last asked to end
}

// A Held says how many changes of a mapping are put aside, because it is paused.
type Held struct {
	Table  string
	Keys   int
	Oldest time.Duration
}

// Status asks Redis, in one round trip. Any process may ask.
func (e *Engine) Status(ctx context.Context) (Status, error) {
	k := e.keys
	keys := append([]string{k.Dirty, k.Parked, k.Epoch, k.Changed, k.Deleted, k.Control, k.Members}, e.aside()...)
	reply, err := e.eval(ctx, statusScript, keys)
	if err != nil {
		return Status{}, err
	}
	v, ok := reply.([]any)
	if !ok || len(v) != 9 {
		return Status{}, unexpected(reply)
	}
	now := number(v[0])
	age := func(since any) time.Duration {
		if at := number(since); at > 0 {
			return max(0, time.Duration(now-at)*time.Microsecond)
		}
		return 0
	}
	c := parseControl(v[6])
	s := Status{
		Dirty:    int(number(v[1]) + number(v[5])),
		Oldest:   age(v[2]),
		Unaged:   int(number(v[5])),
		Parked:   int(number(v[3])),
		Epoch:    number(v[4]),
		Pauses:   c.pauses(),
		Members:  parseMembers(v[7], now),
		Config:   e.configHash(),
		StepDown: number(c[fieldStepDown]),
	}
	aside, _ := v[8].([]any)
	if len(aside) != 2*(1+len(e.routes)) {
		return Status{}, unexpected(reply)
	}
	for i := 0; i < len(aside); i += 2 {
		n, oldest := int(number(aside[i])), age(aside[i+1])
		s.Dirty += n
		s.Oldest = max(s.Oldest, oldest)
		switch {
		case i == 0:
			s.Waiting = n
		case n > 0:
			s.Held = append(s.Held, Held{e.routes[i/2-1].Table, n, oldest})
		}
	}
	return s, nil
}
