package schedule

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper"
)

const ten = 10 * time.Second

// Whoever comes first runs a tick, and nobody else does, though clocks differ by seconds.
func TestGuardedTickRunsOnce(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakeServer, l *logbook) {
		report := Job{Name: "report", When: Every(ten)}
		fast := startProcess(t, server, "fast", 3*time.Second, l.job("fast", report, time.Second))
		right := startProcess(t, server, "right", 0, l.job("right", report, time.Second))
		slow := startProcess(t, server, "slow", -3*time.Second, l.job("slow", report, time.Second))
		time.Sleep(35 * time.Second)
		l.want(t, "fast 10s@7s, fast 20s@17s, fast 30s@27s")
		fast.stop()
		time.Sleep(20 * time.Second)
		l.want(t, "right 40s@40s, right 50s@50s")
		right.stop()
		time.Sleep(20 * time.Second)
		l.want(t, "slow 1m0s@1m3s, slow 1m10s@1m13s")
		slow.stop()
	})
}

// The leader's ticks go on: within the TTL and a second after a crash, at once after a stop.
func TestLeaderTakeover(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakeServer, l *logbook) {
		report := Job{Name: "report", When: Every(time.Second), Leader: true}
		a := startProcess(t, server, "a", 0, l.job("a", report, 0))
		time.Sleep(time.Second / 2)
		b := startProcess(t, server, "b", 0, l.job("b", report, 0))
		time.Sleep(2 * time.Second)
		l.want(t, "a 1s@1s, a 2s@2s")
		time.Sleep(time.Second / 4)
		a.kill()
		time.Sleep(11 * time.Second)
		if got := l.take(); !strings.HasPrefix(got, "b ") || strings.Contains(got, "a ") {
			t.Errorf("after a crash: %s", got)
		}
		c := startProcess(t, server, "c", 0, l.job("c", report, 0))
		time.Sleep(time.Second)
		l.take()
		b.cancel()
		stopped := time.Now()
		for l.take() == "" { // the tick after the stop
			time.Sleep(time.Millisecond)
		}
		holder, err := c.s.Status(t.Context())
		if err != nil || holder.Jobs[0].Holder == nil || holder.Jobs[0].Holder.Who != "c" || holder.Jobs[0].Holder.Since.Sub(stopped) > 100*time.Millisecond {
			t.Errorf("after a stop: %+v, %v", holder, err)
		}
		b.stop()
		c.stop()
		a.bury()
	})
}

// No tick is lost at a takeover, also one that nobody has begun, or that was not finished.
func TestLeaderFinishesWhatWasBegun(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakeServer, l *logbook) {
		report := Job{Name: "report", When: Every(time.Minute), Leader: true}
		a := startProcess(t, server, "a", 0, l.job("a", report, ten))
		time.Sleep(time.Second)
		b := startProcess(t, server, "b", 0, l.job("b", report, ten))
		time.Sleep(57 * time.Second)
		a.kill() // before the first tick
		time.Sleep(20 * time.Second)
		c := startProcess(t, server, "c", 0, l.job("c", report, ten))
		time.Sleep(45 * time.Second)
		b.kill() // in the second
		time.Sleep(50 * time.Second)
		d := startProcess(t, server, "d", 0, l.job("d", report, ten))
		time.Sleep(9 * time.Second)
		c.stop() // in the third
		time.Sleep(time.Minute - time.Second)
		got := l.take()
		if !strings.HasPrefix(got, "b 1m0s@1m") || !strings.Contains(got, ", b 2m0s@2m0s, c 2m0s@2m") || !strings.Contains(got, ", c 3m0s@3m0s, d 3m0s@3m") || !strings.HasSuffix(got, ", d 4m0s@4m0s") {
			t.Errorf("got %s", got)
		}
		if got, want := history(t, d.s, "report"), "b ok, b lost, c ok, c stopped (context canceled), d ok"; got != want {
			t.Errorf("history: got  %s\nwant %s", got, want)
		}
		d.stop()
		a.bury()
		b.bury()
	})
}

