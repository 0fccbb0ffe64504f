// Package redistest gives tests a Redis of their own: a real server, a small
// client for it, and a network between the two that can be broken. [Suite] checks
// with these that a client does on a bad network what lockkeeper.Conn promises.
//
// It is for the tests of this repository only, and uses nothing but the standard
// library, so that the tests of the root package need no client library.
//
//	func TestSomething(t *testing.T) {
//		server := redistest.Start(t)
//		proxy := redistest.NewProxy(t, server.Addr())
//		conn := redistest.NewConn(proxy.Addr())
//		defer conn.Close()
//
//		proxy.Swallow()
//		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
//		defer cancel()
//		_, err := conn.Do(ctx, "PING") // ends with the context, not before
//		server.Do(t, "DEBUG", "SLEEP", "1")
//	}
package redistest

import (
	"testing"
	"time"
)

// patience bounds everything here that waits for a server or a condition. It is
// far above what any of it takes on a loaded machine.
const patience = 20 * time.Second

// Until waits until cond holds, and ends the test when it does not within some
// seconds. It asks again every millisecond; what names the condition in the
// failure. Call it from the test's own goroutine.
func Until(tb testing.TB, what string, cond func() bool) {
	tb.Helper()
	deadline := time.Now().Add(patience)
	for !cond() {
		if time.Now().After(deadline) {
			tb.Fatalf("redistest: %s: not after %s", what, patience)
		}
		time.Sleep(time.Millisecond)
	}
}
