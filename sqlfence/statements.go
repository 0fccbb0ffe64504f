package sqlfence

import "fmt"

// statements are what one dialect says for each step.
type statements struct {
	migrate string // makes the table if it is not there
	insert  string // makes a resource's row if it is not there: resource
	claim   string // installs a pair: fence, fence, owner, resource, fence, fence, owner
	read    string // resource
	touch   string // takes the lock of the row of a pair: resource, fence, owner; "" where locked does it
	locked  string // reads the row under its lock: resource
	raise   string // raises the epoch of a pair: epoch, resource, fence, owner
	name    string // sets the owner of a row that has none: owner, resource
}

func (d Dialect) statements() (statements, error) {
	switch d {
	case SQLite:
		return sqlite(), nil
	case Postgres:
		return postgres(), nil
	case MySQL, MariaDB:
		return innodb(), nil
	}
	return statements{}, fmt.Errorf("sqlfence: unknown dialect %d", int(d))
}

const readRowSQL = `SELECT fence, owner, epoch, claimed_at FROM lockkeeper_fence WHERE resource = `

// In all of them the same pair again is the same claim, whose answer was lost. It gets no
// new epoch.

func sqlite() statements {
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
		claim: `UPDATE lockkeeper_fence
SET epoch = epoch + (fence < ?), claimed_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), fence = ?, owner = ?
WHERE resource = ? AND (fence < ? OR (fence = ? AND owner = ?))`,
		read: readRowSQL + `?`,
		// SQLite has one lock for all, and takes it for an UPDATE at the latest.
		touch:  `UPDATE lockkeeper_fence SET epoch = epoch WHERE resource = ? AND fence = ? AND owner = ?`,
		locked: readRowSQL + `?`,
		raise:  `UPDATE lockkeeper_fence SET epoch = max(epoch, ?) + 1 WHERE resource = ? AND fence = ? AND owner = ?`,
		name:   `UPDATE lockkeeper_fence SET owner = ? WHERE resource = ? AND owner = ''`,
	}
}

func postgres() statements {
	return statements{
		migrate: `CREATE TABLE IF NOT EXISTS lockkeeper_fence (
  resource   text   NOT NULL PRIMARY KEY,
  fence      bigint NOT NULL,
  owner      text   NOT NULL,
  epoch      bigint NOT NULL,
  claimed_at text   NOT NULL
);
`,
		insert: `INSERT INTO lockkeeper_fence (resource, fence, owner, epoch, claimed_at)
VALUES ($1, 0, '', 0, '') ON CONFLICT (resource) DO NOTHING`,
		claim: `UPDATE lockkeeper_fence
SET epoch = epoch + CASE WHEN fence < $1 THEN 1 ELSE 0 END,
  claimed_at = to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), fence = $2, owner = $3
WHERE resource = $4 AND (fence < $5 OR (fence = $6 AND owner = $7))`,
		read:   readRowSQL + `$1`,
		locked: readRowSQL + `$1 FOR SHARE`,
		raise:  `UPDATE lockkeeper_fence SET epoch = greatest(epoch, $1) + 1 WHERE resource = $2 AND fence = $3 AND owner = $4`,
		name:   `UPDATE lockkeeper_fence SET owner = $1 WHERE resource = $2 AND owner = ''`,
	}
}

// innodb is for MySQL and MariaDB, with nothing that only one of them has.
func innodb() statements {
	return statements{
		// Names that differ in case or in blanks at the end differ: VARBINARY says so
		// with every collation there is.
		migrate: `CREATE TABLE IF NOT EXISTS lockkeeper_fence (
  resource   VARBINARY(255) NOT NULL PRIMARY KEY,
  fence      BIGINT         NOT NULL,
  owner      VARBINARY(255) NOT NULL,
  epoch      BIGINT         NOT NULL,
  claimed_at VARCHAR(32) CHARACTER SET ascii NOT NULL
) ENGINE = InnoDB;
`,
		insert: `INSERT IGNORE INTO lockkeeper_fence (resource, fence, owner, epoch, claimed_at) VALUES (?, 0, '', 0, '')`,
		// The assignments are made from left to right: the epoch needs the old fence.
		claim: `UPDATE lockkeeper_fence
SET epoch = epoch + (fence < ?), claimed_at = DATE_FORMAT(UTC_TIMESTAMP(3), '%Y-%m-%dT%H:%i:%s.%fZ'), fence = ?, owner = ?
WHERE resource = ? AND (fence < ? OR (fence = ? AND owner = ?))`,
		read:   readRowSQL + `?`,
		locked: readRowSQL + `? LOCK IN SHARE MODE`,
		raise:  `UPDATE lockkeeper_fence SET epoch = GREATEST(epoch, ?) + 1 WHERE resource = ? AND fence = ? AND owner = ?`,
		name:   `UPDATE lockkeeper_fence SET owner = ? WHERE resource = ? AND owner = ''`,
	}
}
