package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"
)

// A job is what a worker does. Fields that a kind does not mention are not for it.
type job struct {
	Kind   string        `json:"kind"`
	System string        `json:"system"`
	Addr   string        `json:"addr"`
	TTL    time.Duration `json:"ttl"`
	Name   string        `json:"name"` // of the lock, or how the names of locks begin

	Goroutines int           `json:"goroutines,omitempty"` // cycles; contend: of each client
	Keys       int           `json:"keys,omitempty"`       // cycles: of each goroutine; hold: in all
	Try        bool          `json:"try,omitempty"`        // cycles: of locks that another client holds
	For        time.Duration `json:"for,omitempty"`        // cycles, hold; stall: until the call counts as stuck
	Beside     string        `json:"beside,omitempty"`     // cycles: the system to take turns with afterwards

	Clients int    `json:"clients,omitempty"` // contend
	First   int64  `json:"first,omitempty"`   // contend: the number of the first goroutine, from 1
	Group   int64  `json:"group,omitempty"`   // contend: the number of the first group, from 1
	Per     string `json:"per,omitempty"`     // contend: what a group is: goroutine, client or process
	Shared  string `json:"shared,omitempty"`  // contend: the file with the guard; without one it is the worker's own
}

// A link is the worker's end of the pipes to the coordinator.
type link struct {
	in  chan message
	out *json.Encoder
}

// runWorker does the job that comes first, and returns never: the process ends with
// its input, whatever it is doing then.
func runWorker() {
	l := &link{make(chan message), json.NewEncoder(os.Stdout)}
	go func() {
		decoder := json.NewDecoder(os.Stdin)
		for {
			var m message
			if decoder.Decode(&m) != nil {
				os.Exit(0)
			}
			l.in <- m
		}
	}()
	if err := l.work(context.Background()); err != nil {
		l.say("error", err.Error())
	}
	for range l.in { // nothing is to come but the end
	}
}

func (l *link) work(ctx context.Context) error {
	var j job
	if err := l.hear(ctx, "job", &j); err != nil {
		return err
	}
	if j.Kind == "burn" {
		return burn(l)
	}
	sys, err := systemNamed(j.System)
	if err != nil {
		return err
	}
	var work func(context.Context, *link, job, system) error
	switch j.Kind {
	case "cycles":
		work = workCycles
	case "contend":
		work = workContend
	case "hold":
		work = workHold
	case "holder":
		work = workHolder
	case "waiter":
		work = workWaiter
	case "stall":
		work = workStall
	default:
		return fmt.Errorf("no job %q", j.Kind)
	}
	if err := work(ctx, l, j, sys); err != nil {
		return fmt.Errorf("%s of %s: %w", j.Kind, sys.name, err)
	}
	return nil
}

// say tells the coordinator something. That it is gone shows at the other pipe.
func (l *link) say(kind string, data any) {
	m, err := newMessage(kind, data)
	if err != nil {
		m, _ = newMessage("error", err.Error()) // a string can be encoded
	}
	_ = l.out.Encode(m)
}

// hear waits for the coordinator's next message, which must be of that kind.
func (l *link) hear(ctx context.Context, kind string, data any) error {
	select {
	case m := <-l.in:
		return m.open(kind, data)
	case <-ctx.Done():
		return ctx.Err()
	}
}
