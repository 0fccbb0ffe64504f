// Package lockkeepertest helps to test code that uses Lockkeeper, and adapters that
// connect it to a Redis client.
//
// [Memory] is a Conn that lives in the test's own process: no server, no port, and
// it works inside a testing/synctest bubble, where TTLs and renewals take no time
// at all. It knows Lockkeeper's scripts and nothing else of Redis. Its hook loses
// replies, hangs or fails at will.
//
//	func TestReportRunsOnce(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			locks, _ := lockkeeper.New(lockkeepertest.NewMemory(), lockkeeper.Config{})
//			defer locks.Close(t.Context())
//			// ...
//		})
//	}
//
// [Conformance] is the suite that every Conn has to pass.
package lockkeepertest
