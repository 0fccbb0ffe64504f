package lockkeeper

import (
	"context"
	"crypto/rand"
	"strconv"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/core"
)

// A Lock describes what to hold. It has no state, costs nothing on the server,
// and is safe for concurrent use; one that is used often is worth keeping.
type Lock struct {
	c       *Client
	name    string
	keys    [4]string // lock, fence counter, line, places
	kind    core.Kind
	ttl     string // kind.Terms.TTL in ms, as the scripts take it
	label   string
	places  [4]string // how the scripts are told about a place, see placeOf
	maxWait time.Duration
	maxHold time.Duration
	err     error // what is wrong with it; told by its first use
}

// An Option changes one lock.
type Option interface{ apply(*Lock) }

type option func(*Lock)

func (f option) apply(l *Lock) { f(l) }

// WithTTL sets the lock's TTL instead of Config.TTL, with the same rules, but 0 is no
// TTL. A Config.Margin that is too large for it is replaced by the default.
func WithTTL(ttl time.Duration) Option {
	return option(func(l *Lock) {
		l.fail(checkTTL(ttl))
		l.kind.Terms = core.Terms{TTL: ttl, Margin: l.c.cfg.margin(ttl)}
	})
}

// WithLabel names the holder to people instead of Config.Label.
func WithLabel(label string) Option {
	return option(func(l *Lock) {
		l.fail(checkLabel(label))
		l.label = label
	})
}

// WithMaxWait bounds each Acquire: after d it returns an error that matches
// ErrHeld (or ErrUnavailable) and context.DeadlineExceeded. 0 waits for as long as
// the context allows.
func WithMaxWait(d time.Duration) Option {
	return option(func(l *Lock) {
		if d < 0 {
			l.fail(invalidf("max wait %s: it can't be negative", d))
		}
		l.maxWait = d
	})
}

// WithMaxHold ends each lease d after it was asked for, as a loss, however healthy
// it is; it is not renewed beyond. 0 is no limit.
func WithMaxHold(d time.Duration) Option {
	return option(func(l *Lock) {
		if d < 0 {
			l.fail(invalidf("max hold %s: it can't be negative", d))
		}
		l.maxHold = d
	})
}

// fail keeps the first thing that is wrong.
func (l *Lock) fail(err error) {
	if l.err == nil {
		l.err = err
	}
}

// Mutex describes a lock that at most one holder has at a time. Its key is prefix
// + name, a plain string: a client in any language that uses SET key value NX PX
// on it excludes us and is excluded by us.
//
// The name is not empty and has at most 512 bytes with the prefix. Braces are
// allowed as a Redis Cluster hash tag only: "{user:7}:cart", not "a}b". A name or an
// option that can't be right makes an error that matches ErrInvalid at the first
// use, before anything is sent.
func (c *Client) Mutex(name string, opts ...Option) *Lock {
	l := &Lock{
		c:     c,
		name:  name,
		kind:  core.Kind{Terms: core.Terms{TTL: c.cfg.TTL, Margin: c.cfg.margin(c.cfg.TTL)}},
		label: c.cfg.Label,
	}
	l.keys, l.err = keysOf(c.cfg.Prefix, name)
	for _, o := range opts {
		if o != nil {
			o.apply(l)
		}
	}
	l.kind.Label = l.label
	l.ttl = strconv.FormatInt(l.kind.Terms.TTL.Milliseconds(), 10)
	l.describePlaces()
	return l
}

// Suffixes of the keys that derive from a lock's key. They are reserved, so that
// no lock's key can be another's counter.
const (
	fenceSuffix = ":lk-fence"
	lineSuffix  = ":lk-line"
	placeSuffix = ":lk-places"
)