// Ticks that came while nobody lived are one, or none.
func TestCatchUp(t *testing.T) {
	for _, leader := range []bool{false, true} {
		bubble(t, func(t *testing.T, server *fakeServer, l *logbook) {
			jobs := func(who string) []Job {
				return []Job{
					l.job(who+" one", Job{Name: "one", When: Every(ten), Leader: leader}, 0),
					l.job(who+" none", Job{Name: "none", When: Cron("* * * * *", time.UTC), Leader: leader, CatchUp: CatchUpNone}, 0),
				}
			}
			a := startProcess(t, server, "a", 0, jobs("a")...)
			time.Sleep(65 * time.Second)
			a.stop()
			if got := l.take(); !strings.HasPrefix(got, "a one 10s@10s, a one 20s@20s, a one 30s@30s, a one 40s@40s, a one 50s@50s, a ") || !strings.Contains(got, "a none 1m0s@1m0s") {
				t.Errorf("at first: %s", got)
			}
			time.Sleep(10 * time.Minute)
			b := startProcess(t, server, "b", 0, jobs("b")...)
			time.Sleep(7 * time.Second)
			l.want(t, "b one 11m0s@11m5s, b one 11m10s@11m10s")
			time.Sleep(50 * time.Second)
			l.take()
			b.stop()
		})
	}
}

// A job that takes longer than to its next tick never overlaps with itself, and does not lag behind.
func TestNoOverlap(t *testing.T) {
	for _, leader := range []bool{false, true} {
		bubble(t, func(t *testing.T, server *fakeServer, l *logbook) {
			report := Job{Name: "report", When: Every(ten), Leader: leader}
			a := startProcess(t, server, "a", 0, l.job("x", report, 34*time.Second))
			b := startProcess(t, server, "b", 0, l.job("x", report, 34*time.Second))
			time.Sleep(90 * time.Second)
			l.want(t, "x 10s@10s, x 40s@44s, x 1m10s@1m18s")
			a.stop()
			b.stop()
		})
	}
	bubble(t, func(t *testing.T, server *fakeServer, l *logbook) { // without catching up, the next one is awaited
		report := Job{Name: "report", When: Every(ten), CatchUp: CatchUpNone}
		a := startProcess(t, server, "a", 0, l.job("x", report, 17*time.Second))
		b := startProcess(t, server, "b", 0, l.job("x", report, 17*time.Second))
		time.Sleep(72 * time.Second)
		l.want(t, "x 10s@10s, x 30s@30s, x 50s@50s, x 1m10s@1m10s")
		a.stop()
		b.stop()
	})
}

func TestMinHold(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakeServer, l *logbook) {
		report := Job{Name: "report", When: Every(ten), MinHold: 25 * time.Second}
		a := startProcess(t, server, "a", 0, l.job("a", report, 0))
		b := startProcess(t, server, "b", 0, l.job("a", report, 0))
		time.Sleep(50 * time.Second)
		a.stop()
		time.Sleep(15 * time.Second)
		if _, err := b.s.Trigger(t.Context(), "report", Request{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(25 * time.Second)
		l.want(t, "a 10s@10s, a 30s@35s, a 1m0s@1m0s, a !1m5s@1m25s")
		b.stop()
	})
}

// A run that hangs loses the job; its process runs it no more, and the others do.
func TestMaxHold(t *testing.T) {
	for _, leader := range []bool{false, true} {
		bubble(t, func(t *testing.T, server *fakeServer, l *logbook) {
			release := make(chan struct{})
			cause := make(chan error, 1)
			hanging := Job{Name: "report", When: Every(time.Minute), Leader: leader, MaxHold: 30 * time.Second, Run: func(ctx context.Context, _ Tick) error {
				<-ctx.Done()
				cause <- context.Cause(ctx)
				<-release
				return nil
			}}
			a := startProcess(t, server, "a", 0, hanging)
			time.Sleep(time.Second)
			b := startProcess(t, server, "b", -time.Second, l.job("b", Job{Name: "report", When: Every(time.Minute), Leader: leader, MaxHold: 30 * time.Second}, 0))
			time.Sleep(3*time.Minute + ten)
			l.want(t, "b 2m0s@2m1s, b 3m0s@3m1s")
			if err := <-cause; !errors.Is(err, errMaxHold) {
				t.Errorf("the context ended with %v", err)
			}
			if got, want := history(t, b.s, "report"), "a hanging (schedule: the run does not return), b ok, b ok"; got != want {
				t.Errorf("history: got %s, want %s", got, want)
			}
			close(release)
			a.stop()
			b.stop()
		})
	}
}

