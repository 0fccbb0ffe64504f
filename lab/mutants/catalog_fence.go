package main

// fences are bugs in sqlfence.
var fences = []mutant{
	{
		name: "newer-fence-may-write",
		what: "A write is accepted while no larger fence is in the database, and not only while its own pair is.",
		file: "sqlfence/sqlfence.go",
		old:  "if row.Fence != c.fence || row.Owner != c.owner {",
		new:  "if row.Fence > c.fence {",
		killers: []killer{
			databases.says("TestStaleWorker", `the table has "stale`),
		},
	},
	{
		name: "owner-is-not-compared",
		what: "Of two claims with one fence both may write.",
		file: "sqlfence/sqlfence.go",
		old:  "if row.Fence != c.fence || row.Owner != c.owner {",
		new:  "if row.Fence != c.fence {",
		killers: []killer{
			databases.says("TestStaleWorker", `the table has "stale`),
		},
	},
	{
		name: "write-without-the-check",
		what: "A write does not look at the claim.",
		file: "sqlfence/sqlfence.go",
		old:  "\t\treturn c.Check(ctx, tx)\n",
		new:  "\t\treturn nil\n",
		killers: []killer{
			databases.says("TestStaleWorker", `the table has "stale`),
			databases.says("TestNewerClaimFencesTheOlder", "<nil>; want ErrFenced"),
		},
	},
	{
		name: "check-before-the-write",
		what: "The claim is checked in a transaction of its own, before the write.",
		file: "sqlfence/sqlfence.go",
		old:  "\terr := c.store.inTx(ctx, func(tx *sql.Tx) error {\n\t\tif err := f(ctx, tx); err != nil {\n\t\t\treturn err\n\t\t}\n\t\treturn c.Check(ctx, tx)\n\t})",
		new:  "\terr := c.store.inTx(ctx, func(tx *sql.Tx) error { return c.Check(ctx, tx) })\n\tif err == nil {\n\t\terr = c.store.inTx(ctx, func(tx *sql.Tx) error { return f(ctx, tx) })\n\t}",
		killers: []killer{
			databases.says("TestClaimDuringAWrite", `the table has "stale"`),
		},
	},
	{
		name: "claim-of-the-same-fence",
		what: "A claim with the fence that stands takes it from its owner.",
		file: "sqlfence/statements.go",
		old:  "strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), fence = ?, owner = ?\nWHERE resource = ? AND (fence < ?",
		new:  "strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), fence = ?, owner = ?\nWHERE resource = ? AND (fence <= ?",
		killers: []killer{
			databases.says("TestRefusedClaim", "fence 10, not held: <nil>"),
		},
	},
	{
		name: "check-without-the-lock-of-the-row",
		what: "On PostgreSQL a claim can come between the check and the commit.",
		file: "sqlfence/statements.go",
		old:  "$1 FOR SHARE",
		new:  "$1",
		killers: []killer{
			databases.says("TestClaimWaitsForTheWriter", "nobody waits for a lock"),
		},
	},
	{
		name: "epoch-stands-still",
		what: "A claim does not count up the epoch.",
		file: "sqlfence/statements.go",
		old:  "epoch = epoch + (fence < ?), claimed_at = strftime",
		new:  "epoch = epoch + (fence < ?) * 0, claimed_at = strftime",
		killers: []killer{
			databases.says("TestNewerClaimFencesTheOlder", "epoch 0"),
			databases.says("TestRaiseEpoch", "the next claim has epoch 44"),
		},
	},
	{
		name: "failed-write-is-committed",
		what: "A transaction is committed though the write has failed.",
		file: "sqlfence/sqlfence.go",
		old:  "\tif err := f(tx); err != nil {\n\t\treturn err\n\t}\n\treturn tx.Commit()",
		new:  "\treturn errors.Join(f(tx), tx.Commit())",
		killers: []killer{
			databases.says("TestWriteRollsBack", `the table has "failed"`),
		},
	},
}
