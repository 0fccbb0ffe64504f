# Everything runs from a fresh clone with Go, GNU make and bash; `make deps`
# brings what else the tests need.

SHELL    := bash
FUZZTIME ?= 10s

# The folders of the modules, as go.work lists them. A loop over no module would
# pass silently, so an empty list is an error.
MODULES := $(shell sed -n 's/^[[:space:]]\{1,\}\././p' go.work)
$(if $(MODULES),,$(error go.work lists no module))

# $(call each,COMMAND) runs a command in every module, and fails at the end when
# it failed in one of them.
each = rc=0; for m in $(MODULES); do (cd $$m && $(1)) || { echo "failed in module $$m: $(1)"; rc=1; }; done; exit $$rc

.DEFAULT_GOAL := help
.PHONY: help deps vet lint test test-short build demo demo-packages bench bench-peers bench-flush soak chaos-flush verify mutants fuzz tidy tidy-check clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

deps: ## install what the tests need and this machine lacks (servers of Redis, PostgreSQL, MariaDB; a C compiler)
	@scripts/deps.sh

vet: ## go vet in every module
	@$(call each,go vet ./...)

lint: vet ## gofmt, go vet and staticcheck in every module
	@files=$$(gofmt -l .) || exit 1; if [ -n "$$files" ]; then printf 'not formatted, run gofmt -w on:\n%s\n' "$$files"; exit 1; fi
	@$(call each,go tool staticcheck ./...)

test: deps lint ## lint, then all tests of all modules under the race detector
	@go run ./lab/testall

test-short: deps ## the tests without the long ones, no lint
	@go run ./lab/testall -short

build: ## build bin/lockkeeper
	go build -trimpath -o bin/lockkeeper ./cmd/lockkeeper

demo: ## see three workers flush Redis to SQLite while one of them is killed
	@go run ./cmd/lockkeeper demo

demo-packages: ## the demo with real data: the Debian packages of this machine
	@data=$$(mktemp) && trap 'rm -f "$$data"' EXIT && \
	go run ./lab/dpkgjsonl >"$$data" && go run ./cmd/lockkeeper demo --input "$$data"

bench: deps ## benchmarks of a free lock beside the raw commands of the same client
	cd lab && go test -run '^$$' -bench . -benchmem ./bench/...

bench-peers: deps ## other lock libraries beside Lockkeeper, about 12 minutes; ARGS=-quick takes 3
	@go run ./lab/bench $(ARGS)

bench-flush: deps ## from Redis into each database: speed, memory, cost of marks; half an hour, ARGS=-quick takes 5 minutes
	@go run ./lab/flushbench $(ARGS)

soak: deps ## ten minutes of faults on eight processes, under the race detector; ARGS='-duration 1h -seed N'
	@go run -race ./lab/soak $(ARGS)

chaos-flush: deps ## three minutes of faults on the flush with each database; ARGS='-duration 1h -db postgres -seed N'
	@go run ./lab/flushchaos $(ARGS)

verify: deps ## all proofs in full, within 80 minutes: simulation, chaos, clients under a fake clock, planted bugs, fuzzing; ARGS='-seed N -only RE'
	@go run ./lab/verify $(ARGS)

mutants: deps ## plant each known bug in a copy of the tree and see it caught; ARGS='-run RE -v'
	@go run ./lab/mutants $(ARGS)

fuzz: ## every fuzz function of every module for FUZZTIME (10s)
	@FUZZTIME=$(FUZZTIME) scripts/fuzz.sh $(MODULES)

tidy: ## go mod tidy in every module
	@$(call each,go mod tidy)

tidy-check: ## fail when go mod tidy would change something
	@$(call each,go mod tidy -diff)

clean: ## remove what the targets above leave behind
	rm -rf bin demo-* coverage.*