// What a run does is in the history, and harms nobody else.
func TestOutcomes(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakeServer, l *logbook) {
		var cause error
		bodies := []func(ctx context.Context) error{
			func(context.Context) error { return nil },
			func(context.Context) error { return errors.New("no disk\nleft \xff") },
			func(context.Context) error { panic("oh") },
			func(context.Context) error { runtime.Goexit(); return nil },
			func(ctx context.Context) error { <-ctx.Done(); cause = context.Cause(ctx); return ctx.Err() },
			func(context.Context) error { return errors.New(strings.Repeat("ä", 2000)) },
			func(ctx context.Context) error { return rest(ctx, time.Hour) },
		}
		n := 0
		job := Job{Name: "report", When: Every(ten), Timeout: 3 * time.Second, Run: func(ctx context.Context, _ Tick) error {
			n++
			if n == len(bodies) {
				return rest(ctx, 2*time.Second)
			}
			return bodies[n-1](ctx)
		}}
		a := startProcess(t, server, "a", 0, job)
		time.Sleep(71 * time.Second)
		a.stop()
		ask := newProcess(t, server, "b", 0, job)
		long := strings.Repeat("ä", 500) + " ..."
		want := "a ok, a failed (no disk\nleft \uFFFD), a failed (panic: oh), a failed (schedule: Run has ended its goroutine), " +
			"a timeout (context deadline exceeded), a failed (" + long + "), a stopped (context canceled)"
		if got := history(t, ask.s, "report"); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		if !errors.Is(cause, errTimeout) {
			t.Errorf("the context ended with %v", cause)
		}
		runs, err := ask.s.History(t.Context(), "report", 1)
		if err != nil || len(runs) != 1 {
			t.Fatalf("got %v, %v", runs, err)
		}
		r := runs[0]
		if r.Job != "report" || r.Scheduled != l.start.Add(70*time.Second).UTC() || r.Started != r.Scheduled || r.Ended.Sub(r.Started) != time.Second || r.Fence == 0 || r.Triggered {
			t.Errorf("the last run is %+v", r)
		}
	})
}

// The history is bounded.
func TestHistoryIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakeServer, l *logbook) {
		a := startProcess(t, server, "a", 0, l.job("a", Job{Name: "report", When: Every(time.Second)}, 0))
		time.Sleep(150 * time.Second)
		if runs, err := a.s.History(t.Context(), "report", 1000); err != nil || len(runs) != 100 || !runs[0].Started.After(runs[99].Started) {
			t.Errorf("%d runs, %v", len(runs), err)
		}
		a.stop()
	})
}

// Jitter is the same on all machines, and differs from tick to tick and from job to job.
func TestJitter(t *testing.T) {
	j, k := Job{Name: "j", When: Every(ten), Jitter: 5 * time.Second}, Job{Name: "k", When: Every(ten), Jitter: time.Hour}
	var sums [2]time.Duration
	seen := make(map[time.Duration]bool)
	for i := range 1000 {
		at := time.Unix(int64(i)*10, 0)
		for n, job := range []*Job{&j, &k} {
			d := job.delay(at)
			if d < 0 || d >= min(job.Jitter, ten) || d != job.delay(at) {
				t.Fatalf("job %s: delay %s", job.Name, d)
			}
			sums[n] += d
			seen[d] = true
		}
	}
	if a, b := sums[0]/1000, sums[1]/1000; a < 2300*time.Millisecond || a > 2700*time.Millisecond || b < 4700*time.Millisecond || b > 5300*time.Millisecond || len(seen) < 1990 {
		t.Errorf("on average %s and %s, %d different", a, b, len(seen))
	}
	bubble(t, func(t *testing.T, server *fakeServer, l *logbook) {
		a := startProcess(t, server, "a", 0, l.job("x", j, 0))
		b := startProcess(t, server, "b", 0, l.job("x", j, 0))
		time.Sleep(100 * time.Second)
		want := ""
		for i := 1; i < 10; i++ {
			at := l.start.Add(time.Duration(i) * ten)
			want += fmt.Sprintf(", x %s@%s", time.Duration(i)*ten, (time.Duration(i)*ten + j.delay(at)).Round(100*time.Millisecond))
		}
		l.want(t, want[2:])
		a.stop()
		b.stop()
	})
}

