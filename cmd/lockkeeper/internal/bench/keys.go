package bench

import (
	"context"
	"fmt"
	"strings"

	"github.com/lockkeeper/lockkeeper"
)

// What happens to the keys of locks, see docs/PROTOCOL.md. A lock's own key is gone when
// it was given back; its fence counter stays for days, so that it is for us to delete.
const (
	deleteKeys   = "for i = 1, #KEYS do redis.call('DEL', KEYS[i]) end return #KEYS"
	expireFences = "for i = 2, #KEYS, 4 do redis.call('PEXPIRE', KEYS[i], 60000) end return #KEYS"
)

// keysEach is how many locks' keys are deleted in one request: few enough that the
// server is not held up.
const keysEach = 50

// keyPrefix returns what the library's keys begin with.
func (b *bench) keyPrefix() string {
	switch b.o.Prefix {
	case "":
		return lockkeeper.DefaultPrefix
	case lockkeeper.NoPrefix:
		return ""
	}
	return b.o.Prefix
}

// name returns a name of this run. The prefix of the library stays the user's, so that
// its channels are what the user of Redis may use.
func (b *bench) name(kind string) string { return "bench:" + b.run + ":" + kind }

// use returns a name, and notes that its keys have to be deleted.
func (b *bench) use(kind string) string {
	name := b.name(kind)
	b.used = append(b.used, name)
	return name
}

// uses returns n names.
func (b *bench) uses(kind string, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = b.use(fmt.Sprintf("%s-%d", kind, i))
	}
	return names
}

// sweep deletes all keys that were used, also when ctx has ended. No client may be open
// that uses them.
func (b *bench) sweep(ctx context.Context, conn lockkeeper.Conn) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeWithin)
	defer cancel()
	if err := b.onKeys(ctx, conn, deleteKeys, b.used); err != nil {
		b.note("keys could not be deleted: %s and {%s}*; locks and lines expire within a minute, counters of fences within 7 days",
			b.out.KeyPattern, b.out.KeyPattern)
		return fmt.Errorf("delete the keys of the benchmark: %w", err)
	}
	b.used = b.used[:0]
	return nil
}

// onKeys runs a script on all keys of locks, in fours as keysOf returns them.
func (b *bench) onKeys(ctx context.Context, conn lockkeeper.Conn, script string, names []string) error {
	for len(names) > 0 {
		n := min(len(names), keysEach)
		keys := make([]string, 0, 4*n)
		for _, name := range names[:n] {
			keys = append(keys, keysOf(b.keyPrefix()+name)...)
		}
		if _, err := conn.Eval(ctx, script, keys, nil); err != nil {
			return err
		}
		names = names[n:]
	}
	return nil
}

// keysOf returns all keys of a lock by its key: those that it may have.
func keysOf(key string) []string {
	base := key
	if _, rest, found := strings.Cut(key, "{"); !found || strings.IndexByte(rest, '}') <= 0 {
		base = "{" + key + "}"
	}
	return []string{key, base + ":lk-fence", base + ":lk-line", base + ":lk-places"}
}
