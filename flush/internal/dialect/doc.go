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
// where a driver or a database would have to guess. Writing does not depend on a
// session's settings. Reading does: on PostgreSQL, DateStyle must be ISO where the
// driver reads texts (simple protocol); go-sql-driver/mysql must not have parseTime, by
// which days that do not exist become others. What a driver puts into the text of a
// statement itself is at most twice 4 MiB; larger values go to it as prepared statements.
package dialect
