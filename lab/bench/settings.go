package main

import "time"

// settings are how long and how often things are measured.
type settings struct {
	reps int // of S1 to S4 and S8; the others say themselves

	free       time.Duration // S1, S1try: a cell, and as long in turns with the raw loop
	throughput time.Duration // S2
	settle     time.Duration // S3, S4, S4w: before they are measured
	oneProcess time.Duration // S3
	processes  time.Duration // S4
	waiting    time.Duration // S4w: each number of clients
	waiters    []int         // S4w: how many clients wait

	leases  int           // S5
	holdTTL time.Duration // S5
	hold    time.Duration // S5: how long they are measured
	holders []string      // S5: which systems
	busy    []string      // S5busy: which systems

	pairTTL   time.Duration // S6, S7
	crashes   int           // S6: of Lockkeeper
	crashesOf int           // S6: of each other system, and S6keys of each
	atOnce    int           // S6: pairs of processes that run at a time
	otherKeys int           // S6keys
	patience  time.Duration // S6: from the crash on
	pauses    int           // S7: pairs, all at once

	stall      time.Duration // S8
	stuckAfter time.Duration // S8
}

// lockTTL is the TTL of locks that are held for an instant: nothing expires.
const lockTTL = 10 * time.Second

func defaultSettings() settings {
	return settings{
		reps: 3,
		free: 400 * time.Millisecond, throughput: 600 * time.Millisecond,
		settle: 200 * time.Millisecond, oneProcess: time.Second, processes: 1300 * time.Millisecond,
		waiting: 700 * time.Millisecond, waiters: []int{8, 50, 200},
		leases: 10_000, holdTTL: 10 * time.Second, hold: 30 * time.Second,
		holders: []string{"redsync", "redislock", "rueidislock-tuned", "lockkeeper-rueidis", "lockkeeper-goredis"},
		busy:    []string{"rueidislock-tuned", "lockkeeper-rueidis"},
		pairTTL: 3 * time.Second, crashes: 20, crashesOf: 5, atOnce: 10, otherKeys: 10_000,
		patience: 9 * time.Second, pauses: 3,
		stall: 60 * time.Millisecond, stuckAfter: 5 * time.Second,
	}
}

// quickSettings give a first impression: one repetition, and short ones.
func quickSettings() settings {
	s := defaultSettings()
	s.reps = 1
	s.free, s.throughput, s.oneProcess = 250*time.Millisecond, 300*time.Millisecond, 400*time.Millisecond
	s.processes, s.waiting = 700*time.Millisecond, 300*time.Millisecond
	s.hold = 7 * time.Second // two renewals
	s.holders, s.busy = []string{"redislock", "rueidislock-tuned", "lockkeeper-rueidis"}, []string{"lockkeeper-rueidis"}
	s.pairTTL, s.crashes, s.crashesOf, s.patience = time.Second, 10, 5, 4*time.Second
	s.pauses, s.stuckAfter = 2, 2*time.Second
	return s
}
