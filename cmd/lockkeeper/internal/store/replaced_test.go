package store_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/store"
	"github.com/lockkeeper/lockkeeper/flush"
)

// A database file that is deleted or replaced under a worker takes nothing with it that
// was acknowledged afterwards.
func TestFileReplaced(t *testing.T) {
	for name, replace := range map[string]func(t *testing.T, file string){
		"deleted": func(*testing.T, string) {},
		"replaced": func(t *testing.T, file string) {
			db := open(t, file)
			if _, err := db.Exec("CREATE TABLE something (else_ INTEGER)"); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, embeddedRedis(t))
			database, err := store.Parse("sqlite:" + w.file)
			if err != nil {
				t.Fatal(err)
			}
			w.sink.Guard(database.Guard(w.db))
			s := w.session()
			w.set("player:1", "name", "before")
			w.passOf(s)

			for _, suffix := range []string{"", "-wal", "-shm"} {
				if err := os.Remove(w.file + suffix); err != nil {
					t.Fatal(err)
				}
			}
			replace(t, w.file)
			w.set("player:2", "name", "after")
			if _, err := s.Pass(t.Context()); !errors.Is(err, store.ErrReplaced) {
				t.Fatalf("got %v; want ErrReplaced", err)
			}
			w.status(1, 0)

			// The next use opens what is there now.
			if err := w.sink.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Pass(t.Context()); err == nil {
				t.Fatal("the old term goes on in a new file")
			}
			// Whoever comes next does not take the new file for the old one.
			if _, err := w.engine(w.conn, nil).Begin(t.Context(), newHold(lockkeeper.Fence(w.fence.Add(1)))); !errors.Is(err, flush.ErrOtherDatabase) && !errors.Is(err, store.ErrReplaced) {
				t.Errorf("got %v; want ErrOtherDatabase", err)
			}
			next := w.begin(w.engine(w.conn, func(cfg *flush.Config) { cfg.AdoptDatabase = true }))
			if _, err := next.Pass(t.Context()); err != nil && !errors.Is(err, store.ErrReplaced) {
				t.Fatal(err) // once more it is another file than before: none
			}
			if _, err := next.Pass(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.rows(allPlayers, "2 after -")
			w.status(0, 0)
		})
	}
}

// A database that has begun to count anew never has a worker of the same epoch as one
// before.
func TestEpochsNeverMeet(t *testing.T) {
	w := newWorld(t, embeddedRedis(t))
	first := w.session().Epoch()
	if _, err := w.db.Exec("DELETE FROM lockkeeper_fence WHERE resource LIKE 'flush:%'"); err != nil {
		t.Fatal(err)
	}
	if second := w.session().Epoch(); second <= first {
		t.Errorf("epoch %d after %d", second, first)
	}
}

// A refusing is a Conn whose user may not read.
type refusing struct{ lockkeeper.Conn }

func (r refusing) EvalSha(ctx context.Context, sha string, keys, args []string) (any, error) {
	if len(keys) > 5 && strings.HasSuffix(keys[4], ":parked") { // the page of marks
		return nil, lockkeeper.NewReplyError("NOPERM this user has no permissions to run the 'zrange' command")
	}
	return r.Conn.EvalSha(ctx, sha, keys, args)
}

// A worker that Redis refuses gives the job up, so that another one can take it.
func TestRefusedWorkerGivesUp(t *testing.T) {
	eachRedis(t, func(t *testing.T, rdb *redis.Client) {
		w := newWorld(t, rdb)
		locks, err := lockkeeper.New(w.conn, lockkeeper.Config{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = locks.Close(context.Background()) })
		lease, err := locks.Mutex("x").Try(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		err = w.engine(refusing{w.conn}, nil).Lead(t.Context(), lease)
		var reply *lockkeeper.ReplyError
		if !errors.As(err, &reply) || reply.Code != "NOPERM" {
			t.Errorf("got %v; want the refusal", err)
		}
	})
}

// A mark that says neither U nor D is refused, and what it would write is not written.
func TestMarkOperation(t *testing.T) {
	eachRedis(t, func(t *testing.T, rdb *redis.Client) {
		w := newWorld(t, rdb)
		for _, op := range []string{"", "d", "X"} {
			err := rdb.Eval(t.Context(), flush.MarkScript(), w.keys().Mark("player:1"), op, "HSET", "name", "x").Err()
			if err == nil || !strings.Contains(err.Error(), "U or D") {
				t.Errorf("%q: got %v", op, err)
			}
		}
		if n := rdb.DBSize(t.Context()).Val(); n != 0 {
			t.Errorf("%d keys are there", n)
		}
	})
}
