package sqlfence

import (
	"database/sql"
	"strconv"
)

// A Dialect is a kind of database. The zero value is none.
//
// How the connections are opened is the caller's choice, and matters: a worker that was
// stopped in the middle of a transaction still has its locks on rows. The claim of the
// next worker hardly ever meets them, since the old one takes the lock of the fence's row
// last, but its first write to the same data does, and waits for as long as the database
// lets a stopped client keep them. The comments below say what to set.
type Dialect int

// The databases that are supported.
const (
	// SQLite needs one file that all claimants open, in WAL mode, with a busy
	// timeout and with transactions that begin immediate (_txlock=immediate with
	// modernc.org/sqlite): a deferred one that reads before it writes can fail.
	SQLite Dialect = iota + 1

	// Postgres is PostgreSQL. Every session should have
	//
	//	idle_in_transaction_session_timeout = 5s
	//	lock_timeout = 5s
	//	statement_timeout = 60s
	//	tcp_user_timeout = 10s, and tcp_keepalives_idle, _interval and _count
	//
	// as parameters of the connection, or by ALTER ROLE where a pooler refuses these.
	// The transactions of this package are READ COMMITTED, whatever the default is. One
	// of the caller's that is handed to Check and is stricter fails with SQLSTATE 40001
	// where it should be refused: nothing is written then either.
	Postgres

	// MySQL is MySQL 8, with tables in InnoDB. Every session should have
	//
	//	wait_timeout = 5
	//	innodb_lock_wait_timeout = 5
	//	transaction_isolation = 'READ-COMMITTED'
	//	sql_mode = 'STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO,NO_ZERO_DATE,NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'
	//	time_zone = '+00:00'
	//
	// and the character set utf8mb4. The first ends idle transactions, and other idle
	// connections as well: a pool must give these up earlier, SetConnMaxIdleTime(3 *
	// time.Second). With REPEATABLE READ all is as safe, but transactions get in each
	// other's way for longer.
	MySQL

	// MariaDB is MariaDB 10.6 or newer, with tables in InnoDB. Every session should have
	// what MySQL's has, but that its name for transaction_isolation is tx_isolation, and
	//
	//	idle_transaction_timeout = 5
	//	max_statement_time = 60
	//
	// With REPEATABLE READ and innodb_snapshot_isolation, which is on from MariaDB 11.6
	// on, a transaction that has read before a newer claim fails with error 1020 where
	// it should be refused: nothing is written then either.
	MariaDB
)

// String returns the name of the database: "SQLite", "PostgreSQL", "MySQL" or "MariaDB".
func (d Dialect) String() string {
	switch d {
	case SQLite:
		return "SQLite"
	case Postgres:
		return "PostgreSQL"
	case MySQL:
		return "MySQL"
	case MariaDB:
		return "MariaDB"
	}
	return "Dialect(" + strconv.Itoa(int(d)) + ")"
}

// txOptions are how transactions begin. PostgreSQL's check has to see what was committed
// while it waited for the row's lock, which is what READ COMMITTED says; a locking read
// of InnoDB always does, and SQLite's writers do not overlap.
func (d Dialect) txOptions() *sql.TxOptions {
	if d == Postgres {
		return &sql.TxOptions{Isolation: sql.LevelReadCommitted}
	}
	return nil
}
