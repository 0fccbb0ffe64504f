package main

// belief are bugs in internal/core, in what a process believes and for how long.
var belief = []mutant{
	{
		name: "belief-from-the-reply",
		what: "A hold that the line has got is believed from the reply on, and not from the request.",
		file: "internal/core/line.go",
		old:  "NewLease(q.Kind.Terms, q.Kind.Terms, q.Sent)",
		new:  "NewLease(q.Kind.Terms, q.Kind.Terms, now)",
		fast: true,
		killers: []killer{
			core.says("TestGrantCountsFromSending", "belief ends at 1.8s, want 1s"),
		},
	},
	{
		name: "renewal-counts-from-the-reply",
		what: "A renewal is believed from its reply on, and not from its request.",
		file: "internal/core/keeper.go",
		old:  "max(l.proven, asked.Until(sent))",
		new:  "max(l.proven, asked.Until(now))",
		fast: true,
		killers: []killer{
			core.says("TestRenewalCountsFromSending", "belief ends at 1.7s, want 1.24s"),
			root.says("TestRenewalCountsFromSending", "after the renewal was sent, want 9s"),
		},
	},
	{
		name: "margin-is-ignored",
		what: "A hold is believed for its whole TTL, as if all clocks ran alike.",
		file: "internal/core/time.go",
		old:  "sent.Add(t.TTL - t.Margin)",
		new:  "sent.Add(t.TTL)",
		fast: true,
		killers: []killer{
			core.says("TestBeliefCountsFromSending", "belief ends at 1.099s, want 1s"),
			root.says("TestMarginOfTheConfig", "it took 1s, want exactly 667ms"),
		},
	},
	{
		name: "lost-lease-revives",
		what: "A renewal that is answered after belief has ended brings it back.",
		file: "internal/core/keeper.go",
		old:  "\tcase k.expire(l, now):\n\t\treturn l.end\n\tcase outcome",
		new:  "\tcase outcome",
		fast: true,
		killers: []killer{
			core.says("TestLateSuccessNeverRevives", "belief ends at 1.24s, want 900ms"),
		},
	},
	{
		name: "no-answer-is-a-renewal",
		what: "A renewal that nobody has answered counts as done.",
		file: "internal/core/keeper.go",
		old:  "case outcome == Renewed:",
		new:  "case outcome != NotOurs:",
		fast: true,
		killers: []killer{
			root.says("TestBeliefEndsWhenRenewalsHang", "the lease is not lost"),
		},
	},
	{
		name: "not-ours-is-ignored",
		what: "The server says that the lock is another's, and the lease goes on.",
		file: "internal/core/keeper.go",
		old:  "return k.finish(l, Taken)",
		new:  "return NotEnded",
		killers: []killer{
			core.says("TestNotOursEndsAtOnce", "a taken lease is kept"),
			root.says("TestNotOursEndsAtTheNextRenewal", "it took 9s, want exactly 3.333333333s"),
		},
	},
	{
		name: "renewal-shortens-belief",
		what: "Answers of renewals that overtake each other shorten belief.",
		file: "internal/core/keeper.go",
		old:  "max(l.proven, asked.Until(sent))",
		new:  "asked.Until(sent)",
		killers: []killer{
			core.says("TestRenewalNeverShortens", "want 1.4s"),
		},
	},
	{
		name: "renewal-counts-for-more-than-it-asked",
		what: "A renewal that was on its way when the lease got a longer TTL counts for that one.",
		file: "internal/core/keeper.go",
		old:  "max(l.proven, asked.Until(sent))",
		new:  "max(l.proven, l.terms.Until(sent))",
		killers: []killer{
			core.says("TestRenewalOfBeforeAChange", "belief ends at"),
		},
	},
	{
		name: "most-hold-is-ignored",
		what: "A lease with a longest time goes on beyond it.",
		file: "internal/core/keeper.go",
		old:  "\t\tl.until = min(l.proven, l.most)\n\t\tl.due = max",
		new:  "\t\tl.until = l.proven\n\t\tl.due = max",
		killers: []killer{
			core.says("TestMaxHold", "belief ends at 1.233s, want 1.2s"),
			root.says("TestMaxHoldEndsALease", "the lease is not lost"),
		},
	},
	{
		name: "late-grant-is-a-grant",
		what: "A try takes a lock whose belief was over before the answer came.",
		file: "internal/core/try.go",
		old:  "if now < t.terms.Until(sent) {",
		new:  "if true {",
		killers: []killer{
			core.says("TestTryAnswers", "granted after its belief: do 1"),
			root.says("TestGrantAfterItsBelief", "a lease was returned whose belief is over"),
		},
	},
	{
		name: "keeper-sleeps-through-a-suspension",
		what: "The keeper sleeps until something is due, and no timer runs while the machine is suspended.",
		file: "internal/core/keeper.go",
		old:  ", now.Add(max(k.check, time.Millisecond)))",
		new:  ")",
		killers: []killer{
			core.says("TestWakeChecksEveryHalfMargin", "want half of the margin"),
			root.says("TestSuspendEndsALeaseWithinHalfAMargin", "noticed after"),
		},
	},
	{
		name: "message-is-a-proof",
		what: "A hand-off is believed from its message on.",
		file: "internal/core/line.go",
		old:  "NewLease(kind.Terms, granted, l.place.proof)",
		new:  "NewLease(kind.Terms, granted, now)",
		fast: true,
		killers: []killer{
			core.says("TestHandOffCountsFromProof", "belief ends at 4.5s, want 3s"),
			root.says("TestWaitersBeliefCountsFromTheLastAnswer", "after sending, want 3s"),
		},
	},
	{
		name: "old-message-is-believed",
		what: "A message about a hand-off that was missed borrows a later proof.",
		file: "internal/core/line.go",
		old:  "old := g.Server < l.place.heldAt || g.Fence <= l.place.heldFence",
		new:  "old := false",
		killers: []killer{
			core.says("TestOldMessageIsNotBelieved", "is believed at"),
			root.says("TestHoleLateMessageAfterAnAnswer", "two hold the lock"),
		},
	},
	{
		name: "hand-off-is-believed-for-its-ttl",
		what: "A hand-off is believed for the TTL of the lock, and not for the short one that it has.",
		file: "internal/core/line.go",
		old:  "granted := Terms{TTL: l.place.grant,",
		new:  "granted := Terms{TTL: kind.Terms.TTL,",
		killers: []killer{
			core.says("TestHandOffCountsFromProof", "belief ends at 9s, want 3s"),
		},
	},
	{
		name: "proof-from-the-answer",
		what: "Belief in a hand-off counts from the last answer, and not from its request.",
		file: "internal/core/line.go",
		old:  "l.place.proof = max(l.place.proof, q.Sent)",
		new:  "l.place.proof = max(l.place.proof, q.Bound)",
		killers: []killer{
			core.says("TestHandOffCountsFromProof", "belief ends at 7s, want 4s"),
		},
	},
}

