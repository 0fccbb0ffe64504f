package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/flush"
	"github.com/lockkeeper/lockkeeper/goredisconn"
)

// An account is what the ledger knows of a key: the number of its value after the last
// write that was confirmed, and those of all whose answer was lost. 0 is no key.
type account struct {
	certain int64
	maybe   []int64
}

func (a *account) allows(n int64) bool {
	if n == a.certain {
		return true
	}
	for _, m := range a.maybe {
		if n == m {
			return true
		}
	}
	return false
}

// A writer writes its own keys, one after the other, until it is told to finish.
type writer struct {
	source
	rdb      *redis.Client
	producer *flush.Producer
	keys     flush.Keys

	// The ledger.
	accounts map[string]*account
	deleted  map[string]bool // streams that may have been deleted
	broken   map[string]bool // keys whose last value, or perhaps the last, can't be a row
	planted  map[string]bool // that are to stay so

	confirmed, unknown, deletes, mended int
}

func newWriter(redisAddr string, number int, seed uint64) (*writer, error) {
	rdb := redis.NewClient(&redis.Options{Addr: redisAddr, MaxRetries: -1, PoolSize: 2})
	producer, err := flush.NewProducer(goredisconn.New(rdb), "", job)
	if err != nil {
		return nil, err
	}
	return &writer{
		source: source{writer: number, rng: rand.New(rand.NewPCG(seed, uint64(number))), plain: number == 0},
		rdb:    rdb, producer: producer, keys: flush.KeysOf("", job),
		accounts: make(map[string]*account), deleted: make(map[string]bool),
		broken: make(map[string]bool), planted: make(map[string]bool),
	}, nil
}

// run writes until stop is closed, at full speed. In the middle it plants the first of
// what stays bad, and at the end the rest; what else is bad then is mended.
func (w *writer) run(ctx context.Context, middle, stop <-chan struct{}) error {
	defer func() { _ = w.rdb.Close() }() // nothing is on its way any more
	for plants := 0; ; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-stop:
			if err := w.plant(ctx, 1); err != nil {
				return err
			}
			return w.mend(ctx)
		default:
		}
		select {
		case <-middle:
			if plants++; plants == 1 {
				if err := w.plant(ctx, 0); err != nil {
					return err
				}
			}
		default:
		}
		o := w.operation()
		if w.write(ctx, o) != nil {
			pause(ctx, 20*time.Millisecond)
		}
	}
}

// write makes one write and enters it into the ledger.
func (w *writer) write(ctx context.Context, o operation) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	err := w.send(ctx, o)
	var reply *lockkeeper.ReplyError
	if errors.As(err, &reply) && reply.Code == "WRONGTYPE" {
		panic(fmt.Sprintf("flushchaos: %s %s: %v", o.command, o.key, err)) // no operation is of another type
	}
	w.enter(o, err == nil)
	return err
}

// send makes the write. The writer with plain keys marks them itself.
func (w *writer) send(ctx context.Context, o operation) error {
	if !w.plain {
		_, err := w.producer.Do(ctx, o.key, o.command, o.args...)
		return err
	}
	args := []any{o.command, o.key}
	for _, arg := range o.args {
		args = append(args, arg)
	}
	marks := w.keys.Changed
	if o.deletes {
		marks = w.keys.Deleted
	}
	_, err := w.rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Do(ctx, args...)
		p.SAdd(ctx, marks, o.key)
		return nil
	})
	if errors.Is(err, redis.Nil) { // of GETDEL, on a key that was not there
		return nil
	}
	return err
}

// enter keeps the ledger.
func (w *writer) enter(o operation, confirmed bool) {
	if confirmed {
		w.confirmed++
	} else {
		w.unknown++
	}
	if o.command == "DEL" || o.command == "UNLINK" || o.command == "GETDEL" {
		w.deletes++
		if o.key[0] == 'x' {
			w.deleted[o.key] = true
		}
	}
	switch {
	case o.bad:
		w.broken[o.key] = true
	case confirmed && !o.silent:
		delete(w.broken, o.key)
	}
	if o.silent || o.key[0] != 'h' && o.key[0] != 's' && o.key[0] != 'j' || w.planted[o.key] {
		return
	}
	a := w.accounts[o.key]
	if a == nil {
		a = &account{}
		w.accounts[o.key] = a
	}
	n := o.n
	if o.deletes {
		n = 0
	}
	if confirmed {
		a.certain = n
	} else {
		a.maybe = append(a.maybe, n)
	}
}

// insist makes a write again and again, until it is confirmed.
func (w *writer) insist(ctx context.Context, o operation) error {
	for w.write(ctx, o) != nil {
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// plant writes what can't be flushed; every other key has a good row before.
func (w *writer) plant(ctx context.Context, round int) error {
	for i, o := range w.plants(round) {
		w.planted[o.key] = true
		if i%2 == 0 && o.command == "HSET" {
			good := operation{key: o.key, command: "HSET", args: []string{"points", "1", "name", "good", "price", "1", "n", "1"}}
			if err := w.insist(ctx, good); err != nil {
				return err
			}
			if err := pause(ctx, 100*time.Millisecond); err != nil { // mostly it is flushed by then
				return err
			}
		}
		if err := w.insist(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// mend gives good values to the keys that have bad ones and were not planted.
func (w *writer) mend(ctx context.Context) error {
	for key := range w.broken {
		if w.planted[key] {
			continue
		}
		w.next++
		w.mended++
		o := operation{key: key, command: "HSET", n: w.next, args: w.fields("5")}
		if key[0] == 'j' {
			o.command, o.args = "SET", []string{fmt.Sprintf(`{"n": %d}`, w.next)}
		}
		if err := w.insist(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// A choir is all writers.
type choir struct {
	writers      []*writer
	middle, stop chan struct{}
	running      sync.WaitGroup
	errs         []error
}

func newChoir(redisAddr string, n int, seed uint64) (*choir, error) {
	c := &choir{middle: make(chan struct{}), stop: make(chan struct{}), errs: make([]error, n)}
	for i := range n {
		w, err := newWriter(redisAddr, i, seed)
		if err != nil {
			return nil, err
		}
		c.writers = append(c.writers, w)
	}
	return c, nil
}

func (c *choir) start(ctx context.Context) {
	for i, w := range c.writers {
		c.running.Go(func() { c.errs[i] = w.run(ctx, c.middle, c.stop) })
	}
}

// finish has the writers end. The ledgers can be read then.
func (c *choir) finish() error {
	close(c.stop)
	c.running.Wait()
	return errors.Join(c.errs...)
}

// pause waits, or returns ctx's error.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
