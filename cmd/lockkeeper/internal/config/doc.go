// Package config reads the file that describes a flush:
//
//	job: players                  # names the job; all its processes use the same
//	database: sqlite:players.db   # or LOCKKEEPER_DATABASE in the environment
//	interval: 1s                  # how long to rest when nothing is left to flush
//	batch: 500                    # keys in a transaction
//	ttl: 10s                      # how long a dead process's work waits for the next one
//	mappings:
//	  - keys: "player:{id}"
//	    table: player
//	    create: true              # make the table if it is not there
//	    missing: keep             # a key that is gone: keep, park or delete
//	    key:
//	      id: int64               # a part of the key: its column and type
//	    columns:
//	      name: text              # a field of the hash: its column and type
//	      score: {type: int64, field: points, required: true}
//
// It is strict: what it does not know is an error, and so is a key that is there twice.
// All errors of a file are told at once, each with its line and column; only one of the
// syntax stands alone. The environment is not read: a password in DATABASE belongs in
// LOCKKEEPER_DATABASE, not in a file.
package config
