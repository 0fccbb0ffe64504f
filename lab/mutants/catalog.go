package main

import "slices"

// catalogue returns all mutants.
func catalogue() []mutant {
	return slices.Concat(scripts, belief, turns, shell, fences, flushing, adapters, models)
}

// Settings of killers that need nothing else.
var (
	root      = setting{module: ".", pkg: "."}
	core      = setting{module: ".", pkg: "./internal/core"}
	flush     = setting{module: ".", pkg: "./flush"}
	databases = setting{module: "cmd/lockkeeper", pkg: "./internal/store"}
	goRedis   = setting{module: "goredisconn", pkg: "."}
	rueidis   = setting{module: "rueidisconn", pkg: "."}

	// The oracles of the simulation, over so many worlds.
	worlds    = setting{module: "lab", pkg: "./mutants", env: "LOCKKEEPER_WORLDS=2500"}
	fewWorlds = setting{module: "lab", pkg: "./mutants", env: "LOCKKEEPER_WORLDS=300"}
)

// says is a killer that is a test of its own.
func (s setting) says(test, want string) killer {
	return killer{setting: s, test: test, want: want}
}

// oracle is a killer in which an oracle speaks.
func (s setting) oracle(oracle, test, want string) killer {
	return killer{setting: s, oracle: oracle, test: test, want: want}
}
