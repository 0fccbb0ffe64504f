package schedule

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/internal/redistest"
)

// rights are those that docs/SCHEDULE.md tells to give.
const rights = "~lockkeeper:* ~{lockkeeper:* resetchannels &lockkeeper:wake:* -@all " + lockRights + " " + moreRights

const (
	lockRights = "+eval +evalsha +time +get +set +del +exists +pttl +pexpire +zadd +zrem +zrange +zcard +zrank +hset +hget +hdel +publish +subscribe +pubsub|numsub +info"
	moreRights = "+hgetall +hexists +hincrby +lpush +ltrim +lrange"
)

// realProcess runs jobs on a real server until the test ends.
func realProcess(t *testing.T, addr, label string, jobs ...Job) *Scheduler {
	t.Helper()
	conn := redistest.NewConn(addr)
	conn.User, conn.Password = "jobs", "secret"
	locks, err := lockkeeper.New(conn, lockkeeper.Config{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(locks, Config{Name: testSchedule, Label: label}, jobs...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: Run returned %v", label, err)
		}
		if err := locks.Close(context.Background()); err != nil {
			t.Error(err)
		}
		conn.Close()
	})
	return s
}

// Two processes on a real server, with the rights that the documents name.
func TestRealServer(t *testing.T) {
	server := redistest.Start(t)
	server.Do(t, append([]string{"ACL", "SETUSER", "jobs", "on", ">secret", "resetkeys"}, strings.Fields(rights)...)...)
	var mu sync.Mutex
	count := make(map[string]map[int64]int)
	triggered := 0
	run := func(_ context.Context, t Tick) error {
		mu.Lock()
		defer mu.Unlock()
		if t.Triggered {
			triggered++
			return nil
		}
		if count[t.Job] == nil {
			count[t.Job] = make(map[int64]int)
		}
		count[t.Job][t.Scheduled.UnixMilli()]++
		return nil
	}
	jobs := []Job{
		{Name: "guarded", When: Every(100 * time.Millisecond), Run: run},
		{Name: "leader", When: Every(100 * time.Millisecond), Run: run, Leader: true},
		{Name: "rare", When: Cron("@yearly", time.UTC), Run: run},
	}
	a := realProcess(t, server.Addr(), "a", jobs...)
	realProcess(t, server.Addr(), "b", jobs...)
	redistest.Until(t, "twenty ticks of each job", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(count["guarded"]) >= 20 && len(count["leader"]) >= 20
	})
	if _, err := a.Trigger(t.Context(), "rare", Request{By: "ann"}); err != nil {
		t.Fatal(err)
	}
	redistest.Until(t, "the run that was triggered", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return triggered > 0
	})
	if err := errors.Join(a.Pause(t.Context(), "guarded", Pause{Reason: "test"}), a.Resume(t.Context(), "guarded")); err != nil {
		t.Fatal(err)
	}
	st, err := a.Status(t.Context())
	if err != nil || len(st.Members) != 2 || st.Differs || len(st.Jobs) != 3 || st.Jobs[1].Holder == nil || st.Jobs[0].Latest == nil {
		t.Errorf("status %+v, %v", st, err)
	}
	mu.Lock()
	defer mu.Unlock()
	for job, ticks := range count {
		for tick, n := range ticks {
			if n != 1 {
				t.Errorf("%s: the tick %d ran %d times", job, tick, n)
			}
		}
	}
	for _, key := range server.Do(t, "KEYS", "*").([]any) {
		if server.Do(t, "PTTL", key.(string)).(int64) < 0 {
			t.Errorf("%s has no TTL", key)
		}
	}
}

// Each right besides those of a lock client is needed.
func TestEachRightIsNeeded(t *testing.T) {
	server := redistest.Start(t)
	for _, right := range strings.Fields(moreRights) {
		server.Do(t, "FLUSHALL")
		without := strings.Replace(rights, " "+right, "", 1)
		server.Do(t, append([]string{"ACL", "SETUSER", "jobs", "reset", "on", ">secret"}, strings.Fields(without)...)...)
		conn := redistest.NewConn(server.Addr())
		conn.User, conn.Password = "jobs", "secret"
		locks, err := lockkeeper.New(conn, lockkeeper.Config{})
		if err != nil {
			t.Fatal(err)
		}
		s, err := New(locks, Config{Name: testSchedule}, Job{Name: "report", When: Every(ten), Leader: true, Run: func(context.Context, Tick) error { return nil }})
		if err != nil {
			t.Fatal(err)
		}
		r := s.jobs[0]
		err = r.lock.Do(t.Context(), func(ctx context.Context, lease *lockkeeper.Lease) error {
			_, err := r.next(ctx)
			errs := []error{err}
			// A run that nobody has finished, so that a claim does all that it may have to do.
			server.Do(t, "HSET", r.keys.state, "last", "1", "run", "1 tick 2 3 a", "started", "1")
			w := work{kind: tick, number: 10}
			_, err = r.claim(ctx, lease, w)
			errs = append(errs, err, r.finish(ctx, lease, w, OK, nil))
			_, err = s.Status(ctx)
			return errors.Join(append(errs, err)...)
		})
		var refused *lockkeeper.ReplyError
		if !errors.As(err, &refused) || !isRefusal(err) {
			t.Errorf("without %s: %v", right, err)
		}
		_ = locks.Close(t.Context())
		conn.Close()
	}
}
