package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockkeeper/lockkeeper"
)

// An assignment is what the parent tells a worker, on its standard input. The worker
// ends when that input does.
type assignment struct {
	Name       string     `json:"name"`
	Redis      string     `json:"redis"` // address of its proxy
	Adapter    string     `json:"adapter"`
	Database   string     `json:"database"`
	Journal    string     `json:"journal"`
	Locks      []lockSpec `json:"locks"`
	Loops      int        `json:"loops"`
	Seed       uint64     `json:"seed"`
	CloseFirst bool       `json:"close_first"` // end by Client.Close, with all in progress
	Lull       bool       `json:"lull"`        // make no calls until told to
}

// A lockSpec is one of the few locks that all workers use.
type lockSpec struct {
	Name string        `json:"name"`
	TTL  time.Duration `json:"ttl"`
	Slow bool          `json:"slow"` // its holds are long, so that faults meet them; else there are many
}

// A worker is a process that uses the locks.
type worker struct {
	assignment
	journal *journal
	client  *lockkeeper.Client
	ledger  *ledger
	locks   []*lockkeeper.Lock
	calls   atomic.Int64
	closing atomic.Bool
	lull    atomic.Bool // no new calls
	linger  atomic.Bool // long holds only
	waiters waiters
}

// Lines that the parent writes after the assignment.
const (
	lullLine   = "lull"
	lingerLine = "linger"
	goOnLine   = "go on"
)

// Bounds of a worker's end. They are far above what it takes.
const (
	closeWithin = 20 * time.Second
	joinWithin  = 10 * time.Second
)

// work is the program of a worker process.
func work(in io.Reader) error {
	before := runtime.NumGoroutine()
	w := &worker{waiters: waiters{pending: make(map[string]map[int64]*wait)}}
	lines := bufio.NewScanner(in)
	if !lines.Scan() {
		return errors.New("no assignment")
	}
	if err := json.Unmarshal(lines.Bytes(), &w.assignment); err != nil {
		return fmt.Errorf("assignment: %w", err)
	}
	w.lull.Store(w.Lull)
	j, err := openJournal(w.Journal)
	if err != nil {
		return err
	}
	w.journal = j
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var input sync.WaitGroup
	input.Go(func() {
		for lines.Scan() {
			w.lull.Store(lines.Text() == lullLine)
			w.linger.Store(lines.Text() == lingerLine)
		}
		cancel() // the end of the input is a message as well
	})
	j.write(event{What: starts, Text: w.Adapter})
	if err := w.serve(ctx); err != nil {
		return err
	}
	input.Wait()
	w.checkGoroutines(before)
	j.write(event{What: bye})
	return j.close()
}

// serve uses the locks until ctx ends, and then closes all that it has opened.
func (w *worker) serve(ctx context.Context) error {
	link, err := connect(ctx, w.Adapter, w.Redis)
	if err != nil {
		return err
	}
	if link == nil {
		return nil // it was told to end before Redis could be reached
	}
	defer link.close()
	if w.ledger, err = openLedger(w.Database); err != nil {
		return err
	}
	defer w.ledger.close()
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil)) // the parent has made a file of it
	conn := &recorder{Conn: link.conn, journal: w.journal}
	defer conn.close()
	w.client, err = lockkeeper.New(conn, lockkeeper.Config{TTL: 500 * time.Millisecond, Label: w.Name, Logger: logger})
	if err != nil {
		return err
	}
	for _, spec := range w.Locks {
		w.locks = append(w.locks, w.client.Mutex(spec.Name, lockkeeper.WithTTL(spec.TTL)))
	}
	w.use(ctx)
	w.checkLibrary()
	return nil
}

