package demo

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A director makes the faults, each when the one before it has had its effect.
type director struct {
	board *board
	fleet *fleet
	ttl   time.Duration
	total time.Duration
}

// patience is how long the director waits for something that must happen.
func (d *director) patience() time.Duration { return 10*time.Second + 5*d.ttl }

// run makes both faults. It returns when the last one has had its effect, or what did
// not happen.
func (d *director) run(ctx context.Context) error {
	if !d.someActive(ctx, "") {
		return d.missed(ctx, "no worker became active")
	}
	d.at(ctx, d.total/3)
	if err := d.killActive(ctx); err != nil {
		return err
	}
	d.at(ctx, d.total*11/20)
	return d.freezeActive(ctx)
}

// at waits until some time of the show.
func (d *director) at(ctx context.Context, offset time.Duration) {
	pause(ctx, time.Until(d.board.start.Add(offset)))
}

// someActive waits until a worker other than the named one is active.
func (d *director) someActive(ctx context.Context, other string) bool {
	return d.board.wait(ctx, d.patience(), func() bool { return d.board.active != "" && d.board.active != other })
}

// missed says what did not happen, unless the show was ended.
func (d *director) missed(ctx context.Context, format string, args ...any) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf(format, args...)
}

// activeProcess waits for an active worker and returns its process, or nil.
func (d *director) activeProcess(ctx context.Context) *process {
	if !d.someActive(ctx, "") {
		return nil
	}
	d.board.mu.Lock()
	defer d.board.mu.Unlock()
	for _, p := range d.fleet.processes {
		if p.name == d.board.active {
			return p
		}
	}
	return nil
}

func (d *director) killActive(ctx context.Context) error {
	p := d.activeProcess(ctx)
	if p == nil {
		return d.missed(ctx, "nobody was active when the active worker should be killed")
	}
	err := p.kill()
	now := time.Now()
	if err != nil {
		return fmt.Errorf("kill %s: %w", p.name, err)
	}
	d.board.change(func() {
		d.board.workers[p.name].what = "killed"
		d.board.workers[p.name].since = now
		d.board.out("killed", p.name, now)
		d.board.say(now, "%s is KILLED while it is active (SIGKILL)", p.name)
	})
	if !d.someActive(ctx, p.name) {
		return d.missed(ctx, "nobody took over from %s, which was killed", p.name)
	}
	return nil
}

// freezeActive stops the active worker between reading a batch and writing it,
// continues it when another one has written for longer than a TTL, and waits for the
// database to refuse what it then tries to write.
func (d *director) freezeActive(ctx context.Context) error {
	var p *process
	// A worker can lose its lease on a machine that is too busy, before it comes to
	// the point. Then the next one is taken.
	for tries := 0; p == nil; tries++ {
		active := d.activeProcess(ctx)
		if active == nil || tries == 5 {
			return d.missed(ctx, "no worker stayed active for long enough to be stopped")
		}
		d.board.tell("%s: its loss signal is switched off, as if its clock lied", active.name)
		stopped, err := d.freeze(ctx, active)
		if err != nil {
			return err
		}
		if stopped {
			p = active
		}
	}
	return d.thaw(ctx, p)
}

// freeze stops a worker at the point, and reports false if it has lost its lease before.
func (d *director) freeze(ctx context.Context, p *process) (bool, error) {
	if err := p.tell(cmdFreeze); err != nil {
		return false, fmt.Errorf("tell %s to stop: %w", p.name, err)
	}
	isStopped := func() bool { return d.board.workers[p.name].what == "stopped" }
	d.board.wait(ctx, d.patience(), func() bool { return isStopped() || d.board.active != p.name })
	var stopped bool
	d.board.change(func() { stopped = isStopped() })
	if !stopped {
		return false, p.tell(cmdNeverMind)
	}
	if err := stop(p.cmd.Process); err != nil {
		return false, fmt.Errorf("stop %s: %w", p.name, err)
	}
	return true, nil
}

// thaw continues a stopped worker when it is too late for it.
func (d *director) thaw(ctx context.Context, p *process) error {
	frozen := time.Now()
	var batches, refused int
	if !d.someActive(ctx, p.name) {
		return d.missed(ctx, "nobody took over from %s, which was stopped", p.name)
	}
	d.board.change(func() { batches, refused = d.board.batches, d.board.refused })
	if !d.board.wait(ctx, d.patience(), func() bool { return d.board.batches > batches }) {
		return d.missed(ctx, "the worker that took over from %s wrote nothing", p.name)
	}
	pause(ctx, time.Until(frozen.Add(d.ttl+d.ttl/4)))
	d.board.tell("%s is continued after %.2f s, and writes what it has read", p.name, time.Since(frozen).Seconds())
	if err := errors.Join(resume(p.cmd.Process), p.tell(cmdGoOn)); err != nil {
		return fmt.Errorf("continue %s: %w", p.name, err)
	}
	if !d.board.wait(ctx, d.patience(), func() bool { return d.board.refused > refused }) {
		return d.missed(ctx, "the stale write of %s was not refused", p.name)
	}
	return nil
}
