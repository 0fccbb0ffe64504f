package store_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockkeeper/lockkeeper/flush"
	"github.com/lockkeeper/lockkeeper/goredisconn"
)

// workerRights are the rights that docs/PROTOCOL.md says a worker needs besides those of a
// client of the locks.
func workerRights(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../../../../docs/PROTOCOL.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(text), "A flush worker needs")
	list := regexp.MustCompile("`(~[^`]*)`[^`]*`((?:\\+[a-z]+ ?)+)`").FindStringSubmatch(after)
	if !found || list == nil {
		t.Fatal("PROTOCOL.md does not say what a worker needs")
	}
	return append([]string{list[1]}, strings.Fields(list[2])...)
}

// lockRights are those of them that a client of the locks has anyway.
var lockRights = strings.Fields("~lockkeeper:* +eval +evalsha +time +get +set +exists +zadd +zrem +zrange +zcard +hset +hget +hdel +hello +ping")

// everySource are mappings of every kind of key.
func everySource() []flush.Mapping {
	id := []flush.Column{{Name: "id", Type: flush.Int64}}
	mapping := func(name string, source flush.Source, columns ...flush.Column) flush.Mapping {
		return flush.Mapping{Keys: "player:{id}:" + name, Source: source, Table: "player_" + name, Create: true, Key: id, Columns: columns}
	}
	member := flush.Column{Name: "member", Type: flush.Text}
	return []flush.Mapping{
		mapping("hash", flush.Hashes, flush.Column{Name: "name", Type: flush.Text}),
		mapping("string", flush.Strings, flush.Column{Name: "text", Type: flush.Text}),
		mapping("set", flush.Sets, member),
		mapping("zset", flush.SortedSets, member),
		mapping("list", flush.Lists, flush.Column{Name: "position", Type: flush.Int64}, flush.Column{Name: "value", Type: flush.Text}),
		mapping("stream", flush.Streams, flush.Column{Name: "entry", Field: "id", Type: flush.Text}),
	}
}

// TestWorkerRights: what the documentation says a worker needs is enough.
func TestWorkerRights(t *testing.T) {
	w := newWorld(t, realRedis(t), everySource()...)
	if err := w.useAs(slices.Concat(lockRights, workerRights(t))); err != nil {
		t.Error(err)
	}
}

// TestEachWorkerRightIsNeeded: and nothing of it is too much.
func TestEachWorkerRightIsNeeded(t *testing.T) {
	w := newWorld(t, realRedis(t), everySource()...)
	for _, right := range workerRights(t) {
		rest := slices.DeleteFunc(slices.Concat(lockRights, workerRights(t)), func(r string) bool { return r == right })
		if err := w.useAs(rest); err == nil || !strings.Contains(err.Error(), "NOPERM") && !strings.Contains(err.Error(), "executing the script") && !strings.Contains(err.Error(), "could not be read") {
			t.Errorf("without %s: %v; want a refusal", right, err)
		}
	}
}

// useAs does everything that a worker and an operator do, as a user with these rights.
func (w *world) useAs(rights []string) error {
	w.t.Helper()
	w.do("FLUSHALL")
	if _, err := w.db.ExecContext(w.t.Context(), "DELETE FROM lockkeeper_fence"); err != nil {
		w.t.Fatal(err)
	}
	setUser := []any{"ACL", "SETUSER", "worker", "reset", "on", ">pw", "-@all"}
	for _, right := range rights {
		setUser = append(setUser, right)
	}
	w.do(setUser...)
	options := *w.rdb.Options()
	options.Username, options.Password = "worker", "pw"
	rdb := redis.NewClient(&options)
	defer rdb.Close()

	w.do("HSET", "player:1:hash", "name", "Ann")
	w.do("SADD", w.keys().Changed, "player:1:hash")
	w.do("SADD", w.keys().Deleted, "player:9:hash")
	w.do("HSET", w.keys().Digests("player_hash"), "player:8:hash", "digest")
	for _, change := range [][]string{
		{"2:string", "SET", "text"}, {"3:set", "SADD", "a"}, {"4:zset", "ZADD", "1", "a"},
		{"5:list", "RPUSH", "a"}, {"6:stream", "XADD", "*", "f", "v"}, {"7:set", "SET", "of another type"},
	} {
		if _, err := w.Do(w.t.Context(), "player:"+change[0], change[1], change[2:]...); err != nil {
			w.t.Fatal(err)
		}
	}
	return w.use(w.engine(goredisconn.New(rdb), nil))
}

func (w *world) use(e *flush.Engine) error {
	ctx := w.t.Context()
	s, err := e.Begin(ctx, newHold(1))
	if err != nil {
		return err
	}
	stats, err := s.Pass(ctx)
	if err == nil && (stats.Upserts != 6 || stats.Parked != 1) {
		err = fmt.Errorf("the pass did %+v", stats)
	}
	errs := []error{err}
	for _, m := range everySource() {
		_, err := e.Scan(ctx, m.Table)
		errs = append(errs, err)
	}
	return errors.Join(append(errs, w.operate(ctx, e, s)...)...)
}

// operate does what an operator does.
func (w *world) operate(ctx context.Context, e *flush.Engine, s *flush.Session) []error {
	errs := []error{e.Pause(ctx, flush.Pause{Table: "player_set", Reason: "test"})}
	_, err := w.Do(ctx, "player:3:set", "SADD", "b")
	errs = append(errs, err)
	_, err = s.Pass(ctx) // puts it aside
	errs = append(errs, err, e.Resume(ctx, "player_set"))
	_, err = s.Pass(ctx) // brings it back
	errs = append(errs, err)
	_, err = e.Resync(ctx, "", nil)
	errs = append(errs, err)
	_, err = e.Status(ctx)
	errs = append(errs, err)
	_, err = s.Pass(ctx)
	errs = append(errs, err)
	_, err = e.Verify(ctx, w.sink, flush.VerifyOptions{})
	errs = append(errs, err)
	list, err := e.GetParked(ctx, "player:7:set")
	if err == nil && len(list) != 1 {
		err = fmt.Errorf("%d keys are parked", len(list))
	}
	errs = append(errs, err, e.EachParked(ctx, func(flush.Parked) bool { return true }))
	_, err = e.RetryParked(ctx, list...)
	errs = append(errs, err)
	_, err = e.DropParked(ctx, list...)
	return append(errs, err)
}
