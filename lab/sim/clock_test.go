package sim

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/core"
	"github.com/lockkeeper/lockkeeper/lab/oracle"
)

// A process's clock never goes back, and world finds the first moment at which it shows
// something.
func TestClocks(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	w := &world{}
	for range 20_000 {
		p := &process{w: w, rate: r.Int64N(900_000) - 500_000, offset: core.Instant(r.Int64N(int64(time.Hour)))}
		at := Time(r.Int64N(int64(200 * time.Second)))
		if p.local(at+1) < p.local(at) {
			t.Fatalf("rate %d: the clock goes back at %d", p.rate, at)
		}
		i := p.offset + core.Instant(r.Int64N(int64(200*time.Second)))
		if found := p.world(i); p.local(found) < i || found > 0 && p.local(found-1) >= i {
			t.Fatalf("rate %d: it shows %d at %d, and %d a moment before, and %d is looked for",
				p.rate, p.local(found), found, p.local(found-1), i)
		}
	}
	if p := (&process{w: w, rate: 10}); p.world(core.Never) != oracle.Never {
		t.Error("never comes")
	}
}

// Events come by their time, and those of one time in the order in which they were made.
func TestQueue(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var q queue
	var want []event
	for i := range 2000 {
		e := event{at: Time(r.IntN(200)), seq: uint64(i)}
		q.push(e)
		want = append(want, e)
	}
	slices.SortFunc(want, func(a, b event) int {
		if a.before(&b) {
			return -1
		}
		return 1
	})
	for i, w := range want {
		if got := q.pop(); got.at != w.at || got.seq != w.seq {
			t.Fatalf("event %d is %d at %d, want %d at %d", i, got.seq, got.at, w.seq, w.at)
		}
	}
}

func TestDice(t *testing.T) {
	d := roll(1, 2)
	if again := roll(1, 2); again.next() != d.next() {
		t.Error("the same dice differ")
	}
	for range 1000 {
		if x := d.part(); x < 0 || x >= 1 {
			t.Fatalf("part %v", x)
		}
		if x := d.upTo(3); x < 0 || x > 3 {
			t.Fatalf("upTo %v", x)
		}
		if x := d.spread(ms, time.Second); x < ms || x > time.Second {
			t.Fatalf("spread %v", x)
		}
	}
	if d.upTo(-5) != 0 {
		t.Error("less than nothing")
	}
}
