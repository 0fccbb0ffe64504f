package main

const flushHelp = `Bring changes in Redis into the rows of a SQL database, from exactly one of the
processes that run this.

A file says which keys become which rows; this is players.yaml:

  job: players                  # all processes of the job use the same name
  database: sqlite:players.db   # or ` + envDatabase + ` in the environment
  mappings:
    - keys: "player:{id}"       # player:7 becomes the row with id 7
      table: player
      create: true              # make the table if it is not there
      key:
        id: int64
      columns:
        name: text
        score: {type: int64, field: points, required: true}

  Databases: sqlite:PATH, postgres://USER@HOST/DATABASE, mysql:// and mariadb:// likewise.
  Other settings of a file: interval: 1s, batch: 500, ttl: 10s, and max_parked: 5%, the
  share of a mapping's keys of which more can't be written until the mapping is paused.
  Of a mapping:
    source   hash, string, json, set, list, zset or stream: what the keys are
    missing  keep, park or delete: the row of a key that has gone without a delete
    limit    elements of a set, list or sorted set; 10000
    scan     {every: 1m, deletes: 5%}: compare all keys, for what changes without a mark
  The types: text, bytes, int64, uint64, decimal(p,s), float64, bool, timestamp (RFC 3339),
  timestamp(s), (ms), (us) and (ns), date, uuid, json.
  Of a column, besides type, field and required:
    default  the value of a field that is not there; otherwise NULL
    nulls    a list of texts that mean NULL
    empty    value, null or park: what an empty text is
    scale    error or round: a decimal with too many digits after the point
    invalid  park or replace: a text that is not UTF-8

Check it, make the tables, see what would be done, run it as often as you like, and look:

  lockkeeper flush check   -f players.yaml
  lockkeeper flush migrate -f players.yaml
  lockkeeper flush plan    -f players.yaml
  lockkeeper flush run     -f players.yaml
  lockkeeper flush status  -f players.yaml

All that run a job have to reach the same database. An SQLite file is that of one
machine: run several processes there, and do not put it on a network drive.

The application marks what it changes, in the same step in which it changes it: through
the Go package flush, or with the script that docs/PROTOCOL.md shows, in any language.`
