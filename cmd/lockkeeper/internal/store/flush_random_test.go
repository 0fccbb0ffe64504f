package store_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockkeeper/lockkeeper/flush"
	"github.com/lockkeeper/lockkeeper/sqlfence"
)

// A simulation is one job with a producer and workers who are stopped at every step of
// a pass for as long as the dice want, go on when they are long superseded, and lose
// requests and replies. All of it is the product's code, on a real database. Each value
// is a larger number than any before, so that a row that goes back shows.
type simulation struct {
	*world
	turn     sync.Mutex // of who throws the dice: a pass reads the next batch while it writes one
	dice     *rand.Rand
	sessions []*flush.Session
	value    int
	refused  int

	looking  sync.Mutex
	seen     map[string]int // by id: the largest value that a row has had
	wentBack int

	plantAck  bool                    // plant: acknowledge without comparing
	plantSink func(*world) flush.Sink // plant: another sink
	theSink   flush.Sink
}

// simKeys is how many keys there are: few, so that they meet; not so few that every loss
// is made good by the next change.
const simKeys = 15

var errFault = errors.New("fault by the dice")

func (s *simulation) run(steps int) {
	s.theSink = s.sink
	if s.plantSink != nil {
		s.theSink = s.plantSink(s.world)
	}
	s.theSink = tappedSink{s.theSink, s}
	s.beginUndisturbed()
	for range steps {
		switch n := s.dice.IntN(100); {
		case n < 40:
			s.produce()
		case n < 45:
			s.beginUndisturbed()
		case n < 85:
			s.passOne(s.sessions[len(s.sessions)-1])
		default: // mostly somebody who is not up to date any more
			s.passOne(s.sessions[s.dice.IntN(len(s.sessions))])
		}
	}
	for _, session := range s.sessions[max(0, len(s.sessions)-5):] { // late finishers
		s.passOne(session)
	}
}

func (s *simulation) produce() {
	key := fmt.Sprintf("player:%d", s.dice.IntN(simKeys))
	if s.dice.IntN(4) == 0 {
		s.remove(key)
		return
	}
	s.value++
	s.set(key, "points", strconv.Itoa(s.value))
}

func (s *simulation) begin() {
	tap := s.tap()
	tap.before = s.before
	tap.after = s.after
	e, err := flush.New(tap, s.theSink, flush.Config{Job: job, Mappings: s.cfg.Mappings, Batch: 1 + s.dice.IntN(4)})
	if err != nil {
		s.t.Fatal(err)
	}
	s.sessions = append(s.sessions, s.world.begin(e))
}

// beginUndisturbed begins a term without faults.
func (s *simulation) beginUndisturbed() {
	s.turn.Lock()
	defer s.turn.Unlock()
	s.begin()
}

func (s *simulation) passOne(session *flush.Session) {
	_, err := session.Pass(s.t.Context())
	switch {
	case errors.Is(err, sqlfence.ErrFenced):
		s.refused++
	case err != nil && !errors.Is(err, errFault):
		s.t.Errorf("pass: %v", err)
	}
}

// look remembers what the rows have, and counts those that have gone back.
func (s *simulation) look() {
	s.looking.Lock()
	defer s.looking.Unlock()
	rows, err := s.db.QueryContext(s.t.Context(), "SELECT id, score FROM player")
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var id string
		var score int
		if err := rows.Scan(&id, &score); err != nil {
			s.t.Fatal(err)
		}
		if score < s.seen[id] {
			s.wentBack++
		}
		s.seen[id] = max(s.seen[id], score)
	}
}

// before is what happens before a step of a worker: time for the others, or a fault.
func (s *simulation) before(now step, args []string) error {
	err := s.fault(s.others)
	if now == ack && s.plantAck {
		for i := 2; i < len(args); i += 3 {
			args[i+1], _ = s.do("HGET", s.keys().Versions, args[i]).(string)
		}
	}
	return err
}

func (s *simulation) after(step) error { return s.fault(func() {}) }

// fault does something else first, and then perhaps fails, unless it is called while
// something else is done.
func (s *simulation) fault(first func()) error {
	if !s.turn.TryLock() {
		return nil
	}
	defer s.turn.Unlock()
	first()
	if s.dice.IntN(25) == 0 {
		return errFault
	}
	return nil
}

// others lets the rest of the world go on while a worker stands between two steps.
func (s *simulation) others() {
	for s.dice.IntN(2) == 0 {
		s.produce()
	}
	if s.dice.IntN(12) == 0 {
		s.begin()
		s.passOne(s.sessions[len(s.sessions)-1])
	}
}

