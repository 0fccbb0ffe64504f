// Package flush moves changes in Redis into a SQL database: none lost, none written
// by a worker that was superseded.
//
// A producer writes through [Producer], or through the script that [MarkScript]
// returns, in any language: the write and the mark "this key has changed" are one
// atomic step, and each change gets a version of its own. An application that has
// transactions of its own puts the key into a set instead ([Keys]); one that can't be
// changed is compared on a schedule ([Mapping]). Marks coalesce, so that a database that
// is down costs memory for each changed key and not for each write.
//
// An [Engine] works while its process is elected. It claims the job in the database
// before its first read (package sqlfence). In a pass it reads marks, then the values
// after them; it writes upserts and recorded deletes in one transaction, whose last
// statement checks the claim; and after the commit it takes away exactly those marks
// whose version is still the one that was read. A crash at any point leaves marks,
// and the next worker goes on with them. Writing a row again is harmless, since rows
// are set and never added to. While one batch is written, the next one is read.
//
// That a key is absent is never a delete: it may have expired or been evicted. Only
// a recorded delete deletes a row.
//
//	engine, err := flush.New(conn, sink, flush.Config{Job: "players", Mappings: mappings})
//	err = engine.Run(ctx, locks) // stands by, or works
//
// A mapping says which keys go where, and whether they are hashes, strings, JSON texts,
// sets, lists, sorted sets or streams:
//
//	flush.Mapping{
//		Keys:  "player:{id}",
//		Table: "player",
//		Key:   []flush.Column{{Name: "id", Type: flush.Int64}},
//		Columns: []flush.Column{
//			{Name: "name", Type: flush.Text},
//			{Name: "score", Type: flush.Int64, Field: "points"},
//		},
//	}
//
// Values are checked and converted in Go against the declared column, the same for
// every database. A row that can't be right, or that the database refuses, is parked with
// its reason and does not hold up the others; a later change of the key tries again. A
// mapping whose table can't be written to, or too many of whose keys would be parked, is
// paused, and its marks are kept.
//
// What operators do is on [Engine] as well: Status, Plan, Pause and Resume, Now,
// StepDown, Verify, Resync, and the methods about parked keys. docs/FLUSH.md is written
// for them.
//
// On Redis Cluster the data keys and the job's keys would have to share a hash tag;
// clusters come later. The package knows database/sql and no driver.
package flush
