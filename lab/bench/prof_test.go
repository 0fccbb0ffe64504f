package main

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/redis/rueidis"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/internal/redistest"
	"github.com/lockkeeper/lockkeeper/rueidisconn"
)

func BenchmarkHandOff(b *testing.B) {
	server := redistest.Start(b)
	const n = 8
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var wg sync.WaitGroup
	var all []*lockkeeper.Client
	for range n {
		client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, DisableCache: true})
		if err != nil {
			b.Fatal(err)
		}
		locks, err := lockkeeper.New(rueidisconn.New(client), lockkeeper.Config{})
		if err != nil {
			b.Fatal(err)
		}
		all = append(all, locks)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for _, locks := range all {
		for range 4 {
			wg.Go(func() {
				m := locks.Mutex("x")
				for range b.N / n / 4 {
					l, err := m.Acquire(ctx)
					if err != nil {
						b.Error(err)
						return
					}
					l.Release(ctx)
				}
			})
		}
	}
	wg.Wait()
	b.StopTimer()
	fmt.Println(server.Do(b, "INFO", "commandstats"))
	for _, locks := range all {
		locks.Close(context.Background())
	}
}
