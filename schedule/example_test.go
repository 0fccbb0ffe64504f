package schedule_test

import (
	"context"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/lockkeepertest"
	"github.com/lockkeeper/lockkeeper/schedule"
)

func report(context.Context, schedule.Tick) error { return nil }
func sync(context.Context, schedule.Tick) error   { return nil }

// start is the example of the package's documentation.
func start(ctx context.Context, locks *lockkeeper.Client, berlin *time.Location) error {
	nightly, err := schedule.New(locks, schedule.Config{Name: "nightly"},
		schedule.Job{Name: "report", When: schedule.Cron("30 2 * * MON-FRI", berlin), Run: report},
		schedule.Job{Name: "sync", When: schedule.Every(time.Minute), Leader: true, Run: sync},
	)
	if err != nil {
		return err
	}
	return nightly.Run(ctx) // on as many machines as you like; until ctx ends
}

func Example() {
	// This server knows no scripts but those of locks: Run waits for one that does.
	locks, err := lockkeeper.New(lockkeepertest.NewMemory(), lockkeeper.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	fmt.Println(start(ctx, locks, time.UTC), locks.Close(context.Background()))
	// Output: context canceled <nil>
}

// The first instants at which a report is written that is due at half past two, when clocks skip that.
func ExampleCron() {
	newYork, err := time.LoadLocation("America/New_York")
	if err != nil {
		fmt.Println(err)
		return
	}
	daily := schedule.Cron("30 2 * * *", newYork)
	at := time.Date(2025, time.March, 8, 0, 0, 0, 0, newYork)
	for range 3 {
		at = daily.Next(at)
		fmt.Println(at.Format("2 Jan 15:04 MST"))
	}
	// Output:
	// 8 Mar 02:30 EST
	// 9 Mar 03:00 EDT
	// 10 Mar 02:30 EDT
}