func TestTriggerPauseResume(t *testing.T) {
	for _, leader := range []bool{false, true} {
		for _, deaf := range []bool{false, true} { // nobody may subscribe
			bubble(t, func(t *testing.T, server *fakeServer, l *logbook) {
				report := Job{Name: "report", When: Every(time.Minute), Leader: leader}
				var all []*process
				for range 3 {
					p := newProcess(t, server, "x", 0, l.job("x", report, time.Second))
					if deaf {
						p.conn.listening = func(ctx context.Context) (context.Context, context.CancelFunc) {
							ctx, cancel := context.WithCancel(ctx)
							cancel()
							return ctx, cancel
						}
					}
					all = append(all, p.start())
				}
				time.Sleep(65 * time.Second)
				l.want(t, "x 1m0s@1m0s")
				s := all[1].s
				do := func(err error) {
					t.Helper()
					if err != nil {
						t.Fatal(err)
					}
				}
				lag := 10 * time.Millisecond
				if deaf {
					lag = lookEvery
				}
				asked, err := s.Trigger(t.Context(), "report", Request{By: "ann", Reason: "now"})
				do(err)
				if asked != l.start.Add(65*time.Second).UTC() {
					t.Errorf("asked at %s", asked)
				}
				time.Sleep(lag)
				if got := l.take(); !strings.HasPrefix(got, "x !1m5s@1m") {
					t.Errorf("triggered: %s", got)
				}
				time.Sleep(15*time.Second - lag)
				do(s.Pause(t.Context(), "report", Pause{By: "ben", Reason: "migration"}))
				time.Sleep(lag)
				st, err := s.Status(t.Context())
				do(err)
				if p := st.Jobs[0].Paused; p == nil || p.By != "ben" || p.Reason != "migration" || !st.Jobs[0].Next.IsZero() {
					t.Errorf("status: %+v", st.Jobs[0])
				}
				time.Sleep(105*time.Second - lag)
				l.want(t, "")
				_, err = s.Trigger(t.Context(), "report", Request{})
				do(err)
				time.Sleep(10 * time.Second)
				if got := l.take(); !strings.HasPrefix(got, "x !3m5s@3m") {
					t.Errorf("triggered while it is paused: %s", got)
				}
				do(s.Resume(t.Context(), "report"))
				do(s.Resume(t.Context(), "report"))
				time.Sleep(50 * time.Second)
				l.want(t, "x 4m0s@4m0s")
				for _, p := range all {
					p.stop()
				}
			})
		}
	}
}

func TestStatus(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakeServer, l *logbook) {
		logs := &aLog{}
		jobs := func(d string) []Job {
			return []Job{
				l.job("x", Job{Name: "report", When: Every(time.Minute), Leader: true, Detail: d}, ten),
				l.job("x", Job{Name: "clean", When: Cron("30 2 * * *", time.UTC)}, 0),
			}
		}
		a := startProcess(t, server, "a", 2*time.Second, jobs("v1")...)
		time.Sleep(time.Second)
		b := newProcess(t, server, "b", 0, jobs("v2")...)
		b.s.cfg.Logger = logs.logger()
		b.start()
		time.Sleep(65 * time.Second)
		st, err := b.s.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		m := st.Members
		if st.Schedule != testSchedule || !st.Differs || len(m) != 2 || m[0].Label != "a" || m[0].Ahead != 2*time.Second || m[1].Ahead != 0 || m[0].Hash == m[1].Hash {
			t.Errorf("members: %+v", st)
		}
		report, clean := st.Jobs[0], st.Jobs[1]
		if report.Holder == nil || report.Holder.Who != "a" || report.Running == nil || report.Running.Who != "a" || report.Interrupted != nil || report.Latest != nil {
			t.Errorf("report: %+v", report)
		}
		if report.Next != l.start.Add(time.Minute).UTC() || clean.Next != l.start.Add(150*time.Minute).UTC() || clean.When != "cron 30 2 * * * UTC" || clean.Holder != nil {
			t.Errorf("next: %+v, %+v", report, clean)
		}
		if !strings.Contains(logs.String(), "processes of this schedule have other jobs or settings") || strings.Count(logs.String(), "other jobs") != 1 {
			t.Errorf("the log has %s", logs)
		}
		a.kill()
		time.Sleep(6 * time.Second)
		st, _ = b.s.Status(t.Context())
		if len(st.Members) != 2 {
			t.Errorf("after a crash: %+v", st)
		}
		time.Sleep(40 * time.Second)
		st, _ = b.s.Status(t.Context())
		if len(st.Members) != 1 || st.Differs || st.Jobs[0].Latest == nil || st.Jobs[0].Latest.Who != "b" {
			t.Errorf("after a while: %+v", st)
		}
		b.stop()
		a.bury()
		ask := newProcess(t, server, "c", 0)
		if st, err := ask.s.Status(t.Context()); err != nil || len(st.Members) != 0 || st.Differs || len(st.Jobs) != 0 {
			t.Errorf("after the end: %+v, %v", st, err)
		}
	})
}

