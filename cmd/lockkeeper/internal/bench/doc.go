// Package bench measures what a Redis server gives to the users of a lock: the round
// trip, a free lock, the hand-off from one holder to the next, and renewals.
//
//	result, err := bench.Run(ctx, bench.Options{Open: open, Duration: time.Minute, Goroutines: 64, Leases: 2000})
//
// It is meant for a server that others use as well. All its keys have a random part in
// their names, are deleted after each step, and expire by themselves should this process
// die. It sends scripts, a subscription for each client, and INFO where that is allowed,
// and nothing that changes the server. When no request gets a usable answer for five seconds
// the run ends: a server in trouble is not asked for more.
//
// All clients are in this process and share its clock, so that the time from one
// client's release to another's hold can be taken. They have connections of their own
// and know nothing of each other; but they share the CPUs.
package bench
