package store_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/store"
	"github.com/lockkeeper/lockkeeper/flush"
	"github.com/lockkeeper/lockkeeper/goredisconn"
	"github.com/lockkeeper/lockkeeper/internal/redistest"
	"github.com/lockkeeper/lockkeeper/sqlfence"
)

// The code of the README and of the packages' documentation that needs a server and a
// database. A test in the root compares it with the README.

func nightlyReport(ctx context.Context, addr string, report func(context.Context, lockkeeper.Fence) error) error {
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()
	locks, err := lockkeeper.New(goredisconn.New(rdb), lockkeeper.Config{})
	if err != nil {
		return err
	}
	defer locks.Close(ctx)
	return locks.Mutex("nightly-report").Do(ctx, func(ctx context.Context, lease *lockkeeper.Lease) error {
		return report(ctx, lease.Fence()) // ctx ends before the lock can be lost
	})
}

func changePlayers(ctx context.Context, conn lockkeeper.Conn) error {
	players, err := flush.NewProducer(conn, "", "players")
	if err != nil {
		return err
	}
	if err := players.Set(ctx, "player:7", "name", "Ann", "points", "12"); err != nil {
		return err
	}
	return players.Delete(ctx, "player:8")
}

func changeMorePlayers(ctx context.Context, conn lockkeeper.Conn) error {
	players, err := flush.NewProducer(conn, "", "players")
	if err != nil {
		return err
	}
	if err := players.Set(ctx, "player:7", "name", "Ann", "points", "12"); err != nil {
		return err
	}
	if _, err := players.Do(ctx, "player:7", "HINCRBY", "points", "10"); err != nil {
		return err
	}
	return players.Delete(ctx, "player:8")
}

func countUnderClaim(ctx context.Context, db *sql.DB, locks *lockkeeper.Client) error {
	fences, err := sqlfence.New(db, sqlfence.SQLite)
	if err != nil {
		return err
	}
	return locks.Mutex("report").Do(ctx, func(ctx context.Context, lease *lockkeeper.Lease) error {
		claim, err := fences.Claim(ctx, "report", lease) // before the first read
		if err != nil {
			return err
		}
		return claim.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "UPDATE totals SET n = n + 1")
			return err
		})
	})
}

func TestReadme(t *testing.T) {
	ctx := t.Context()
	server := redistest.Start(t)
	var fence lockkeeper.Fence
	err := nightlyReport(ctx, server.Addr(), func(_ context.Context, f lockkeeper.Fence) error {
		fence = f
		return nil
	})
	if err != nil || !fence.Valid() {
		t.Fatalf("fence %s, %v", fence, err)
	}

	conn := redistest.NewConn(server.Addr())
	t.Cleanup(conn.Close)
	if err := errors.Join(changePlayers(ctx, conn), changeMorePlayers(ctx, conn)); err != nil {
		t.Fatal(err)
	}
	if points := server.Do(t, "HGET", "player:7", "points"); points != "22" {
		t.Errorf("player:7 has %v points, want 22", points)
	}
	if n := server.Do(t, "ZCARD", flush.KeysOf("", "players").Dirty); n != int64(2) {
		t.Errorf("%v keys are marked, want 2", n)
	}

	db, _, err := store.Open(ctx, "sqlite:"+filepath.Join(t.TempDir(), "x.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	fences, err := sqlfence.New(db, sqlfence.SQLite)
	if err != nil {
		t.Fatal(err)
	}
	if err := fences.Migrate(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("CREATE TABLE totals (n INTEGER); INSERT INTO totals VALUES (0)"); err != nil {
		t.Fatal(err)
	}
	locks, err := lockkeeper.New(conn, lockkeeper.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = locks.Close(context.Background()) })
	if err := countUnderClaim(ctx, db, locks); err != nil {
		t.Fatal(err)
	}
	var n int
	if err := db.QueryRow("SELECT n FROM totals").Scan(&n); err != nil || n != 1 {
		t.Errorf("total %d, %v", n, err)
	}
}
