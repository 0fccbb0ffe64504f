package main

import "slices"

// catalogue returns all mutants.
func catalogue() []mutant {
	return slices.Concat(scripts, belief, turns, shell, fences, flushing, adapters, models, blind)
}

// Settings of killers that need nothing else.
var (
	root      = setting{module: ".", pkg: "."}
	core      = setting{module: ".", pkg: "./internal/core"}
	flush     = setting{module: ".", pkg: "./flush"}
	databases = setting{module: "cmd/lockkeeper", pkg: "./internal/store"}
	goRedis   = setting{module: "goredisconn", pkg: "."}
	rueidis   = setting{module: "rueidisconn", pkg: "."}
	oracles   = setting{module: "lab", pkg: "./oracle"}

	worlds    = setting{module: "lab", pkg: "./mutants", env: "LOCKKEEPER_WORLDS=2000"}
	histories = setting{module: "lab", pkg: "./pipe", env: "LOCKKEEPER_PIPE_HISTORIES=400"}
)

// says is a killer that is a test of its own.
func (s setting) says(test, want string) killer {
	return killer{setting: s, test: test, want: want}
}

// simulation is a killer in which an oracle speaks, somewhere in the simulation's worlds.
func simulation(oracle string) killer {
	return killer{setting: worlds, oracle: oracle, test: "TestWorlds", want: ": " + oracle + " "}
}

// clients is a killer in which an oracle speaks, somewhere in the histories of whole clients
// under a fake clock.
func clients(oracle string) killer {
	return killer{setting: histories, oracle: oracle, test: "TestHistories", want: "  " + oracle + " "}
}
