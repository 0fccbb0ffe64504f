package lockkeeper_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/lockkeepertest"
)

func ExampleLock_Do() {
	ctx := context.Background()
	locks, err := lockkeeper.New(lockkeepertest.NewMemory(), lockkeeper.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locks.Close(ctx)

	err = locks.Mutex("nightly-report").Do(ctx, func(ctx context.Context, lease *lockkeeper.Lease) error {
		fmt.Println("reporting under", lease.Name())
		return ctx.Err() // ctx ends before the lock can be lost
	})
	fmt.Println("error:", err)
	// Output:
	// reporting under nightly-report
	// error: <nil>
}

func ExampleLock_Try() {
	ctx := context.Background()
	server := lockkeepertest.NewMemory()
	here, err := lockkeeper.New(server, lockkeeper.Config{Label: "worker-1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer here.Close(ctx)
	there, err := lockkeeper.New(server, lockkeeper.Config{Label: "worker-2"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer there.Close(ctx)

	lease, err := here.Mutex("orders").Try(ctx)
	fmt.Println("worker-1:", err)

	_, err = there.Mutex("orders").Try(ctx)
	var held *lockkeeper.HeldError
	if errors.As(err, &held) {
		fmt.Println("worker-2: held by", held.Holder.Label)
	}

	fmt.Println("release:", lease.Release(ctx))
	lease, err = there.Mutex("orders").Try(ctx)
	fmt.Println("worker-2:", err)
	fmt.Println("release:", lease.Release(ctx))
	// Output:
	// worker-1: <nil>
	// worker-2: held by worker-1
	// release: <nil>
	// worker-2: <nil>
	// release: <nil>
}

// A wait that its context has ended tells who holds the lock.
func ExampleLock_Acquire() {
	server := lockkeepertest.NewMemory()
	locks, err := lockkeeper.New(server, lockkeeper.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locks.Close(context.Background())
	server.Set("lockkeeper:orders", "a plain client", time.Hour)

	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	_, err = locks.Mutex("orders").Acquire(ctx)
	fmt.Println(errors.Is(err, lockkeeper.ErrHeld), errors.Is(err, context.DeadlineExceeded), errors.Is(err, lockkeeper.ErrUnavailable))
	// Output:
	// true true false
}

func ExampleElection_Run() {
	server := lockkeepertest.NewMemory()
	results := make(chan error)
	for range 3 { // three processes, each with a client of its own
		locks, err := lockkeeper.New(server, lockkeeper.Config{})
		if err != nil {
			fmt.Println(err)
			return
		}
		defer locks.Close(context.Background())
		go func() {
			results <- locks.Election("scheduler").Run(context.Background(), func(ctx context.Context, _ *lockkeeper.Lease) error {
				fmt.Println("active")
				return ctx.Err()
			})
		}()
	}
	// Each becomes active when the one before it has returned.
	for range 3 {
		fmt.Println("done:", <-results)
	}
	// Unordered output:
	// active
	// active
	// active
	// done: <nil>
	// done: <nil>
	// done: <nil>
}
