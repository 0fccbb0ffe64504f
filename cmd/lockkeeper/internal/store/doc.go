// Package store opens the database that a URL names, the way package sqlfence wants
// it opened. It is where the binary's SQL drivers are imported.
//
//	db, dialect, err := store.Open(ctx, "sqlite:players.db")
//
// SQLite takes sqlite:PATH, sqlite:///absolute/path, or a bare path that ends in .db
// or .sqlite. The file is one machine's: SQLite's write-ahead log does not work on a
// network file system.
//
// A URL can carry a password, so that no error here repeats one: they name the kind of
// database, or the path of a file.
package store
