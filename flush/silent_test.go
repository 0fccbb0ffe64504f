package flush

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/lockkeepertest"
	"github.com/lockkeeper/lockkeeper/sqlfence"
)

// A modelConn is a Conn to the models of the scripts, on the clock of the bubble.
type modelConn struct {
	mu    sync.Mutex
	redis *fakeRedis
}

func (c *modelConn) EvalSha(ctx context.Context, sha string, keys, args []string) (any, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.redis.now = time.Now().UnixMicro()
	return c.redis.evalSha(sha, keys, args)
}

func (c *modelConn) Eval(ctx context.Context, source string, keys, args []string) (any, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.redis.now = time.Now().UnixMicro()
	return c.redis.eval(source, keys, args)
}

func (c *modelConn) Listen(ctx context.Context, _ string, _ func(), _ func(string)) error {
	<-ctx.Done()
	return ctx.Err()
}

// A lonelySink is a database that takes a batch, or is silent until the call is given up.
type lonelySink struct {
	silent bool
	epochs *atomic.Int64
	calls  atomic.Int64 // to Write
	wrote  atomic.Int64
}

func (s *lonelySink) Check(context.Context) error { return nil }
func (s *lonelySink) Class(error) Class           { return Transient }
func (s *lonelySink) Claim(context.Context, string, sqlfence.Holder) (Term, error) {
	return &lonelyTerm{s, s.epochs.Add(1)}, nil
}

type lonelyTerm struct {
	*lonelySink
	epoch int64
}

func (t *lonelyTerm) Epoch() int64                            { return t.epoch }
func (t *lonelyTerm) RaiseEpoch(context.Context, int64) error { return nil }
func (t *lonelyTerm) Write(ctx context.Context, _ int64, rows []Row) error {
	t.calls.Add(1)
	if t.silent {
		<-ctx.Done()
		return ctx.Err()
	}
	t.wrote.Add(int64(len(rows)))
	return nil
}

// runLonely runs an engine on a database until the test ends it.
func runLonely(t *testing.T, conn lockkeeper.Conn, memory *lockkeepertest.Memory, sink *lonelySink) (stop func()) {
	t.Helper()
	locks, err := lockkeeper.New(memory, lockkeeper.Config{})
	if err != nil {
		t.Fatal(err)
	}
	engine, err := New(conn, sink, Config{Job: "job", Mappings: []Mapping{{
		Keys: "player:{id}", Table: "player",
		Key: []Column{{Name: "id", Type: Int64}}, Columns: []Column{{Name: "name", Type: Text}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := engine.Run(ctx, locks); !errors.Is(err, context.Canceled) {
			t.Errorf("Run: %v", err)
		}
	}()
	return func() {
		cancel()
		<-done
		if err := locks.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

// TestSilentDatabase: a process whose database does not answer at all gives way to one that
// can reach it.
func TestSilentDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, memory := &modelConn{redis: newFakeRedis()}, lockkeepertest.NewMemory()
		players, err := NewProducer(conn, "", "job")
		if err != nil {
			t.Fatal(err)
		}
		if err := players.Set(t.Context(), "player:1", "name", "Ann"); err != nil {
			t.Fatal(err)
		}
		epochs := new(atomic.Int64)
		silent, good := &lonelySink{silent: true, epochs: epochs}, &lonelySink{epochs: epochs}
		stopSilent := runLonely(t, conn, memory, silent)
		time.Sleep(time.Second) // of the bubble
		stopGood := runLonely(t, conn, memory, good)
		time.Sleep(writeMost + 5*time.Second)
		if silent.calls.Load() != 1 || good.wrote.Load() != 1 {
			t.Errorf("%d writes that were not answered, %d rows written by the other; want 1 and 1", silent.calls.Load(), good.wrote.Load())
		}
		stopSilent()
		stopGood()
	})
}

// TestSilentDatabaseAndASignal: nor does it keep a process from ending.
func TestSilentDatabaseAndASignal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, memory := &modelConn{redis: newFakeRedis()}, lockkeepertest.NewMemory()
		players, err := NewProducer(conn, "", "job")
		if err != nil {
			t.Fatal(err)
		}
		if err := players.Set(t.Context(), "player:1", "name", "Ann"); err != nil {
			t.Fatal(err)
		}
		silent := &lonelySink{silent: true, epochs: new(atomic.Int64)}
		stop := runLonely(t, conn, memory, silent)
		time.Sleep(time.Second)
		began := time.Now()
		stop()
		if took := time.Since(began); silent.calls.Load() != 1 || took < finishMost || took > finishMost+time.Second {
			t.Errorf("it ended after %s, with %d writes; want %s and 1", took, silent.calls.Load(), finishMost)
		}
	})
}
