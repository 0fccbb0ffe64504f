package sqlfence

import "fmt"

// A Dialect is a kind of database. The zero value is none.
type Dialect int

// The databases that are supported.
const (
	// SQLite needs one file that all claimants open, in WAL mode, with a busy
	// timeout and with transactions that begin immediate (_txlock=immediate with
	// modernc.org/sqlite): a deferred one that reads before it writes can fail.
	SQLite Dialect = iota + 1
)

// statements are what one dialect says for each step.
type statements struct {
	migrate string // makes the table if it is not there
	insert  string // makes a resource's row if it is not there: resource
	claim   string // installs a pair: fence, owner, fence, resource, fence, fence, owner
	read    string // resource
	check   string // touches the row of a pair under its lock: resource, fence, owner
	raise   string // raises the epoch of a pair: epoch, resource, fence, owner
}

func (d Dialect) statements() (statements, error) {
	if d != SQLite {
		return statements{}, fmt.Errorf("sqlfence: unknown dialect %d", d)
	}
	return statements{
		migrate: `CREATE TABLE IF NOT EXISTS lockkeeper_fence (
  resource   TEXT    NOT NULL PRIMARY KEY,
  fence      INTEGER NOT NULL,
  owner      TEXT    NOT NULL,
  epoch      INTEGER NOT NULL,
  claimed_at TEXT    NOT NULL
) STRICT;
`,
		insert: `INSERT INTO lockkeeper_fence (resource, fence, owner, epoch, claimed_at)
VALUES (?, 0, '', 0, '') ON CONFLICT (resource) DO NOTHING`,
		// The same pair again is the same claim: its answer was lost. It gets no
		// new epoch.
		claim: `UPDATE lockkeeper_fence
SET epoch = epoch + (fence < ?), claimed_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), fence = ?, owner = ?
WHERE resource = ? AND (fence < ? OR (fence = ? AND owner = ?))`,
		read:  `SELECT fence, owner, epoch, claimed_at FROM lockkeeper_fence WHERE resource = ?`,
		check: `UPDATE lockkeeper_fence SET epoch = epoch WHERE resource = ? AND fence = ? AND owner = ?`,
		raise: `UPDATE lockkeeper_fence SET epoch = max(epoch, ?) + 1 WHERE resource = ? AND fence = ? AND owner = ?`,
	}, nil
}