// diverged drains what is dirty, without faults, and returns how many keys and rows
// differ.
func (s *simulation) diverged() (n int) {
	s.pass()
	s.status(0, 0)
	for i := range simKeys {
		inRedis, err := s.rdb.HGet(s.t.Context(), fmt.Sprintf("player:%d", i), "points").Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			s.t.Fatal(err)
		}
		if dump(s.t, s.db, fmt.Sprintf("SELECT score FROM player WHERE id = %d", i)) != inRedis {
			n++
		}
	}
	return n
}

// simulate runs many simulations and sums up what went wrong. With a plant it stops when
// that has shown.
func simulate(t *testing.T, p place, rdb *redis.Client, runs int, plant func(*simulation)) (diverged, wentBack int) {
	t.Helper()
	refused := 0
	for seed := range runs {
		if err := rdb.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		w := newWorldOn(t, p, rdb)
		exec(t, w.db, "DELETE FROM player")
		exec(t, w.db, "DELETE FROM lockkeeper_fence")
		s := &simulation{
			world: w,
			dice:  rand.New(rand.NewPCG(uint64(seed), 7)),
			seen:  make(map[string]int),
		}
		if plant != nil {
			plant(s)
		}
		s.run(40)
		if n := s.diverged(); n > 0 {
			diverged++
			if plant == nil {
				t.Errorf("seed %d: %d keys differ from their rows", seed, n)
			}
		}
		if s.wentBack > 0 {
			wentBack++
			if plant == nil {
				t.Errorf("seed %d: %d rows went back", seed, s.wentBack)
			}
		}
		refused += s.refused
		if err := s.db.Close(); err != nil {
			t.Fatal(err)
		}
		if s.plantAck && diverged > 0 || s.plantSink != nil && wentBack > 0 {
			break
		}
	}
	t.Logf("of at most %d runs %d diverged, in %d a row went back; %d passes were refused", runs, diverged, wentBack, refused)
	if refused == 0 {
		t.Error("no stale worker was refused: the test has tested nothing")
	}
	return diverged, wentBack
}

func TestSimulation(t *testing.T) {
	runs := 20
	if testing.Short() {
		runs = 15
	}
	eachPlace(t, func(t *testing.T, p place, rdb *redis.Client) {
		n := runs
		if !strings.HasSuffix(t.Name(), "/SQLite") { // the others are slower
			n = max(6, n/4)
		}
		simulate(t, p, rdb, n, nil)
	})
}

// TestSimulationSeesPlants takes a protection away, one at a time.
func TestSimulationSeesPlants(t *testing.T) {
	t.Run("acknowledge without comparing", func(t *testing.T) {
		diverged, _ := simulate(t, newPlace(t, "SQLite"), realRedis(t), 100, func(s *simulation) { s.plantAck = true })
		if diverged == 0 {
			t.Error("nothing diverged")
		}
	})
	t.Run("write without a fence", func(t *testing.T) {
		_, wentBack := simulate(t, newPlace(t, "SQLite"), realRedis(t), 100, func(s *simulation) {
			s.plantSink = func(w *world) flush.Sink { return &unfenced{Sink: w.sink} }
		})
		if wentBack == 0 {
			t.Error("no row went back")
		}
	})
}

// tappedSink lets the others go on before each transaction of a worker.
type tappedSink struct {
	flush.Sink
	sim *simulation
}

func (k tappedSink) Claim(ctx context.Context, job string, h sqlfence.Holder) (flush.Term, error) {
	term, err := k.Sink.Claim(ctx, job, h)
	return tappedTerm{term, k.sim}, err
}

type tappedTerm struct {
	flush.Term
	sim *simulation
}

func (t tappedTerm) Write(ctx context.Context, number int64, rows []flush.Row) error {
	if err := t.sim.before("write", nil); err != nil {
		return err
	}
	err := t.Term.Write(ctx, number, rows)
	t.sim.look()
	if err != nil {
		return err
	}
	return t.sim.after("write")
}

// unfenced is a sink in which every worker writes as if it were the latest.
type unfenced struct {
	flush.Sink
	mu     sync.Mutex
	latest flush.Term
	number int64
}

func (u *unfenced) Claim(ctx context.Context, job string, h sqlfence.Holder) (flush.Term, error) {
	term, err := u.Sink.Claim(ctx, job, h)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.latest = term
	return unfencedTerm{term, u}, err
}

type unfencedTerm struct {
	flush.Term
	sink *unfenced
}

func (t unfencedTerm) Write(ctx context.Context, _ int64, rows []flush.Row) error {
	t.sink.mu.Lock()
	t.sink.number++
	number, latest := t.sink.number, t.sink.latest
	t.sink.mu.Unlock()
	return latest.Write(ctx, number, rows)
}