// A run whose process has died is not shown as running, whoever leads.
func TestInterrupted(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakeServer, l *logbook) {
		report := Job{Name: "report", When: Every(time.Minute), Leader: true, CatchUp: CatchUpNone}
		a := startProcess(t, server, "a", 0, l.job("a", report, 30*time.Second))
		time.Sleep(time.Second)
		b := startProcess(t, server, "b", 0, l.job("b", report, 0))
		time.Sleep(64 * time.Second)
		a.kill()
		time.Sleep(15 * time.Second)
		st, err := b.s.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		j := st.Jobs[0]
		if j.Running != nil || j.Interrupted == nil || j.Interrupted.Who != "a" || j.Holder == nil || j.Holder.Who != "b" || j.Latest != nil {
			t.Errorf("status %+v", j)
		}
		time.Sleep(time.Minute)
		l.want(t, "a 1m0s@1m0s, b 2m0s@2m0s")
		if got, want := history(t, b.s, "report"), "a lost, b ok"; got != want {
			t.Errorf("history: got %s, want %s", got, want)
		}
		b.stop()
		a.bury()
	})
}

// A machine whose clock is far ahead neither runs ticks too early, nor uses them up.
func TestClockFarAhead(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakeServer, l *logbook) {
		report := Job{Name: "report", When: Every(time.Minute)}
		a := newProcess(t, server, "a", 24*time.Hour, l.job("a", report, 0))
		logs, claims := &aLog{}, 0
		a.s.cfg.Logger = logs.logger()
		a.conn.before = func(_ context.Context, name string) error {
			if name == "claim" {
				claims++
			}
			return nil
		}
		a.start()
		b := startProcess(t, server, "b", -3*time.Second, l.job("b", report, 0))
		time.Sleep(10 * time.Minute)
		if claims > 30 {
			t.Errorf("%d claims in ten minutes", claims)
		}
		if !strings.Contains(logs.String(), "the clock of this machine") || strings.Count(logs.String(), "clock") != 1 {
			t.Errorf("the log has %s", logs)
		}
		for _, line := range strings.Split(l.take(), ", ") {
			part := strings.Split(strings.Fields(line)[1], "@")
			scheduled, _ := time.ParseDuration(part[0])
			at, _ := time.ParseDuration(part[1])
			if at < scheduled-earlyMost-time.Second || at > scheduled+3*time.Second {
				t.Errorf("run at %s for %s", at, scheduled)
			}
		}
		a.stop()
		b.stop()
	})
}

// A job that is new, or whose ticks are others now, has nothing to catch up.
func TestNewTicksAreNotCaughtUp(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakeServer, l *logbook) {
		time.Sleep(10 * time.Minute)
		a := startProcess(t, server, "a", 0, l.job("a", Job{Name: "report", When: Cron("0 * * * *", time.UTC)}, 0))
		time.Sleep(90 * time.Minute)
		a.stop()
		l.want(t, "a 1h0m0s@1h0m0s")
		b := startProcess(t, server, "b", 0, l.job("b", Job{Name: "report", When: Cron("30 * * * *", time.UTC)}, 0))
		time.Sleep(time.Hour)
		l.want(t, "b 2h30m0s@2h30m0s")
		b.stop()
	})
}

// Whatever a process believes: the server gives a tick once, in order, and to who has the lock.
func TestClaim(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakeServer, l *logbook) {
		p := newProcess(t, server, "a", 0, l.job("a", Job{Name: "report", When: Every(ten)}, 0))
		r := p.s.jobs[0]
		claim := func(number int64) string {
			t.Helper()
			lease, err := r.lock.Try(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			ok, err := r.claim(t.Context(), lease, work{kind: tick, number: number})
			if err := errors.Join(err, lease.Release(t.Context())); err != nil {
				return err.Error()
			}
			return fmt.Sprint(ok)
		}
		got := []string{claim(20), claim(10), claim(20), claim(30)}
		if got, want := strings.Join(got, " "), "true false false true"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		lease, err := r.lock.Try(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		server.locks.Del(r.keys.lock)
		if ok, err := r.claim(t.Context(), lease, work{kind: tick, number: 40}); ok || !errors.Is(err, lockkeeper.ErrLost) {
			t.Errorf("without the lock: %t, %v", ok, err)
		}
		_ = lease.Release(t.Context())
		_ = p.locks.Close(t.Context())
	})
}

