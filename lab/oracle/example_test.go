package oracle_test

import (
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/lab/oracle"
)

// A server that renews without looking who has the lock: b's renewal of what a has is
// answered with yes.
func ExampleLeases() {
	at := func(ms int) oracle.Time { return oracle.Time(ms) * oracle.Time(time.Millisecond) }
	op := func(who string, kind oracle.OpKind, call, answered int) oracle.Op {
		return oracle.Op{Lock: "orders", Who: who, Owner: who + ".1", Kind: kind, Call: at(call), Return: at(answered), TTL: time.Second}
	}
	verdict := oracle.Leases([]oracle.Op{
		op("a", oracle.Acquire, 0, 1),
		op("b", oracle.Renew, 5, 7),
		op("a", oracle.Release, 9, 10),
	}, 10*time.Millisecond)
	for _, v := range verdict.Violations {
		fmt.Println(v.Oracle, v.Lock, v.At)
		fmt.Println(v.Text)
	}
	// Output:
	// O4 orders 0.007000 s
	// no order of what has happened allows this answer: b (owner b.1) renews orders at 0.005000 s, TTL 1s, told yes at 0.007000 s; around it:
	// 	a (owner a.1) acquires orders at 0.000000 s, TTL 1s, told yes at 0.001000 s, ends between 0.990000 s and 1.011000 s
}

// Two processes believe in the same lock for two milliseconds.
func Example() {
	at := func(ms int) oracle.Time { return oracle.Time(ms) * oracle.Time(time.Millisecond) }
	found := oracle.Overlaps([]oracle.Hold{
		{Lock: "orders", Who: "a", Owner: "a.1", Fence: 7, From: at(1), To: at(10)},
		{Lock: "orders", Who: "b", Owner: "b.1", Fence: 8, From: at(8), To: at(20)},
	})
	fmt.Println(found[0].Oracle, found[0].Text)
	// Output:
	// O1 two have orders: b (owner b.1, fence 8) from 0.008000 s to 0.020000 s, while a (owner a.1, fence 7) from 0.001000 s to 0.010000 s; both for 2ms
}
