package demo

import (
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// An embedded is a Redis server in this process. miniredis has no clock of its own
// for TTLs: a ticker drives it.
type embedded struct {
	server *miniredis.Miniredis
	stop   chan struct{}
	done   chan struct{}
}

func startEmbedded() (*embedded, error) {
	m := miniredis.NewMiniRedis()
	if err := m.StartAddr("127.0.0.1:0"); err != nil {
		return nil, fmt.Errorf("demo: start the embedded Redis: %w", err)
	}
	e := &embedded{server: m, stop: make(chan struct{}), done: make(chan struct{})}
	go e.tick()
	return e, nil
}

// tick lets time pass for TTLs, as it passes. Late ticks make keys live longer, never
// shorter.
func (e *embedded) tick() {
	defer close(e.done)
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	last := time.Now()
	for {
		select {
		case <-e.stop:
			return
		case <-ticker.C:
			now := time.Now()
			e.server.FastForward(now.Sub(last))
			last = now
		}
	}
}

func (e *embedded) close() {
	close(e.stop)
	<-e.done
	e.server.Close()
}