// A leader whom Redis does not let work, or not answer, resigns, and another one works.
func TestLeaderResigns(t *testing.T) {
	for _, refused := range []string{"join", "claim", "finish"} {
		for _, why := range []error{lockkeeper.NewReplyError("NOPERM no"), errors.New("the connection broke")} {
			bubble(t, func(t *testing.T, server *fakeServer, l *logbook) {
				report := Job{Name: "report", When: Every(ten), Leader: true}
				a := newProcess(t, server, "a", 0, l.job("a", report, 0))
				a.conn.before = func(_ context.Context, name string) error {
					if name == refused && time.Since(l.start) > 25*time.Second {
						return why
					}
					return nil
				}
				a.start()
				time.Sleep(time.Second)
				b := startProcess(t, server, "b", 0, l.job("b", report, 0))
				time.Sleep(94 * time.Second)
				got := l.take()
				if !strings.HasPrefix(got, "a 10s@10s, a 20s@20s, ") || !strings.HasSuffix(got, "b 1m20s@1m20s, b 1m30s@1m30s") {
					t.Errorf("%s, %v: got %s", refused, why, got)
				}
				if n := strings.Count(got, "a 30s"); n > 1 {
					t.Errorf("%s, %v: the tick was run %d times by one process", refused, why, n)
				}
				a.cancel()
				<-a.done
				_ = a.locks.Close(t.Context())
				b.stop()
			})
		}
	}
}

// A leader's tick on which every process dies is given up in the end.
func TestDeadlyTick(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakeServer, l *logbook) {
		n := 0
		for i := range 8 {
			var p *process
			p = newProcess(t, server, fmt.Sprint(i), 0, Job{Name: "report", When: Every(time.Hour), Leader: true, Run: func(ctx context.Context, _ Tick) error {
				n++
				p.kill()
				return ctx.Err()
			}})
			if i == 0 {
				defer p.start().bury()
				time.Sleep(time.Hour + time.Minute)
				continue
			}
			p.start()
			time.Sleep(time.Minute)
			if p.dead.Load() {
				defer p.bury()
			} else {
				p.stop()
			}
		}
		if n != mostLost {
			t.Errorf("begun %d times", n)
		}
	})
}

// A reply that does not come, or a request that does not arrive, changes nothing.
func TestLostRequests(t *testing.T) {
	for _, leader := range []bool{false, true} {
		for _, lost := range []string{"claim", "finish", "join"} {
			bubble(t, func(t *testing.T, server *fakeServer, l *logbook) {
				report := Job{Name: "report", When: Every(ten), Leader: leader}
				a := newProcess(t, server, "a", 0, l.job("a", report, 0))
				fail := func(every int) func(context.Context, string) error {
					n := 0
					return func(_ context.Context, name string) error {
						if name != lost {
							return nil
						}
						if n++; n%every == 1 {
							return errors.New("the connection broke")
						}
						return nil
					}
				}
				a.conn.before, a.conn.after = fail(5), fail(4)
				a.start()
				time.Sleep(65 * time.Second)
				var got []string
				for _, line := range strings.Split(l.take(), ", ") {
					got = append(got, strings.Split(line, "@")[0])
				}
				if got, want := strings.Join(got, ", "), "a 10s, a 20s, a 30s, a 40s, a 50s, a 1m0s"; got != want {
					t.Errorf("%s, leader %t: got %s", lost, leader, got)
				}
				if got, want := history(t, a.s, "report"), "a ok, a ok, a ok, a ok, a ok, a ok"; lost != "finish" && got != want {
					t.Errorf("%s, leader %t: history %s", lost, leader, got)
				}
				a.stop()
			})
		}
	}
}

