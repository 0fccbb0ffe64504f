package demo

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/lockkeeper/lockkeeper/flush"
)

// A writer changes, creates and deletes keys all the time, through the producer that
// any application would use.
type writer struct {
	producer *flush.Producer
	prefix   string
	data     *dataset
	there    []bool // by record: its key exists
	rate     int

	sets    atomic.Int64
	deletes atomic.Int64
	errors  atomic.Int64
}

func newWriter(p *flush.Producer, prefix string, d *dataset, rate int) *writer {
	return &writer{producer: p, prefix: prefix, data: d, there: make([]bool, len(d.records)), rate: rate}
}

// run writes everything once, as fast as it can, and then changes at its rate until
// enough ends; then it writes everything back if the dataset says so, unless ctx, which
// enough comes from, has ended as well.
func (w *writer) run(ctx, enough context.Context) {
	for i := range w.data.records {
		if enough.Err() != nil {
			break
		}
		w.create(enough, i)
	}
	w.churn(enough)
	if !w.data.restore {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for i := range w.data.records {
		w.remove(ctx, i) // with the fields that a change has added
		w.create(ctx, i)
	}
}

func (w *writer) churn(ctx context.Context) {
	start, done := time.Now(), 0
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for n := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for due := int(time.Since(start).Seconds() * float64(w.rate)); done < due && ctx.Err() == nil; done++ {
			n++
			w.one(ctx, rand.IntN(len(w.data.records)), n)
		}
	}
}

// one makes one change to a record.
func (w *writer) one(ctx context.Context, i, n int) {
	switch {
	case !w.there[i]:
		w.create(ctx, i)
	case rand.IntN(100) < 15:
		w.remove(ctx, i)
	default:
		c := w.data.columns[rand.IntN(len(w.data.columns))]
		value := change(c.Type, w.data.records[i].fields[c.Name], n)
		w.until(ctx, &w.sets, func() error { return w.producer.Set(ctx, w.key(i), c.Name, value) })
	}
}

func (w *writer) create(ctx context.Context, i int) {
	rec := w.data.records[i]
	args := make([]string, 0, 2*len(rec.fields))
	for name, value := range rec.fields {
		args = append(args, name, value)
	}
	if w.until(ctx, &w.sets, func() error { return w.producer.Set(ctx, w.key(i), args...) }) {
		w.there[i] = true
	}
}

func (w *writer) remove(ctx context.Context, i int) {
	if w.until(ctx, &w.deletes, func() error { return w.producer.Delete(ctx, w.key(i)) }) {
		w.there[i] = false
	}
}

// until tries a write until it succeeds, and counts it. Writing it twice is harmless.
func (w *writer) until(ctx context.Context, count *atomic.Int64, write func() error) bool {
	for ctx.Err() == nil {
		if write() == nil {
			count.Add(1)
			return true
		}
		w.errors.Add(1)
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
	return false
}

func (w *writer) key(i int) string { return w.prefix + ":" + w.data.records[i].id }
