// Package store opens the database that a URL names, the way package sqlfence wants
// it opened. It is where the binary's SQL drivers are imported.
//
//	db, dialect, err := store.Open(ctx, "sqlite:players.db")
//	db, dialect, err := store.Open(ctx, "postgres://app:secret@db.example.com/game?sslmode=verify-full")
//	db, dialect, err := store.Open(ctx, "mysql://app:secret@db.example.com:3306/game?tls=true")
//
// SQLite takes sqlite:PATH, sqlite:///absolute/path, or a bare path that ends in .db
// or .sqlite. The file is one machine's: SQLite's write-ahead log does not work on a
// network file system.
//
// PostgreSQL takes postgres:// or postgresql:// and has two options: sslmode, as libpq has
// it, and pooler=true for a pooler that hands out its sessions by transaction, such as
// PgBouncer. Such a pooler refuses the settings of a session that this package makes, so
// that they have to be made for the role:
//
//	ALTER ROLE app SET idle_in_transaction_session_timeout = '5s';
//	ALTER ROLE app SET lock_timeout = '5s';
//	ALTER ROLE app SET statement_timeout = '60s';
//
// MySQL and MariaDB take mysql:// or mariadb://, which mean the same: the server is asked
// what it is. The option is tls: true, skip-verify, preferred or false. MySQL's statements
// are those that it and MariaDB both document; the tests of this repository run on MariaDB.
//
// A URL can carry a password, so that no error here repeats one: they name the kind of
// database, the path of a file, or user, host and database.
package store
