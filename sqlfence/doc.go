// Package sqlfence makes a SQL database refuse the writes of a holder that has
// lost its lock.
//
// No lock on its own can do that: a worker that was paused between its last check
// and its write finds itself writing after the next one has begun. Comparing
// fences at write time is not enough either, as soon as the work reads before it
// writes: the old holder can write after the new one has read and before it first
// writes, with a fence that is still the largest seen.
//
// What holds is to claim first. [Store.Claim] installs the pair of fence and owner
// in the resource's row before the work's first read, and every write transaction
// requires exactly that pair in its last statement ([Claim.Check]), under the row's
// lock. Then accepted writes are serial in the order of the claims, and each was
// computed from the latest accepted state, for any fences: also for duplicates and
// for a counter that went backwards. A claim that is refused while the lock is
// still held repairs the counter from the row and claims again. The proof and an
// exhaustive check are summed up in docs/GUARANTEES.md.
//
//	store, err := sqlfence.New(db, sqlfence.SQLite)
//	err = locks.Mutex("report").Do(ctx, func(ctx context.Context, lease *lockkeeper.Lease) error {
//		claim, err := store.Claim(ctx, "report", lease) // before the first read
//		if err != nil {
//			return err
//		}
//		return claim.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
//			_, err := tx.ExecContext(ctx, "UPDATE totals SET n = n + 1")
//			return err
//		})
//	})
//
// The databases are SQLite, PostgreSQL, MySQL and MariaDB; how their connections have to
// be opened stands at the [Dialect]. The check is the last statement for one more reason
// on the latter three: a worker that is stopped inside of a transaction holds up the next
// claim only if it was stopped between its check and its commit. Until the database ends
// its session it does hold up whoever writes to the same rows.
//
// The package knows database/sql and no driver. All that is read must be read after
// the claim, and by the database that has the fence's row: what was read before, or
// elsewhere, is not covered.
package sqlfence