// Run returns what waiting can't mend, and only that.
func TestRunEnds(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakeServer, l *logbook) {
		job := l.job("a", Job{Name: "report", When: Every(ten)}, 0)
		refused := newProcess(t, server, "a", 0, job)
		refused.conn.before = func(context.Context, string) error { return lockkeeper.NewReplyError("NOPERM no") }
		var reply *lockkeeper.ReplyError
		if err := refused.s.Run(t.Context()); !errors.As(err, &reply) {
			t.Errorf("refused: %v", err)
		}
		_ = refused.locks.Close(t.Context())

		led := l.job("a", Job{Name: "led", When: Every(ten), Leader: true}, 0)
		leader := startProcess(t, server, "leader", 0, led)
		time.Sleep(time.Second)
		standby := newProcess(t, server, "standby", 0, led)
		standby.conn.before = func(_ context.Context, name string) error {
			if name == "join" {
				return lockkeeper.NewReplyError("NOPERM no")
			}
			return nil
		}
		if err := standby.s.Run(t.Context()); !errors.As(err, &reply) {
			t.Errorf("a standby is refused: %v", err)
		}
		_ = standby.locks.Close(t.Context())
		leader.stop()

		p := startProcess(t, server, "b", 0, job)
		time.Sleep(time.Second)
		if err := p.s.Run(t.Context()); !errors.Is(err, errRunning) {
			t.Errorf("a second Run: %v", err)
		}
		_ = p.locks.Close(t.Context())
		if err := <-p.done; !errors.Is(err, lockkeeper.ErrClosed) {
			t.Errorf("closed: %v", err)
		}

		down := newProcess(t, server, "c", 0, job)
		down.conn.before = func(context.Context, string) error { return errors.New("connection refused") }
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := down.s.Run(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("down: %v", err)
		}
		_ = down.locks.Close(t.Context())
	})
}

// Two schedulers of one client share the job as two processes do.
func TestTwoInOneProcess(t *testing.T) {
	for _, leader := range []bool{false, true} {
		bubble(t, func(t *testing.T, server *fakeServer, l *logbook) {
			report := l.job("x", Job{Name: "report", When: Every(ten), Leader: leader}, time.Second)
			a := startProcess(t, server, "a", 0, report)
			second, err := New(a.locks, Config{Name: testSchedule, Label: "second"}, report)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			go func() { done <- second.Run(ctx) }()
			time.Sleep(35 * time.Second)
			l.want(t, "x 10s@10s, x 20s@20s, x 30s@30s")
			cancel()
			<-done
			a.stop()
		})
	}
}

// What can't be right is told, all of it, before anything is sent.
func TestNewChecks(t *testing.T) {
	server := newFakeServer()
	locks, err := lockkeeper.New(&fakeConn{server: server}, lockkeeper.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close(t.Context())
	good := Job{Name: "report", When: Every(time.Hour), Run: func(context.Context, Tick) error { return nil }}
	with := func(change func(*Job)) Job {
		j := good
		change(&j)
		return j
	}
	for _, tt := range []struct {
		cfg  Config
		jobs []Job
		want string
	}{
		{Config{}, nil, `name ""`},
		{Config{Name: "a/b"}, nil, `name "a/b"`},
		{Config{Name: "a b"}, nil, `name "a b"`},
		{Config{Name: "a", Label: "x\ny"}, nil, `label "x\ny"`},
		{Config{Name: "a", Runs: -1}, nil, "-1 runs"},
		{Config{Name: "a"}, []Job{{}}, "it has no When"},
		{Config{Name: "a"}, []Job{{}}, "it has no Run"},
		{Config{Name: "a"}, []Job{with(func(j *Job) { j.Name = "{x}" })}, `job name "{x}"`},
		{Config{Name: "a"}, []Job{with(func(j *Job) { j.When = Cron("0 0 31 2 *", time.UTC) })}, `job "report": cron "0 0 31 2 *": no day fits`},
		{Config{Name: "a"}, []Job{with(func(j *Job) { j.When = Every(0) })}, "every 0s: it must be at least 100ms"},
		{Config{Name: "a"}, []Job{with(func(j *Job) { j.Timeout = -1 })}, "timeout -1ns: it can't be negative"},
		{Config{Name: "a"}, []Job{with(func(j *Job) { j.MinHold = -1 })}, "min hold -1ns"},
		{Config{Name: "a"}, []Job{with(func(j *Job) { j.MaxHold = -1 })}, "max hold -1ns"},
		{Config{Name: "a"}, []Job{with(func(j *Job) { j.Jitter = -1 })}, "jitter -1ns"},
		{Config{Name: "a"}, []Job{with(func(j *Job) { j.MaxHold, j.Timeout = 1, 2 })}, "it can't be below the timeout"},
		{Config{Name: "a"}, []Job{with(func(j *Job) { j.CatchUp = 7 })}, "catch up 7"},
		{Config{Name: "a"}, []Job{good, good}, "there are two of this name"},
	} {
		if _, err := New(locks, tt.cfg, tt.jobs...); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: got %v; want %q in it", tt.cfg, err, tt.want)
		}
	}
	if _, err := New(nil, Config{Name: "a"}); err == nil {
		t.Error("a nil client is accepted")
	}
	s, err := New(locks, Config{Name: "a"}, good)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Trigger(t.Context(), "other", Request{}); !errors.Is(err, ErrNoJob) {
		t.Errorf("got %v", err)
	}
	if _, err := s.History(t.Context(), "report", 0); err == nil {
		t.Error("a history of no runs is accepted")
	}
	if n := server.locks.Requests(); n != 0 {
		t.Errorf("%d requests", n)
	}
}