// turns are bugs in internal/core, in how locks are passed on, given back and undone.
var turns = []mutant{
	{
		name: "passing-on-without-a-bound",
		what: "A process passes the lock on among its calls for as long as it has any.",
		file: "internal/core/hold.go",
		old:  "return h.passes < sharedPasses && now.Sub(h.began) < sharedTime",
		new:  "return true",
		fast: true,
		killers: []killer{
			core.says("TestDoneShared", "passed on more than 8 times though others wait"),
			root.says("TestTurnsEndWhenOthersWait", "turns in 42ms, want 5"),
		},
	},
	{
		name: "turns-share-a-fence",
		what: "The turns of a process have one fence.",
		file: "internal/core/hold.go",
		old:  "\t\th.fence++\n",
		new:  "",
		fast: true,
		killers: []killer{
			core.says("TestDonePasses", "hold is "),
			root.says("TestTurnsCostNoRequests", "turn 1 has fence"),
		},
	},
	{
		name: "turns-use-more-fences-than-they-have",
		what: "The turns of a process go on when its block of fences is used up.",
		file: "internal/core/hold.go",
		old:  "h.fence >= h.last || ",
		new:  "",
		killers: []killer{
			core.says("TestDonePasses", "passed is true, again is false"),
		},
	},
	{
		name: "turn-of-another-kind",
		what: "A call that wants another TTL gets a hold with the one that the key has.",
		file: "internal/core/hold.go",
		old:  "w.Kind != h.Kind || ",
		new:  "",
		killers: []killer{
			core.says("TestDonePasses", "passed is true, again is false"),
			root.says("TestTurnsOfDifferentKinds", "turn 2: owner"),
		},
	},
	{
		name: "no-undo-of-an-unknown-acquire",
		what: "A try without an answer leaves behind what it may have taken.",
		file: "internal/core/try.go",
		old:  "return Fail, !r.NoEffect",
		new:  "return Fail, false",
		fast: true,
		killers: []killer{
			core.says("TestTryAnswers", "no answer: do 2, undo false; want 2, true"),
			root.says("TestLostAcquireReplyIsUndone", "is there: true"),
		},
	},
	{
		name: "undo-does-not-wait-for-not-after",
		what: "An undo is done when it has found nothing, while the lost request may still run.",
		file: "internal/core/giveback.go",
		old:  "left >= 0 {",
		new:  "left >= 1<<62 {",
		killers: []killer{
			core.says("TestUndoWaitsForNotAfter", "want 1 until 1.11s"),
			root.says("TestLostRequestThatRunsLater", "is there: true"),
		},
	},
	{
		name: "wait-that-ends-leaves-its-place",
		what: "The last call that leaves a line takes its place on the server not along.",
		file: "internal/core/line.go",
		old:  "m := Move{Drop: true, Place: l.place}",
		new:  "m := Move{Place: l.place}",
		fast: true,
		killers: []killer{
			core.says("TestLeave", "Drop:false"),
			root.says("TestHoleCancelledPlaceIsGone", `in the line are "w0 w1 w2", want "w0 w2"`),
		},
	},
	{
		name: "who-waits-longest-is-last",
		what: "The calls of a process are served from the end.",
		file: "internal/core/waiter.go",
		old:  "\tw := l.first\n\tl.remove(w)",
		new:  "\tw := l.last\n\tl.remove(w)",
		killers: []killer{
			core.says("TestLineIsFIFO", "a grant makes"),
			root.says("TestWaitersOfAProcessKeepTheirOrder", "they came in the order [49 48"),
		},
	},
	{
		name: "release-is-not-tried-again",
		what: "A release whose answer is lost is left to the TTL.",
		file: "internal/core/giveback.go",
		old:  "\tif at := now.Add(pause); at < r.until {",
		new:  "\tif at := now.Add(pause); false {",
		killers: []killer{
			core.says("TestReleaseIsIdempotentAfterUnsure", "got 4 until 0s, want 1 until 35ms"),
			root.says("TestReleaseIsRetriedAfterALostReply", "1 requests, want 2"),
		},
	},
	{
		name: "release-hides-a-loss",
		what: "A release of a lock that is another's says that all is well.",
		file: "internal/core/giveback.go",
		old:  "if deleted || r.unsure {",
		new:  "if true {",
		killers: []killer{
			core.says("TestReleaseAnswers", "got 2 until 0s, want 3 until 0s"),
			root.says("TestDoFindsTheLossAtItsRelease", "got error <nil>; want one that matches lockkeeper: lease lost"),
		},
	},
	{
		name: "outage-is-a-refusal",
		what: "A replica that was promoted from is taken for a server that will never do.",
		file: "internal/core/class.go",
		old:  `"READONLY":    {Transient, true}`,
		new:  `"READONLY":    {Refused, true}`,
		killers: []killer{
			core.says("TestClassify", "class 0, want 1"),
			root.says("TestReadOnly", "READONLY"),
		},
	},
	{
		name: "missing-right-proves-nothing-was-done",
		what: "A right that is missing in the middle of a script counts as proof that nothing was written.",
		file: "internal/core/class.go",
		old:  "strings.Contains(line, \"unauthenticated\")",
		new:  "strings.Contains(line, \"unauthenticated\") || code == \"NOPERM\"",
		killers: []killer{
			core.says("TestClassify", "no effect true, want false"),
		},
	},
}
