// Package config reads the file that describes a flush:
//
//	job: players                  # names the job; all its processes use the same
//	database: sqlite:players.db   # or LOCKKEEPER_DATABASE in the environment
//	interval: 1s                  # how long to rest when nothing is left to flush
//	batch: 500                    # keys in a transaction
//	ttl: 10s                      # how long a dead process's work waits for the next one
//	max_parked: 5%                # if more of a mapping's keys can't be written, it is paused
//	mappings:
//	  - keys: "player:{id}"
//	    source: hash              # or string, json, set, list, zset, stream
//	    table: player
//	    create: true              # make the table if it is not there
//	    missing: keep             # a key that is gone: keep, park or delete its row
//	    limit: 10000              # elements of a set, list or sorted set
//	    scan:                     # compare all keys, for what changes without a mark
//	      every: 1m
//	      deletes: 5%             # the largest share of rows that a scan may delete; none without
//	    key:
//	      id: int64               # a part of the key: its column and type
//	    columns:
//	      name: text              # a field of the hash: its column and type
//	      score: {type: int64, field: points, required: true}
//	      price:
//	        type: decimal(12,2)   # in braces it has to be in quotes, for its comma
//	        default: 0.00         # of a field that is not there; otherwise it is NULL
//	        nulls: ["-", "n/a"]   # texts that mean NULL
//	        empty: null           # an empty text: value, null or park
//	        scale: round          # too many digits after the point: error or round
//	      note: {type: text, invalid: replace} # what is not UTF-8: park or replace
//
// The types are those of package flush. A default and the texts of nulls are what is
// written, whatever YAML would make of it: 007 is no 7.
//
// It is strict: what it does not know is an error, and so is a key that is there twice.
// All errors of a file are told at once, each with its line and column; only one of the
// syntax stands alone. The environment is not read: a password in DATABASE belongs in
// LOCKKEEPER_DATABASE or LOCKKEEPER_DATABASE_PASSWORD, not in a file.
package config
