package lockkeeper_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/internal/redistest"
)

// A silent hole in the network: nothing arrives, nothing is closed. Each lease's
// context ends before its key expires; the server is asked, on a way around the hole,
// at the moment at which the context has ended.
func TestSilentHole(t *testing.T) {
	t.Parallel()
	s := startReal(t)
	const tries, atOnce = 100, 20
	var ended, stalled int
	var mu sync.Mutex
	for ended < tries {
		proxy := redistest.NewProxy(t, s.Addr())
		conn := connTo(t, proxy.Addr())
		c := newClient(t, conn, lockkeeper.Config{TTL: 300 * ms})
		round := ended + stalled
		var leases []*lockkeeper.Lease
		for i := range atOnce {
			leases = append(leases, mustTry(t, c.Mutex(fmt.Sprint("hole", round, "-", i))))
		}
		time.Sleep(time.Duration(round%100) * ms) // at some point of the renewals
		proxy.Swallow()
		var wg sync.WaitGroup
		for _, lease := range leases {
			wg.Go(func() {
				late := endsInTime(t, s, lease)
				mu.Lock()
				defer mu.Unlock()
				if late {
					stalled++
				} else {
					ended++
				}
			})
		}
		wg.Wait()
		proxy.Heal()
		if stalled > 2*tries {
			t.Fatalf("%d contexts ended too late to say anything: the machine stalls, or the library does", stalled)
		}
	}
}

// endsInTime waits for the end of a lease and asks the server whether the key is
// still there. It reports whether the machine was too slow for an answer: such a try
// shows nothing and is made again.
func endsInTime(t *testing.T, s *real, lease *lockkeeper.Lease) (stalled bool) {
	key := "lockkeeper:" + lease.Name()
	deadline := lease.Deadline() // what it says before any loss is never later than what it says after
	<-lease.Done()
	noticed := time.Now()
	reply, err := s.conn.Do(t.Context(), "PTTL", key)
	answered := time.Now()
	if err != nil {
		t.Errorf("%s: %v", key, err)
		return false
	}
	deadline = maxTime(deadline, lease.Deadline())
	switch {
	case noticed.Before(deadline):
		t.Errorf("%s ended %s before its belief did", key, deadline.Sub(noticed))
	case reply.(int64) > 0:
		return false // it was alive after the context had ended: what was to be shown
	case answered.Sub(deadline) < 25*ms:
		// The margin is 30 ms: there was time enough, on this one clock.
		t.Errorf("%s had expired %s after belief ended", key, answered.Sub(deadline))
	}
	return true
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