// What is done next, for a state and a time.
func TestNext(t *testing.T) {
	at := func(s float64) time.Time {
		return time.Unix(1_000_000, 0).Add(time.Duration(s * float64(time.Second)))
	}
	ms := func(s float64) int64 { return at(s).UnixMilli() }
	jittered := Job{Name: "j", When: Every(ten), Jitter: 9 * time.Second}
	late := jittered.delay(at(20)).Seconds() // of the tick at 20 s
	for _, tt := range []struct {
		name string
		job  Job
		st   state
		now  float64
		want float64 // the tick
		due  bool
	}{
		{"the next one", Job{When: Every(ten)}, state{last: ms(0)}, 5, 10, false},
		{"it is due", Job{When: Every(ten)}, state{last: ms(0)}, 10, 10, true},
		{"the latest that was missed", Job{When: Every(ten)}, state{last: ms(0)}, 59, 50, true},
		{"a slow clock", Job{When: Every(ten)}, state{last: ms(10)}, 7, 20, false},
		{"not caught up", Job{When: Every(ten), CatchUp: CatchUpNone}, state{last: ms(0)}, 15, 20, false},
		{"a bit late", Job{When: Every(ten), CatchUp: CatchUpNone}, state{last: ms(0)}, 14.9, 10, true},
		{"the jitter is not over", jittered, state{last: ms(10)}, 20 + late - 0.01, 20, false},
		{"the jitter is over", jittered, state{last: ms(10)}, 20 + late + 0.01, 20, true},
		{"one before it was missed", jittered, state{last: ms(0)}, 20 + late - 0.01, 10, true},
		{"it rests", Job{When: Every(ten), MinHold: 30 * time.Second}, state{last: ms(10), started: ms(10), now: 1000 * ms(25)}, 25, 20, false},
		{"it has rested", Job{When: Every(ten), MinHold: 10 * time.Second}, state{last: ms(10), started: ms(10), now: 1000 * ms(25)}, 25, 20, true},
		{"the server's clock went back", Job{When: Every(ten), MinHold: 30 * time.Second}, state{last: ms(10), started: ms(100), now: 1000 * ms(25)}, 25, 20, true},
		{"too far ahead of the server", Job{When: Every(ten)}, state{last: ms(10), now: 1000 * ms(9)}, 20.5, 20, false},
		{"not too far", Job{When: Every(ten)}, state{last: ms(10), now: 1000 * ms(10.5)}, 20.5, 20, true},
	} {
		if tt.st.now == 0 {
			tt.st.now = 1000 * ms(tt.now)
		}
		w := tt.job.next(tt.st, at(tt.now))
		if w.kind != tick || !w.scheduled.Equal(at(tt.want)) || w.due(at(tt.now)) != tt.due {
			t.Errorf("%s: %+v, due %t", tt.name, w, w.due(at(tt.now)))
		}
		tt.st.paused = &Pause{}
		if w := tt.job.next(tt.st, at(tt.now)); w.kind != "" {
			t.Errorf("%s, but paused: %+v", tt.name, w)
		}
		tt.st.request = &Request{number: 7, At: at(1)}
		if w := tt.job.next(tt.st, at(tt.now)); w.kind != trigger || w.number != 7 || !w.scheduled.Equal(at(1)) {
			t.Errorf("%s, but triggered: %+v", tt.name, w)
		}
	}
}