// keysOf returns the keys of a name, all in one cluster slot: the lock, its fence
// counter, its line, and the places there.
func keysOf(prefix, name string) (keys [4]string, err error) {
	key := prefix + name
	switch {
	case name == "":
		return keys, invalidf("empty name")
	case len(key) > maxNameBytes:
		return keys, invalidf("name of %d bytes with its prefix: at most %d", len(key), maxNameBytes)
	case isDerived(key):
		return keys, invalidf("name %q: names that end in %s, %s or %s are reserved", name, fenceSuffix, lineSuffix, placeSuffix)
	case strings.ContainsAny(key, "{}") && !hasHashTag(key):
		return keys, invalidf("name %q: braces must form a hash tag, as in \"{user:7}:cart\"", name)
	case isTag(key):
		return keys, invalidf("name %q: a key that is a hash tag and nothing else would share its line with the key %q", name, key[1:len(key)-1])
	}
	return derive(key), nil
}

// isTag reports whether the key is a hash tag and nothing else. The keys that derive from
// it would be those of what is between its braces. A prefix without braces rules it out.
func isTag(key string) bool {
	return key[0] == '{' && strings.IndexByte(key, '}') == len(key)-1
}

// derive returns all keys of a lock's key. A key without a hash tag becomes the tag of
// the derived ones; with one, a suffix does not change the slot.
func derive(key string) [4]string {
	tag := key
	if !hasHashTag(key) {
		tag = "{" + key + "}"
	}
	return [4]string{key, tag + fenceSuffix, tag + lineSuffix, tag + placeSuffix}
}

// hasHashTag reports whether Redis Cluster hashes only a part of the key: what is
// between the first { and the first } after it, if that is not empty. Then a
// suffix does not change the slot.
func hasHashTag(key string) bool {
	_, rest, found := strings.Cut(key, "{")
	if !found {
		return false
	}
	return strings.IndexByte(rest, '}') > 0
}

// Try takes the lock if it is free, in one round trip, and does not wait. It
// returns an error that matches ErrHeld, with the holder, when it is not free, and
// ErrUnavailable when Redis gave no usable answer; a lock that was taken without
// our hearing of it is then given back in the background.
//
// It blocks for at most 3 s or until ctx's deadline. Cancelling ctx does not
// interrupt a request that is on its way; a deadline does.
func (l *Lock) Try(ctx context.Context) (*Lease, error) { return l.acquire(ctx, manner{}) }

// Acquire takes the lock, and waits for it while somebody else holds it or Redis
// can't be reached. ctx bounds the wait, never the hold. When the wait ends without
// the lock, the error matches ctx's error (or context.DeadlineExceeded for
// WithMaxWait) and ErrHeld, or ErrUnavailable if Redis gave no usable answer in the
// end. A refusal that waiting can't mend, such as a missing right, is returned at
// once.
//
// When ctx ends, Acquire returns at once, but its first request is sat out, for half a
// second at most; what a request that is on its way takes is given back.
//
// Waiters are served in the order in which they came, see "Waiting" in the package's
// documentation. When too many wait already, the error matches ErrQueueFull and
// ErrHeld.
func (l *Lock) Acquire(ctx context.Context) (*Lease, error) {
	return l.acquire(ctx, manner{wait: true})
}

// Do acquires the lock, runs fn while it is held, and releases it when fn has
// returned or panicked. fn's context ends, with the cause, when ctx does and before
// the lock can be lost; fn should return soon then.
//
// Do returns nil only if fn returned nil and the lock was held until then. If the
// lease was lost, the error matches ErrLost, and fn's error as well. A release that
// Redis did not answer is no error: the work was done under the lock, and the TTL
// frees it.
func (l *Lock) Do(ctx context.Context, fn func(ctx context.Context, lease *Lease) error) error {
	if fn == nil {
		return invalidf("nil function")
	}
	if !l.c.enter() {
		return ErrClosed
	}
	defer l.c.done()
	lease, err := l.acquire(ctx, manner{wait: true, body: true})
	if err != nil {
		return err
	}
	return lease.run(ctx, fn)
}

// newOwner returns a new owner as the lock's value begins with it: the client's id, a
// dot, and 130 random bits.
func (c *Client) newOwner() string {
	return valueMark + c.id + "." + rand.Text() + ":"
}
