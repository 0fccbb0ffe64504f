// Package dialect is what the flush engine says to each kind of database: how a
// mapping's table is made, checked, written, cleared and read, and what its errors
// mean.
//
// Writes happen in a transaction of the caller's, which ends with the check of the
// fence (package sqlfence): an upsert therefore sets its rows without looking at what
// version stands there. Nothing is ever tried again here.
//
// The package knows database/sql and no driver. Its arguments are strings, int64,
// uint64, float64, bool and []byte, which every driver takes, and its SQL casts them
// where a driver or a database would have to guess.
package dialect
