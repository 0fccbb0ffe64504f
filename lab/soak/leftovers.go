package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper"
)

// checkTTLs writes down keys that would stay for ever, if their owners died now.
func (r *round) checkTTLs(ctx context.Context) error {
	all, err := r.server.keys(ctx)
	if err != nil {
		return fmt.Errorf("list the keys: %w", err)
	}
	for _, key := range all {
		if reply, err := r.server.do(ctx, "PTTL", key); err == nil && reply == int64(noTTL) {
			r.journal.write(event{What: keys, Text: key + ", without a TTL"})
		}
	}
	return nil
}

// What PTTL answers besides a time.
const (
	noTTL = -1
	noKey = -2
)

// heldBy returns a lock that a worker still holds, by the label in the key's value.
func (r *round) heldBy(ctx context.Context, worker string) string {
	for _, lock := range r.Locks {
		reply, err := r.server.do(ctx, "GET", lockkeeper.DefaultPrefix+lock.Name)
		if value, _ := reply.(string); err == nil && strings.Contains(value, worker) && r.lives(ctx, lock) {
			return fmt.Sprintf("%s of %s (%s)", lock.Name, worker, value)
		}
	}
	return ""
}

// lives reports whether the key of a lock lives for longer than the margin. What a body
// of Do holds that goes on for longer than its lease, after Close has ended that, is
// left to the TTL, of which there is no more than the margin then.
func (r *round) lives(ctx context.Context, lock lockSpec) bool {
	reply, err := r.server.do(ctx, "PTTL", lockkeeper.DefaultPrefix+lock.Name)
	left, ok := reply.(int64)
	return err == nil && ok && left > lock.TTL.Milliseconds()/10
}

// settle is how long keys may stay that have a short TTL.
const settle = 3 * time.Second

// checkKeys waits until nothing is left on the server but the fence counters, and
// writes down what has no right to be there. Of the locks themselves nothing may be left
// for longer than a margin. What else stays, such as a line that dead workers stood in, must have a TTL; nobody is
// there any more to renew it, so that need not be waited for.
func (r *round) checkKeys(ctx context.Context) error {
	began := time.Now()
	for {
		left, locked, err := r.keysLeft(ctx)
		if err != nil {
			return err
		}
		took := time.Since(began)
		if len(left) > 0 && !locked && took < settle {
			pause(ctx, 20*time.Millisecond)
			continue
		}
		if !locked {
			left = slices.DeleteFunc(left, func(key string) bool { return r.expires(ctx, key) })
		}
		r.journal.write(event{What: keys, Text: strings.Join(left, " "), N: int64(took)})
		return ctx.Err()
	}
}

// keysLeft returns the keys that are no fence counters, and whether a lock is among
// them.
func (r *round) keysLeft(ctx context.Context) (left []string, locked bool, err error) {
	all, err := r.server.keys(ctx)
	if err != nil {
		return nil, false, fmt.Errorf("list the keys: %w", err)
	}
	for _, key := range all {
		if strings.HasSuffix(key, fenceSuffix) {
			continue
		}
		left = append(left, key)
		for _, lock := range r.Locks {
			locked = locked || key == lockkeeper.DefaultPrefix+lock.Name && r.lives(ctx, lock)
		}
	}
	return left, locked, nil
}

// expires reports whether a key will go by itself in time.
func (r *round) expires(ctx context.Context, key string) bool {
	reply, err := r.server.do(ctx, "PTTL", key)
	left, ok := reply.(int64)
	return err == nil && ok && left != noTTL && (left == noKey || left <= r.Linger.Milliseconds())
}