// use runs the loops, and closes the client: after they have ended, or right into
// them.
func (w *worker) use(ctx context.Context) {
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	var loops, pulse sync.WaitGroup
	for i := range w.Loops {
		rng := rand.New(rand.NewPCG(w.Seed, uint64(i)))
		loops.Go(func() { w.loop(inner, rng) })
	}
	for i := range briefLoops {
		rng := rand.New(rand.NewPCG(w.Seed, uint64(w.Loops+i)))
		loops.Go(func() { w.hurry(inner, rng) })
	}
	pulse.Go(func() { w.pulse(inner) })
	<-ctx.Done()
	if !w.CloseFirst {
		cancel()
		loops.Wait()
	}
	w.close()
	loops.Wait() // they end because the client is closed
	cancel()
	pulse.Wait()
}

func (w *worker) close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
	defer cancel()
	w.closing.Store(true)
	w.journal.write(event{What: closing})
	began := time.Now()
	if err := w.client.Close(ctx); err != nil {
		w.odd(0, "", "Close: %v", err)
	}
	w.journal.write(event{What: closed, N: int64(time.Since(began))})
}

// loop makes one call after the other, until the client is closed or ctx ends.
func (w *worker) loop(ctx context.Context, rng *rand.Rand) {
	for ctx.Err() == nil {
		if w.lull.Load() {
			pause(ctx, 10*time.Millisecond)
			continue
		}
		if !w.call(ctx, rng) {
			return
		}
		pause(ctx, exponential(rng, 6*time.Millisecond))
	}
}

// How the pulse sees that a process got no processor.
const (
	pulseEvery = 20 * time.Millisecond
	pulseLate  = 100 * time.Millisecond
)

// pulse notes when the process gets no processor for a while: what it promises in time
// is late then, through no fault of the lock. Nobody can tell that from a signal that
// has stopped it, but the parent.
func (w *worker) pulse(ctx context.Context) {
	last := monotonic()
	for ctx.Err() == nil {
		pause(ctx, pulseEvery)
		now := monotonic()
		if late := now - last - int64(pulseEvery); late > int64(pulseLate) {
			w.journal.write(event{At: last, What: stall, Text: "processor", N: late})
		}
		last = now
	}
}

// odd notes what must not be. The parent fails the run.
func (w *worker) odd(call int64, name, format string, args ...any) {
	w.journal.write(event{What: odd, Call: call, Name: name, Text: fmt.Sprintf(format, args...)})
}

// checkLibrary sees to it that Close has joined the library's own goroutines. Those
// of the Redis client are still there.
func (w *worker) checkLibrary() {
	const library = "\ngithub.com/lockkeeper/lockkeeper."
	left := func() []string {
		var found []string
		for _, stack := range stacks() {
			if strings.Contains(stack, library) {
				found = append(found, stack)
			}
		}
		return found
	}
	// One that has just told that it is done may still be on its last instructions.
	if !within(time.Second, func() bool { return len(left()) == 0 }) {
		w.journal.write(event{What: leak, Text: "after Client.Close:\n" + strings.Join(left(), "\n\n")})
	}
}

// checkGoroutines sees to it that nothing is left once the Redis client is closed too.
func (w *worker) checkGoroutines(before int) {
	if !within(joinWithin, func() bool { return runtime.NumGoroutine() <= before }) {
		w.journal.write(event{What: leak, Text: fmt.Sprintf("%d goroutines at the start, now:\n%s",
			before, strings.Join(stacks(), "\n\n"))})
	}
}

// stacks returns the stacks of all goroutines.
func stacks() []string {
	buf := make([]byte, 1<<20)
	return strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n")
}

// within waits until a condition holds, and reports whether it does.
func within(d time.Duration, cond func() bool) bool {
	for deadline := time.Now().Add(d); !cond(); {
		if time.Now().After(deadline) {
			return false
		}
		time.Sleep(5 * time.Millisecond)
	}
	return true
}

// pause sleeps, but not beyond the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// exponential returns a random time with a mean, at most ten times that.
func exponential(rng *rand.Rand, mean time.Duration) time.Duration {
	return min(time.Duration(rng.ExpFloat64()*float64(mean)), 10*mean)
}
